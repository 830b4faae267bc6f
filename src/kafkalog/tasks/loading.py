"""Logs opened as a broker would open them, and what that cuts off: a tail is nothing, whole batches behind damage are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkalog.errors import CorruptBatch, Limits, LogRefusal, LogStorageFailure, StorageError
from kafkalog.format import names
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.log.engine.config import LogConfig
from kafkalog.log.engine.partition_log import PartitionLog
from kafkalog.log.engine.schedule import ManualClock
from kafkalog.storage.fs import Fs
from kafkalog.storage.overlay import OverlayFs

from .in_place import Checkpoints, was_shut_down


@dataclass(frozen=True)
class LogOpening:
    """What the engine has to know of a log; without checkpoints and a clean shutdown everything is recovered."""

    topic: str
    partition: int
    config: LogConfig
    now_ms: int
    log_start_offset: int = 0
    recovery_point: int = 0
    clean: bool = False

    def open(self, fs: Fs, folder: str) -> PartitionLog:
        """The log, all of which counts as committed: no other replica is asked."""
        log = PartitionLog.open(
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
    """A partition with what the files of its log directory say of it."""
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
    """What loading a log takes from it: bytes at the end of one segment, and the segments behind that."""

    size: int = 0
    base_offset: int = -1
    position: int = 0
    is_in_newest: bool = True
    segments: list[int] = field(default_factory=list)


def find_cut(fs: Fs, folder: str, log: PartitionLog) -> Cut:
    """What `log`, loaded on an overlay or a copy, has less than the segments that `fs` has in `folder`."""
    stored = _stored_sizes(fs, folder)
    left = {segment.base_offset: segment.size for segment in log.segments}
    less = [base for base, size in stored.items() if left.get(base, 0) < size]
    if not less:
        return Cut()
    size = sum(stored[base] - left.get(base, 0) for base in less)
    return Cut(size, less[0], left.get(less[0], 0), less[0] == max(stored), [base for base in less if base not in left])


def _stored_sizes(fs: Fs, folder: str) -> dict[int, int]:
    parsed = (names.parse_file_name(name) for name in fs.list(folder))
    bases = sorted(name.base_offset for name in parsed if name is not None and name.kind == "log" and not name.suffix)
    return {base: fs.size(os.path.join(folder, names.segment_file_name(base))) for base in bases}


def require_no_loss(fs: Fs, folder: str, cut: Cut) -> None:
    """CorruptBatch if what is cut off is more than the tail that an interrupted write leaves."""
    if not cut.size:
        return
    path = os.path.join(folder, names.segment_file_name(cut.base_offset))

    def read_into(position: int, buffer: memoryview) -> int:
        content = fs.read(path, position, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    bounds = ResyncBounds(minimum_offset=cut.base_offset - 1, batch_bytes=Limits().batch_bytes)
    if not cut.is_in_newest or find_next_entry(read_into, cut.position + 1, fs.size(path), bounds) is not None:
        detail = "a broker would cut the log there: `kafkalog salvage` keeps what follows, `kafkalog recover` cuts it off"
        raise CorruptBatch("crc", file=path, position=cut.position, detail=detail)


def require_loadable(fs: Fs, folder: str, opening: LogOpening) -> None:
    """CorruptBatch if opening the log in its place would lose whole batches."""
    if not opening.clean:
        with opening.open(OverlayFs(fs), folder) as log:
            require_no_loss(fs, folder, find_cut(fs, folder, log))


@contextmanager
def told_as_storage_errors() -> Iterator[None]:
    """A failing disk under the engine is told as one under any other command; what the log refuses stays a LogRefusal."""
    try:
        yield
    except LogStorageFailure as refusal:
        cause = refusal.__cause__
        failure = StorageError(str(refusal))
        failure.errno = cause.errno if isinstance(cause, OSError) else None
        raise failure from refusal
    except (LogRefusal, StorageError):
        raise
    except OSError as error:
        failure = StorageError(f"{error.filename or 'the log'}: {error.strerror or error}")
        failure.errno = error.errno
        raise failure from error
