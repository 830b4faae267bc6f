"""A file system on which nothing is made durable: for what is written out of sight, and synced once, before it appears."""

from __future__ import annotations

from .fs import Fs, NewFile, OpenFile
from .ownership import Ownership


class _UnsyncedOpenFile:
    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.read, self.read_into, self.write = file.read, file.read_into, file.write
        self.truncate, self.close = file.truncate, file.close

    @property
    def size(self) -> int:
        return self._file.size

    def sync(self) -> None:
        """Later."""


class _UnsyncedNewFile:
    def __init__(self, file: NewFile) -> None:
        self.write, self.close = file.write, file.close

    def sync(self) -> None:
        """Later."""


class UnsyncedFs:
    """All that `fs` does, but for syncs."""

    def __init__(self, fs: Fs) -> None:
        self._fs = fs
        self.size, self.modified_ms, self.set_modified_ms = fs.size, fs.modified_ms, fs.set_modified_ms
        self.make_folder, self.rename, self.link = fs.make_folder, fs.rename, fs.link
        self.make_private_folder, self.require_private, self.give = fs.make_private_folder, fs.require_private, fs.give
        self.empty, self.ownership, self.require_useful = fs.empty, fs.ownership, fs.require_useful
        self.remove, self.remove_folder = fs.remove, fs.remove_folder
        self.list, self.kind, self.read = fs.list, fs.kind, fs.read
        self.lock, self.broker_lock = fs.lock, fs.broker_lock

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        return _UnsyncedOpenFile(self._fs.open(path, create=create, like=like))

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        return _UnsyncedNewFile(self._fs.create(path, like))

    def sync_folder(self, path: str) -> None:
        """Later."""
