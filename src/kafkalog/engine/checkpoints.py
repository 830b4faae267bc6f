"""The files of a log directory by which a broker knows its logs again: offset checkpoints, and the mark of a clean shutdown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from kafkalog.errors import LogStorageFailure, UnsupportedFormat
from kafkalog.format.checkpoint import PartitionOffset, decode_clean_shutdown, decode_offset_checkpoint, encode_offset_checkpoint
from kafkalog.format.names import CLEAN_SHUTDOWN
from kafkalog.storage.fs import Fs, read_small

from .checkpoint_file import CheckpointFile, unreadable


class OffsetCheckpoint:
    """An offset for each of some partitions; the file is made empty if it is not there."""

    def __init__(self, fs: Fs, path: str) -> None:
        self._file = CheckpointFile(fs, path)

    def read(self) -> dict[tuple[str, int], int]:
        """The offsets by topic and partition; a LogRefusal if the file is none of Kafka's."""
        try:
            entries = decode_offset_checkpoint(self._file.read())
        except (UnsupportedFormat, OSError) as error:
            raise unreadable(self._file, "an offset checkpoint", error) from error
        return {(entry.topic, entry.partition): entry.offset for entry in entries}

    def write(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Put these offsets in the place of what the file says, durably."""
        entries = [PartitionOffset(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._file.write(encode_offset_checkpoint(entries))
        except OSError as error:
            raise LogStorageFailure(f"{self._file.path}: cannot be written: {error}") from error


class CleanShutdownFlag:
    """`.kafka_cleanshutdown`: while it is there, everything before the recovery points is durable and complete."""

    def __init__(self, fs: Fs, log_directory: str) -> None:
        self._fs = fs
        self._folder = log_directory
        self._path = os.path.join(log_directory, CLEAN_SHUTDOWN)

    @property
    def exists(self) -> bool:
        return self._fs.kind(self._path) == "file"

    @property
    def broker_epoch(self) -> int:
        """The epoch of the broker that stopped; -1 if that is not known."""
        if not self.exists:
            return -1
        try:
            return decode_clean_shutdown(read_small(self._fs, self._path)).broker_epoch
        except UnsupportedFormat:
            return -1

    def delete(self) -> None:
        """Take it away, durably: what is written from now on has to be looked at after a crash."""
        with suppress(FileNotFoundError):
            self._fs.remove(self._path)
            self._fs.sync_folder(self._folder)

    def write(self, broker_epoch: int = -1) -> None:
        file = CheckpointFile(self._fs, self._path)
        file.write(b'{"version":0,"brokerEpoch":%d}' % broker_epoch)
