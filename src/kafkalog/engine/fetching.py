"""Read entries as they are stored, and find offsets by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkalog.errors import OffsetOutOfRange, UsageError
from kafkalog.format.batch import NO_TIMESTAMP

from .file_records import TimestampAndOffset
from .offsets import OffsetMetadata

if TYPE_CHECKING:
    from .partition_log import PartitionLog

Isolation = Literal["uncommitted", "committed", "log_end"]

# Times that Kafka's ListOffsets gives a meaning of its own.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Bytes of one segment, from the entry at `start` on. The last entry may not be whole, nor the first if that is said.

    `is_readable` says whether anything may be read there at all. `aborted` lists producer id and first offset of transactions to
    leave out, for readers of committed records.
    """

    start: OffsetMetadata
    data: bytes
    is_readable: bool
    first_entry_incomplete: bool = False
    aborted: tuple[tuple[int, int], ...] | None = None


def fetch(log: PartitionLog, offset: int, max_bytes: int, isolation: Isolation, *, min_one: bool) -> FetchResult:
    """Up to `max_bytes` from `offset` on, no further than `isolation` allows; with `min_one` at least one whole entry."""
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(f"{log.folder}: offset {offset} is before the log start offset {log.log_start_offset}")
    found = log.local_log.read(offset, max_bytes, _end_of(log, isolation), min_one=min_one, with_aborted=isolation == "committed")
    part = found.slice
    with log.guard.doing("reading"):
        data = b"" if part.records is None else part.records.read(part.position, part.size)
    aborted = None if found.aborted is None else tuple((each.producer_id, each.first_offset) for each in found.aborted)
    return FetchResult(part.start, data, part.records is not None, part.first_entry_incomplete, aborted)


def _end_of(log: PartitionLog, isolation: Isolation) -> OffsetMetadata:
    if isolation == "log_end":
        return log.local_log.log_end
    if isolation == "uncommitted":
        return log.watermarks.fetch_high_watermark()
    if isolation == "committed":
        return log.watermarks.fetch_last_stable_offset()
    raise UsageError(f"isolation {isolation!r}: one of uncommitted, committed, log_end")


def find_offset_by_time(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The first record that is not older than `timestamp`, or what LATEST, EARLIEST and MAX_TIMESTAMP stand for."""
    with log.guard.doing("searching"):
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            first = log.leader_epochs.earliest_entry
            epoch = first.epoch if first is not None and first.start_offset <= log.log_start_offset else -1
            return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, epoch)
        if timestamp == LATEST:
            latest_epoch = log.leader_epochs.latest_epoch
            return TimestampAndOffset(NO_TIMESTAMP, log.log_end_offset, -1 if latest_epoch is None else latest_epoch)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # there is no remote storage here
            return TimestampAndOffset(NO_TIMESTAMP, -1, -1)
        if timestamp == MAX_TIMESTAMP:
            return _find_max_timestamp(log)
        for segment in log.segments.values:
            if segment.largest_timestamp >= timestamp:
                return segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
        return None


def _find_max_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    """The first record with the greatest timestamp of all."""
    segment = max(log.segments.values, key=lambda segment: segment.max_timestamp)
    greatest, offset = segment.max_timestamp_and_offset
    for entry in segment.log.iter_entries(segment.offset_index.lookup(offset).position):
        if entry.max_timestamp == greatest:
            for record in entry if entry.magic else ():  # v0 has no timestamps at all
                if record.timestamp == greatest:
                    return TimestampAndOffset(greatest, record.offset, max(-1, entry.partition_leader_epoch))
            return None
    return None
