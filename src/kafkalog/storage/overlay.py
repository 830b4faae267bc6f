"""File systems over another one: `OverlayFs` keeps all changes in memory, for plans; `OwnedFs` makes new files match a pattern;
`UnsyncedFs` leaves out syncs, for work that is synced once before it appears."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from .fs import Buffer, Fs, NewFile, OpenFile, PathKind
from .ownership import Ownership, Pattern

PAGE = 1 << 12


class _Changed:
    """A file as it would be: the pages written, over the first bytes of a file below."""

    def __init__(self, fs: Fs, below: str | None = None) -> None:
        self.fs = fs
        self.below = below
        self.size = self.kept = fs.size(below) if below is not None else 0
        self.modified_ms = fs.modified_ms(below) if below is not None else 0
        self.pages: dict[int, bytearray] = {}

    def read(self, position: int, size: int) -> bytes:
        size = max(0, min(size, self.size - position))
        if not size:
            return b""
        content = bytearray(self._read_below(position, size).ljust(size, b"\0"))
        for number in range(position // PAGE, (position + size - 1) // PAGE + 1):
            if (page := self.pages.get(number)) is not None:
                start, stop = max(position, number * PAGE), min(position + size, (number + 1) * PAGE)
                content[start - position : stop - position] = page[start - number * PAGE : stop - number * PAGE]
        return bytes(content)

    def _read_below(self, position: int, size: int) -> bytes:
        if self.below is None or position >= self.kept:
            return b""
        return self.fs.read(self.below, position, min(size, self.kept - position))

    def write(self, position: int, data: Buffer) -> None:
        content = memoryview(data).cast("B")
        self.size = max(self.size, position + len(content))
        while content:
            number, at = divmod(position, PAGE)
            part = content[: PAGE - at]
            if number not in self.pages:
                self.pages[number] = bytearray(self._read_below(number * PAGE, PAGE).ljust(PAGE, b"\0"))
            self.pages[number][at : at + len(part)] = part
            content, position = content[len(part) :], position + len(part)

    def truncate(self, size: int) -> None:
        self.kept = min(self.kept, size)
        self.size = size
        for number in [number for number in self.pages if (number + 1) * PAGE > size]:
            self.pages[number][max(0, size - number * PAGE) :] = bytes(PAGE - max(0, size - number * PAGE))
            if number * PAGE >= size:
                del self.pages[number]


class _OpenChanged:
    """An open file of the overlay."""

    def __init__(self, file: _Changed) -> None:
        self.file = file

    @property
    def size(self) -> int:
        return self.file.size

    def read(self, position: int, size: int) -> bytes:
        return self.file.read(position, size)

    def read_into(self, position: int, target: memoryview) -> int:
        data = self.file.read(position, len(target))
        target[: len(data)] = data
        return len(data)

    def write(self, position: int, data: Buffer) -> None:
        self.file.write(position, data)

    def truncate(self, size: int) -> None:
        self.file.truncate(size)

    def sync(self) -> None:
        """There is nothing to keep."""

    def close(self) -> None:
        """There is nothing to release."""


class _NewChanged(_OpenChanged):
    def write(self, data: Buffer) -> None:  # type: ignore[override]
        self.file.write(self.file.size, data)


class OverlayFs:
    """Reads `below`, writes to memory. For plans, whose writes are small."""

    def __init__(self, below: Fs) -> None:
        self.below = below
        self._files: dict[str, _Changed | None] = {}  # None: removed
        self._folders: dict[str, bool] = {}  # False: removed

    def __repr__(self) -> str:
        return f"OverlayFs({self.below!r}, touched={len(self._files)})"

    def _file(self, path: str) -> _Changed:
        if path not in self._files and self.below.kind(path) == "file":
            self._files[path] = _Changed(self.below, path)
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return file

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        if create and self.kind(path) == "missing":
            self._files[path] = _Changed(self.below)
        return _OpenChanged(self._file(path))

    def size(self, path: str) -> int:
        return self._file(path).size

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        if self.kind(path) != "missing":
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._files[path] = file = _Changed(self.below)
        return _NewChanged(file)

    def make_folder(self, path: str, like: Ownership | None = None) -> None:
        if self.kind(path) != "missing":
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._folders[path] = True

    def make_private_folder(self, path: str) -> None:
        self.make_folder(path)

    def require_private(self, path: str) -> None:
        """Nobody else has access."""

    def give(self, path: str, like: Ownership | None = None) -> None:
        """It has no owner."""

    def empty(self, path: str) -> None:
        for name in self.list(path):
            self.remove(os.path.join(path, name))

    def ownership(self, path: str) -> Ownership:
        """That of the nearest existing file or folder: a new one would have the same owner."""
        while self.below.kind(path) == "missing":
            path = os.path.dirname(path)
        return self.below.ownership(path)

    def require_useful(self, folder: str) -> None:
        """Nothing made here is used by others."""

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._file(old)
        self._files[old] = None

    def link(self, old: str, new: str) -> None:
        self._files[new] = self._file(old)

    def remove(self, path: str) -> None:
        self._file(path)
        self._files[path] = None

    def remove_folder(self, path: str) -> None:
        self._folders[path] = False

    def sync_folder(self, path: str) -> None:
        """There is nothing to keep."""

    def list(self, path: str) -> list[str]:
        names = set(self.below.list(path)) if self.below.kind(path) == "folder" else set()
        for changed, there in (*self._files.items(), *self._folders.items()):
            if os.path.dirname(changed) == path:
                (names.discard if there is None or there is False else names.add)(os.path.basename(changed))
        return sorted(names)

    def kind(self, path: str) -> PathKind:
        if path in self._files:
            return "missing" if self._files[path] is None else "file"
        if path in self._folders:
            return "folder" if self._folders[path] else "missing"
        return self.below.kind(path)

    def read(self, path: str, position: int, size: int) -> bytes:
        return self._file(path).read(position, size)

    def changes(self) -> Sequence[str]:
        """The files that were made, changed or removed."""
        return sorted(path for path, file in self._files.items() if self._differs(path, file))

    def _differs(self, path: str, file: _Changed | None) -> bool:
        is_below = self.below.kind(path) == "file"
        if file is None or not is_below:
            return is_below or file is not None
        if file.size != self.below.size(path):
            return True
        step = PAGE << 8
        positions = [PAGE * number for number in file.pages] if file.below == path and file.kept == file.size else None
        if positions is not None:
            return any(file.read(at, PAGE) != self.below.read(path, at, PAGE) for at in positions)
        return any(file.read(at, step) != self.below.read(path, at, step) for at in range(0, file.size, step))

    def lock(self, folder: str) -> AbstractContextManager[None]:
        """Nobody else has access."""
        return nullcontext()

    def broker_lock(self, log_directory: str) -> AbstractContextManager[None]:
        """No broker has access."""
        return nullcontext()


class _Wrapped:
    """The steps that a wrapper leaves to the file system below."""

    def __init__(self, fs: Fs) -> None:
        self._fs = fs
        self.size, self.modified_ms, self.set_modified_ms = fs.size, fs.modified_ms, fs.set_modified_ms
        self.make_private_folder, self.require_private = fs.make_private_folder, fs.require_private
        self.empty, self.ownership, self.require_useful = fs.empty, fs.ownership, fs.require_useful
        self.rename, self.link, self.remove, self.remove_folder = fs.rename, fs.link, fs.remove, fs.remove_folder
        self.list, self.kind, self.read = fs.list, fs.kind, fs.read
        self.lock, self.broker_lock = fs.lock, fs.broker_lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fs!r})"


class OwnedFs(_Wrapped):
    """`fs`, on which new files and folders follow a pattern unless the caller asks for something else."""

    def __init__(self, fs: Fs, pattern: Pattern) -> None:
        super().__init__(fs)
        self._pattern = pattern
        self.sync_folder = fs.sync_folder

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        return self._fs.open(path, create=create, like=like or self._pattern.file)

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        return self._fs.create(path, like or self._pattern.file)

    def make_folder(self, path: str, like: Ownership | None = None) -> None:
        self._fs.make_folder(path, like or self._pattern.folder)

    def give(self, path: str, like: Ownership | None = None) -> None:
        self._fs.give(path, like or self._pattern.folder)


class UnsyncedFs(_Wrapped):
    """`fs` without its syncs."""

    def __init__(self, fs: Fs) -> None:
        super().__init__(fs)
        self.make_folder, self.give = fs.make_folder, fs.give

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        return _UnsyncedOpenFile(self._fs.open(path, create=create, like=like))

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        return _UnsyncedNewFile(self._fs.create(path, like))

    def sync_folder(self, path: str) -> None:
        """Later."""


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
