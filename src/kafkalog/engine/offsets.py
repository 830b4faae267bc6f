"""An offset with its position in the log, entries of indexes, and the origin of an append."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class OffsetMetadata(NamedTuple):
    """An offset and, if they were looked up, the segment and byte position where its entry begins."""

    offset: int
    segment_base_offset: int = -1
    position: int = -1

    @property
    def offset_only(self) -> bool:
        return self.segment_base_offset == -1 and self.position == -1


class OffsetPosition(NamedTuple):
    """An entry of an offset index."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """An entry of a time index: no entry up to this offset has a greater timestamp."""

    timestamp: int
    offset: int


class AppendOrigin(Enum):
    """Who appends, which decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft_leader"
    REPLICATION = "replication"
