"""A small file that is replaced as a whole: the checkpoints of a log directory and of a partition."""

from __future__ import annotations

import os

from kafkalog.errors import InvalidNumber, LogRefusal, LogStorageFailure, NotANumber, UnsupportedFormat
from kafkalog.storage.fs import Fs, read_small
from kafkalog.storage.publish import replace_file, sync_names

TEMPORARY_SUFFIX = ".tmp"  # what Kafka calls the file while it is written; a broker ignores one that was left behind


class CheckpointFile:
    """The file at `path`, made empty if it is not there."""

    def __init__(self, fs: Fs, path: str) -> None:
        self.fs = fs
        self.path = path
        if fs.kind(path) == "missing":
            fs.create(path).close()

    def read(self) -> bytes:
        return read_small(self.fs, self.path)

    def write(self, data: bytes) -> None:
        """Put `data` in the place of what is there, durably."""
        replace_file(self.fs, self.path, [data], self.path + TEMPORARY_SUFFIX)
        sync_names(self.fs, os.path.dirname(self.path))


def unreadable(file: CheckpointFile, meaning: str, error: UnsupportedFormat | OSError) -> LogRefusal:
    """What a log says of a file that it cannot read: as in Kafka a storage failure, unless a line has a word for a number."""
    kind = InvalidNumber if isinstance(error, NotANumber) else LogStorageFailure
    return kind(f"{file.path}: cannot be read as {meaning}: {error}")
