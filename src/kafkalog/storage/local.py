"""Local files: positional reads without mmap, and a store that no symbolic link leads out of.

The path that the user gave may be a symbolic link or contain some. Below it none is followed, so a log folder from an untrusted
place shows only its own files; FIFOs, sockets and devices are refused before a read could block on them. `PatchedSource`
continues after sectors that the disk cannot read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kafkalog.errors import SegmentChanged, StorageError, UnsupportedFormat

from .failures import read_error
from .store import (
    LINKED_FOLDER,
    ByteSource,
    Entry,
    Fingerprint,
    Kind,
    OpenedSource,
    is_plain_name,
    read_whole,
    require_plain_name,
    short_repr,
)

# One page: the kernel reads whole pages, so a smaller gap costs nothing to read through.
MINIMUM_GAP = 4096
# A cleaner removes segments and renames the new one into place within moments; a listing in between would miss their records.
LISTING_TRIES = 100
# Names that the kernel returns in one call, which no rename can split.
LISTED_AT_ONCE = 400
SECTOR_BYTES = 4096  # what a disk fails in
BLOCK = 512  # the unit of st_blocks, whatever the file system's own is

# O_NONBLOCK: opening a FIFO for reading otherwise waits for a writer, forever.
_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# O_PATH needs only the search permission of a folder, as a plain path would.
_OPEN_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LIST_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC


def _kind_of(mode: int) -> tuple[Kind, str]:
    if stat.S_ISREG(mode):
        return "file", ""
    if stat.S_ISDIR(mode):
        return "folder", ""
    if stat.S_ISLNK(mode):
        return "other", "a symbolic link, which is not followed inside a log folder; give its target as the path"
    if stat.S_ISFIFO(mode):
        return "other", "a FIFO"
    if stat.S_ISSOCK(mode):
        return "other", "a socket"
    return "other", "a device"


def _entry(name: str, status: os.stat_result) -> Entry:
    kind, problem = _kind_of(status.st_mode)
    size = status.st_size if kind == "file" else 0
    return Entry(name, kind, size, status.st_mtime_ns, problem, status.st_blocks * BLOCK, status.st_ino)


class LocalFile(OpenedSource):
    """A regular file, open for reading by position."""

    minimum_gap = MINIMUM_GAP

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self._path = path
        self._descriptor = descriptor
        self._fingerprint = _fingerprint(status)

    def __repr__(self) -> str:
        return f"LocalFile({short_repr(self._path)}, {self.size} bytes{', closed' if self._descriptor < 0 else ''})"

    def fileno(self) -> int | None:
        return self._descriptor

    def read_into(self, position: int, target: memoryview) -> int:
        wanted = min(len(target), max(self.size - position, 0))
        done = 0
        while done < wanted:
            try:
                count = os.preadv(self._descriptor, [target[done:wanted]], position + done)
            except OSError as error:
                action = f"reading {wanted - done} bytes at byte {position + done} failed"
                raise read_error(self._path, action, error) from error
            if count == 0:
                raise self._shrunk(position + done)
            done += count
        return done

    def refresh(self) -> int:
        now = _fingerprint(self._status())
        if now.size < self.size:
            raise self._shrunk(now.size)
        self._fingerprint = now
        return now.size

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        stop = min(stop, self.size)
        while start < stop:
            try:
                data = os.lseek(self._descriptor, start, os.SEEK_DATA)
                hole = os.lseek(self._descriptor, data, os.SEEK_HOLE) if data < stop else stop
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole up to the end of the file
                    return
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    raise read_error(self._path, f"looking for holes from byte {start} failed", error) from error
                data, hole = start, stop
            if data >= stop:
                return
            yield data, min(hole, stop)
            start = hole

    def again(self) -> LocalFile:
        """The same file with a descriptor of its own."""
        return LocalFile(self._path, os.dup(self._descriptor), self._status())

    def entry(self) -> Entry:
        """The entry of the open file, whatever has its name now."""
        return _entry(os.path.basename(self._path), self._status())

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _status(self) -> os.stat_result:
        try:
            return os.fstat(self._descriptor)
        except OSError as error:
            raise read_error(self._path, "asking for the size failed", error) from error

    def _shrunk(self, position: int) -> SegmentChanged:
        found = self._status().st_size
        expected = f"{self.size} bytes"
        return SegmentChanged("changed", file=self._path, position=position, expected=expected, found=f"{found} bytes")


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return Fingerprint(f"{status.st_dev}:{status.st_ino}", status.st_size, status.st_mtime_ns)


class LocalStore:
    """Local folders and files. `start` is the path that the user gave; symbolic links are followed only up to there."""

    requests_at_once = 1

    def __init__(self, start: str) -> None:
        self._start = start

    def __repr__(self) -> str:
        return f"{type(self).__name__}({short_repr(self._start)})"

    def list(self, folder: str) -> list[Entry]:
        for _ in range(LISTING_TRIES):
            descriptor = self._open(folder, _LIST_FOLDER)
            try:
                entries = _list_once(descriptor)
            except OSError as error:
                raise read_error(folder, "listing the folder failed", error) from error
            finally:
                os.close(descriptor)
            if entries is not None:
                return sorted(entries, key=lambda entry: entry.name)
        raise StorageError(f"{folder}: files change faster than they can be listed; try again", file=folder)

    def stat(self, path: str) -> Entry | None:
        try:
            if self._is_given(path):
                return _entry(self.name(path), os.stat(path))
            folder = self._open_parent(path)
            try:
                return _entry(self.name(path), os.stat(self.name(path), dir_fd=folder, follow_symlinks=False))
            finally:
                os.close(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except StorageError:
            raise
        except (OSError, ValueError) as error:
            raise read_error(path, "looking it up failed", error) from error

    def open(self, path: str) -> LocalFile:
        descriptor = self._open(path, _OPEN_FILE)
        try:
            status = os.fstat(descriptor)
            _require_kind(path, status.st_mode, "file")
        except OSError as error:
            os.close(descriptor)
            raise read_error(path, "opening failed", error) from error
        except UnsupportedFormat:
            os.close(descriptor)
            raise
        return LocalFile(path, descriptor, status)

    def read_small(self, path: str, limit: int) -> bytes:
        with self.open(path) as source:
            return read_whole(source, limit)

    def join(self, folder: str, name: str) -> str:
        return os.path.join(folder, require_plain_name(folder, name))

    def parent(self, path: str) -> str:
        return os.path.dirname(path)

    def name(self, path: str) -> str:
        return os.path.basename(path)

    def _is_given(self, path: str) -> bool:
        """True for the path that the user gave and the folders above it: symbolic links there are the user's own."""
        return path == self._start or self._start.startswith(path.rstrip("/") + "/")

    def _open(self, path: str, flags: int) -> int:
        """A descriptor of `path` that no symbolic link below `start` led to."""
        wanted: Kind = "folder" if flags & os.O_DIRECTORY else "file"
        try:
            if self._is_given(path):
                _require_kind(path, os.stat(path).st_mode, wanted)
                return os.open(path, flags)
            folder = self._open_parent(path)
            try:
                # Checked before the open as well: opening a device can already have an effect.
                _require_kind(path, os.stat(self.name(path), dir_fd=folder, follow_symlinks=False).st_mode, wanted)
                return os.open(self.name(path), flags | os.O_NOFOLLOW, dir_fd=folder)
            finally:
                os.close(folder)
        except StorageError:
            raise
        except (OSError, ValueError) as error:
            raise read_error(path, "opening failed", error) from error

    def _open_parent(self, path: str) -> int:
        """A descriptor of the folder of `path`; below `start` walked name by name, since O_NOFOLLOW guards only the last one."""
        folder = self.parent(path)
        if folder != self._start and not folder.startswith(self._start.rstrip("/") + "/"):
            return os.open(folder, _OPEN_FOLDER)
        descriptor = os.open(self._start, _OPEN_FOLDER)
        walked = self._start
        for name in folder[len(self._start) :].split("/"):
            if not name:
                continue
            walked = os.path.join(walked, name)
            try:
                if not is_plain_name(name):
                    raise StorageError(f"{path}: {name!r} leads out of {self._start}", file=path)
                # The kernel calls a symbolic link here "not a directory", which would hide what it is.
                _require_kind(walked, os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode, "folder")
                below = os.open(name, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor


class HeldStore(LocalStore):
    """The store with some files already open: they are read as they are, whatever gets their names meanwhile."""

    def __init__(self, below: LocalStore, held: Mapping[str, LocalFile]) -> None:
        super().__init__(below._start)
        self.held = held

    def open(self, path: str) -> LocalFile:
        return self.held[path].again() if path in self.held else super().open(path)


def _require_kind(path: str, mode: int, wanted: Kind) -> None:
    """UnsupportedFormat if `path` is special or a folder where a file is wanted; NotADirectoryError if it is a plain file."""
    kind, problem = _kind_of(mode)
    if kind == "file" and wanted == "folder":
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if kind != wanted:
        raise UnsupportedFormat("not-a-file", file=path, detail=problem or "a folder")


def _list_once(descriptor: int) -> list[Entry] | None:
    """The entries of a folder; None if a name appeared or vanished meanwhile."""
    with os.scandir(descriptor) as found:
        entries = [_examine(item) for item in found]
    present = [entry for entry in entries if entry is not None]
    if len(present) < len(entries):
        return None
    if len(present) >= LISTED_AT_ONCE and {entry.name for entry in present} != set(os.listdir(descriptor)):
        return None
    return present


def _examine(item: os.DirEntry[str]) -> Entry | None:
    """The entry, or None if it vanished since the listing began: a broker deletes old segments at any moment."""
    try:
        entry = _entry(item.name, item.stat(follow_symlinks=False))
        return replace(entry, problem=LINKED_FOLDER) if item.is_symlink() and item.is_dir() else entry
    except FileNotFoundError:
        return None
    except OSError as error:
        return Entry(item.name, _listed_kind(item), 0, 0, problem=os.strerror(error.errno or 0))


def _listed_kind(item: os.DirEntry[str]) -> Kind:
    """The kind that the listing itself reports, for an entry that cannot be examined."""
    try:
        return "file" if item.is_file(follow_symlinks=False) else "folder" if item.is_dir(follow_symlinks=False) else "other"
    except OSError:
        return "other"


class PatchedSource(OpenedSource):
    """A source with zeros where `source` fails with an I/O error; `on_failure(position, size)` is called once for each place."""

    def __init__(self, source: ByteSource, on_failure: Callable[[int, int], None]) -> None:
        self._source = source
        self._path = source.path
        self._on_failure = on_failure
        self._failed: set[int] = set()

    def __repr__(self) -> str:
        return f"PatchedSource({self._source!r}, unreadable={len(self._failed)})"

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def fingerprint(self) -> Fingerprint:
        return self._source.fingerprint

    @property
    def minimum_gap(self) -> int:
        return self._source.minimum_gap

    def read_into(self, position: int, target: memoryview) -> int:
        try:
            return self._source.read_into(position, target)
        except StorageError as error:
            if error.errno != errno.EIO:
                raise
        return self._read_in_steps(position, target)

    def _read_in_steps(self, position: int, target: memoryview) -> int:
        """Fill `target` piece by piece, along the 4 KiB boundaries that a disk fails in."""
        done = 0
        while done < len(target) and position + done < self.size:
            here = position + done
            size = min(SECTOR_BYTES - here % SECTOR_BYTES, len(target) - done, self.size - here)
            try:
                done += self._source.read_into(here, target[done : done + size])
            except StorageError as error:
                if error.errno != errno.EIO:
                    raise
                target[done : done + size] = bytes(size)
                done += size
                self._note(here - here % SECTOR_BYTES)
        return done

    def _note(self, start: int) -> None:
        if start not in self._failed:
            self._failed.add(start)
            self._on_failure(start, min(SECTOR_BYTES, self.size - start))

    def refresh(self) -> int:
        return self._source.refresh()

    def fileno(self) -> int | None:
        """None, so that every read passes through here."""
        return None

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return self._source.data_ranges(start, stop)

    def close(self) -> None:
        self._source.close()
