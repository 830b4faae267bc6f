"""The reading interface of all storage: a `Store` lists folders and opens files, a `ByteSource` reads one file at any position.

Only its store parses a path: an absolute path for local files, `s3://bucket/key` for object stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, Self

from kafkalog.errors import LimitExceeded, StorageError

Kind = Literal["file", "folder", "other"]


LINKED_FOLDER = "a symbolic link to a folder, which is not followed inside a log folder; give its target as the path"

# For checkpoints, snapshots and the like: no broker writes larger ones, and a sparse file of any size is easily made.
SMALL_FILE = 64 << 20
SHOWN_LETTERS = 120  # of a path, where an object shows itself


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder. `problem` says why it cannot be read as what its name promises, and is empty otherwise.

    `disk_size` is the size of its blocks, less than `size` if it is sparse; None where storage does not report it.
    `inode` distinguishes a file from one that replaced it with the same name, size and time; 0 if unknown.
    """

    name: str
    kind: Kind
    size: int
    mtime_ns: int
    problem: str = ""
    disk_size: int | None = field(default=None, compare=False, repr=False)
    inode: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Equal fingerprints of a path mean the same bytes, as far as storage can know without reading them."""

    identity: str
    size: int
    mtime_ns: int


class ByteSource(Protocol):
    """One file open for reading. Reads are positional and may come from many threads at once."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes in the file when it was opened or last refreshed; nothing after them is read."""
        ...

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def minimum_gap(self) -> int:
        """The largest gap between two ranges that is cheaper to read than to skip."""
        ...

    def read_into(self, position: int, target: memoryview) -> int:
        """Bytes put into `target`: fewer than it holds only at `size`. SegmentChanged if the file has shrunk."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """The bytes at `position`, fewer than `size` only where the file ends."""
        ...

    def refresh(self) -> int:
        """The size of a file that may have grown since; SegmentChanged if it shrank or was replaced."""
        ...

    def fileno(self) -> int | None:
        """The file descriptor of a local file, else None."""
        ...

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of `start..stop` that are not holes of a sparse file, ascending; holes read as zeros."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    """A place of folders and files, for reading."""

    @property
    def requests_at_once(self) -> int:
        """How many requests are worth making at the same time: 1 where a request does not wait."""
        ...

    def list(self, folder: str) -> list[Entry]:
        """Everything in the folder, sorted by name; an entry that cannot be examined carries its `problem`.

        The entries existed at the same time: if a name vanishes while files are renamed, the folder is listed again.
        """
        ...

    def stat(self, path: str) -> Entry | None:
        """The entry at `path`, or None if nothing is there."""
        ...

    def open(self, path: str) -> ByteSource: ...

    def read_small(self, path: str, limit: int) -> bytes:
        """The whole file; LimitExceeded if it has more than `limit` bytes."""
        ...

    def join(self, folder: str, name: str) -> str:
        """The path of `name` in `folder`; StorageError for a name that could lead anywhere else."""
        ...

    def parent(self, path: str) -> str: ...

    def name(self, path: str) -> str: ...


class OpenedSource:
    """The part of a `ByteSource` that local files and objects share."""

    _path: str
    _fingerprint: Fingerprint

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._fingerprint.size

    @property
    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def read_into(self, position: int, target: memoryview) -> int:
        raise NotImplementedError

    def read(self, position: int, size: int) -> bytes:
        target = bytearray(min(max(size, 0), max(self.size - position, 0)))
        self.read_into(position, memoryview(target))
        return bytes(target)

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def read_whole(source: ByteSource, limit: int) -> bytes:
    """All bytes of a file; LimitExceeded if it has more than `limit`."""
    require_size(source.path, source.size, limit)
    return source.read(0, source.size)


def require_size(path: str, size: int, limit: int) -> None:
    """LimitExceeded if a file that is read at once has more than `limit` bytes."""
    if size > limit:
        raise LimitExceeded("memory-limit", file=path, expected=f"at most {limit} bytes", found=f"{size} bytes")


def short_repr(path: str) -> str:
    """The path quoted for a `repr`; of a long one the end, which tells more."""
    return repr(path if len(path) <= SHOWN_LETTERS else f"…{path[1 - SHOWN_LETTERS :]}")


def is_plain_name(name: str) -> bool:
    """True if the name stays in its folder: no separator, no NUL, not empty, not `.` or `..`."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def require_plain_name(folder: str, name: str) -> str:
    if not is_plain_name(name):
        raise StorageError(f"{folder}: {name!r} is not the name of a file in this folder", file=folder)
    return name
