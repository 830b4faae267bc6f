"""Where a task writes its files: to a new folder, nowhere in a dry run, or compared with a folder that has them already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.format.java import MAX_INT32
from kafkalog.log.partition import Partition, StoredFile
from kafkalog.storage import local_path
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Buffer, Fs, LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.ownership import Pattern
from kafkalog.storage.publish import StagedFolder, holds, replaced_ownership, write_file

from .partitions import PathLike

COPY_BYTES = 4 << 20
MAX_LOG_BYTES = MAX_INT32
Progress = Callable[[int], None]  # called with the bytes done since the last call


class Output(Protocol):
    """Where the files of a partition are written."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None: ...


class Nowhere:
    """For a dry run."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """Nothing: only the count is wanted."""


class Unsynced:
    """Into a new folder whose files are made durable later, with others."""

    def __init__(self, staged: StagedFolder) -> None:
        self.staged = staged

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        with writing(os.path.join(self.staged.target, name)):
            write_file(self.staged.unsynced, os.path.join(self.staged.staging, name), parts)


class Comparison:
    """Compares what would be written with an existing folder."""

    def __init__(self, fs: Fs, folder: str) -> None:
        self.fs = fs
        self.folder = folder
        self.seen: set[str] = set()
        self.differs = False

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        self.seen.add(name)
        if not self.differs:
            self.differs = not holds(self.fs, os.path.join(self.folder, name), parts)

    def require_same(self, hint: str = "") -> None:
        with writing(self.folder, "cannot be compared"):
            same = not self.differs and self.seen == set(self.fs.list(self.folder))
        if not same:
            raise UsageError(f"{self.folder}: exists already with other content{hint}; choose another --out, or move it away")


def output_folder(out: PathLike) -> str:
    """`out` as an absolute path; UsageError in a broker's log directory, where a broker takes every folder for a partition."""
    folder = os.path.abspath(local_path(out))
    above = folder
    while True:
        if os.path.exists(os.path.join(above, names.META_PROPERTIES)):
            where = "the log directory of a broker" if above == folder else f"inside of {above}, the log directory of a broker"
            raise UsageError(f"--out {folder}: {where}; write elsewhere, and move the complete partition there")
        if above == (above := os.path.dirname(above)):
            return folder


def staged_copy(fs: Fs, folder: str, partition: Partition, staging: str | None = None) -> StagedFolder:
    """The new folder of a copy of a partition, with the owner and mode of its log; from an object store, with the defaults."""
    is_here = isinstance(partition.store, LocalStore) or not isinstance(fs, LocalFs)
    log = replaced_ownership(fs, partition.segments[-1].log.path) if is_here and partition.segments else None
    return StagedFolder(fs, folder, None if log is None else Pattern(log, fs.ownership(partition.folder)), staging)


def raft_files(partition: Partition) -> list[StoredFile]:
    """What KRaft keeps beside its log: its vote, and snapshots, without which a log that begins after 0 cannot be loaded."""
    kinds = ("checkpoint", names.QUORUM_STATE)
    return [stored for stored in partition.files if stored.kind in kinds and not stored.suffix and stored.path != partition.file]


def stored_bytes(partition: Partition, stored: StoredFile) -> Iterator[bytes]:
    """The content of a file, in parts."""
    with partition.store.open(stored.path) as source:
        for position in range(0, source.size, COPY_BYTES):
            yield source.read(position, min(COPY_BYTES, source.size - position))


def folder_name(partition: Partition) -> str:
    if partition.partition < 0:
        return partition.topic
    return names.partition_folder_name(partition.topic, partition.partition)
