"""Batch headers of a whole partition, and what can be replayed from them without touching a record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from crc32c import crc32c

from kafkalog.errors import Limits, StorageError
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.names import MAX_OFFSET
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.store import ByteSource

from .partition import Partition
from .report import ReadReport
from .transactions import TransactionReplay


def iter_headers(
    partition: Partition, limits: Limits, unread: ReadReport | None = None
) -> Iterator[tuple[ByteSource, EntryTable]]:
    """Tables of headers of every segment, as far as each can be followed, with the open file.

    A file that cannot be read is an error, or with `unread` noted there and passed over.
    """
    for segment in partition.segments:
        try:
            with partition.open_log(segment) as source:
                for entries in SegmentWalk(source, 0, source.size, limits).headers():
                    yield source, entries
        except StorageError as error:
            if unread is None:
                raise
            unread.leave_unread(error)


def replay_transactions(partition: Partition, limits: Limits, unread: ReadReport | None = None) -> TransactionReplay:
    """All transactions of the partition. A marker whose checksum does not fit is none: its transaction stays open."""
    headers = iter_headers(partition, limits, unread)
    return TransactionReplay().replay(without_damaged_markers(source, entries) for source, entries in headers)


def without_damaged_markers(source: ByteSource, entries: EntryTable) -> EntryTable:
    """The headers but for markers whose checksum does not fit."""
    markers = np.flatnonzero((entries.attributes & batch.CONTROL != 0) & (entries.magic == 2))
    damaged = [
        row
        for row, header in zip(markers.tolist(), entries[markers], strict=True)
        if crc32c(source.read(header.position + batch.CRC_START, header.size - batch.CRC_START)) != header.crc
    ]
    return entries.without(damaged)


def end_offset(partition: Partition, limits: Limits) -> int:
    """The offset that the next record would get: one behind the last whole entry."""
    for segment in reversed(partition.segments):
        with partition.open_log(segment) as source:
            index = segment.siblings.get("index")
            start = seek_position(source, partition.store, index.path if index else None, segment.base_offset, MAX_OFFSET, limits)
            last = -1
            for entries in SegmentWalk(source, start, source.size, limits).headers():
                last = int(entries.last_offset[-1])
            if last >= 0:
                return last + 1
    return partition.start_offset
