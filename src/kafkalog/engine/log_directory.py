"""A log directory that we write to: its logs are opened as a broker opens them at start, and left as after a clean shutdown.

No broker may run there meanwhile. The clean shutdown file is removed before anything is changed, so that after any interruption
the next broker start recovers every log; it is written again when all logs are closed and durable.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from kafkalog.errors import InvalidNumber, LogStorageFailure, StorageError, UsageError
from kafkalog.format.names import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, parse_folder_name, partition_folder_name
from kafkalog.format.quantities import plural
from kafkalog.log.partition import shown
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs, LocalFs

from .checkpoints import CleanShutdownFlag, OffsetCheckpoint
from .config import LogConfig
from .partition_log import PartitionLog
from .schedule import Clock, SystemClock

Offsets = dict[tuple[str, int], int]


class LogDirectory:
    """The log directory at `path`; use it in a `with` statement."""

    def __init__(self, path: str, *, fs: Fs | None = None, clock: Clock | None = None) -> None:
        self.path = path.rstrip("/") or "/"
        self.fs = fs or LocalFs()
        self.clock = clock or SystemClock()
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self._flag = CleanShutdownFlag(self.fs, self.path)
        self._was_clean = False
        self._broker_epoch = -1
        self._held = ExitStack()

    def __repr__(self) -> str:
        return f"LogDirectory({shown(self.path)}, {plural(len(self.logs), 'open log')})"

    def __enter__(self) -> Self:
        if self.fs.kind(self.path) != "folder":
            raise StorageError(f"{self.path}: no such log directory", file=self.path)
        self._held.enter_context(self.fs.broker_lock(self.path))
        self._was_clean = self._flag.exists
        self._broker_epoch = self._flag.broker_epoch
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with self._held:
            if kind is None:
                with writing(self.path, "cannot close the logs"):
                    self._close()
            else:
                for log in self.logs.values():
                    log.close_handlers()

    def open_log(self, topic: str, partition: int, config: LogConfig | None = None, **options: Any) -> PartitionLog:
        """The log of a partition, loaded by its checkpoints, or a new one. All its records count as replicated.

        `options` are passed to `PartitionLog.open`.
        """
        name = (topic, partition)
        if name in self.logs:
            raise UsageError(f"{self.path}: {topic}-{partition} is open already")
        with writing(self.path):
            self._flag.delete()
        log = PartitionLog.open(
            os.path.join(self.path, partition_folder_name(topic, partition)),
            config,
            fs=self.fs,
            clock=self.clock,
            log_start_offset=self._read(LOG_START_CHECKPOINT).get(name, 0),
            recovery_point=self._read(RECOVERY_POINT_CHECKPOINT).get(name, 0),
            clean=self._was_clean,
            **options,
        )
        log.update_high_watermark(log.log_end_offset)
        log.on_truncated = self.checkpoint
        log.flushes_at_close = True
        self.logs[name] = log
        return log

    def checkpoint(self) -> None:
        """Write the recovery points and log start offsets, as a broker does every minute."""
        starts = {name: log.log_start_offset for name, log in self.logs.items() if _starts_inside(log)}
        with writing(self.path, "cannot write the checkpoints"):
            self._write(RECOVERY_POINT_CHECKPOINT, {name: log.recovery_point for name, log in self.logs.items()})
            self._write(LOG_START_CHECKPOINT, starts)

    def _close(self) -> None:
        if not self.logs:
            return
        whole = [log for log in self.logs.values() if not log.is_abandoned]
        for log in whole:
            log.close()
        self.checkpoint()
        if len(whole) == len(self.logs) and (self._was_clean or self._others() == set()):
            self._flag.write(self._broker_epoch)

    def _others(self) -> set[tuple[str, int]]:
        """The partitions here that were not opened, whose state we do not know."""
        names = [parse_folder_name(name) for name in self.fs.list(self.path)]
        return {(name.topic, name.partition) for name in names if name is not None} - set(self.logs)

    def _read(self, checkpoint: str) -> Offsets:
        """The offsets in a checkpoint; none if it is damaged, so that everything is recovered."""
        if self.fs.kind(os.path.join(self.path, checkpoint)) == "missing":
            return {}
        try:
            return self._checkpoint(checkpoint).read()
        except (LogStorageFailure, InvalidNumber):
            return {}

    def _write(self, checkpoint: str, ours: Offsets) -> None:
        others = {name: offset for name, offset in self._read(checkpoint).items() if name not in self.logs}
        self._checkpoint(checkpoint).write({**others, **ours})

    def _checkpoint(self, name: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self.fs, os.path.join(self.path, name))


def _starts_inside(log: PartitionLog) -> bool:
    """Whether the log starts inside its first segment, where no file name shows it."""
    first = log.segments.first
    return first is not None and log.log_start_offset > first.base_offset
