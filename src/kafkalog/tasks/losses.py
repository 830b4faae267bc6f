"""Which records a change deletes from a log for good, and which of them are damaged anyway."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafkalog.errors import Limits
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.quantities import plural, size_text
from kafkalog.log.partition import Partition
from kafkalog.log.replicas import Kept, Lost, MergeOptions, SalvagedLog
from kafkalog.log.report import ReadReport
from kafkalog.segment.windows import SegmentWalk
from kafkalog.tables.logs import Logs

from .salvage import count_records


@dataclass(repr=False)
class Loss:
    """Records that are deleted: their offsets, how many, and the bytes by which the log shrinks.

    `records` counts those that can be read; None where compressed v0/v1 sets do not say, and an upper bound where `is_exact` is
    false: the header of a batch that is deleted in part does not say how many. `damaged` are the offsets that salvage would lose
    too. `without_key` are the records that a compaction deletes because they have no key.
    """

    first_offset: int
    last_offset: int
    size: int
    records: int | None = 0
    is_exact: bool = True
    damaged: list[Lost] = field(default_factory=list)
    without_key: int = 0

    def __repr__(self) -> str:
        return f"Loss({self.described})"

    @property
    def described(self) -> str:
        records = "records" if self.records is None else plural(self.records, "record")
        keyless = " without a key" if self.without_key else ""
        offsets = f"at offsets {self.first_offset} to {self.last_offset}"
        return f"{'' if self.is_exact else 'at most '}{records}{keyless} {offsets}, {size_text(self.size)}"

    def add(self, entries: EntryTable) -> None:
        """Count the entries that are deleted, as a whole or in part."""
        last = entries.last_offset
        first = np.where(entries.magic < 2, last, entries.base_offset)
        inside = (last >= self.first_offset) & (first <= self.last_offset)
        self.is_exact &= not bool((inside & ((first < self.first_offset) | (last > self.last_offset))).any())
        records = count_records(entries[inside])
        if records is not None and self.records is not None:
            most = self.last_offset - self.first_offset + 1
            self.records = min(self.records + records, most)
        else:
            self.records = None


def find_loss(partition: Partition, first_offset: int, stop_offset: int, size: int) -> Loss:
    """What a log loses with these offsets, by the headers of its batches."""
    loss = Loss(first_offset, stop_offset - 1, size)
    for segment in partition.segments:
        if segment.base_offset >= stop_offset or (segment.next_base_offset or stop_offset) <= first_offset:
            continue
        with partition.open_log(segment) as source:
            for entries in SegmentWalk(source, 0, source.size, Limits()).headers():
                loss.add(entries)
    return loss


def find_damaged_loss(partition: Partition, first_offset: int, size: int) -> Loss:
    """The loss of a log that is cut at its first damage: everything from an offset on, though most of it may be intact."""
    log = SalvagedLog([partition], MergeOptions(), ReadReport())
    pieces = [piece for segment in partition.segments for piece in log.pieces(segment)]
    kept = [piece for piece in pieces if isinstance(piece, Kept)]
    damaged = [piece for piece in pieces if isinstance(piece, Lost) and piece.first_offset >= first_offset]
    ends = [piece.last_offset for piece in pieces if piece.last_offset is not None]
    loss = Loss(first_offset, max([first_offset, *ends]), size, damaged=damaged)
    for piece in kept:
        loss.add(piece.run.entries)
    return loss


def find_keyless_loss(partition: Partition, stop_offset: int) -> Loss | None:
    """The records before an offset that a compaction deletes because they have no key: a compacted topic accepts none of them."""
    loss = None
    read = Logs(partition.folder, [partition]).read(
        "records", ["offset", "key"], stop_offset=stop_offset, isolation="read_committed", on_damage="skip"
    )
    for batch in read:
        count = batch.column("key").null_count
        if count:
            offsets = batch.column("offset").filter(batch.column("key").is_null())
            loss = loss or Loss(offsets[0].as_py(), 0, 0)
            loss.last_offset = offsets[-1].as_py()
            loss.without_key = loss.records = loss.without_key + count
    return loss
