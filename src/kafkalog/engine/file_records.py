"""The `.log` file of a segment: entries behind each other, walked by the rules of a broker.

A walk raises CorruptRecord at an entry that is smaller than any can be, and ends quietly before one that is not whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from kafkalog.errors import CorruptRecord, InvalidArgument, LogRefusal
from kafkalog.format.batch import HEADER_SIZE, NO_TIMESTAMP
from kafkalog.format.java import MAX_INT32
from kafkalog.storage.fs import Buffer, Fs, OpenFile

from .entries import FRONT_SIZE, Entry, file_entry_at, file_entry_size

MAX_SIZE: Final = MAX_INT32
SMALLEST_READ: Final = 1 << 13  # a lookup by index ends within index.interval.bytes, 4 KiB if nobody changed it
LARGEST_READ: Final = 1 << 20


class EntryPlace(NamedTuple):
    """Where an entry begins."""

    offset: int
    position: int
    size: int


class TimestampAndOffset(NamedTuple):
    """A record or batch found by its timestamp; the epoch is -1 if it says none."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class FileRecords:
    """A `.log` file. `size` is how much of it holds entries: a preallocated file is longer.

    It stays open only while `is_active`: a log may have more segments than a process may have files.
    """

    def __init__(self, fs: Fs, path: str, *, exists: bool = False, initial_size: int = 0, preallocate: bool = False) -> None:
        self.fs = fs
        self.path = path
        self.is_active = True
        self._file: OpenFile | None = None if exists else fs.open(path, create=True)
        self._is_closed = False
        self._is_durable = False  # also of a file that was there: nobody knows who wrote it
        self.size = fs.size(path)
        if preallocate and not exists:
            self._truncate_file(initial_size)
            self.size = 0
        if self.size > MAX_SIZE:
            raise LogRefusal(f"{path}: a segment of {self.size} bytes; at most {MAX_SIZE} are allowed")

    @contextmanager
    def _opened(self) -> Iterator[OpenFile]:
        if self._file is None:
            self._file = self.fs.open(self.path)
        try:
            yield self._file
        finally:
            if not self.is_active:
                self._release()

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def become_inactive(self) -> None:
        """Nothing more is appended: open the file only when it is read."""
        self.is_active = False
        self._release()

    def read(self, position: int, size: int) -> bytes:
        with self._opened() as file:
            return file.read(position, size)

    def read_into(self, position: int, target: memoryview) -> int:
        """How many bytes of entries were put into `target`."""
        with self._opened() as file:
            return file.read_into(position, target[: max(0, self.size - position)])

    def append(self, data: Buffer) -> None:
        if len(data) > MAX_SIZE - self.size:
            raise InvalidArgument(f"{self.path}: {len(data)} more bytes do not fit behind {self.size}")
        if self._file is None:
            self._file = self.fs.open(self.path)
            self.is_active = True
        self._is_durable = False
        self._file.write(self.size, data)
        self.size += len(data)

    def truncate_to(self, size: int) -> int:
        """Cut the file; the number of bytes of entries that went."""
        before = self.size
        if not 0 <= size <= before:
            raise LogRefusal(f"{self.path}: cannot cut {before} bytes to {size}")
        if size < self.fs.size(self.path):
            self._truncate_file(size)
            self.size = size
        return before - size

    def _truncate_file(self, size: int) -> None:
        self._is_durable = False
        with self._opened() as file:
            file.truncate(size)

    def trim(self) -> None:
        """Give back what was allocated beyond the entries, durably."""
        if self.fs.size(self.path) > self.size:
            self.truncate_to(self.size)
            self.sync()

    def sync(self) -> None:
        """Make the entries durable, unless they are."""
        if not self._is_durable:
            with self._opened() as file:
                file.sync()
            self._is_durable = True

    def close(self) -> None:
        """Make the entries durable, and let the file go."""
        if not self._is_closed:
            self.trim()
            self.sync()
            self.close_handlers()

    def close_handlers(self) -> None:
        self._is_closed = True
        self._release()

    def rename(self, path: str) -> None:
        try:
            self.fs.rename(self.path, path)
        finally:
            self.path = path

    def delete_if_exists(self) -> None:
        self.close_handlers()
        with suppress(FileNotFoundError):
            self.fs.remove(self.path)

    def slice_size(self, position: int, size: int) -> int:
        """How many of `size` bytes from `position` on there are."""
        if not 0 <= position <= self.size or size < 0:
            raise InvalidArgument(f"{self.path}: {size} bytes at {position} cannot be read; there are {self.size}")
        return min(size, self.size - position)

    def iter_entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """The whole entries between two positions."""
        if start < 0:
            raise InvalidArgument(f"{self.path}: there is no byte {start}")
        stop = self.size if stop is None else stop
        data, at = b"", start  # `data` was read from position `at`
        next_read = SMALLEST_READ
        position = start
        while (left := stop - position) > FRONT_SIZE:
            if position - at + FRONT_SIZE > len(data):
                data, at = self._read(position, min(left, next_read), FRONT_SIZE), position
                next_read = min(2 * next_read, LARGEST_READ)
            size = file_entry_size(data, position - at, left)
            if size is None:
                return
            # What is shorter than the header of a batch, but says that it is one, is read with what follows it.
            if position - at + max(size, HEADER_SIZE) > len(data):
                data, at = self._read(position, max(size, HEADER_SIZE, min(left, next_read)), size), position
            yield file_entry_at(data, position - at, position)
            position += size

    def _read(self, position: int, size: int, least: int) -> bytes:
        data = self.read(position, size)
        if len(data) < least:
            raise CorruptRecord(f"{self.path}: the file ends before byte {position + least}, though it was larger before")
        return data

    def find_offset(self, offset: int, position: int) -> EntryPlace | None:
        """The entry that holds `offset`, or the next one behind it, of those from `position` on."""
        before: Entry | None = None
        for entry in self.iter_entries(position):
            base_offset = entry.base_offset
            if base_offset >= offset:
                if base_offset > offset and before is not None and before.last_offset >= offset:
                    return EntryPlace(before.base_offset, before.position, before.size)
                return EntryPlace(base_offset, entry.position, entry.size)
            before = entry
        if before is not None and before.last_offset >= offset:
            return EntryPlace(before.base_offset, before.position, before.size)
        return None

    def find_timestamp(self, timestamp: int, position: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `position` and `start_offset` on that is not older than `timestamp`."""
        for entry in self.iter_entries(position):
            if entry.max_timestamp >= timestamp:
                # A compressed batch is read as a whole: one that is damaged behind the record is no answer either.
                for record in list(entry) if entry.is_compressed else entry:
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return TimestampAndOffset(record.timestamp, record.offset, entry.partition_leader_epoch)
        return None

    def largest_timestamp_after(self, position: int) -> TimestampAndOffset:
        """The greatest timestamp of the entries from `position` on, and the last offset of the first entry that has it."""
        found = TimestampAndOffset(NO_TIMESTAMP, -1)
        for entry in self.iter_entries(position):
            if entry.max_timestamp > found.timestamp:
                found = TimestampAndOffset(entry.max_timestamp, entry.last_offset, entry.partition_leader_epoch)
        return found
