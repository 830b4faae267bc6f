"""The steps that writing consists of, as one small interface with two implementations.

`LocalFs` is the real one. The tests have one that keeps what a disk would keep, so that they can cut its power after every step.
Nothing here is durable by itself. `publish.py` puts the steps in the order that survives a crash, for files that appear whole;
the partition log (`engine`) does so for files that grow, by Kafka's own rules of what recovery can repair.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from kafkalog.errors import StorageError

from .lock import broker_lock
from .ownership import (
    NEW_FILE,
    Ownership,
    give_folder,
    make_file,
    make_folder,
    may_give,
    owner_of_new,
    ownership_of,
    problem_of_new_files,
)
from .store import SMALL_FILE, require_size
from .unfinished import OPEN_FOLDER, UNFINISHED_MODE, empty_folder, require_unfinished

PathKind = Literal["file", "folder", "other", "missing"]
Buffer = bytes | bytearray | memoryview

Made = TypeVar("Made")

_OLD_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CHANGED_FILE = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLLOWED_FOLDER = OPEN_FOLDER & ~os.O_NOFOLLOW


class NewFile(Protocol):
    """A file that did not exist before."""

    def write(self, data: Buffer) -> None:
        """Append all of `data`."""
        ...

    def sync(self) -> None:
        """Make the written bytes durable. After an error the content of the disk is unknown, so it is never called again."""
        ...

    def close(self) -> None: ...


class OpenFile(Protocol):
    """A file that is read and changed in place."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes: fewer only at the end of the file."""
        ...

    def read_into(self, position: int, target: memoryview) -> int:
        """The number of bytes put into `target`: fewer than it holds only at the end of the file."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data`, over what is there or past the end."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        ...

    def sync(self) -> None:
        """Make the written bytes durable. After an error the content of the disk is unknown, so it is never called again."""
        ...

    def close(self) -> None: ...


class Fs(Protocol):
    """A file system for writing. Everything raises OSError.

    A new file or folder belongs to the owner of its folder, where we can arrange that, or is as `like` says, from the moment it
    has its name.
    """

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        """The file at `path` for changes in place; FileNotFoundError if there is none, unless `create` is given."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        """A new file; FileExistsError if there is anything at `path`."""
        ...

    def make_folder(self, path: str, like: Ownership | None = None) -> None: ...

    def make_private_folder(self, path: str) -> None:
        """Make a folder for unfinished work, closed to everybody else until `give`."""
        ...

    def require_private(self, path: str) -> None:
        """StorageError if the folder, which is locked, is not ours, or others may write to it."""
        ...

    def give(self, path: str, like: Ownership | None = None) -> None:
        """Give a private folder, which is locked, the owner and mode that a new one in its place would have."""
        ...

    def empty(self, path: str) -> None:
        """Remove everything in a folder, which is locked."""
        ...

    def ownership(self, path: str) -> Ownership: ...

    def require_useful(self, folder: str) -> None:
        """StorageError if we cannot make files in a folder, or its owner could not use the files that we make."""
        ...

    def rename(self, old: str, new: str) -> None:
        """In one step, within one folder: a file may replace another, a folder only an empty one."""
        ...

    def link(self, old: str, new: str) -> None:
        """A second name for a file, in the same folder."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""
        ...

    def list(self, path: str) -> list[str]: ...

    def kind(self, path: str) -> PathKind: ...

    def read(self, path: str, position: int, size: int) -> bytes:
        """Up to `size` bytes of a file, to compare them with what would be written."""
        ...

    def lock(self, folder: str) -> AbstractContextManager[None]:
        """Lock a folder against other writers of this kind; BlockingIOError if one has it."""
        ...

    def broker_lock(self, log_directory: str) -> AbstractContextManager[None]:
        """Lock a log directory against brokers; StorageError if one is running there."""
        ...


class _LocalFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LocalNewFile(_LocalFile):
    """A new file of this machine."""

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Buffer) -> None:
        remaining = memoryview(data).cast("B")
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]


class _LocalOpenFile(_LocalFile):
    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        while len(data) < size and (more := os.pread(self._descriptor, size - len(data), position + len(data))):
            data += more
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        have = 0
        while have < len(target) and (more := os.preadv(self._descriptor, [target[have:]], position + have)):
            have += more
        return have

    def write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        remaining = memoryview(data).cast("B")[written:]
        while remaining:
            position += written
            written = os.pwrite(self._descriptor, remaining, position)
            remaining = remaining[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)


