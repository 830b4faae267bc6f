"""The offset index and the time index of a segment, as files that are being written.

An index is created on first use, at its maximum size. Entries are written in place one after the other; truncating an index only
lowers their count, so old entries may remain after the last one until the file is trimmed, when its segment is rolled or closed.
An index file that already exists counts as full of entries: recovery rebuilds what a crash left.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptIndex, IndexOffsetOverflow, IndexOverflow, InvalidArgument, InvalidOffset, InvalidState
from kafkalog.format.batch import NO_TIMESTAMP
from kafkalog.format.java import MAX_INT32
from kafkalog.storage.fs import Fs, OpenFile

from .offsets import OffsetPosition, TimestampOffset

_TIMESTAMP = struct.Struct(">q")

MAX_RELATIVE_OFFSET: Final = MAX_INT32
Column = NDArray[np.int64]
WARM_BYTES: Final = 8192  # searched first: lookups are mostly near the end


class SegmentIndex(ABC):
    """What both kinds of index share: a file of `entry_count` entries with room for `max_entries`."""

    LAYOUT: ClassVar[struct.Struct]
    DTYPE: ClassVar[np.dtype[np.void]]

    def __init__(self, fs: Fs, path: str, base_offset: int, max_size: int) -> None:
        self.fs = fs
        self.path = path
        self.base_offset = base_offset
        self.max_size = max_size
        self.entry_size = self.LAYOUT.size
        is_new = fs.kind(path) == "missing"
        self.is_active = is_new
        self._file: OpenFile | None = fs.open(path, create=True) if is_new else None
        self._is_dirty = is_new
        if self._file is not None:
            if max_size < self.entry_size:
                raise InvalidArgument(f"{path}: an index of {max_size} bytes is too small for an entry")
            self._file.truncate(max_size // self.entry_size * self.entry_size)
        self.size = fs.size(path)
        self.entry_count = 0 if is_new else self.size // self.entry_size

    @contextmanager
    def _opened(self) -> Iterator[OpenFile]:
        """The file, which stays open afterwards only while entries are being added: a log has many indexes."""
        was_open = self._file is not None
        if self._file is None:
            self._file = self.fs.open(self.path)
        try:
            yield self._file
        finally:
            if not was_open and not self.is_active:
                self.release()

    @property
    def max_entries(self) -> int:
        return self.size // self.entry_size

    @property
    def size_bytes(self) -> int:
        """The size of the entries in bytes."""
        return self.entry_count * self.entry_size

    @property
    def is_full(self) -> bool:
        return self.entry_count >= self.capacity

    def has_room_for(self, count: int) -> bool:
        """Whether `count` more entries can be added."""
        return not count or self.entry_count + count <= self.capacity

    @property
    def capacity(self) -> int:
        """The number of entries at which an index is full."""
        return self.max_entries

    def can_append_offset(self, offset: int) -> bool:
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def relative_offset(self, offset: int) -> int:
        if not self.can_append_offset(offset):
            raise IndexOffsetOverflow(f"{self.path}: offset {offset} is too far from {self.base_offset}")
        return offset - self.base_offset

    def resize(self, size: int) -> bool:
        """Resize the file to whole entries; whether its size changed."""
        size = size // self.entry_size * self.entry_size
        if size == self.size:
            return False
        with self._opened() as file:
            file.truncate(size)
        self._is_dirty = True
        self.size = size
        if self.size_bytes > size:
            raise InvalidArgument(f"{self.path}: {self.entry_count} entries do not fit in {size} bytes")
        return True

    def reset(self) -> None:
        """Drop all entries, and resize the file to its maximum."""
        self._truncate_to_count(0)
        self.resize(self.max_size)

    def trim_to_valid_size(self) -> None:
        self.resize(self.size_bytes)

    def flush(self) -> None:
        if not self._is_dirty:
            return
        with self._opened() as file:
            file.sync()
        self._is_dirty = False

    def release(self) -> None:
        """Close the file until it is needed again."""
        self.is_active = False
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Trim the file to its entries, durably."""
        self.trim_to_valid_size()
        self.flush()
        self.release()

    def rename(self, path: str) -> None:
        try:
            self.fs.rename(self.path, path)
        finally:
            self.path = path

    def delete_if_exists(self) -> None:
        self.release()
        with suppress(FileNotFoundError):
            self.fs.remove(self.path)

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Drop the entries from `offset` on."""

    @abstractmethod
    def _read_last(self) -> None:
        """Remember what is now the last entry."""

    def _fields(self, number: int) -> tuple[int, int]:
        with self._opened() as file:
            first, second = self.LAYOUT.unpack(file.read(number * self.entry_size, self.entry_size))
        return first, second

    def _write(self, first: int, second: int) -> None:
        if self.entry_count >= self.max_entries:
            raise IndexOverflow(f"{self.path}: no room for entry {self.entry_count}")
        self._put(self.LAYOUT.pack(first, second))
        self.entry_count += 1

    def _put(self, data: bytes) -> None:
        """Write after the last entry; more will follow."""
        self.is_active = self._is_dirty = True
        with self._opened() as file:
            file.write(self.size_bytes, data)

    def extend(self, firsts: Column, seconds: Column) -> None:
        """Add many entries. The caller has checked that they belong here and that there is room."""
        if len(firsts):
            stored = np.empty(len(firsts), self.DTYPE)
            stored["first"], stored["second"] = firsts, seconds
            self._put(stored.tobytes())
            self.entry_count += len(firsts)
            self._read_last()

    def _truncate_to_count(self, count: int) -> None:
        self.entry_count = count
        self._read_last()

    def _truncate_at(self, target: int, relative_offset_of: Callable[[int], int]) -> None:
        """Keep the entries before the relative offset `target`."""
        number = self._last_not_above(target, relative_offset_of)
        self._truncate_to_count(number if number >= 0 and relative_offset_of(number) == target else number + 1)

    def _last_not_above(self, target: int, value_of: Callable[[int], int]) -> int:
        """The number of the last entry whose value is not above `target`, or -1."""
        with self._opened():
            return self._search(target, value_of)[0]

    def _first_not_below(self, target: int, value_of: Callable[[int], int]) -> int | None:
        """The number of the first entry whose value is not below `target`, or the one after it: Kafka's search is that loose."""
        with self._opened():
            number, is_exact = self._search(target, value_of)
        if not is_exact:
            number += 1
        return number if number < self.entry_count else None

    def _search(self, target: int, value_of: Callable[[int], int]) -> tuple[int, bool]:
        """The last entry not above `target`, or -1, and whether the search hit `target` itself.

        Entries are in order unless the file is damaged; then the result depends on the steps taken, so they are Kafka's.
        """
        if not self.entry_count:
            return -1, False
        first_warm = max(0, self.entry_count - 1 - WARM_BYTES // self.entry_size)
        if value_of(first_warm) < target:
            low, high = first_warm, self.entry_count - 1
        elif value_of(0) > target:
            return -1, False
        else:
            low, high = 0, first_warm
        while low < high:
            middle = (low + high + 1) // 2
            value = value_of(middle)
            if value == target:
                return middle, True
            low, high = (low, middle - 1) if value > target else (middle, high)
        return low, False


class OffsetIndex(SegmentIndex):
    """Last offsets of entries, and the positions where these entries begin."""

    LAYOUT = struct.Struct(">ii")
    DTYPE = np.dtype([("first", ">i4"), ("second", ">i4")])

    def __init__(self, fs: Fs, path: str, base_offset: int, max_size: int) -> None:
        super().__init__(fs, path, base_offset, max_size)
        self._read_last()

    def _read_last(self) -> None:
        self.last_offset = self.entry(self.entry_count - 1).offset if self.entry_count else self.base_offset

    def sanity_check(self) -> None:
        if self.entry_count and self.last_offset < self.base_offset:
            raise CorruptIndex(f"{self.path}: its last offset {self.last_offset} is below {self.base_offset}")
        if self.size % self.entry_size:
            raise CorruptIndex(f"{self.path}: {self.size} bytes are not a whole number of entries")

    def entry(self, number: int) -> OffsetPosition:
        if number >= self.entry_count:
            raise InvalidArgument(f"{self.path}: there is no entry {number}")
        relative_offset, position = self._fields(number)
        return OffsetPosition(self.base_offset + relative_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry not above `offset`, or the beginning of the segment."""
        number = self._last_not_above(offset - self.base_offset, self._relative_offset)
        return self.entry(number) if number >= 0 else OffsetPosition(self.base_offset, 0)

    def fetch_upper_bound(self, position: int, size: int) -> OffsetPosition | None:
        """The first entry at or after the end of `size` bytes from `position` on."""
        number = self._first_not_below(position + size, self._position)
        return None if number is None else self.entry(number)

    def append(self, offset: int, position: int) -> None:
        if self.is_full:
            raise InvalidArgument(f"{self.path}: the index is full ({self.entry_count} entries)")
        if self.entry_count and offset <= self.last_offset:
            raise InvalidOffset(f"{self.path}: offset {offset} cannot follow {self.last_offset}")
        self._write(self.relative_offset(offset), position)
        self.last_offset = offset

    def truncate_to(self, offset: int) -> None:
        self._truncate_at(offset - self.base_offset, self._relative_offset)

    def _relative_offset(self, number: int) -> int:
        return self._fields(number)[0]

    def _position(self, number: int) -> int:
        return self._fields(number)[1]


class TimeIndex(SegmentIndex):
    """The greatest timestamp up to an offset. The last slot is reserved for the entry that closing the segment writes."""

    LAYOUT = struct.Struct(">qi")
    DTYPE = np.dtype([("first", ">i8"), ("second", ">i4")])

    def __init__(self, fs: Fs, path: str, base_offset: int, max_size: int) -> None:
        super().__init__(fs, path, base_offset, max_size)
        self._read_last()

    def _read_last(self) -> None:
        count = self.entry_count
        self.last_entry = self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    @property
    def capacity(self) -> int:
        return self.max_entries - 1

    def sanity_check(self) -> None:
        if self.entry_count and self.last_entry.timestamp < self.entry(0).timestamp:
            raise CorruptIndex(f"{self.path}: its last timestamp {self.last_entry.timestamp} is below its first")
        if self.entry_count and self.last_entry.offset < self.base_offset:
            raise CorruptIndex(f"{self.path}: its last offset {self.last_entry.offset} is below {self.base_offset}")
        if self.size % self.entry_size:
            raise CorruptIndex(f"{self.path}: {self.size} bytes are not a whole number of entries")

    def entry(self, number: int) -> TimestampOffset:
        if number >= self.entry_count:
            raise InvalidArgument(f"{self.path}: there is no entry {number}")
        timestamp, relative_offset = self._fields(number)
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry not newer than `timestamp`, or the beginning of the segment."""
        number = self._last_not_above(timestamp, self._timestamp)
        return self.entry(number) if number >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if its timestamp is above that of the last one."""
        if not skip_full_check and self.is_full:
            raise InvalidArgument(f"{self.path}: the time index is full ({self.entry_count} entries)")
        if self.entry_count and offset < self.last_entry.offset:
            raise InvalidOffset(f"{self.path}: offset {offset} cannot follow {self.last_entry.offset}")
        if self.entry_count and timestamp < self.last_entry.timestamp:
            raise InvalidState(f"{self.path}: timestamp {timestamp} cannot follow {self.last_entry.timestamp}")
        if timestamp > self.last_entry.timestamp:
            if not self.can_append_offset(offset) and self.entry_count < self.max_entries:
                # Kafka writes the timestamp before it checks the offset; these bytes remain after the last entry.
                self._put(_TIMESTAMP.pack(timestamp))
            self._write(timestamp, self.relative_offset(offset))
            self.last_entry = TimestampOffset(timestamp, offset)

    def resize(self, size: int) -> bool:
        changed = super().resize(size)
        if changed:
            self._read_last()
        return changed

    def truncate_to(self, offset: int) -> None:
        self._truncate_at(offset - self.base_offset, self._relative_offset)

    def _timestamp(self, number: int) -> int:
        return self._fields(number)[0]

    def _relative_offset(self, number: int) -> int:
        return self._fields(number)[1]


Index = TypeVar("Index", bound=SegmentIndex)


class LazyIndex(Generic[Index]):
    """An index whose file is opened or created on first use."""

    def __init__(self, kind: type[Index], fs: Fs, path: str, base_offset: int, max_size: int) -> None:
        self._kind = kind
        self._fs = fs
        self._path = path
        self._base_offset = base_offset
        self._max_size = max_size
        self._index: Index | None = None

    @property
    def path(self) -> str:
        return self._index.path if self._index else self._path

    def get(self) -> Index:
        if self._index is None:
            self._index = self._kind(self._fs, self._path, self._base_offset, self._max_size)
        return self._index

    def rename(self, path: str) -> None:
        if self._index:
            self._index.rename(path)
            return
        if self._fs.kind(self._path) != "missing":
            self._fs.rename(self._path, path)
        self._path = path

    def delete_if_exists(self) -> None:
        if self._index:
            self._index.delete_if_exists()
            return
        with suppress(FileNotFoundError):
            self._fs.remove(self._path)

    def close(self) -> None:
        if self._index:
            self._index.close()

    def close_handlers(self) -> None:
        if self._index:
            self._index.release()
