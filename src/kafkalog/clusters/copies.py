"""The copies of a partition on several disks, the newest first (`log/newest.py`), and what each says its end is.

The end by the headers is a promise: where the last entries are damaged, the log says that there was more than can be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafkalog.errors import Limits, StorageError
from kafkalog.format.names import MAX_OFFSET
from kafkalog.log.newest import Rank, rank
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions, read_records
from kafkalog.log.report import ReadReport
from kafkalog.segment.arrays import Constants
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk

METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class LogEnd:
    """Where a log ends: the epoch of its last batch, and the offset that the next record would get."""

    epoch: int = -1
    offset: int = 0


@dataclass(frozen=True)
class Copy:
    """A copy of a partition, with its end by the headers of its newest segments, and its rank among copies."""

    partition: Partition
    end: LogEnd
    newest: Rank

    @property
    def promised(self) -> tuple[int, int]:
        return self.end.epoch, self.end.offset

    def goes_as_far_as(self, other: Copy) -> bool:
        return self.newest[:2] == other.newest[:2]


def log_end(partition: Partition, limits: Limits) -> LogEnd:
    """The end of a log by the headers of its last entries; a damaged end is where its entries cannot be followed."""
    for segment in reversed(partition.segments):
        with partition.open_log(segment) as source:
            index = segment.siblings.get("index")
            start = seek_position(source, partition.store, index.path if index else None, segment.base_offset, MAX_OFFSET, limits)
            for entries in deque(SegmentWalk(source, start, source.size, limits).headers(), maxlen=1):
                if len(entries):
                    end = max(int(entries.last_offset[-1]) + 1, partition.start_offset)
                    # Epochs do not fall: one that does is damage, and promises no less.
                    return LogEnd(int(entries.leader_epoch.max()), end)
    return LogEnd(-1, partition.start_offset)


def rank_copies(partitions: Iterable[Partition], limits: Limits, report: ReadReport) -> list[Copy]:
    """The copies of one partition, the newest first; equal ones in the given order.

    One that cannot be read is left out, and in the report; if none can be, that is an error.
    """
    copies: list[Copy] = []
    failed: list[StorageError] = []
    for partition in partitions:
        try:
            for problem in partition.problems:
                raise StorageError(problem, file=partition.folder)
            copies.append(Copy(partition, log_end(partition, limits), rank(partition, limits)))
        except StorageError as error:
            failed.append(error)
    if failed and not copies:
        raise failed[0]
    for unreadable in failed:
        report.leave_unread(unreadable)
    return sorted(copies, key=lambda copy: copy.newest, reverse=True)


def by_partition(partitions: Iterable[Partition]) -> dict[TopicPartition, list[Partition]]:
    """The live copies of each partition."""
    found: dict[TopicPartition, list[Partition]] = {}
    for partition in partitions:
        if not partition.state and partition.partition >= 0:
            found.setdefault((partition.topic, partition.partition), []).append(partition)
    return found


@dataclass(frozen=True)
class StoredRecord:
    """A record of an internal topic, with the place of its batch."""

    offset: int
    key: bytes | None
    value: bytes | None
    is_control: bool
    is_transactional: bool
    leader_epoch: int
    producer_id: int
    timestamp_ms: int
    file: str
    position: int


COLUMNS: Final = (
    "offset",
    "key",
    "value",
    "is_control",
    "is_transactional",
    "leader_epoch",
    "producer_id",
    "timestamp_ms",
    "position",
)


def iter_stored_records(partition: Partition, options: ReadOptions, report: ReadReport) -> Iterator[StoredRecord]:
    """The records of a partition, control records too, one by one; `options.columns` has to hold COLUMNS."""
    constants = Constants()
    for found in read_records([partition], options, report):
        file = found.columns.window.file
        columns: dict[str, list[Any]] = {
            name: found.columns.column(name, constants, found.start, found.stop).to_pylist() for name in COLUMNS
        }
        for row in range(found.stop - found.start):
            yield StoredRecord(file=file, **{name: values[row] for name, values in columns.items()})
