"""The records of logs as a person wants to see them: `Cat(logs, columns, ...).batches()`."""

from __future__ import annotations

from .decoding import make_payload_decoder
from .matching import Match
from .record_stream import Cat

__all__ = ["Cat", "Match", "make_payload_decoder"]
