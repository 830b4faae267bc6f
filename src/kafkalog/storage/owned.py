"""A file system on which what is new is like what was there before, or like what it is a copy of."""

from __future__ import annotations

from .fs import Fs, NewFile, OpenFile
from .ownership import Ownership, Pattern


class OwnedFs:
    """All that `fs` does; new files and folders follow a pattern, unless something else is said of one."""

    def __init__(self, fs: Fs, pattern: Pattern) -> None:
        self._fs = fs
        self._pattern = pattern
        self.size, self.modified_ms, self.set_modified_ms = fs.size, fs.modified_ms, fs.set_modified_ms
        self.make_private_folder, self.require_private = fs.make_private_folder, fs.require_private
        self.empty, self.ownership, self.require_useful = fs.empty, fs.ownership, fs.require_useful
        self.rename, self.link, self.remove, self.remove_folder = fs.rename, fs.link, fs.remove, fs.remove_folder
        self.sync_folder, self.list, self.kind, self.read = fs.sync_folder, fs.list, fs.kind, fs.read
        self.lock, self.broker_lock = fs.lock, fs.broker_lock

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        return self._fs.open(path, create=create, like=like or self._pattern.file)

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        return self._fs.create(path, like or self._pattern.file)

    def make_folder(self, path: str, like: Ownership | None = None) -> None:
        self._fs.make_folder(path, like or self._pattern.folder)

    def give(self, path: str, like: Ownership | None = None) -> None:
        self._fs.give(path, like or self._pattern.folder)
