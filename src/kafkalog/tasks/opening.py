"""Logs opened as a broker would open them, and what that cuts off: a tail is no loss, whole batches after damage are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkalog.engine.config import LogConfig
from kafkalog.engine.loading import settle_replacements
from kafkalog.engine.log_segment import LogSegment
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock, Schedule
from kafkalog.engine.segment_files import SegmentFiles
from kafkalog.errors import (
    CorruptBatch,
    CorruptRecord,
    InvalidNumber,
    Limits,
    LogRefusal,
    LogStorageFailure,
    StorageError,
    UsageError,
)
from kafkalog.format import names
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.log.folders import find_partitions
from kafkalog.log.report import Dropped, ReadReport
from kafkalog.log.verified_runs import VerifiedSegment
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.overlay import OverlayFs

from .locking import Checkpoints, like_its_log, remove_marker, was_shut_down

INTERRUPTED = (".cleaned", ".swap")


class DurableLog(PartitionLog):
    """A log that survives a power cut whole. A broker syncs later, since other replicas have what a power cut takes."""

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """A segment is durable before the next one begins: else there might be a hole."""
        self.active_segment.finish_indexes()  # else they would be synced, cut, and synced again
        self.flush()
        return super().roll(expected_next_offset)


@dataclass(frozen=True)
class LogOpening:
    """What the engine needs to open a log; without checkpoints and a clean shutdown everything is recovered."""

    topic: str
    partition: int
    config: LogConfig
    now_ms: int
    log_start_offset: int = 0
    recovery_point: int = 0
    clean: bool = False

    @contextmanager
    def opened(self, fs: Fs, folder: str) -> Iterator[PartitionLog]:
        """The log, closed afterwards; StorageError if the disk fails, CorruptBatch at damage."""
        logs: list[PartitionLog] = []
        try:
            with as_storage_errors(lambda: (log.guard.failure for log in logs)), self.open(fs, folder) as log:
                logs.append(log)
                yield log
        except CorruptRecord as refusal:
            found = find_damage(folder)
            if found is None:
                found = Dropped(folder, -1, -1, "record-structure", -1, -1, "")
            raise damage_error(found, f"the log ended there: {refusal}") from refusal

    def open(self, fs: Fs, folder: str) -> PartitionLog:
        """The log, all of which counts as committed: no other replica is asked."""
        log = DurableLog.open(
            folder,
            self.config,
            clock=ManualClock(self.now_ms),
            fs=fs,
            log_start_offset=self.log_start_offset,
            recovery_point=self.recovery_point,
            clean=self.clean,
            topic=self.topic,
            partition=self.partition,
        )
        log.update_high_watermark(log.log_end_offset)
        return log


def opening_in_place(fs: Fs, folder: str, config: LogConfig, now_ms: int) -> LogOpening:
    """The opening of a partition, with what the checkpoints of its log directory say."""
    name = names.parse_folder_name(os.path.basename(folder))
    assert name is not None
    checkpoints = Checkpoints(fs, os.path.dirname(folder), name.topic, name.partition)
    return LogOpening(
        name.topic,
        name.partition,
        config,
        now_ms,
        log_start_offset=checkpoints.offset(names.LOG_START_CHECKPOINT) or 0,
        recovery_point=checkpoints.offset(names.RECOVERY_POINT_CHECKPOINT) or 0,
        clean=was_shut_down(fs, folder),
    )


@dataclass(frozen=True)
class Cut:
    """Bytes that loading a log cuts off: the end of one segment, and the segments `following` it.

    A broker deletes those, except in one case: a segment without an index file is cut before they are read.
    """

    size: int = 0
    base_offset: int = -1
    position: int = 0
    following: list[int] = field(default_factory=list)
    new_start: int | None = None  # where nothing is left: the checkpoint has the log begin after its end


def find_cut(fs: Fs, folder: str, log: PartitionLog) -> Cut:
    """What `log`, loaded on an overlay or a copy, lacks of the segments that `fs` has in `folder`."""
    stored = stored_sizes(fs, folder)
    left = {segment.base_offset: segment.size for segment in log.segments}
    less = [base for base, size in stored.items() if left.get(base, 0) < size]
    if not less:
        return Cut()
    following = [base for base in stored if base > less[0]]
    position = left.get(less[0], 0)
    size = stored[less[0]] - position + sum(stored[base] for base in following)
    return Cut(size, less[0], position, following, None if left.keys() & stored.keys() else min(left))


def stored_sizes(fs: Fs, folder: str) -> dict[int, int]:
    """The sizes of the segments in a folder by their base offsets, in order; StorageError if one is a link."""
    parsed = (names.parse_file_name(name) for name in fs.list(folder))
    bases = sorted(name.base_offset for name in parsed if name is not None and name.kind == "log" and not name.suffix)
    paths = {base: os.path.join(folder, names.segment_file_name(base)) for base in bases}
    kinds = {base: fs.kind(path) for base, path in paths.items()}
    if others := [paths[base] for base, kind in kinds.items() if kind == "other"]:
        raise StorageError(f"{others[0]}: not a plain file, so it is not read; the log without it would be a different one")
    return {base: fs.size(path) for base, path in paths.items() if kinds[base] == "file"}


def loses_batches(fs: Fs, folder: str, cut: Cut) -> bool:
    """Whether what is cut off is more than the tail that an interrupted write leaves."""
    if not cut.size:
        return False
    path = os.path.join(folder, names.segment_file_name(cut.base_offset))

    def read_into(position: int, buffer: memoryview) -> int:
        content = fs.read(path, position, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    bounds = ResyncBounds(minimum_offset=cut.base_offset - 1, batch_bytes=Limits().batch_bytes)
    return bool(cut.following) or find_next_entry(read_into, cut.position + 1, fs.size(path), bounds) is not None


def require_no_loss(fs: Fs, folder: str, cut: Cut) -> None:
    """CorruptBatch if damage would lose batches, UsageError if the log start checkpoint would."""
    if cut.new_start is not None:
        start = f"{names.LOG_START_CHECKPOINT} has it begin at {cut.new_start}, after its end"
        raise UsageError(f"{folder}: {start}: a broker would delete all of it; correct that file first")
    if loses_batches(fs, folder, cut):
        path = os.path.join(folder, names.segment_file_name(cut.base_offset))
        detail = "a broker would cut the log there: `kafkalog salvage` keeps what follows, `kafkalog recover` cuts it off"
        found = find_damage(folder, cut.base_offset, cut.position) or Dropped(path, cut.position, -1, "crc", -1, -1, "")
        raise damage_error(found, detail)


def find_damage(folder: str, base_offset: int = 0, position: int = 0) -> Dropped | None:
    """The first damage of a local log at or after a position, as a read reports it; None if a read finds none."""
    try:
        partitions = find_partitions(LocalStore(folder), folder) if os.path.isdir(folder) else []
        for partition in partitions:
            for segment in partition.segments:
                if segment.base_offset < base_offset:
                    continue
                report = ReadReport()
                for _ in VerifiedSegment(partition, segment, Limits(), report, unverified=False).runs():
                    """Only what is dropped is wanted."""
                first = position if segment.base_offset == base_offset else 0
                if found := [dropped for dropped in report.dropped if dropped.position >= first]:
                    return found[0]
    except StorageError:
        return None
    return None


def damage_error(found: Dropped, detail: str) -> CorruptBatch:
    """The error for damage that was found."""
    return CorruptBatch(
        found.reason,
        file=found.file,
        position=found.position,
        length=found.length,
        base_offset=found.base_offset,
        last_offset=found.last_offset,
        detail=detail,
    )


def _is_interrupted(fs: Fs, folder: str) -> bool:
    return any(name.endswith(INTERRUPTED) for name in fs.list(folder))


def settled_view(fs: Fs, folder: str, opening: LogOpening) -> Fs:
    """`fs`, with what an interrupted compaction left in this folder completed or undone, in memory only."""
    if not _is_interrupted(fs, folder):
        return fs
    view = OverlayFs(fs)
    clock = ManualClock(opening.now_ms)
    with as_storage_errors():
        settle_replacements(SegmentFiles(folder, opening.config, fs=view, clock=clock, schedule=Schedule(clock)))
    return view


def require_loadable(fs: Fs, folder: str, opening: LogOpening) -> None:
    """CorruptBatch if opening the log in place would lose whole batches."""
    view = settled_view(fs, folder, opening)
    with opening.opened(OverlayFs(view), folder) as log:  # even after a clean shutdown a segment without an index is recovered
        require_no_loss(view, folder, find_cut(view, folder, log))


def settle_interrupted(fs: Fs, folder: str, config: LogConfig, now_ms: int) -> None:
    """Complete or undo what left `.cleaned` and `.swap` files here, as a broker does at its start; the caller holds the lock."""
    if not _is_interrupted(fs, folder):
        return
    opening = opening_in_place(fs, folder, config, now_ms)
    require_loadable(fs, folder, opening)
    remove_marker(fs, folder)
    with opening.opened(like_its_log(fs, folder), folder):
        """Opening it does that."""


@contextmanager
def as_storage_errors(
    failures: Callable[[], Iterable[OSError | None]] = lambda: (), next_step: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """Report a failing disk under the engine as every other command does; a LogRefusal stays one.

    `failures` are those that logs remember: after one they do nothing more. `next_step` says what to do then.
    """
    try:
        yield
    except (LogStorageFailure, InvalidNumber) as refusal:
        causes = [cause for cause in (refusal.__cause__, *failures()) if isinstance(cause, OSError)]
        raise _storage_error(str(refusal), causes[0] if causes else None, next_step()) from refusal
    except (LogRefusal, StorageError):
        raise
    except OSError as error:
        raise _storage_error(f"{error.filename or 'the log'}: {error.strerror or error}", error, next_step()) from error


def _storage_error(message: str, cause: OSError | None, next_step: str) -> StorageError:
    """`message` without the error number, and with what can be done about it."""
    if cause is None or not cause.errno:
        return StorageError(message + next_step)
    reason = os.strerror(cause.errno)
    what = message.removesuffix(f": {cause}").removesuffix(f": {reason}")
    path, _, action = what.partition(": ")
    try:
        with writing(path, action or "cannot be read or written"):
            raise cause
    except StorageError as failure:
        failed = StorageError(f"{failure}{next_step}", file=path)
        failed.errno = cause.errno
        return failed
