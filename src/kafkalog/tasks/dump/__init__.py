"""What Kafka's DumpLogSegments says of files, line for line: `Dump(files, DumpOptions(...)).chunks()`."""

from __future__ import annotations

from .files import Dump
from .options import DumpOptions

__all__ = ["Dump", "DumpOptions"]
