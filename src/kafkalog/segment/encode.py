"""Encode Arrow columns of the `records` table: v2 batches, or v0 and v1 messages, as Kafka's own writers lay them out.

Rows are encoded in slices of many batches, so memory stays bounded and no Python object is created per record. Where batches are
cut depends on the records alone, not on the chunks of the table.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.format import batch, message
from kafkalog.format.batch import NO_SEQUENCE
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.java import MAX_INT16, MAX_INT32, MAX_INT64
from kafkalog.kernels import encode_batches as batch_kernel
from kafkalog.kernels import encode_messages as kernel
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.native import NOT_FOUND, crc32c_function, lz4_compress_function

from .table_columns import NO_FLAGS, NO_INTS, SliceScratch, TableColumns, check_between

BATCH_BYTES = 16_384  # the producer's batch.size
SLICE_ROWS = 1 << 16
TARGET_BYTES = 4 << 20
RUN_BYTES = 1 << 20  # stays in the second cache
RUN_BATCHES = 4099  # no power of two: see ARCHITECTURE.md on header tables
FAULTS = {
    kernel.BAD_OFFSET: "offsets are at least 0 and rise from record to record",
    kernel.BAD_TIMESTAMP: "allowed timestamps are -1 (none) and 0 or above",
    kernel.TOO_LARGE: f"a batch cannot be larger than {MAX_INT32} bytes",
}


@dataclass(frozen=True)
class EncodeOptions:
    """How rows are packed into batches or messages.

    Offsets are those of the column `offset`, or count from `base_offset` when it is given (from 0 without either). A batch ends
    at `batch_records`, or before it grows beyond `batch_bytes` uncompressed; a larger record gets a batch of its own.
    `log_append_time_ms` replaces all timestamps and makes the entries LogAppendTime.
    """

    codec: str = "none"
    level: int | None = None
    base_offset: int | None = None
    batch_records: int = MAX_INT32
    batch_bytes: int = BATCH_BYTES
    log_append_time_ms: int | None = None

    def __post_init__(self) -> None:
        check_between("batch_records", self.batch_records, 1, MAX_INT32)
        check_between("batch_bytes", self.batch_bytes, 1, MAX_INT32)
        if self.log_append_time_ms is not None:
            check_between("log_append_time_ms", self.log_append_time_ms, 0, MAX_INT64)
        self.compress(b"")  # refuses an unknown level before the first row is looked at

    @cached_property
    def codec_id(self) -> int:
        return codecs.codec_id(self.codec)

    @property
    def is_compressed(self) -> bool:
        return self.codec_id != codecs.NONE

    @property
    def attributes(self) -> int:
        return self.codec_id | (batch.LOG_APPEND_TIME if self.log_append_time_ms is not None else 0)

    def compress(self, content: memoryview | bytes, magic: int = 2) -> bytes:
        return codecs.compress(self.codec_id, content, level=self.level, magic=magic)


@dataclass(frozen=True)
class Producer:
    """The producer in the headers of v2 batches; without an id, none. `base_sequence` is that of the first batch."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    def check(self, *, is_control: bool) -> None:
        check_between("producer_id", self.producer_id, -1, MAX_INT64)
        check_between("producer_epoch", self.producer_epoch, -1, MAX_INT16)
        check_between("base_sequence", self.base_sequence, NO_SEQUENCE, MAX_INT32)
        if not self.is_idempotent:
            if self.is_transactional:
                raise UsageError("transactional batches need a producer id")
            return
        if self.producer_epoch < 0:
            raise UsageError(f"producer {self.producer_id} needs an epoch")
        if self.base_sequence < 0 and not is_control:
            raise UsageError(f"producer {self.producer_id} needs a sequence number; only control batches go without")


@dataclass(frozen=True)
class BatchFields:
    """What only the headers of v2 batches hold.

    `has_append_times` makes the batches LogAppendTime with the timestamps of the rows, which must be equal within a batch.
    """

    leader_epoch: int = -1
    producer: Producer = Producer()
    has_append_times: bool = False
    delete_horizon_ms: int | None = None
    is_control: bool = False

    def __post_init__(self) -> None:
        check_between("leader_epoch", self.leader_epoch, -1, MAX_INT32)
        self.producer.check(is_control=self.is_control)
        if self.delete_horizon_ms is not None:
            check_between("delete_horizon_ms", self.delete_horizon_ms, 0, MAX_INT64)

    @property
    def attributes(self) -> int:
        flags = (
            (self.has_append_times, batch.LOG_APPEND_TIME),
            (self.producer.is_transactional, batch.TRANSACTIONAL),
            (self.is_control, batch.CONTROL),
            (self.delete_horizon_ms is not None, batch.DELETE_HORIZON),
        )
        return sum(mask for given, mask in flags if given)


