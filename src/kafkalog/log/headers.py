"""Batch headers of a whole partition, and what can be replayed from them without touching a record."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.errors import Limits
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk

from .partition import Partition, Segment
from .transactions import TransactionReplay


def iter_headers(partition: Partition, limits: Limits) -> Iterator[tuple[Segment, Ints]]:
    """Tables of headers of every segment, as far as each can be followed."""
    for segment in partition.segments:
        with partition.open_log(segment) as source:
            for fields in SegmentWalk(source, 0, source.size, limits).headers():
                yield segment, fields


def replay_transactions(partition: Partition, limits: Limits) -> TransactionReplay:
    """All transactions of the partition."""
    return TransactionReplay().replay(fields for _, fields in iter_headers(partition, limits))


def end_offset(partition: Partition, limits: Limits) -> int:
    """The offset that the next record would get: one behind the last whole entry."""
    for segment in reversed(partition.segments):
        with partition.open_log(segment) as source:
            index = segment.siblings.get("index")
            start = seek_position(source, partition.store, index.path if index else None, segment.base_offset, MAX_OFFSET, limits)
            last = -1
            for fields in SegmentWalk(source, start, source.size, limits).headers():
                last = int(fields[scan.LAST_OFFSET, -1])
            if last >= 0:
                return last + 1
    return partition.start_offset