class LocalFs:
    """The file system of this machine. In a locked folder, names are those of that folder, wherever its path leads now."""

    def __repr__(self) -> str:
        return "LocalFs()"

    @cached_property
    def _held(self) -> dict[str, int]:
        return {}

    def _at(self, path: str) -> tuple[str, int | None]:
        """(a name, the descriptor of its folder); a path and None where that folder is not locked."""
        folder, name = os.path.split(path)
        held = self._held.get(folder)
        return (path, None) if held is None else (name, held)

    @contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder, locked or not."""
        held = self._held.get(path)
        descriptor = os.open(path or ".", _FOLLOWED_FOLDER) if held is None else held
        try:
            yield descriptor
        finally:
            if held is None:
                os.close(descriptor)

    def _owner(self, path: str, like: Ownership | None) -> Ownership | None:
        """The owner that a new file or folder at `path` has to be given to."""
        if like is None and not may_give():
            return None
        folder = os.path.dirname(path) or "."
        return owner_of_new(ownership_of(os.stat(self._held.get(folder, folder))), like)

    def _make(self, path: str, owner: Ownership, make: Callable[[str, int, Ownership], Made]) -> Made:
        with self._folder(os.path.dirname(path)) as folder:
            return make(os.path.basename(path), folder, owner)

    def _make_file(self, path: str, like: Ownership | None) -> int:
        owner = self._owner(path, like)
        if owner is not None:
            return self._make(path, owner, make_file)
        name, at = self._at(path)
        return os.open(name, NEW_FILE, 0o666, dir_fd=at)

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        name, at = self._at(path)
        if create:
            with suppress(FileExistsError):
                return _LocalOpenFile(self._make_file(path, like))
        return _LocalOpenFile(os.open(name, _CHANGED_FILE, dir_fd=at))

    def size(self, path: str) -> int:
        return self._status(path).st_size

    def modified_ms(self, path: str) -> int:
        return self._status(path).st_mtime_ns // 1_000_000

    def _status(self, path: str) -> os.stat_result:
        name, at = self._at(path)
        return os.lstat(name, dir_fd=at)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        name, at = self._at(path)
        os.utime(name, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000), dir_fd=at, follow_symlinks=False)

    def create(self, path: str, like: Ownership | None = None) -> LocalNewFile:
        return LocalNewFile(self._make_file(path, like))

    def make_folder(self, path: str, like: Ownership | None = None) -> None:
        owner = self._owner(path, like)
        if owner is not None:
            self._make(path, owner, make_folder)
            return
        name, at = self._at(path)
        os.mkdir(name, dir_fd=at)

    def make_private_folder(self, path: str) -> None:
        name, at = self._at(path)
        os.mkdir(name, UNFINISHED_MODE, dir_fd=at)

    def require_private(self, path: str) -> None:
        folder = os.path.dirname(path) or "."
        require_unfinished(self._held[path], os.stat(self._held.get(folder, folder)), path)

    def give(self, path: str, like: Ownership | None = None) -> None:
        owner = self._owner(path, like) or Ownership(os.geteuid(), os.getegid())
        give_folder(self._held[path], owner)

    def empty(self, path: str) -> None:
        empty_folder(self._held[path])

    def ownership(self, path: str) -> Ownership:
        return ownership_of(self._status(path))

    def require_useful(self, folder: str) -> None:
        if problem := problem_of_new_files(folder):
            raise StorageError(f"{folder}: {problem}", file=folder)

    def rename(self, old: str, new: str) -> None:
        (old_name, old_at), (new_name, new_at) = self._at(old), self._at(new)
        os.rename(old_name, new_name, src_dir_fd=old_at, dst_dir_fd=new_at)

    def link(self, old: str, new: str) -> None:
        (old_name, old_at), (new_name, new_at) = self._at(old), self._at(new)
        os.link(old_name, new_name, src_dir_fd=old_at, dst_dir_fd=new_at, follow_symlinks=False)

    def remove(self, path: str) -> None:
        name, at = self._at(path)
        os.unlink(name, dir_fd=at)

    def remove_folder(self, path: str) -> None:
        name, at = self._at(path)
        os.rmdir(name, dir_fd=at)

    def sync_folder(self, path: str) -> None:
        with self._folder(path) as descriptor:
            os.fsync(descriptor)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(self._held.get(path, path)))

    def kind(self, path: str) -> PathKind:
        try:
            mode = self._status(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        if stat.S_ISREG(mode):
            return "file"
        return "folder" if stat.S_ISDIR(mode) else "other"

    def read(self, path: str, position: int, size: int) -> bytes:
        name, at = self._at(path)
        descriptor = os.open(name, _OLD_FILE, dir_fd=at)
        try:
            return os.pread(descriptor, size, position)
        finally:
            os.close(descriptor)

    @contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        """The lock ends with its process, so a killed one holds nothing."""
        name, at = self._at(folder)
        descriptor = os.open(name, OPEN_FOLDER, dir_fd=at)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), self._status(folder)):  # published or removed since
                raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), folder)
            with self._holding(folder, descriptor):
                yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _holding(self, folder: str, descriptor: int) -> Iterator[None]:
        before = self._held.get(folder)
        self._held[folder] = descriptor
        try:
            yield
        finally:
            if before is None:
                del self._held[folder]
            else:
                self._held[folder] = before

    @contextmanager
    def broker_lock(self, log_directory: str) -> Iterator[None]:
        with broker_lock(log_directory), self._folder(log_directory) as descriptor, self._holding(log_directory, descriptor):
            yield


def read_small(fs: Fs, path: str) -> bytes:
    """The content of a small file; LimitExceeded if it is too large to read at once."""
    size = fs.size(path)
    require_size(path, size, SMALL_FILE)
    return fs.read(path, 0, size)