PLAIN = EncodeOptions()
NO_PRODUCER = BatchFields()


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


class BatchRun(NamedTuple):
    """Consecutive whole batches, and their headers with positions in `data`."""

    data: memoryview
    entries: EntryTable

    def part(self, first: int, last: int) -> BatchRun:
        """The batches from number `first` to before `last`."""
        entries = self.entries[first:last].copy()
        start = int(entries.position[0])
        entries.position -= start
        return BatchRun(self.data[start : start + int(entries.stop[-1])], entries)

    def moved(self, base_offset: int) -> BatchRun:
        """A copy with all offsets shifted so that the first batch begins at `base_offset`."""
        data, entries = np.frombuffer(self.data, np.uint8).copy(), self.entries.copy()
        distance = base_offset - int(entries.base_offset[0])
        entries.base_offset += distance
        entries.last_offset += distance
        places = entries.position[:, None] + np.arange(8)
        data[places] = entries.base_offset.astype(">i8").view(np.uint8).reshape(-1, 8)  # no checksum covers it
        return BatchRun(memoryview(data), entries)  # type: ignore[arg-type]

    def batches(self) -> Iterator[memoryview]:
        for start, stop in zip(self.entries.position.tolist(), self.entries.stop.tolist(), strict=True):
            yield self.data[start:stop]


def encode_batches(
    table: pa.Table | pa.RecordBatch, options: EncodeOptions = PLAIN, fields: BatchFields = NO_PRODUCER
) -> Iterator[bytes]:
    """The v2 batches that hold the rows of `table`, one `bytes` each."""
    return (bytes(each) for run in encode_runs(table, options, fields) for each in run.batches())


def encode_runs(
    table: pa.Table | pa.RecordBatch,
    options: EncodeOptions = PLAIN,
    fields: BatchFields = NO_PRODUCER,
    *,
    run_bytes: int = RUN_BYTES,
) -> Iterator[BatchRun]:
    """The v2 batches that hold the rows of `table`, many at a time; a run is valid until the next is requested.

    Columns used: `key`, `value`, `offset`, `timestamp_ms` or `timestamp` (truncated to milliseconds), `headers_raw` or `headers`;
    the first named wins. A missing column is null in every row; a null timestamp is stored as -1. A boolean column `batch_start`
    begins a batch where it is true. A run has at most `run_bytes` before compression, unless a single batch has more. UsageError
    for what Kafka's writer refuses too.
    """
    check_between("run_bytes", run_bytes, 1, MAX_INT32)
    columns = TableColumns(table, options.base_offset, fields.is_control)
    runs = _iter_runs(columns, _kernel_settings(options, fields), run_bytes)
    if not options.is_compressed:
        return runs
    # The kernel gives the same bytes without a Python object per batch.
    if options.codec_id == codecs.LZ4 and options.level is None and lz4_compress_function() != NOT_FOUND:
        return _compressed_by_kernel(runs)
    return (_compressed(run, options) for run in runs)


def _kernel_settings(options: EncodeOptions, fields: BatchFields) -> Ints:
    settings = np.empty(batch_kernel.SETTING_COUNT, np.int64)
    settings[batch_kernel.MOST_RECORDS] = options.batch_records
    settings[batch_kernel.MOST_BYTES] = options.batch_bytes
    settings[batch_kernel.WITH_ATTRIBUTES] = options.attributes | fields.attributes
    settings[batch_kernel.WITH_LEADER_EPOCH] = fields.leader_epoch
    settings[batch_kernel.WITH_PRODUCER_ID] = fields.producer.producer_id
    settings[batch_kernel.WITH_PRODUCER_EPOCH] = fields.producer.producer_epoch
    settings[batch_kernel.NEXT_SEQUENCE] = fields.producer.base_sequence
    settings[batch_kernel.HORIZON] = _given(fields.delete_horizon_ms, kernel.NO_HORIZON)
    settings[batch_kernel.APPEND_TIME] = _given(options.log_append_time_ms, kernel.NO_APPEND_TIME)
    settings[batch_kernel.BEFORE] = -1
    settings[batch_kernel.CRC_FUNCTION] = batch_kernel.NO_CHECKSUM if options.is_compressed else crc32c_function()
    return settings


def encode_messages(table: pa.Table | pa.RecordBatch, magic: int = 1, options: EncodeOptions = PLAIN) -> Iterator[bytes]:
    """The v0 or v1 messages of the rows of `table`: with a codec one compressed set per `bytes`, otherwise many messages in each.

    Columns as for `encode_runs`, except that there are no headers and that v0 has no timestamps. A log append time also goes into
    the messages inside a set.
    """
    if magic not in (0, 1):
        raise UsageError(f"magic {magic} is not a message format: allowed are 0 and 1")
    if magic == 0 and options.log_append_time_ms is not None:
        raise UsageError("a v0 message has no timestamp, so it has no log append time")
    if options.codec_id > message.MAX_CODEC:
        raise UsageError(f"codec {options.codec} cannot be in a v{magic} message: allowed are {', '.join(codecs.NAMES[:-1])}")
    return _iter_messages(_MessageRows(table, magic, options), magic, options)


