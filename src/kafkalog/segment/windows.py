"""Walk a segment in windows of whole entries, and explain where the walk ends."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, LimitExceeded, Limits, SegmentError, StorageError, TornTail, name_text
from kafkalog.format.batch import LOG_OVERHEAD, MAGIC_POSITION
from kafkalog.format.entry_front import FRONT_SIZE, SMALLEST_ENTRY, peek_length
from kafkalog.format.entry_table import FACT_COUNT, EntryTable, TableFacts
from kafkalog.format.java import MAX_INT32
from kafkalog.format.quantities import plural, size_text
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Bytes
from kafkalog.storage.store import ByteSource

WINDOW_BYTES = 4 << 20
TABLE_ENTRIES = (1 << 15) - 24  # not a power of two: columns 256 KiB apart would all fall into the same few cache lines
HEADER_CHUNK = 4096
SECTOR = 512
ZERO_CHUNK = 1 << 20
MAX_FREE = 8
NO_BYTES: Bytes = np.empty(0, np.uint8)


def rows_of(table: EntryTable, entries: NDArray[np.int64]) -> EntryTable:
    """The headers of these entries (ascending rows); without a copy when they are all of them."""
    return table if len(entries) == len(table) else table[entries]


@dataclass
class Window:
    """Whole entries of one file: their bytes and their headers, with positions in the file."""

    file: str
    position: int
    data: Bytes  # empty once they are released
    table: EntryTable  # may have room for more entries than `count`
    count: int
    size: int = field(init=False)
    lent: Bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.size = len(self.data)

    def __repr__(self) -> str:
        entries = plural(self.count, "entry", "entries")
        return f"Window({name_text(self.file)}, {entries}, {size_text(self.size)} at byte {self.position})"

    @property
    def entries(self) -> EntryTable:
        return self.table[: self.count]

    def lend(self) -> Bytes:
        """The bytes, for columns that point into them: their memory is reused when the last such column is gone."""
        if self.lent is None:
            self.lent = self.data[:]
            weakref.finalize(self.lent, WindowBuffers.reuse, _memory_of(self.lent)).atexit = False
        return self.lent

    @cached_property
    def facts(self) -> TableFacts:
        """What `scan.survey` says about the entries (at least one)."""
        facts = np.empty(FACT_COUNT, np.int64)
        scan.survey(self.table.fields, self.count, facts)
        return TableFacts(*facts.tolist())


class WindowBuffers:
    """Buffers that windows borrow and return, so that reads allocate a few and reuse them.

    The last one returned is the first reused: it is in the caches of the core that just used it.
    """

    _free_data: ClassVar[list[Bytes]] = []  # of WINDOW_BYTES each
    _free_tables: ClassVar[list[EntryTable]] = []

    def __init__(self, window_bytes: int = WINDOW_BYTES) -> None:
        self.window_bytes = window_bytes

    def take(self) -> tuple[Bytes, EntryTable]:
        return self._take_data(), self._take_table()

    def _take_data(self) -> Bytes:
        with suppress(IndexError):
            if self.window_bytes == WINDOW_BYTES:
                return self._free_data.pop()
        return np.empty(self.window_bytes, np.uint8)

    def _take_table(self) -> EntryTable:
        with suppress(IndexError):
            return self._free_tables.pop()
        return EntryTable.with_room(TABLE_ENTRIES)

    def let_go(self, window: Window) -> None:
        """Return the bytes of a window that are no longer needed."""
        data, lent = window.data, window.lent
        window.data, window.lent = NO_BYTES, None
        if lent is None:
            self.reuse(_memory_of(data))

    @classmethod
    def reuse(cls, data: Bytes) -> None:
        if data.size == WINDOW_BYTES and len(cls._free_data) < MAX_FREE:
            cls._free_data.append(data)

    def give_back(self, window: Window) -> None:
        """Return its bytes and headers."""
        self.let_go(window)
        if len(window.table) == TABLE_ENTRIES and len(self._free_tables) < MAX_FREE:
            self._free_tables.append(window.table)


def _memory_of(data: Bytes) -> Bytes:
    return data if data.base is None else data.base


class SegmentWalk:
    """The entries of `source[start:stop]` in order. If the walk ends before `stop`, `problem` says why and `position` where."""

    def __init__(self, source: ByteSource, start: int, stop: int, limits: Limits) -> None:
        self.source = source
        self.position = start
        self.stop = stop
        self.limits = limits
        self.problem: SegmentError | None = None

    def windows(self, buffers: WindowBuffers) -> Iterator[Window]:
        """Windows with the bytes of their entries."""
        while self.position < self.stop:
            data, table = buffers.take()
            window, status = self._read_window(data, table)
            if window.count:
                yield window
            else:
                buffers.give_back(window)
            if status not in (scan.END, scan.TABLE_FULL):
                self.problem = explain_stop(self.source, self.position, self.stop, status, self.limits)
                return

    def _read_window(self, data: Bytes, table: EntryTable) -> tuple[Window, int]:
        position = self.position
        size = min(len(data), self.stop - position)
        while True:
            have = self.source.read_into(position, data.data[:size])
            status, count, at = scan.scan_window(data, 0, have, position, self.limits.batch_bytes, table.fields)
            if status != scan.NEED_BYTES or position + have >= self.stop:
                break
            if count:  # the entry that the window's end cuts begins the next window
                status = scan.TABLE_FULL
                break
            data, size = self._grow(data, position)
            if size > self.stop - position:
                break
        self.position = position + at
        return Window(self.source.path, position, data[:at], table, count), status

    def _grow(self, data: Bytes, position: int) -> tuple[Bytes, int]:
        """A buffer that holds the whole entry at `position`, whose length is within the limit."""
        length = peek_length(data.data)
        # If the file shrinks meanwhile, the buffer may hold anything.
        size = LOG_OVERHEAD + (length if length is not None and length >= 0 else MAX_INT32)
        return (np.empty(size, np.uint8) if size > len(data) else data), size

    def headers(self) -> Iterator[EntryTable]:
        """Tables of headers only; the bytes between them are not read where that is faster."""
        descriptor = self.source.fileno()
        if descriptor is not None:
            yield from self._headers_of_file(descriptor)
        else:
            yield from self._headers_by_ranges()

    def _headers_of_file(self, descriptor: int) -> Iterator[EntryTable]:
        chunk = np.empty(HEADER_CHUNK, np.uint8)
        while self.position < self.stop:
            table = EntryTable.with_room(TABLE_ENTRIES)
            status, count, self.position = scan.scan_file(
                descriptor, self.position, self.stop, self.limits.batch_bytes, chunk, table.fields
            )
            if count:
                yield table[:count]
            if status == scan.READ_FAILED:
                self.source.read(self.position, HEADER_CHUNK)  # raises the matching error
                raise StorageError(f"{self.source.path}: cannot read at byte {self.position}", file=self.source.path)
            if status not in (scan.END, scan.TABLE_FULL):
                self.problem = explain_stop(self.source, self.position, self.stop, status, self.limits)
                return

    def _headers_by_ranges(self) -> Iterator[EntryTable]:
        """For stores where each read is a request: read through small gaps, and send a new request after large ones."""
        chunk_bytes = self.source.minimum_gap
        while self.position < self.stop:
            table = EntryTable.with_room(TABLE_ENTRIES)
            count, status = self._scan_ranges(chunk_bytes, table)
            if count:
                yield table[:count]
            if status not in (scan.END, scan.TABLE_FULL):
                self.problem = explain_stop(self.source, self.position, self.stop, status, self.limits)
                return

    def _scan_ranges(self, chunk_bytes: int, table: EntryTable) -> tuple[int, int]:
        count = 0
        while self.position < self.stop and count < len(table):
            chunk = np.frombuffer(self.source.read(self.position, min(chunk_bytes, self.stop - self.position)), np.uint8)
            status, found, at = scan.scan_headers(
                chunk, self.position, self.stop, self.limits.batch_bytes, table.fields[:, count:]
            )
            count += found
            self.position += at
            if status != scan.NEED_BYTES or found == 0:
                return count, status
        return count, scan.END if self.position == self.stop else scan.TABLE_FULL


def explain_stop(source: ByteSource, position: int, stop: int, status: int, limits: Limits) -> SegmentError:
    """The error for the status of a walk; the file is read again to distinguish a tail from damage."""
    length = stop - position
    front = source.read(position, min(FRONT_SIZE, length))
    stored = peek_length(front)
    place: dict[str, Any] = {"file": source.path, "position": position, "length": length}
    if status == scan.ZEROS or not any(front):
        if is_zero(source, position, stop):
            return TornTail("zero-tail", **place, at_tail=True)
        return CorruptBatch("torn-write", **place, found="zeros where an entry should begin")
    # As in Kafka's own reader, a length that reaches beyond the file ends it, whatever the other bytes say.
    if status == scan.NEED_BYTES or (stored is not None and stored + LOG_OVERHEAD > length):
        wanted = f"{stored + LOG_OVERHEAD} bytes" if stored is not None else f"an entry of at least {SMALLEST_ENTRY} bytes"
        return TornTail("torn", **place, at_tail=True, expected=wanted, found=f"{length} bytes")
    if status == scan.BAD_MAGIC:
        return CorruptBatch("magic", **place, expected="0, 1 or 2", found=front[MAGIC_POSITION])
    if status == scan.TOO_LARGE:
        return LimitExceeded("batch-limit", **place, expected=f"at most {limits.batch_bytes}", found=stored)
    return CorruptBatch("length", **place, expected="at least 14 (v0), 22 (v1), 49 (v2)", found=stored)


def is_zero(source: ByteSource, start: int, stop: int) -> bool:
    """Whether every byte of the range is zero; holes of a sparse file are not read."""
    for data_start, data_stop in source.data_ranges(start, stop):
        for position in range(data_start, data_stop, ZERO_CHUNK):
            chunk = source.read(position, min(ZERO_CHUNK, data_stop - position))
            if chunk.count(0) != len(chunk):
                return False
    return True


def has_zero_sector(data: Bytes, position: int) -> bool:
    """Whether an aligned 512-byte sector inside the entry is all zeros: the sign of a write that reached the disk in part."""
    first = -position % SECTOR
    sectors = data[first : first + (len(data) - first) // SECTOR * SECTOR]
    return bool(len(sectors)) and not sectors.reshape(-1, SECTOR).any(axis=1).all()
