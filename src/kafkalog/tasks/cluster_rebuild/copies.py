"""What one copy of a partition is worth: where it ends as a broker will load it, in which epoch, and which ids it has seen.

A copy is ranked by the leader epoch of its last batch, then by its end. The last line of its leader-epoch-checkpoint does not
count: a controlled stop moves leadership, so a copy can have a higher epoch that began at its end, without a single record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from kafkalog.errors import KafkaLogError, Limits
from kafkalog.format import names
from kafkalog.format.checkpoint import PartitionOffset
from kafkalog.format.shell import path_word
from kafkalog.format.snapshot import decode_snapshot
from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.log.segments import iter_headers
from kafkalog.storage.fs import Fs
from kafkalog.storage.store import SMALL_FILE

from ..broker_start import load_partition
from ..verdict import EMPTIED, REFUSED, UNKNOWN
from .disks import LIVE, Disk

NO_EPOCH = NO_PRODUCER = -1


@dataclass(frozen=True)
class Copy:
    """A copy of a partition on one disk. `notes` are what is wrong with it; a broker does not start on an `unusable` one.

    `loses_batches`: a broker that recovers it cuts off more than an unfinished end.
    """

    disk: Disk
    partition: Partition
    topic_id: str | None
    end_offset: int = 0
    last_epoch: int = NO_EPOCH  # of the last batch
    highest_epoch: int = NO_EPOCH  # of all batches and of the checkpoint
    highest_producer_id: int = NO_PRODUCER
    found_start: int | None = None  # where the log begins, if only its epochs still say it
    notes: tuple[str, ...] = field(default_factory=tuple)
    unusable: bool = False
    loses_batches: bool = False

    @property
    def rank(self) -> tuple[int, int, int]:
        """Higher is better; equal ones hold the same."""
        return int(not self.unusable), self.last_epoch, self.end_offset

    @property
    def preference(self) -> tuple[tuple[int, int, int], int, str]:
        """The order among copies on one node: a live folder before a stray one, then any order that stays the same."""
        return self.rank, int(self.partition.state == LIVE), self.partition.folder

    def offset(self, name: str) -> PartitionOffset | None:
        """Its entry in a checkpoint of its disk. That of a live folder of the same name is not one of a stray folder."""
        partition = self.partition.topic, self.partition.partition
        if self.partition.state != LIVE and partition in self.disk.live:
            return None
        return self.disk.offsets[name].get(partition)

    @property
    def size(self) -> int:
        return sum(stored.size for stored in self.partition.files)

    def __repr__(self) -> str:
        return f"Copy({self.partition.folder!r}, epoch {self.last_epoch}, end offset {self.end_offset})"


def examine(disk: Disk, partition: Partition, fs: Fs) -> Copy:
    """A copy, loaded as a broker would load it, with every header read; nothing is written."""
    loaded = load_partition(fs, partition, ())
    notes = list(partition.problems)
    if loaded.outcome in (REFUSED, UNKNOWN):
        notes.append(f"a broker cannot load it: {loaded.detail}")
    elif loaded.outcome == EMPTIED:
        notes.append("its log start checkpoint is beyond its end: a broker would delete all of it")
    elif loaded.loss is not None:
        cut = f"damaged: a broker that recovers it cuts it at offset {loaded.end_offset} and loses whole batches"
        notes.append(f"{cut}; to keep what follows, first: kafkalog salvage {path_word(partition.folder)} --out rescued")
    end, last_epoch, highest_epoch, highest_id, first_epoch = _headers(partition, loaded.end_offset)
    end = end if loaded.end_offset is None else loaded.end_offset
    if partition.epochs:
        latest = partition.epochs[-1]
        highest_epoch = max(highest_epoch, latest.epoch)
        if latest.start_offset > end:
            notes.append(f"lost its tail: epoch {latest.epoch} began at offset {latest.start_offset}, the log ends at {end}")
    unusable = loaded.outcome in (REFUSED, UNKNOWN, EMPTIED) or bool(partition.problems)
    highest_id = max([highest_id, *_snapshot_ids(partition)])
    copy = Copy(
        disk,
        partition,
        partition.topic_id,
        end,
        last_epoch,
        highest_epoch,
        highest_id,
        notes=tuple(notes),
        unusable=unusable,
        loses_batches=loaded.loss is not None,
    )
    return replace(copy, found_start=_start_by_epochs(copy, first_epoch))


def _start_by_epochs(copy: Copy, first_epoch: int) -> int | None:
    """Where a log begins whose entry in the checkpoint is gone: a broker takes those of stray folders out.

    Records that were deleted before their segment is are cut off the epochs too: the first epoch then begins later than its first
    batch.
    """
    partition = copy.partition
    if not partition.epochs or not partition.segments or copy.offset(names.LOG_START_CHECKPOINT) is not None:
        return None
    first = partition.epochs[0]
    is_cut = first.epoch == first_epoch and partition.segments[0].base_offset < first.start_offset <= copy.end_offset
    return first.start_offset if is_cut else None


def _headers(partition: Partition, stop_offset: int | None) -> tuple[int, int, int, int, int]:
    """(the end by the headers, the epoch of the last batch before `stop_offset`, the highest epoch, the highest producer id,
    the epoch of the first batch)"""
    end = max((segment.base_offset for segment in partition.segments), default=0)
    last_epoch, highest_epoch, highest_id, first_epoch = NO_EPOCH, NO_EPOCH, NO_PRODUCER, None
    for _, entries in iter_headers(partition, Limits(), ReadReport()):
        kept = np.ones(len(entries), np.bool_) if stop_offset is None else entries.last_offset < stop_offset
        highest_id = max(highest_id, int(entries.producer_id.max()))
        first_epoch = int(entries.leader_epoch[0]) if first_epoch is None else first_epoch
        if kept.any():
            epochs = entries.leader_epoch[kept]
            last_epoch = int(epochs[-1])
            highest_epoch = max(highest_epoch, int(epochs.max()))
            end = max(end, int(entries.last_offset[kept][-1]) + 1)
    return end, last_epoch, highest_epoch, highest_id, NO_EPOCH if first_epoch is None else first_epoch


def _snapshot_ids(partition: Partition) -> Iterator[int]:
    """The highest producer id of each snapshot that can be read."""
    for stored in partition.files:
        if stored.kind != "snapshot":
            continue
        try:
            producers = decode_snapshot(partition.store.read_small(stored.path, SMALL_FILE))
        except KafkaLogError:
            continue
        if len(producers):
            yield int(producers["producer_id"].max())
