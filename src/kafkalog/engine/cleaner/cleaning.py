"""A pass of the cleaner over a log: map the keys of its dirty part, then rewrite its segments without obsolete records.

Segments are rewritten in groups, each of which becomes one segment: it is written under `.cleaned` names, made durable, and
replaces the old ones by renames that a crash may interrupt anywhere (`PartitionLog.replace_segments`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import CorruptRecord, InvalidState, LogRefusal, SegmentOffsetOverflow
from kafkalog.format.java import MAX_INT32

from ..entries import FRONT_SIZE, entry_size
from ..file_records import FileRecords
from ..log_segment import LogSegment
from ..partition_log import PartitionLog
from .chunk_kernels import BulkFilter, map_chunk
from .kept_records import CleanedTransactions, CleanStats, LastRecord, Retention
from .offset_map import OffsetMap, OffsetMapping
from .rewriting import filter_chunk
from .selection import CleanerSelection, LogToClean
from .workspace import Workspace

IO_BUFFER_BYTES: Final = 512 << 10  # log.cleaner.io.buffer.size
LOAD_FACTOR: Final = 0.9  # log.cleaner.io.buffer.load.factor


class CleaningAborted(Exception):
    """A pass was aborted; the log is as the finished groups have left it."""


@dataclass
class CleanResult:
    """The result of a pass: offsets up to `end_offset` are clean now."""

    to_clean: LogToClean
    end_offset: int
    stats: CleanStats
    is_aborted: bool = False


class Cleaner:
    """Cleans logs one after the other in a fixed amount of memory, that of its map and its buffers.

    `check` is called before each chunk and may raise CleaningAborted. Without kernels (`by_kernels`) the result is the same.
    """

    def __init__(
        self,
        offsets: OffsetMap | None = None,
        *,
        load_factor: float = LOAD_FACTOR,
        io_buffer_bytes: int = IO_BUFFER_BYTES,
        max_io_buffer_bytes: int | None = None,
        check: Callable[[], None] = lambda: None,
        by_kernels: bool = True,
    ) -> None:
        self.offsets = OffsetMap() if offsets is None else offsets
        self.load_factor = load_factor
        self.io_buffer_bytes = io_buffer_bytes
        self.max_io_buffer_bytes = max(io_buffer_bytes, 1 << 22) if max_io_buffer_bytes is None else max_io_buffer_bytes
        self.buffer_bytes = io_buffer_bytes  # its current size
        self.check = check
        self.workspace = Workspace() if by_kernels else None

    def clean(self, to_clean: LogToClean, now_ms: int) -> CleanResult:
        """Clean as much as fits in the map. Groups before one that fails stay cleaned."""
        log = to_clean.log
        clean_segments = log.log_segments(0, to_clean.first_dirty_offset)
        legacy_horizon_ms = clean_segments[-1].modified_ms - log.config.delete_retention_ms if clean_segments else 0
        stats = CleanStats()
        self._map(to_clean, stats)
        end_offset = self.offsets.latest_offset + 1
        transactions = CleanedTransactions()
        for group in group_segments(log.log_segments(0, end_offset), log, to_clean.first_uncleanable_offset):
            rewrite = _GroupRewrite(self, to_clean, group, stats, transactions, now_ms, legacy_horizon_ms)
            rewrite.run()
        return CleanResult(to_clean, end_offset, stats)

    def chunks(self, log: PartitionLog, segment: LogSegment, position: int = 0) -> Chunks:
        return Chunks(segment.log, self.buffer_bytes, self.max_io_buffer_bytes, log.config.max_message_bytes, position)

    def _map(self, to_clean: LogToClean, stats: CleanStats) -> None:
        log, start, stop = to_clean.log, to_clean.first_dirty_offset, to_clean.first_uncleanable_offset
        self.offsets.clear()
        mapping = OffsetMapping(self.offsets, int(self.offsets.slots * self.load_factor), start, stats)
        dirty = log.log_segments(start, stop)
        mapping.transactions.add_aborted(log.collect_aborted_transactions(start, stop))
        ends = [*(segment.base_offset for segment in dirty[1:]), stop]
        for segment, end in zip(dirty, ends, strict=False):
            self.check()
            self._map_segment(log, segment, mapping)
            if mapping.is_full:
                return
            self.offsets.latest_offset = end - 1  # offsets may be missing at the end of a segment

    def _map_segment(self, log: PartitionLog, segment: LogSegment, mapping: OffsetMapping) -> None:
        position = segment.offset_index.lookup(mapping.start_offset).position
        if position < 0:
            index = segment.offset_index.path
            raise LogRefusal(f"{index}: offset {mapping.start_offset} cannot be at byte {position}; run `kafkalog reindex`")
        chunks = self.chunks(log, segment, position)
        while chunks.has_more and not mapping.is_full:
            self.check()
            chunk = chunks.read()
            size = map_chunk(self.workspace, mapping, chunk, chunks.position) if self.workspace else mapping.add_chunk(chunk)
            if not mapping.is_full:
                mapping.stats.map_bytes_read += size
                chunks.advance(chunk, size)
        # As in Kafka a buffer that has grown is freed at the end of a segment, which a pass with a full map does not reach.
        self.buffer_bytes = chunks.capacity if mapping.is_full else self.io_buffer_bytes


class _GroupRewrite:
    """The rewrite of a group of segments into the one that replaces them."""

    def __init__(
        self,
        cleaner: Cleaner,
        to_clean: LogToClean,
        segments: list[LogSegment],
        stats: CleanStats,
        transactions: CleanedTransactions,
        now_ms: int,
        legacy_horizon_ms: int,
    ) -> None:
        self.cleaner = cleaner
        self.log = to_clean.log
        self.segments = segments
        self.legacy_horizon_ms = legacy_horizon_ms
        self.cleaned = self.log.create_new_cleaned_segment(segments[0].base_offset)
        self.retention = Retention(
            offsets=cleaner.offsets,
            now_ms=now_ms,
            delete_retention_ms=self.log.config.delete_retention_ms,
            upper_bound_offset=to_clean.first_uncleanable_offset,
            stats=stats,
            cleaned_index=self.cleaned.transaction_index,
            last_records=last_records_of_active_producers(self.log),
            transactions=transactions,
        )

    def run(self) -> None:
        try:
            ends = [segment.base_offset for segment in self.segments[1:]]
            for segment in self.segments:
                end = ends.pop(0) if ends else segment.read_next_offset()
                self.retention.transactions.add_aborted(self.log.collect_aborted_transactions(segment.base_offset, end))
                self.retention.retains_legacy_deletes = segment.modified_ms > self.legacy_horizon_ms
                self._rewrite_or_split(segment)
            self.cleaned.on_become_inactive()
            self.cleaned.flush()
            self.cleaned.set_modified_ms(self.segments[-1].modified_ms)
            self.log.replace_segments([self.cleaned], self.segments)
        except CleaningAborted:
            self.cleaned.delete_if_exists()
            raise

    def _rewrite_or_split(self, segment: LogSegment) -> None:
        try:
            self._rewrite(segment)
        except SegmentOffsetOverflow:
            # A segment whose offsets span more than an index can hold: split it now, clean it next time.
            self.log.split_overflowed_segment(segment)
            raise CleaningAborted from None

    def _rewrite(self, segment: LogSegment) -> None:
        stats = self.retention.stats
        chunks = self.cleaner.chunks(self.log, segment)
        bulk = BulkFilter(self.cleaner.workspace, self.retention) if self.cleaner.workspace else None
        while chunks.has_more:
            self.cleaner.check()
            chunk = chunks.read()
            if bulk is None:
                filtered = filter_chunk(chunk, chunks.capacity, self.retention)
            else:
                filtered = bulk.filter_chunk(chunk, chunks.position, chunks.capacity)
            stats.messages_read += filtered.messages_read
            stats.bytes_read += filtered.bytes_read
            stats.messages_written += filtered.messages_retained
            stats.bytes_written += len(filtered.output)
            if filtered.output:
                self.cleaned.append(filtered.max_offset, filtered.output)
            chunks.advance(chunk, filtered.bytes_read)
        self.cleaner.buffer_bytes = self.cleaner.io_buffer_bytes


def group_segments(segments: list[LogSegment], log: PartitionLog, first_uncleanable_offset: int) -> list[list[LogSegment]]:
    """Groups of adjacent segments that fit in one: by its size, its indexes and their 32-bit offsets."""
    max_sizes = log.config.segment_bytes, log.config.segment_index_bytes, log.config.segment_index_bytes
    groups: list[list[LogSegment]] = []
    sizes = [0, 0, 0]
    # The next base offset stands in for the last offset of a segment: finding the true one takes a read.
    ends = [*(segment.base_offset for segment in segments[1:]), first_uncleanable_offset]
    for segment, end in zip(segments, ends, strict=False):
        more = segment.size, segment.offset_index.size_bytes, segment.time_index.size_bytes
        together = [size + added for size, added in zip(sizes, more, strict=True)]
        fits = all(size <= limit for size, limit in zip(together, max_sizes, strict=True))
        if groups and fits and (segment.size == 0 or end - 1 - groups[-1][0].base_offset <= MAX_INT32):
            groups[-1].append(segment)
            sizes = together
        else:
            groups.append([segment])
            sizes = list(more)
    return groups


def last_records_of_active_producers(log: PartitionLog) -> dict[int, LastRecord]:
    """The last record of each producer that the log still has state for."""
    return {
        producer_id: LastRecord(state.last_data_offset if state.last_data_offset >= 0 else None, state.producer_epoch)
        for producer_id, state in log.producers.active_producers.items()
    }


def clean_filthiest(selection: CleanerSelection, cleaner: Cleaner, now_ms: int) -> CleanResult | None:
    """Clean the log of a directory with the highest dirty ratio, if one is due, and store how far it is clean.

    A log whose pass fails is not cleaned again: the next pass would fail at the same place.
    """
    to_clean = selection.find_filthiest(now_ms)
    if to_clean is None:
        return None
    result = CleanResult(to_clean, to_clean.first_dirty_offset, CleanStats(), is_aborted=True)
    try:
        result = cleaner.clean(to_clean, now_ms)
    except CleaningAborted:
        pass
    except (LogRefusal, OSError):
        selection.uncleanable.add((to_clean.log.topic, to_clean.log.partition))
        raise
    finally:
        selection.done_cleaning(to_clean.log, result.end_offset)
    return result


class Chunks:
    """Reads a segment from `position` on in chunks of whole entries; the buffer grows for larger entries.

    The reader calls `advance` with the size of the whole entries in a chunk.
    """

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
        """Continue after the first `size` bytes of the chunk; if that is 0, make room for the entry that did not fit."""
        self.position += size
        if not size and chunk:
            self._grow(chunk)

    def _grow(self, chunk: bytes) -> None:
        largest = self._max_message_bytes
        if self.capacity >= largest:
            largest = self._size_of_next(chunk)
        # An entry may be above the topic's limit: recompressed by the cleaner, or older than the limit.
        self.capacity = min(2 * self.capacity, max(largest, self._max_capacity))

    def _size_of_next(self, chunk: bytes) -> int:
        where = f"{self._records.path} at byte {self.position}"
        if len(chunk) < FRONT_SIZE:
            raise InvalidState(f"{where}: {len(chunk)} bytes are not an entry")
        size = entry_size(chunk, 0, sys.maxsize)
        assert size is not None
        if size <= self.capacity:
            raise InvalidState(f"{where}: only {len(chunk)} of the {size} bytes of an entry could be read")
        left = self._records.size - self.position
        if size > left:
            raise CorruptRecord(f"{where}: an entry of {size} bytes, but only {left} are left")
        return size