@dataclass(frozen=True)
class _Planned:
    """Whole sets of messages of adjacent rows: `batches` as `kernels.encode_messages.plan` fills it, with the closing column."""

    columns: kernel.Columns
    sizes: Ints
    batches: Ints

    @property
    def count(self) -> int:
        return len(self.batches[0]) - 1

    @property
    def last_offsets(self) -> Ints:
        offsets: Ints = self.columns.offsets[self.batches[kernel.FIRST_ROW, 1:] - 1]
        return offsets

    def pieces(self) -> Iterator[_Planned]:
        """The same sets, few enough at a time for a buffer of TARGET_BYTES; a larger set comes alone."""
        stops = self.batches[kernel.STOP, :-1]
        first = 0
        while first < self.count:
            start = self.batches[kernel.START, first]
            last = max(first + 1, int(np.searchsorted(stops, start + TARGET_BYTES, side="right")))
            batches = self.batches[:, first : last + 1].copy()
            batches[kernel.START : kernel.STOP + 1] -= start
            yield _Planned(self.columns, self.sizes, batches)
            first = last

    def target(self) -> Bytes:
        return np.empty(int(self.batches[kernel.STOP, self.count - 1]), np.uint8)

    def parts(self, target: Bytes) -> Iterator[memoryview]:
        """The bytes of each set in the filled `target`."""
        view = memoryview(target)  # type: ignore[arg-type]
        for start, stop in self.batches[kernel.START : kernel.STOP + 1, :-1].T.tolist():
            yield view[start:stop]


class _MessageRows:
    """The rows of a table, cut into sets of messages slice by slice."""

    def __init__(self, table: pa.Table | pa.RecordBatch, magic: int, options: EncodeOptions) -> None:
        self.columns = TableColumns(table, options.base_offset, False)
        self.magic = magic
        self.options = options

    def planned(self) -> Iterator[_Planned]:
        """All rows, some sets at a time."""
        start = 0
        before = -1
        size = SLICE_ROWS
        while start < self.columns.rows:
            stop = min(start + size, self.columns.rows)
            planned = self._plan(start, stop, before)
            if stop < self.columns.rows:
                # More rows may still join the last set of this slice.
                if planned.count == 1:
                    size *= 2
                    continue
                planned = _Planned(planned.columns, planned.sizes, planned.batches[:, :-1])
            yield from planned.pieces()
            start += int(planned.batches[kernel.FIRST_ROW, -1])
            before = int(planned.last_offsets[-1])
            size = SLICE_ROWS

    def _plan(self, start: int, stop: int, before: int) -> _Planned:
        columns = self.columns.slice(start, stop)
        sizes = np.empty(stop - start, np.int64)
        batches = np.zeros((kernel.BATCH_FIELDS, stop - start + 1), np.int64)
        if _has_headers(columns):
            raise UsageError(f"v{self.magic} messages have no headers: leave out the column, or encode v2 batches")
        kernel.measure(columns, self.magic, sizes)
        limits = self.options.batch_records, self.options.batch_bytes
        status, row, count = kernel.plan(columns.offsets, columns.timestamps, before, *limits, sizes, batches)
        if status != kernel.OK:
            where = f"row {start + row} with offset {columns.offsets[row]} and timestamp {columns.timestamps[row]}"
            raise UsageError(f"{where} cannot be encoded: {FAULTS[status]}")
        return _Planned(columns, sizes, batches[:, : count + 1])


def _iter_runs(columns: TableColumns, settings: Ints, run_bytes: int) -> Iterator[BatchRun]:
    """The batches of all rows, as the kernel writes them."""
    target = np.empty(run_bytes, np.uint8)
    entries = EntryTable.with_room(RUN_BATCHES)
    start = 0
    slice_rows = SLICE_ROWS
    while start < columns.rows:
        stop = min(start + slice_rows, columns.rows)
        part, starts = columns.slice(start, stop), columns.batch_starts(start, stop)
        headers = _encoded_headers(part, columns.scratch)
        is_end = stop == columns.rows
        status, row = batch_kernel.NO_ROOM, 0
        while status == batch_kernel.NO_ROOM:
            status, row, count, size = batch_kernel.write_batches(
                part, starts, *headers, row, is_end, settings, target, entries.fields
            )
            if count:
                yield BatchRun(memoryview(target)[:size], entries[:count])  # type: ignore[arg-type]
            elif status == batch_kernel.NO_ROOM:
                target = np.empty(2 * len(target), np.uint8)
        if status != kernel.OK:
            where = f"row {start + row} with offset {part.offsets[row]} and timestamp {part.timestamps[row]}"
            raise UsageError(f"{where} cannot be encoded: {FAULTS[status]}")
        # More rows may still join the last batch of a slice, so it is encoded again with the next one.
        slice_rows = SLICE_ROWS if row else 2 * slice_rows
        start += row


