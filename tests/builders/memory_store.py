"""A store of byte strings, so that the product's own reading code runs on thousands of damaged images a second."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from kafkalog.errors import LimitExceeded, StorageError
from kafkalog.storage.store import Entry, Fingerprint, require_plain_name


class MemoryFile:
    """A file that is a byte string."""

    minimum_gap = 4096

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self.size = len(data)

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.path, self.size, 0)

    def read_into(self, position: int, target: memoryview) -> int:
        piece = self.data[position : position + len(target)]
        target[: len(piece)] = piece
        return len(piece)

    def read(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]

    def refresh(self) -> int:
        return self.size

    def fileno(self) -> int | None:
        return None

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        yield start, min(stop, self.size)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        pass


class MemoryStore:
    """Files by their full path; folders are whatever lies above a file."""

    requests_at_once = 1

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def list(self, folder: str) -> list[Entry]:
        front = folder.rstrip("/") + "/"
        names: dict[str, Entry] = {}
        for path, data in self.files.items():
            if path.startswith(front):
                name, _, below = path[len(front) :].partition("/")
                names[name] = Entry(name, "folder", 0, 0) if below else Entry(name, "file", len(data), 0)
        return [names[name] for name in sorted(names)]

    def stat(self, path: str) -> Entry | None:
        name = self.name(path)
        if path in self.files:
            return Entry(name, "file", len(self.files[path]), 0)
        return Entry(name, "folder", 0, 0) if self.list(path) else None

    def open(self, path: str) -> MemoryFile:
        if path not in self.files:
            raise StorageError(f"{path}: no such file", file=path)
        return MemoryFile(path, self.files[path])

    def read_small(self, path: str, limit: int) -> bytes:
        data = self.open(path).data
        if len(data) > limit:
            raise LimitExceeded("memory-limit", file=path, expected=f"at most {limit} bytes", found=f"{len(data)} bytes")
        return data

    def join(self, folder: str, name: str) -> str:
        return posixpath.join(folder, require_plain_name(folder, name))

    def parent(self, path: str) -> str:
        return posixpath.dirname(path)

    def name(self, path: str) -> str:
        return posixpath.basename(path)
