"""The leader epochs of a log: the first offset of each, and the checkpoint that stores them.

A new epoch is durable before it is used. Truncation updates the file later: loading the log would truncate it again.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from kafkalog.errors import InvalidArgument, LogStorageFailure, UnsupportedFormat
from kafkalog.format.checkpoint import EpochStart, decode_leader_epoch_checkpoint, encode_leader_epoch_checkpoint
from kafkalog.log.epochs import assign_epoch

from .checkpoints import CheckpointFile, unreadable
from .schedule import Schedule

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1

_epoch = attrgetter("epoch")
_start_offset = attrgetter("start_offset")


class LeaderEpochs:
    """The epochs of a log, in the order in which they began. Both their numbers and their start offsets increase."""

    def __init__(self, checkpoint: CheckpointFile, schedule: Schedule, partition: str = "") -> None:
        self._checkpoint = checkpoint
        self._schedule = schedule
        self._partition = partition
        self._entries: list[EpochStart] = []
        try:
            stored = decode_leader_epoch_checkpoint(checkpoint.read())
        except (UnsupportedFormat, OSError) as error:
            raise unreadable(checkpoint, "a leader epoch checkpoint", error) from error
        for entry in stored:
            self._assign(entry)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def earliest_entry(self) -> EpochStart | None:
        return self._entries[0] if self._entries else None

    @property
    def latest_entry(self) -> EpochStart | None:
        return self._entries[-1] if self._entries else None

    @property
    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    def __bool__(self) -> bool:
        return bool(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Start `epoch` at `start_offset`, unless it is the latest one and has begun before."""
        latest = self._entries[-1] if self._entries else None
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset >= 0:
            return
        if self._assign(EpochStart(epoch, start_offset)):
            self._write()

    def assign_all(self, entries: Iterable[EpochStart]) -> None:
        """Assign every entry, and write the file once."""
        entries = list(entries)
        for entry in entries:
            self._assign(entry)
        if entries:
            self._write()

    def _assign(self, entry: EpochStart) -> bool:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise InvalidArgument(f"leader epoch {entry.epoch} cannot begin at offset {entry.start_offset}")
        return assign_epoch(self._entries, entry)

    def previous_epoch(self, epoch: int) -> int | None:
        """The epoch before `epoch`."""
        row = bisect_left(self._entries, epoch, key=_epoch)
        return self._entries[row - 1].epoch if row else None

    def next_epoch(self, epoch: int) -> int | None:
        """The epoch after `epoch`."""
        row = bisect_right(self._entries, epoch, key=_epoch)
        return self._entries[row].epoch if row < len(self._entries) else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` and where it ends; UNDEFINED_EPOCH and UNDEFINED_OFFSET if unknown.

        An epoch before all known ones ends where the first known one begins: what came before is gone.
        """
        if epoch != UNDEFINED_EPOCH and epoch == self.latest_epoch:
            return epoch, log_end_offset
        row = bisect_right(self._entries, epoch, key=_epoch)
        if epoch == UNDEFINED_EPOCH or row == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return self._entries[row - 1].epoch if row else epoch, self._entries[row].start_offset

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which `offset` was written."""
        row = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[row - 1].epoch if row else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at `end_offset` or later; the file is written in the background."""
        if end_offset >= 0:
            kept = bisect_left(self._entries, end_offset, key=_start_offset)
            if kept < len(self._entries):
                del self._entries[kept:]
                self._write_later()

    def truncate_from_start(self, start_offset: int) -> None:
        """Start the epoch of `start_offset` there, and drop those before; the file is written in the background."""
        count = bisect_right(self._entries, start_offset, key=_start_offset)
        if count:
            self._entries[:count] = [EpochStart(self._entries[count - 1].epoch, start_offset)]
            self._write_later()

    def with_checkpoint(self, checkpoint: CheckpointFile) -> LeaderEpochs:
        """A copy that stores its changes in another file."""
        copy = object.__new__(LeaderEpochs)
        copy._checkpoint, copy._schedule, copy._partition = checkpoint, self._schedule, self._partition
        copy._entries = list(self._entries)
        return copy

    def clear(self) -> None:
        """Drop all epochs, but leave the file."""
        self._entries.clear()

    def clear_and_flush(self) -> None:
        """Drop all epochs, in the file too."""
        self._entries.clear()
        self._write()

    def _write(self) -> None:
        try:
            self._checkpoint.write(encode_leader_epoch_checkpoint(self._entries))
        except OSError as error:
            raise LogStorageFailure(f"{self._checkpoint.path}: cannot be written: {error}") from error

    def _write_later(self) -> None:
        self._schedule.submit(f"leader-epoch-cache-flush-{self._partition}", self._write_if_folder_exists)

    def _write_if_folder_exists(self) -> None:
        checkpoint = self._checkpoint
        if checkpoint.fs.kind(os.path.dirname(checkpoint.path)) == "folder":
            self._write()
