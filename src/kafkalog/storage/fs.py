"""The steps that writing is made of, as one small interface with two implementations.

`LocalFs` is the real one. `simulated.SimulatedFs` keeps what a disk would keep, so that tests can cut its power after every step.
Nothing here is durable by itself. `publish.py` puts the steps in the order that survives a crash, for files that appear as a
whole; the partition log (`log/engine`) does so for files that grow, by Kafka's own rules of what recovery can make whole again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from .lock import broker_lock

PathKind = Literal["file", "folder", "other", "missing"]
Buffer = bytes | bytearray | memoryview

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CHANGED_FILE = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NewFile(Protocol):
    """A file that did not exist before."""

    def write(self, data: Buffer) -> None:
        """All of `data`, behind what was written before."""
        ...

    def sync(self) -> None:
        """Make what was written durable. After an error nobody knows what is on the disk, so it is never called again."""
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
        """How many bytes were put into `target`: less than it holds only at the end of the file."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """All of `data`, over what is there or behind it."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or let it grow with zeros."""
        ...

    def sync(self) -> None:
        """Make what was written durable. After an error nobody knows what is on the disk, so it is never called again."""
        ...

    def close(self) -> None: ...


class Fs(Protocol):
    """A file system for writing. Everything raises OSError."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """The file at `path` for changes in place; FileNotFoundError if there is none, unless it may be made."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def create(self, path: str) -> NewFile:
        """A new file; FileExistsError if there is anything at `path`."""
        ...

    def make_folder(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """In one step, within one folder: a file takes the place of another, a folder only that of nothing or an empty one."""
        ...

    def link(self, old: str, new: str) -> None:
        """A second name for a file, in the same folder."""
        ...

    def remove(self, path: str) -> None:
        """A file's name."""
        ...

    def remove_folder(self, path: str) -> None:
        """An empty folder."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""
        ...

    def list(self, path: str) -> list[str]: ...

    def kind(self, path: str) -> PathKind: ...

    def read(self, path: str, position: int, size: int) -> bytes:
        """Up to `size` bytes of a file, to hold what is there against what would be written."""
        ...

    def lock(self, folder: str) -> AbstractContextManager[None]:
        """Hold a folder against every other writer of this kind; BlockingIOError if another one has it."""
        ...

    def broker_lock(self, log_directory: str) -> AbstractContextManager[None]:
        """Hold a log directory against brokers; StorageError if one is running there."""
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


class _LocalNewFile(_LocalFile):
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
    """The file system of this machine."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        return _LocalOpenFile(os.open(path, _CHANGED_FILE | (os.O_CREAT if create else 0), 0o666))

    def size(self, path: str) -> int:
        return os.lstat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.lstat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000), follow_symlinks=False)

    def create(self, path: str) -> NewFile:
        return _LocalNewFile(os.open(path, _NEW_FILE, 0o666))

    def make_folder(self, path: str) -> None:
        os.mkdir(path)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def link(self, old: str, new: str) -> None:
        os.link(old, new, follow_symlinks=False)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(path, _FOLDER)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def kind(self, path: str) -> PathKind:
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        if stat.S_ISREG(mode):
            return "file"
        return "folder" if stat.S_ISDIR(mode) else "other"

    def read(self, path: str, position: int, size: int) -> bytes:
        descriptor = os.open(path, _OLD_FILE)
        try:
            return os.pread(descriptor, size, position)
        finally:
            os.close(descriptor)

    @contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        """The lock goes with the process, so one that was killed holds nothing."""
        descriptor = os.open(folder, _FOLDER)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), os.lstat(folder)):  # published or removed while we came
                raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), folder)
            yield
        finally:
            os.close(descriptor)

    def broker_lock(self, log_directory: str) -> AbstractContextManager[None]:
        return broker_lock(log_directory)
