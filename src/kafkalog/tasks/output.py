"""Where the files of a task go: a new folder, nowhere in a dry run, or a folder that has them already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Protocol

from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.format.java import MAX_INT32
from kafkalog.log.partition import Partition
from kafkalog.storage import local_path
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Buffer, Fs, LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.ownership import Pattern
from kafkalog.storage.publish import StagedFolder, holds, replaced_ownership

from .partitions import PathLike

COPY_BYTES = 4 << 20
MAX_LOG_BYTES = MAX_INT32
Progress = Callable[[int], None]  # told how many more bytes are done


class Output(Protocol):
    """Where the files of the partition go."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None: ...


class Nowhere:
    """For a dry run."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """Nothing: only the count is wanted."""


class Comparison:
    """Holds what would be written against a folder that is there."""

    def __init__(self, fs: Fs, folder: str) -> None:
        self.fs = fs
        self.folder = folder
        self.seen: set[str] = set()
        self.differs = False

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        self.seen.add(name)
        if not self.differs:
            self.differs = not holds(self.fs, os.path.join(self.folder, name), parts)

    def require_same(self) -> None:
        with writing(self.folder, "cannot be compared"):
            same = not self.differs and self.seen == set(self.fs.list(self.folder))
        if not same:
            raise UsageError(f"{self.folder}: is there already and holds something else; choose another --out, or move it away")


def output_folder(out: PathLike) -> str:
    """`out` as an absolute path; UsageError for a broker's log directory: it would not start over what a crash of ours leaves."""
    folder = os.path.abspath(local_path(out))
    if os.path.exists(os.path.join(folder, names.META_PROPERTIES)):
        raise UsageError(f"--out {folder}: the log directory of a broker; write elsewhere, and move the complete partition there")
    return folder


def staged_copy(fs: Fs, folder: str, partition: Partition) -> StagedFolder:
    """The new folder of a copy of a partition. What is copied from an object store is as everything else that is made there."""
    is_here = isinstance(partition.store, LocalStore) or not isinstance(fs, LocalFs)
    log = replaced_ownership(fs, partition.segments[-1].log.path) if is_here and partition.segments else None
    return StagedFolder(fs, folder, None if log is None else Pattern(log, fs.ownership(partition.folder)))


def folder_name(partition: Partition) -> str:
    if partition.partition < 0:
        return partition.topic
    return names.partition_folder_name(partition.topic, partition.partition)
