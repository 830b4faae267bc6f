"""What to clean: how far each log of a directory is clean, what may be cleaned now, and which log has the highest dirty ratio."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import CleaningFailed, LogRefusal, LogStorageFailure
from kafkalog.format.java import MAX_INT64
from kafkalog.storage.fs import Fs

from ..checkpoints import OffsetCheckpoint
from ..partition_log import PartitionLog

CHECKPOINT_FILE: Final = "cleaner-offset-checkpoint"
NEVER: Final = MAX_INT64


@dataclass(frozen=True)
class CleanableOffsets:
    """The dirty offsets that may be cleaned. `is_reset`: the checkpoint's offset is outside this log."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    is_reset: bool = False


@dataclass(frozen=True)
class LogToClean:
    """A log with the offsets between which whole segments are to be cleaned, and the bytes before and between them."""

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool = False  # something in it has waited longer than max.compaction.lag.ms

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        return (self.is_overdue and self.cleanable_bytes > 0) or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


class CleanerSelection:
    """The logs of one directory, and the checkpoint of how far each is clean. A log that failed is not cleaned again."""

    def __init__(self, folder: str, logs: Iterable[PartitionLog], fs: Fs) -> None:
        self.logs = list(logs)
        self.uncleanable: set[tuple[str, int]] = set()
        self._checkpoint = OffsetCheckpoint(fs, os.path.join(folder, CHECKPOINT_FILE))

    def checkpoints(self) -> dict[tuple[str, int], int]:
        """The first dirty offset of each partition that was cleaned before; empty if the file cannot be read."""
        with suppress(LogStorageFailure):
            return self._read()
        return {}

    def find_filthiest(self, now_ms: int) -> LogToClean | None:
        """The log with the highest dirty ratio among those that are due."""
        clean_to = self.checkpoints()
        measured = [
            self._measure(log, clean_to.get((log.topic, log.partition)), now_ms) for log in self.logs if self._may_clean(log)
        ]
        due = [candidate for candidate in measured if candidate.is_due]
        return max(due, key=lambda candidate: candidate.cleanable_ratio, default=None)

    def done_cleaning(self, log: PartitionLog, end_offset: int) -> None:
        """Store how far the log is clean, and drop partitions that no longer exist."""
        known = {(other.topic, other.partition) for other in self.logs}
        with suppress(LogStorageFailure):  # a file that cannot be read stays as it is: it may have offsets of other logs
            offsets = {place: offset for place, offset in self._read().items() if place in known}
            self._checkpoint.write({**offsets, (log.topic, log.partition): end_offset})

    def maybe_truncate_checkpoint(self, log: PartitionLog, offset: int) -> None:
        """Lower the stored offset of the log to `offset`, if it is higher."""
        if not log.config.compact:
            return
        offsets = self._read()
        if offsets.get((log.topic, log.partition), 0) > offset:
            self._checkpoint.write({**offsets, (log.topic, log.partition): offset})

    def _read(self) -> dict[tuple[str, int], int]:
        """The checkpoint; one that cannot be read fails the directory, and so every log in it."""
        try:
            return self._checkpoint.read()
        except LogStorageFailure as failure:
            for log in self.logs:
                log.guard.fail(failure)
            raise

    def _may_clean(self, log: PartitionLog) -> bool:
        return log.config.compact and (log.topic, log.partition) not in self.uncleanable

    def _measure(self, log: PartitionLog, clean_to: int | None, now_ms: int) -> LogToClean:
        try:
            return self._measured(log, clean_to, now_ms)
        except (LogRefusal, OSError) as error:
            raise CleaningFailed(f"{log.topic}-{log.partition}: cannot find out what to clean: {error}") from error

    def _measured(self, log: PartitionLog, clean_to: int | None, now_ms: int) -> LogToClean:
        offsets = find_cleanable_offsets(log, clean_to, now_ms)
        if offsets.is_reset:
            self.done_cleaning(log, offsets.first_dirty_offset)
        is_overdue = _overdue_ms(log, offsets.first_dirty_offset, now_ms) > 0
        return log_to_clean(log, offsets, is_overdue=is_overdue)


def find_cleanable_offsets(log: PartitionLog, checkpoint: int | None, now_ms: int) -> CleanableOffsets:
    """The dirty offsets of a log that is clean up to `checkpoint`, without those too new to be cleaned."""
    start = log.log_start_offset
    first_dirty = start if checkpoint is None else checkpoint
    is_reset = not start <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = start
    bounds = [log.last_stable_offset, log.active_segment.base_offset]
    if (lag := log.config.min_compaction_lag_ms) > 0:
        dirty = log.non_active_segments_from(first_dirty)
        bounds += [segment.base_offset for segment in dirty if segment.largest_timestamp > now_ms - lag][:1]
    return CleanableOffsets(first_dirty, max(first_dirty, min(bounds)), is_reset)


def log_to_clean(log: PartitionLog, offsets: CleanableOffsets, *, is_overdue: bool = False) -> LogToClean:
    """The cleanable part of the log: segments are cleaned whole, so the one that holds the last offset is left out."""
    later = log.non_active_segments_from(offsets.first_uncleanable_offset)
    uncleanable = (later[0] if later else log.active_segment).base_offset
    clean = log.log_segments(-1, offsets.first_dirty_offset)
    cleanable = log.log_segments(min(offsets.first_dirty_offset, uncleanable), uncleanable)
    clean_bytes, cleanable_bytes = (sum(segment.size for segment in segments) for segments in (clean, cleanable))
    return LogToClean(log, offsets.first_dirty_offset, uncleanable, clean_bytes, cleanable_bytes, is_overdue)


def _overdue_ms(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> int:
    """By how much the oldest dirty record exceeds max.compaction.lag.ms."""
    times = [segment.first_batch_timestamp for segment in log.non_active_segments_from(first_dirty_offset)]
    earliest = min((time for time in times if time > 0), default=NEVER)
    return max(0, now_ms - max(log.config.max_compaction_lag_ms, 0) - earliest)
