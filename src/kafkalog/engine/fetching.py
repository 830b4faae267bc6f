"""Fetch entries as stored, and find offsets by timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkalog.errors import OffsetOutOfRange, UsageError
from kafkalog.format.batch import NO_TIMESTAMP
from kafkalog.format.quantities import plural, size_text

from .file_records import TimestampAndOffset
from .offsets import OffsetMetadata

if TYPE_CHECKING:
    from .partition_log import PartitionLog

Isolation = Literal["uncommitted", "committed", "log_end"]

# Timestamps with a special meaning in Kafka's ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Bytes of one segment from the entry at `start` on. The last entry may be incomplete, and the first if the flag says so.

    `is_readable` says whether anything may be read there at all. For readers of committed records `aborted` lists producer id and
    first offset of the transactions to skip.
    """

    start: OffsetMetadata
    data: bytes
    is_readable: bool
    first_entry_incomplete: bool = False
    aborted: tuple[tuple[int, int], ...] | None = None

    def __repr__(self) -> str:
        parts = [f"from offset {self.start.offset}", size_text(len(self.data))]
        parts += [] if self.is_readable else ["not readable"]
        parts += ["first entry incomplete"] if self.first_entry_incomplete else []
        parts += [plural(len(self.aborted), "aborted transaction")] if self.aborted else []
        return f"FetchResult({', '.join(parts)})"


def fetch(log: PartitionLog, offset: int, max_bytes: int, isolation: Isolation, *, min_one: bool) -> FetchResult:
    """Up to `max_bytes` from `offset` on, as far as `isolation` allows; with `min_one` at least one whole entry."""
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
    raise UsageError(f"isolation {isolation!r}: must be one of uncommitted, committed, log_end")


def find_offset_by_time(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The first record not older than `timestamp`; LATEST, EARLIEST and MAX_TIMESTAMP have their special meanings."""
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
