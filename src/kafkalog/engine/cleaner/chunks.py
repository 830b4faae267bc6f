"""Read a segment in chunks of whole entries, in a buffer that grows for entries that are larger."""

from __future__ import annotations

import sys

from kafkalog.errors import CorruptRecord, InvalidState

from ..entries import FRONT_SIZE, entry_size
from ..file_records import FileRecords


class Chunks:
    """The bytes of a segment from `position` on. Who reads says with `advance` how many of a chunk's bytes were whole entries."""

    def __init__(self, records: FileRecords, capacity: int, max_capacity: int, max_message_bytes: int, position: int = 0) -> None:
        self.capacity = capacity
        self.position = position
        self._records = records
        self._max_capacity = max_capacity
        self._max_message_bytes = max_message_bytes

    @property
    def has_more(self) -> bool:
        return self.position < self._records.size

    def read(self) -> bytes:
        return self._records.read(self.position, self.capacity)

    def advance(self, chunk: bytes, size: int) -> None:
        """Go on behind the first `size` bytes of the chunk; if that is none, make room for the entry that did not fit."""
        self.position += size
        if not size and chunk:
            self._grow(chunk)

    def _grow(self, chunk: bytes) -> None:
        largest = self._max_message_bytes
        if self.capacity >= largest:
            largest = self._size_of_next(chunk)
        # An entry may be above the topic's limit: compressed anew by the cleaner, or older than the limit.
        self.capacity = min(2 * self.capacity, max(largest, self._max_capacity))

    def _size_of_next(self, chunk: bytes) -> int:
        where = f"{self._records.path} at byte {self.position}"
        if len(chunk) < FRONT_SIZE:
            raise InvalidState(f"{where}: {len(chunk)} bytes are no entry")
        size = entry_size(chunk, 0, sys.maxsize)
        assert size is not None
        if size <= self.capacity:
            raise InvalidState(f"{where}: an entry of {size} bytes, of which {len(chunk)} are there")
        left = self._records.size - self.position
        if size > left:
            raise CorruptRecord(f"{where}: an entry of {size} bytes, of which {left} are there")
        return size
