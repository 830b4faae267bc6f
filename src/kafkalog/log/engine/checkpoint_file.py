"""A small file that is replaced as a whole: the checkpoints of a log directory and of a partition."""

from __future__ import annotations

import os

from kafkalog.storage.fs import Fs
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
        return self.fs.read(self.path, 0, self.fs.size(self.path))

    def write(self, data: bytes) -> None:
        """Put `data` in the place of what is there, durably."""
        replace_file(self.fs, self.path, [data], self.path + TEMPORARY_SUFFIX)
        sync_names(self.fs, os.path.dirname(self.path))
