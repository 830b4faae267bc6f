"""The content of a source: its bytes, counted and digested while they are read, so that it is known again by what it holds."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from typing import Any, BinaryIO

BLOCK = 1 << 20


class Content:
    """What was read of a source so far. `marks` are sizes at which its digest is wanted too; `digests` has them by size."""

    def __init__(self, marks: Iterable[int] = ()) -> None:
        self.size = 0
        self.position = 0  # how far its records were read; Parquet is digested only when all of them were
        self.records = 0
        self.digests: dict[int, str] = {}
        self._marks = sorted(set(marks))
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def update(self, data: memoryview) -> None:
        while self._marks and self._marks[0] <= self.size + len(data):
            mark = self._marks.pop(0)
            wanted = mark - self.size
            self._add(data[:wanted])
            self.digests[mark] = self.digest
            data = data[wanted:]
        self._add(data)

    def _add(self, data: memoryview) -> None:
        self._hash.update(data)
        self.size += len(data)
        self.position = max(self.position, self.size)

    def read_from(self, path: str, size: int | None = None) -> None:
        """Take in a file, or as many bytes of it."""
        buffer = memoryview(bytearray(BLOCK))
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer[: BLOCK if size is None else min(BLOCK, size - self.size)]):
                self.update(buffer[:count])


class ContentReader(io.RawIOBase):
    """Reads a file, and lets `content` see every byte that passes."""

    def __init__(self, file: BinaryIO, content: Content) -> None:
        super().__init__()
        self._read_into: Any = getattr(file, "readinto1", None) or file.readinto  # type: ignore[attr-defined]
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._read_into(buffer) or 0
        self._content.update(memoryview(buffer)[:count])
        return count