def _has_headers(columns: kernel.Columns) -> bool:
    counts = np.diff(columns.header_offsets)
    return bool((counts * columns.header_valid if len(columns.header_valid) else counts).any())


def _encoded_headers(columns: kernel.Columns, scratch: SliceScratch) -> tuple[Bytes, Ints]:
    """The headers of all rows in record format, and where those of each row end; empty if there are none."""
    if not len(columns.header_offsets):
        return NO_FLAGS, NO_INTS
    target = scratch.bytes("encoded headers", batch_kernel.max_headers_size(columns))
    stops = scratch.ints("encoded header stops", len(columns.offsets))
    batch_kernel.write_headers(columns, target, stops)
    return target, stops


def _compressed_by_kernel(runs: Iterator[BatchRun]) -> Iterator[BatchRun]:
    """The same batches with their records compressed with lz4."""
    functions = lz4_compress_function(), crc32c_function()
    target = np.empty(0, np.uint8)
    for run in runs:
        room = batch_kernel.compressed_room(len(run.data), len(run.entries))
        if len(target) < room:
            target = np.empty(room, np.uint8)
        entries = run.entries.copy()
        size = batch_kernel.compress_batches(np.frombuffer(run.data, np.uint8), entries.fields, *functions, target)
        for batch_size in entries.size.tolist() if size > MAX_INT32 else ():
            _check_length(batch_size - batch.LOG_OVERHEAD)
        yield BatchRun(memoryview(target)[:size], entries)  # type: ignore[arg-type]


def _compressed(run: BatchRun, options: EncodeOptions) -> BatchRun:
    """The same batches with their records compressed, and with checksums, which they did not have before."""
    parts: list[memoryview | bytes] = []
    sizes, checksums = [], []
    for each in run.batches():
        payload = options.compress(each[batch.HEADER_SIZE :])
        checksum = crc32c(payload, crc32c(each[batch.CRC_START : batch.HEADER_SIZE]))
        length = _check_length(batch.MIN_BATCH_LENGTH + len(payload)).to_bytes(4, "big")
        front = each[: batch.BATCH_LENGTH_POSITION], length, each[batch.LOG_OVERHEAD : batch.CRC_POSITION]
        parts += *front, checksum.to_bytes(4, "big"), each[batch.CRC_START : batch.HEADER_SIZE], payload
        sizes.append(batch.HEADER_SIZE + len(payload))
        checksums.append(checksum)
    entries = run.entries.copy()
    entries.size = sizes
    entries.position = np.cumsum(entries.size) - entries.size
    entries.crc = checksums
    return BatchRun(memoryview(b"".join(parts)), entries)


def _check_length(length: int) -> int:
    if length > MAX_INT32 - batch.LOG_OVERHEAD:
        raise UsageError(f"a batch of {length} compressed bytes cannot be stored: {FAULTS[kernel.TOO_LARGE]}")
    return length


def _iter_messages(rows: _MessageRows, magic: int, options: EncodeOptions) -> Iterator[bytes]:
    relative = magic == 1 and options.is_compressed
    append_time = _given(options.log_append_time_ms, kernel.NO_APPEND_TIME)
    flags = options.attributes & ~batch.CODEC_MASK
    for planned in rows.planned():
        target = planned.target()
        kernel.write_messages(planned.columns, magic, flags, append_time, relative, planned.sizes, planned.batches, target)
        parts = planned.parts(target)
        if not options.is_compressed:
            yield from map(bytes, parts)
            continue
        times = planned.batches[kernel.MAX_TIMESTAMP, :-1].tolist()
        for part, offset, newest in zip(parts, planned.last_offsets.tolist(), times, strict=True):
            time = _given(options.log_append_time_ms, newest)
            yield _wrapper(magic, options.attributes, offset, time, options.compress(part, magic))


def _wrapper(magic: int, attributes: int, offset: int, timestamp: int, payload: bytes) -> bytes:
    """The message that holds a compressed set."""
    front = struct.pack(">bb", magic, attributes)
    if magic:
        front += struct.pack(">q", timestamp)
    front += struct.pack(">ii", -1, len(payload))
    size = 4 + len(front) + len(payload)
    if size > MAX_INT32 - batch.LOG_OVERHEAD:
        raise UsageError(f"a set of {size} compressed bytes cannot be stored: {FAULTS[kernel.TOO_LARGE]}")
    return b"".join((struct.pack(">qiI", offset, size, zlib.crc32(payload, zlib.crc32(front))), front, payload))
