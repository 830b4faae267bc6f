"""A file system in memory that loses what a power cut may lose: the twin of `LocalFs` for tests.

A disk promises little. Bytes of a file are durable after the file was synced; before that any part of them may be missing or
zeros, and overwritten bytes may be old or new in part. Names in a folder are durable after the folder was synced; before that
each change of them may have happened or not, in any combination. `images` lists the states in which the disk may be found.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from kafkalog.errors import StorageError
from kafkalog.storage.fs import Buffer, NewFile, OpenFile, PathKind
from kafkalog.storage.ownership import ROOT, Ownership

SECTOR = 512
ALL_SUBSETS_UP_TO = 6  # changes of names; of more, every prefix, and each one left out
FILE_MODE, FOLDER_MODE, PRIVATE_MODE = 0o644, 0o755, 0o700  # of what root makes
ROOTS_FILE, ROOTS_FOLDER = Ownership(ROOT, ROOT, FILE_MODE), Ownership(ROOT, ROOT, FOLDER_MODE)
Files = dict[str, bytes]


@dataclass
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # bytes at a position, or None: cut or grown to there
    modified_ms: int = 0
    ownership: Ownership = ROOTS_FILE

    def change(self, position: int, data: bytes | None) -> None:
        self.pending.append((position, data))
        _change(self.content, position, data)

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.pending.clear()

    def found(self, fate: str) -> bytes:
        """The bytes after a power cut, for one fate of the pending writes."""
        if not self.pending or fate == "kept":
            return bytes(self.content)
        if fate == "lost":
            return self.durable
        if fate == "zeros":
            return self.durable[: len(self.content)].ljust(len(self.content), b"\0")
        return self._torn()

    def _torn(self) -> bytes:
        """The first half of the pending writes, and a part of the next one."""
        found = bytearray(self.durable)
        middle = len(self.pending) // 2
        for position, data in self.pending[:middle]:
            _change(found, position, data)
        position, data = self.pending[middle]
        if data is not None:
            _change(found, position, data[: len(data) // 2 // SECTOR * SECTOR + 1])
        return bytes(found)


def _change(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
    content.extend(bytes(max(0, position - len(content))))
    if data is not None:
        content[position : position + len(data)] = data


FATES = ("kept", "lost", "zeros", "torn")


@dataclass
class _Folder:
    names: dict[str, _File | _Folder] = field(default_factory=dict)
    durable: dict[str, _File | _Folder] = field(default_factory=dict)
    pending: list[dict[str, _File | _Folder | None]] = field(default_factory=list)
    ownership: Ownership = ROOTS_FOLDER

    def change(self, **changed: _File | _Folder | None) -> None:
        """Change names in one step; None removes the name."""
        self.pending.append(changed)
        _apply(self.names, changed)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def found(self) -> Iterator[dict[str, _File | _Folder]]:
        """The names after a power cut, in every possible combination."""
        for kept in _subsets(len(self.pending)):
            names = dict(self.durable)
            for number in kept:
                _apply(names, self.pending[number])
            yield names


def _apply(names: dict[str, _File | _Folder], changed: dict[str, _File | _Folder | None]) -> None:
    for name, entry in changed.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    everything = tuple(range(count))
    if count <= ALL_SUBSETS_UP_TO:
        for size in range(count + 1):
            yield from itertools.combinations(everything, size)
        return
    yield from (everything[:size] for size in range(count + 1))
    yield from (everything[:gone] + everything[gone + 1 :] for gone in range(count))


class _SimulatedOpenFile:
    def __init__(self, fs: SimulatedFs, file: _File, path: str) -> None:
        self.fs = fs
        self.file = file
        self.path = path

    @property
    def size(self) -> int:
        return len(self.file.content)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.file.content[position : position + size])

    def read_into(self, position: int, target: memoryview) -> int:
        data = self.read(position, len(target))
        target[: len(data)] = data
        return len(data)

    def write(self, position: int, data: Buffer) -> None:
        self.fs.step("write", self.path)
        self.file.change(position, bytes(data))

    def truncate(self, size: int) -> None:
        self.fs.step("truncate", self.path)
        self.file.change(size, None)

    def sync(self) -> None:
        if self.fs.step("sync", self.path):
            self.file.sync()

    def close(self) -> None:
        self.fs.step("close", self.path)


class _SimulatedNewFile:
    def __init__(self, file: _SimulatedOpenFile) -> None:
        self._file = file
        self.sync = file.sync
        self.close = file.close

    def write(self, data: Buffer) -> None:
        self._file.write(self._file.size, data)


class SimulatedFs:
    """Folders and files in memory, at first these, durable. `watch` is called before each step with its number, name and path.

    It may raise OSError in place of the step; if it returns False, a sync claims to be done and does nothing. The files at
    `undurable` were written without a sync. We write as root; the given files belong to `owner`.
    """

    def __init__(
        self,
        files: Files | None = None,
        watch: Callable[[int, str, str], bool | None] | None = None,
        undurable: Collection[str] = (),
        owner: int = ROOT,
    ) -> None:
        self.root = _Folder(ownership=Ownership(owner, owner, FOLDER_MODE))
        self._owner = owner
        self.steps = 0
        self.watch = watch
        for path, content in (files or {}).items():
            folder = self._make_all(os.path.dirname(path))
            file = _File(ownership=Ownership(owner, owner, FILE_MODE))
            file.change(0, content)
            if path not in undurable:
                file.sync()
            folder.names[os.path.basename(path)] = folder.durable[os.path.basename(path)] = file

    def __repr__(self) -> str:
        return f"SimulatedFs(files={len(self.files())}, steps={self.steps})"

    def _make_all(self, path: str) -> _Folder:
        folder = self.root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            if name not in folder.names:
                there = _Folder(ownership=Ownership(self._owner, self._owner, FOLDER_MODE))
                folder.names[name] = folder.durable[name] = there
            below = folder.names[name]
            assert isinstance(below, _Folder)
            folder = below
        return folder

    def step(self, action: str, path: str) -> bool:
        self.steps += 1
        return self.watch is None or self.watch(self.steps, action, path) is not False

    def _find(self, path: str) -> _File | _Folder | None:
        entry: _File | _Folder | None = self.root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            entry = entry.names.get(name) if isinstance(entry, _Folder) else None
        return entry

    def _folder(self, path: str) -> _Folder:
        entry = self._find(path)
        if not isinstance(entry, _Folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry

    def _entry(self, path: str) -> _File | _Folder:
        entry = self._find(path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry

    def _file(self, path: str) -> _File:
        entry = self._entry(path)
        assert isinstance(entry, _File)
        return entry

    def _add(self, path: str, entry: _File | _Folder) -> None:
        if self._find(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._folder(os.path.dirname(path)).change(**{os.path.basename(path): entry})

    def _new(self, path: str, mode: int, like: Ownership | None) -> Ownership:
        """The owner of something new, durable with its name: journals keep the order of changes to one file."""
        above = self._folder(os.path.dirname(path)).ownership
        wanted = like or above._replace(mode=None)
        return wanted if wanted.mode is not None else wanted._replace(mode=mode)

    def create(self, path: str, like: Ownership | None = None) -> NewFile:
        self.step("create", path)
        file = _File(ownership=self._new(path, FILE_MODE, like))
        self._add(path, file)
        return _SimulatedNewFile(_SimulatedOpenFile(self, file, path))

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        if create and self._find(path) is None:
            self.create(path, like)
        return _SimulatedOpenFile(self, self._file(path), path)

    def size(self, path: str) -> int:
        return len(self._file(path).content)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def make_folder(self, path: str, like: Ownership | None = None) -> None:
        self.step("make_folder", path)
        self._add(path, _Folder(ownership=self._new(path, FOLDER_MODE, like)))

    def make_private_folder(self, path: str) -> None:
        self.make_folder(path, Ownership(ROOT, ROOT, PRIVATE_MODE))

    def require_private(self, path: str) -> None:
        if self._folder(path).ownership.user != ROOT:
            raise StorageError(f"{path}: belongs to somebody else")

    def give(self, path: str, like: Ownership | None = None) -> None:
        self.step("give", path)
        self._folder(path).ownership = self._new(path, FOLDER_MODE, like)

    def empty(self, path: str) -> None:
        for name in self.list(path):
            self.remove(os.path.join(path, name))

    def ownership(self, path: str) -> Ownership:
        return self._entry(path).ownership

    def require_useful(self, folder: str) -> None:
        """Root can give its files away."""

    def rename(self, old: str, new: str) -> None:
        self.step("rename", new)
        assert os.path.dirname(old) == os.path.dirname(new), "a rename between folders is not one step on every disk"
        there = self._find(new)
        if isinstance(there, _Folder) and there.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        names = {os.path.basename(old): None, os.path.basename(new): self._entry(old)}
        self._folder(os.path.dirname(old)).change(**names)

    def link(self, old: str, new: str) -> None:
        self.step("link", new)
        self._add(new, self._entry(old))

    def remove(self, path: str) -> None:
        self.step("remove", path)
        self._entry(path)
        self._folder(os.path.dirname(path)).change(**{os.path.basename(path): None})

    def remove_folder(self, path: str) -> None:
        self.step("remove_folder", path)
        if self._folder(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._folder(os.path.dirname(path)).change(**{os.path.basename(path): None})

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        if self.step("sync_folder", path):
            folder.sync()

    def list(self, path: str) -> list[str]:
        return sorted(self._folder(path).names)

    def kind(self, path: str) -> PathKind:
        entry = self._find(path)
        if entry is None:
            return "missing"
        return "folder" if isinstance(entry, _Folder) else "file"

    def read(self, path: str, position: int, size: int) -> bytes:
        return bytes(self._file(path).content[position : position + size])

    @contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        self._folder(folder)
        yield

    def broker_lock(self, log_directory: str) -> AbstractContextManager[None]:
        return self.lock(log_directory)

    def files(self) -> Files:
        """Every file as a running program sees it."""
        return dict(_walk("", self.root, lambda folder: folder.names, "kept"))

    def owners(self) -> dict[str, Ownership]:
        """The owner of every file and folder, as a running program sees it."""
        return dict(_walk_owners("", self.root))

    def images(self, every: int = 1, first: int = 0) -> Iterator[Files]:
        """Every state in which the files may be found after a power cut now, as far as this model distinguishes them.

        Of many, every `every`-th from `first` on: neighbours are similar.
        """
        for number, (names, fate) in enumerate(itertools.product(_choices(self.root), FATES)):
            if number >= first and (number - first) % every == 0:
                yield dict(_walk("", self.root, lambda folder, names=names: names[id(folder)], fate))  # type: ignore[misc]


def _walk(
    path: str, folder: _Folder, names_of: Callable[[_Folder], dict[str, _File | _Folder]], fate: str
) -> Iterator[tuple[str, bytes]]:
    for name, entry in names_of(folder).items():
        if isinstance(entry, _File):
            yield f"{path}/{name}", entry.found(fate)
        else:
            yield from _walk(f"{path}/{name}", entry, names_of, fate)


def _walk_owners(path: str, folder: _Folder) -> Iterator[tuple[str, Ownership]]:
    for name, entry in folder.names.items():
        yield f"{path}/{name}", entry.ownership
        if isinstance(entry, _Folder):
            yield from _walk_owners(f"{path}/{name}", entry)


def _choices(root: _Folder) -> Iterator[dict[int, dict[str, _File | _Folder]]]:
    """Each combination of names in which the folders may be found, by folder."""
    folders = list(_all_folders(root, set()))
    for found in itertools.product(*(list(folder.found()) for folder in folders)):
        yield {id(folder): names for folder, names in zip(folders, found, strict=True)}


def _all_folders(folder: _Folder, seen: set[int]) -> Iterator[_Folder]:
    """All folders, also those whose name is gone or not yet durable."""
    if id(folder) in seen:
        return
    seen.add(id(folder))
    yield folder
    for entry in [*folder.names.values(), *folder.durable.values(), *(e for change in folder.pending for e in change.values())]:
        if isinstance(entry, _Folder):
            yield from _all_folders(entry, seen)
