"""The `.log` file of a segment: consecutive entries, walked by the rules of a broker.

A walk raises CorruptRecord at an entry below the minimum size, and ends before one that is incomplete. Where many entries come at
once a kernel reads their headers into a table (`scan_entries`, `iter_windows`). Kernels are stricter than the log: where they
stop, the caller continues entry by entry and decides by Kafka's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import numpy as np

from kafkalog.errors import CorruptRecord, InvalidArgument, LogRefusal
from kafkalog.format.batch import HEADER_SIZE, NO_TIMESTAMP
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.java import MAX_INT32
from kafkalog.kernels import scan
from kafkalog.segment.windows import TABLE_ENTRIES, Window, WindowBuffers
from kafkalog.storage.fs import Buffer, Fs, OpenFile

from .entries import FRONT_SIZE, Entry, file_entry_at, file_entry_size

MAX_SIZE: Final = MAX_INT32
SMALLEST_READ: Final = 1 << 13  # a lookup by index ends within index.interval.bytes, 4 KiB by default
LARGEST_READ: Final = 1 << 20


class EntryPlace(NamedTuple):
    """Where an entry begins."""

    offset: int
    position: int
    size: int


class TimestampAndOffset(NamedTuple):
    """A record or batch found by its timestamp; the epoch is -1 if it has none."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class FileRecords:
    """A `.log` file. `size` is the part that holds entries: a preallocated file is longer.

    It stays open only while `is_active`: a log may have more segments than a process may open files.
    """

    def __init__(self, fs: Fs, path: str, *, exists: bool = False, initial_size: int = 0, preallocate: bool = False) -> None:
        self.fs = fs
        self.path = path
        self.is_active = True
        self._file: OpenFile | None = None if exists else fs.open(path, create=True)
        self._is_closed = False
        self._is_durable = False  # also for a file that existed: it may have been written without a sync
        self.size = fs.size(path)
        if preallocate and not exists:
            self._truncate_file(initial_size)
            self.size = 0
        if self.size > MAX_SIZE:
            raise LogRefusal(f"{path}: a segment of {self.size} bytes; the maximum is {MAX_SIZE}")

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
        """Read entries into `target`; how many bytes were read."""
        with self._opened() as file:
            return file.read_into(position, target[: max(0, self.size - position)])

    def append(self, data: Buffer) -> None:
        if len(data) > MAX_SIZE - self.size:
            raise InvalidArgument(f"{self.path}: {len(data)} more bytes do not fit after {self.size}")
        if self._file is None:
            self._file = self.fs.open(self.path)
            self.is_active = True
        self._is_durable = False
        self._file.write(self.size, data)
        self.size += len(data)

    def truncate_to(self, size: int) -> int:
        """Truncate the file; how many bytes of entries were removed."""
        before = self.size
        if not 0 <= size <= before:
            raise LogRefusal(f"{self.path}: cannot truncate {before} bytes to {size}")
        if size < self.fs.size(self.path):
            self._truncate_file(size)
            self.size = size
        return before - size

    def _truncate_file(self, size: int) -> None:
        self._is_durable = False
        with self._opened() as file:
            file.truncate(size)

    def trim(self) -> None:
        """Free what was preallocated beyond the entries, durably."""
        if self.fs.size(self.path) > self.size:
            self.truncate_to(self.size)
            self.sync()

    def sync(self) -> None:
        """Make the entries durable, unless they already are."""
        if not self._is_durable:
            with self._opened() as file:
                file.sync()
            self._is_durable = True

    def close(self) -> None:
        """Make the entries durable, and close the file."""
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
        """How many of `size` bytes from `position` on exist."""
        if not 0 <= position <= self.size or size < 0:
            raise InvalidArgument(f"{self.path}: {size} bytes at {position} cannot be read: the log has {self.size}")
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
            # An entry that claims to be a batch but is shorter than a batch header is read with what follows it.
            if position - at + max(size, HEADER_SIZE) > len(data):
                data, at = self._read(position, max(size, HEADER_SIZE, min(left, next_read)), size), position
            yield file_entry_at(data, position - at, position)
            position += size

    def _read(self, position: int, size: int, least: int) -> bytes:
        data = self.read(position, size)
        if len(data) < least:
            raise CorruptRecord(f"{self.path}: the file ends before byte {position + least}: it has shrunk since it was opened")
        return data

    def find_offset(self, offset: int, position: int) -> EntryPlace | None:
        """The entry that holds `offset`, or the next one after it, searched from `position` on."""
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
                # As in Kafka a compressed batch is read whole: damage after the record also fails the search.
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


def scan_entries(data: Buffer, position: int) -> EntryTable | None:
    """The headers of a set that begins at `position` of its file; None if an entry is odd or there are too many."""
    table = EntryTable.with_room(min(TABLE_ENTRIES, len(data) // scan.MAX_HEADER + 1))
    status, count, _ = scan.scan_window(np.frombuffer(data, np.uint8), 0, len(data), position, MAX_SIZE, table.fields)
    return table[:count] if status == scan.END and count else None


def iter_windows(records: FileRecords, buffers: WindowBuffers) -> Iterator[Window]:
    """Windows of whole entries from the start of a log up to its end, or to an odd entry."""
    position = 0
    while position < records.size:
        data, table = buffers.take()
        have = records.read_into(position, data.data)
        status, count, size = scan.scan_window(data, 0, have, position, MAX_SIZE, table.fields)
        if not count:
            return
        window = Window(records.path, position, data[:size], table, count)
        yield window
        buffers.give_back(window)
        if status not in (scan.END, scan.TABLE_FULL, scan.NEED_BYTES):
            return
        position += size
