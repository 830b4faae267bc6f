"""One segment of a log: a `.log` file with its offset index, time index and transaction index."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from kafkalog.errors import InvalidArgument, LogRefusal, SegmentOffsetOverflow
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.java import MAX_INT64
from kafkalog.format.names import segment_file_name
from kafkalog.segment.build import IndexBuilder
from kafkalog.storage.fs import Buffer, Fs

from .config import LogConfig
from .entries import Entry, iter_entries
from .file_records import EntryPlace, FileRecords, TimestampAndOffset, scan_entries
from .indexes import LazyIndex, OffsetIndex, TimeIndex
from .offsets import OffsetMetadata, TimestampOffset
from .producer_state import CompletedTransaction
from .schedule import Clock
from .transaction_index import AbortedTransaction, TransactionIndex

MAX_TIMESTAMP: Final = MAX_INT64
COPY_BYTES: Final = 1 << 20
BULK_BYTES: Final = 1 << 16  # from here on one kernel call for many entries pays off, even for large ones


@dataclass
class Slice:
    """Bytes of a segment that begin with an entry; without `records` nothing may be read there."""

    start: OffsetMetadata
    records: FileRecords | None = None
    position: int = 0
    size: int = 0
    first_entry_incomplete: bool = False


class LogSegment:
    """The entries from `base_offset` up to the next segment, with their indexes."""

    def __init__(
        self,
        log: FileRecords,
        offset_index: LazyIndex[OffsetIndex],
        time_index: LazyIndex[TimeIndex],
        transaction_index: TransactionIndex,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
    ) -> None:
        self.log = log
        self.transaction_index = transaction_index
        self.base_offset = base_offset
        self.index_interval_bytes = config.index_interval_bytes
        self.roll_jitter_ms = config.random_jitter_ms()
        self._offset_index = offset_index
        self._time_index = time_index
        self._clock = clock
        self._created_ms = clock.now_ms()
        self._first_timestamp: int | None = None  # of the first entry, once read
        self._max_timestamp: TimestampOffset | None = None  # None: the last entry of the time index has it
        self._bytes_since_index_entry = 0

    @classmethod
    def open(
        cls,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        fs: Fs,
        clock: Clock,
        exists: bool = False,
        suffix: str = "",
    ) -> Self:
        """The segment with this base offset; a new one unless it `exists`."""

        def path(kind: str) -> str:
            return os.path.join(folder, segment_file_name(base_offset, kind) + suffix)

        size = config.segment_index_bytes
        preallocate = config.preallocate and not exists
        return cls(
            FileRecords(fs, path("log"), exists=exists, initial_size=config.initial_log_size, preallocate=preallocate),
            LazyIndex(OffsetIndex, fs, path("index"), base_offset, size),
            LazyIndex(TimeIndex, fs, path("timeindex"), base_offset, size),
            TransactionIndex(base_offset, fs, path("txnindex")),
            base_offset,
            config,
            clock,
        )

    @property
    def size(self) -> int:
        return self.log.size

    @property
    def offset_index(self) -> OffsetIndex:
        return self._offset_index.get()

    @property
    def time_index(self) -> TimeIndex:
        return self._time_index.get()

    @property
    def modified_ms(self) -> int:
        return self.log.fs.modified_ms(self.log.path)

    def set_modified_ms(self, modified_ms: int) -> None:
        for path in (self.log.path, self._offset_index.path, self._time_index.path):
            self.log.fs.set_modified_ms(path, modified_ms)

    # timestamps

    @property
    def max_timestamp_and_offset(self) -> TimestampOffset:
        """The greatest timestamp so far, and the last offset of the first entry that has it."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last_entry
        return self._max_timestamp

    @property
    def max_timestamp(self) -> int:
        return self.max_timestamp_and_offset.timestamp

    @property
    def largest_timestamp(self) -> int:
        """The greatest timestamp, or the time of the file's last change if no entry has one."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def first_batch_timestamp(self) -> int:
        """The greatest timestamp of the first entry, or MAX_TIMESTAMP if it has none."""
        timestamp = self._read_first_timestamp()
        return timestamp if timestamp is not None and timestamp >= 0 else MAX_TIMESTAMP

    def _read_first_timestamp(self) -> int | None:
        if self._first_timestamp is None:
            first = next(self.log.iter_entries(), None)
            self._first_timestamp = None if first is None else first.max_timestamp
        return self._first_timestamp

    def _time_waited_ms(self, max_timestamp: int) -> int:
        first = self._read_first_timestamp()
        return max_timestamp - first if first is not None and first >= 0 else self._clock.now_ms() - self._created_ms

    def note_timestamp(self, entry: Entry) -> None:
        """Update the greatest timestamp if that of `entry` is greater."""
        if entry.max_timestamp > self.max_timestamp:
            self._max_timestamp = TimestampOffset(entry.max_timestamp, entry.last_offset)

    def append_time_index(self, *, skip_full_check: bool = False) -> None:
        """Add the greatest timestamp so far to the time index."""
        self.time_index.maybe_append(*self.max_timestamp_and_offset, skip_full_check=skip_full_check)

    # appending

    def should_roll(self, config: LogConfig, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Whether `size` more bytes, with this greatest timestamp and last offset, belong in a new segment."""
        waited_too_long = self._time_waited_ms(max_timestamp) > config.max_segment_ms - self.roll_jitter_ms
        offset_index, time_index = self.offset_index, self.time_index
        return (
            self.size > config.segment_bytes - size
            or (self.size > 0 and waited_too_long)
            or offset_index.is_full
            or time_index.is_full
            or not offset_index.can_append_offset(last_offset)
        )

    def append(
        self, last_offset: int, data: Buffer, entries: Sequence[Entry] | None = None, table: EntryTable | None = None
    ) -> None:
        """Add whole entries up to `last_offset`; `entries` or `table` are they or their headers, if the caller has them."""
        if not data:
            return
        position = self.log.size
        self.ensure_offset_in_range(last_offset)
        self.log.append(data)
        if (len(data) < BULK_BYTES and table is None) or not self._index_set(data, position, table):
            self._index_entries(iter_entries(data) if entries is None else entries, position)

    def _index_set(self, data: Buffer, position: int, table: EntryTable | None) -> bool:
        """Index what was written at `position`; False, with nothing done, if an entry is odd."""
        if table is None:
            table = scan_entries(data, position)
            if table is None:
                return False
        else:
            table = table.copy()
            table.position += position
        indexed_position = self.index_in_bulk(table, position - self._bytes_since_index_entry)
        if indexed_position is None:
            return False
        self._bytes_since_index_entry = self.log.size - indexed_position
        return True

    def _index_entries(self, entries: Iterable[Entry], position: int) -> None:
        for entry in entries:
            self.note_timestamp(entry)
            if self._bytes_since_index_entry > self.index_interval_bytes:
                self.index_entry(entry, position)
                self._bytes_since_index_entry = 0
            position += entry.size
            self._bytes_since_index_entry += entry.size

    def index_entry(self, entry: Entry, position: int) -> None:
        """Add an entry of the log to both indexes."""
        self.offset_index.append(entry.last_offset, position)
        self.append_time_index()

    def index_in_bulk(self, table: EntryTable, anchor: int) -> int | None:
        """Index entries by their headers as if one by one; the position of the last one indexed.

        `anchor` is that position so far. None if one of them must be refused, which the caller then has to find.
        """
        offset_index, time_index = self.offset_index, self.time_index
        lasts = table.last_offset
        builder = IndexBuilder(self.base_offset, self.index_interval_bytes)
        builder.indexed_position = anchor
        builder.greatest_timestamp, builder.offset_of_greatest = self.max_timestamp_and_offset
        builder.indexed_timestamp = time_index.last_entry.timestamp
        before = offset_index.last_offset if offset_index.entry_count else self.base_offset - 1
        if lasts[0] <= before or (np.diff(lasts) <= 0).any() or not offset_index.can_append_offset(int(lasts[-1])):
            return None
        (offsets, positions), (timestamps, time_offsets) = builder.next_entries(table)
        if not offset_index.has_room_for(len(offsets)) or not time_index.has_room_for(len(offsets)):
            return None
        if len(time_offsets) and time_index.entry_count and time_offsets[0] < time_index.last_entry.offset:
            return None
        offset_index.extend(offsets - self.base_offset, positions)
        time_index.extend(timestamps, time_offsets - self.base_offset)
        self._max_timestamp = TimestampOffset(builder.greatest_timestamp, builder.offset_of_greatest)
        return builder.indexed_position

    def append_from_file(self, records: FileRecords, start: int) -> int:
        """Copy the entries from `start` on that this segment can hold; how many bytes were copied."""
        position = start
        while position < records.size:
            copied = self._append_chunk(records, position)
            if not copied:
                break
            position += copied
        return position - start

    def _append_chunk(self, records: FileRecords, start: int) -> int:
        size = 0
        last_offset = -1
        for entry in records.iter_entries(start):
            if not self.offset_index.can_append_offset(entry.last_offset) or (size and size + entry.size >= COPY_BYTES):
                break
            last_offset = entry.last_offset
            size += entry.size
        if size:
            self.append(last_offset, records.read(start, size))
        return size

    def ensure_offset_in_range(self, offset: int) -> None:
        """SegmentOffsetOverflow if the offset is too far from the base offset."""
        if not self.offset_index.can_append_offset(offset):
            message = f"{self.log.path}: offset {offset} is too far from {self.base_offset} for one segment"
            raise SegmentOffsetOverflow(message, self)

    def update_transaction_index(self, completed: CompletedTransaction, last_stable_offset: int) -> None:
        if completed.is_aborted:
            self.transaction_index.append(AbortedTransaction.of(completed, last_stable_offset))

    # reading

    def translate_offset(self, offset: int) -> EntryPlace | None:
        """The entry that holds `offset`, or the next one after it."""
        return self.log.find_offset(offset, max(0, self.offset_index.lookup(offset).position))

    def read(self, offset: int, max_size: int, max_position: int | None, *, min_one: bool = False) -> Slice | None:
        """Up to `max_size` bytes before `max_position`, from the entry of `offset` on; None if it lies after this segment.

        With `min_one` at least the whole first entry. Without `max_position` nothing here may be read.
        """
        if max_size < 0:
            raise InvalidArgument(f"cannot read {max_size} bytes")
        place = self.translate_offset(offset)
        if place is None:
            return None
        start = OffsetMetadata(place.offset, self.base_offset, place.position)
        if min_one:
            max_size = max(max_size, place.size)
        if max_size == 0 or max_position is None:
            return Slice(start)
        size = self.log.slice_size(place.position, min(max_position - place.position, max_size))
        return Slice(start, self.log, place.position, size, max_size < place.size)

    def fetch_upper_bound_offset(self, position: int, size: int) -> int | None:
        """An offset not before the end of `size` bytes from `position` on, if the index has one."""
        entry = self.offset_index.fetch_upper_bound(position, size)
        return None if entry is None else entry.offset

    def read_next_offset(self) -> int:
        """The offset after the last entry."""
        found = self.read(self.offset_index.last_offset, self.size, self.size)
        next_offset = self.base_offset
        if found is not None and found.records is not None:
            for entry in self.log.iter_entries(found.position, found.position + found.size):
                next_offset = entry.next_offset
        return next_offset

    def find_offset_by_timestamp(self, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `start_offset` on that is not older than `timestamp`."""
        indexed = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(indexed.offset, start_offset)).position
        return self.log.find_timestamp(timestamp, position, start_offset)

    @property
    def has_overflow(self) -> bool:
        """Whether it holds offsets too far from its base offset for its indexes."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.offset_index.can_append_offset(next_offset - 1)

    # checking and truncating

    def sanity_check(self) -> None:
        """FileNotFoundError if the offset index is missing, CorruptIndex if the transaction index is wrong.

        A missing time index is created, empty.
        """
        if self.log.fs.kind(self._offset_index.path) == "missing":
            raise FileNotFoundError(self._offset_index.path)
        if self.log.fs.kind(self._time_index.path) == "missing":
            self.time_index.resize(0)
        self.transaction_index.sanity_check()

    def reset_indexes(self) -> None:
        """Empty the indexes: they are about to be rebuilt."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._max_timestamp = None

    def make_index_files(self) -> None:
        """Create the offset and time index files, which otherwise happens on first use."""
        self._offset_index.get()
        self._time_index.get()

    def finish_indexes(self) -> None:
        """Add the last time index entry, and trim both indexes to their final sizes."""
        self.append_time_index(skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()

    def truncate_to(self, offset: int) -> int:
        """Cut off the entry that holds `offset` and everything after it; how many bytes were removed."""
        place = self.translate_offset(offset)
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        offset_index.resize(offset_index.max_size)
        time_index.resize(time_index.max_size)
        truncated = 0 if place is None else self.log.truncate_to(place.position)
        if self.size == 0:
            self._created_ms = self._clock.now_ms()
            self._first_timestamp = None
        self._bytes_since_index_entry = 0
        if self.max_timestamp >= 0:
            self._max_timestamp = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        indexed = self.time_index.last_entry
        later = self.log.largest_timestamp_after(self.offset_index.lookup(indexed.offset).position)
        return TimestampOffset(later.timestamp, later.offset) if later.timestamp > indexed.timestamp else indexed

    # files

    def resize_indexes(self, size: int) -> None:
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def on_become_inactive(self) -> None:
        """Nothing more is appended: trim the files to their final sizes, durably.

        The recovery point may be where the next segment begins; then a crash does not cause this one to be recovered.
        """
        self.finish_indexes()
        self.log.trim()
        self._offset_index.close()
        self._time_index.close()
        self.transaction_index.release()
        self.log.become_inactive()

    def release_files(self) -> None:
        """Close the files of an inactive segment until they are read again."""
        self._offset_index.close_handlers()
        self._time_index.close_handlers()
        self.transaction_index.release()
        self.log.become_inactive()

    def flush(self) -> None:
        """Make everything durable."""
        self.log.sync()
        self.offset_index.flush()
        self.time_index.flush()
        self.transaction_index.flush()

    def has_suffix(self, suffix: str) -> bool:
        return self.log.path.endswith(suffix)

    def change_suffixes(self, old: str, new: str) -> None:
        """Rename all files from one suffix to another."""
        self.change_log_suffix(old, new)
        self.change_index_suffixes(old, new)

    def change_log_suffix(self, old: str, new: str) -> None:
        self.log.rename(self.log.path.removesuffix(old) + new)

    def change_index_suffixes(self, old: str, new: str) -> None:
        for index in (self._offset_index, self._time_index):
            index.rename(index.path.removesuffix(old) + new)
        self.transaction_index.rename_to(self.transaction_index.path.removesuffix(old) + new)

    def close(self) -> None:
        """Trim the files to their final sizes, make the entries durable, and close the files."""
        if self._max_timestamp is not None:
            with suppress(LogRefusal):  # closing does not fail for want of the last time index entry
                self.append_time_index(skip_full_check=True)
        self._offset_index.close()
        self._time_index.close()
        self.log.close()
        self.transaction_index.flush()
        self.transaction_index.close()

    def close_handlers(self) -> None:
        """Close the files as they are."""
        self._offset_index.close_handlers()
        self._time_index.close_handlers()
        self.log.close_handlers()
        self.transaction_index.close()

    def delete_if_exists(self) -> None:
        self.log.delete_if_exists()
        self._offset_index.delete_if_exists()
        self._time_index.delete_if_exists()
        self.transaction_index.delete_if_exists()
