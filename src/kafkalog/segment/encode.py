"""Encode Arrow columns of the `records` table: v2 batches, or v0 and v1 messages, as Kafka's own writers lay them out.

The rows are taken in slices that hold many batches, so that memory stays bounded and no Python object is made for a record. Where
batches are cut depends on the records alone, not on the chunks in which the table comes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.format import batch, message
from kafkalog.format.sequence import NO_SEQUENCE, increment_sequence
from kafkalog.kernels import encode as kernel
from kafkalog.kernels.bytes import Bytes, Ints

BATCH_BYTES = 16_384  # the producer's batch.size
SLICE_ROWS = 1 << 16
TARGET_BYTES = 4 << 20
MAX_INT16, MAX_INT32, MAX_INT64 = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1
WIDE_HEADERS = pa.large_list(pa.struct([pa.field("key", pa.large_binary()), pa.field("value", pa.large_binary())]))
NO_FLAGS: Bytes = np.empty(0, np.uint8)
NO_INTS: Ints = np.empty(0, np.int64)
MILLISECONDS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
FAULTS = {
    kernel.BAD_OFFSET: "offsets are at least 0 and rise from record to record",
    kernel.BAD_TIMESTAMP: "allowed timestamps are -1 (none) and 0 or above",
    kernel.TOO_LARGE: f"a batch cannot be larger than {MAX_INT32} bytes",
}


def encode_batches(
    table: pa.Table | pa.RecordBatch,
    *,
    codec: str = "none",
    level: int | None = None,
    base_offset: int | None = None,
    batch_records: int = MAX_INT32,
    batch_bytes: int = BATCH_BYTES,
    leader_epoch: int = -1,
    log_append_time_ms: int | None = None,
    has_append_times: bool = False,
    delete_horizon_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> Iterator[bytes]:
    """The v2 batches that hold the rows of `table`, one `bytes` each.

    Columns that count: `key`, `value`, `offset`, `timestamp_ms` or `timestamp` (the finer part of a millisecond is dropped),
    `headers_raw` or `headers`; the first named wins. A missing column is null in every row; a null timestamp is stored as -1.
    Offsets are those of the column, or count from `base_offset` when it is given (from 0 without either).

    A batch ends at `batch_records`, or before it grows beyond `batch_bytes` uncompressed; a larger record has a batch of its own.
    A boolean column `batch_start` begins one where it is true. `log_append_time_ms` makes the batches LogAppendTime, and so does
    `has_append_times` with the timestamps of the rows, where those of one batch have to be equal. `base_sequence` is that of the
    first batch, the others follow. Raises UsageError for what Kafka's writer refuses too.
    """
    _check_between("leader_epoch", leader_epoch, -1, MAX_INT32)
    _check_producer(producer_id, producer_epoch, base_sequence, is_transactional, is_control)
    form = _Form(
        2, codecs.codec_id(codec), level, log_append_time_ms, delete_horizon_ms, is_transactional, is_control, has_append_times
    )
    rows = _Rows(table, base_offset, batch_records, batch_bytes, form)
    return _iter_batches(rows, form, leader_epoch, producer_id, producer_epoch, base_sequence)


def encode_messages(
    table: pa.Table | pa.RecordBatch,
    *,
    magic: int = 1,
    codec: str = "none",
    level: int | None = None,
    base_offset: int | None = None,
    batch_records: int = MAX_INT32,
    batch_bytes: int = BATCH_BYTES,
    log_append_time_ms: int | None = None,
) -> Iterator[bytes]:
    """The v0 or v1 messages of the rows of `table`: with a codec one compressed set per `bytes`, else many messages in each.

    Columns and limits as for `encode_batches`; there are no headers, and v0 has no timestamps. `log_append_time_ms` stands for
    the timestamps of all messages, also inside a set.
    """
    if magic not in (0, 1):
        raise UsageError(f"magic {magic} is not a message format: allowed are 0 and 1")
    if magic == 0 and log_append_time_ms is not None:
        raise UsageError("a v0 message has no timestamp, so it has no log append time")
    number = codecs.codec_id(codec)
    if number > message.MAX_CODEC:
        raise UsageError(f"codec {codec} cannot be in a v{magic} message: allowed are {', '.join(codecs.NAMES[:-1])}")
    form = _Form(magic, number, level, log_append_time_ms, None, False, False)
    return _iter_messages(_Rows(table, base_offset, batch_records, batch_bytes, form), form)


@dataclass(frozen=True)
class _Form:
    """What all batches of one call share."""

    magic: int
    codec: int
    level: int | None
    log_append_time_ms: int | None
    delete_horizon_ms: int | None
    is_transactional: bool
    is_control: bool
    has_append_times: bool = False

    def __post_init__(self) -> None:
        if self.log_append_time_ms is not None:
            _check_between("log_append_time_ms", self.log_append_time_ms, 0, MAX_INT64)
        if self.delete_horizon_ms is not None:
            _check_between("delete_horizon_ms", self.delete_horizon_ms, 0, MAX_INT64)
        self.compress(b"")  # an unknown level is refused before the first row is looked at

    @property
    def attributes(self) -> int:
        flags = (
            (self.log_append_time_ms is not None or self.has_append_times, batch.LOG_APPEND_TIME),
            (self.is_transactional, batch.TRANSACTIONAL),
            (self.is_control, batch.CONTROL),
            (self.delete_horizon_ms is not None, batch.DELETE_HORIZON),
        )
        return self.codec | sum(mask for given, mask in flags if given)

    def compress(self, content: memoryview | bytes) -> memoryview | bytes:
        if self.codec == codecs.NONE and self.level is None:
            return content
        return codecs.compress(self.codec, content, level=self.level, magic=self.magic)


@dataclass(frozen=True)
class _Planned:
    """Whole batches of consecutive rows: `batches` as `kernels.encode.plan` fills it, with its closing column."""

    columns: kernel.Columns
    sizes: Ints
    batches: Ints

    @property
    def count(self) -> int:
        return len(self.batches[0]) - 1

    @property
    def record_counts(self) -> Ints:
        counts: Ints = np.diff(self.batches[kernel.FIRST_ROW])
        return counts

    @property
    def first_offsets(self) -> Ints:
        offsets: Ints = self.columns.offsets[self.batches[kernel.FIRST_ROW, :-1]]
        return offsets

    @property
    def last_offsets(self) -> Ints:
        offsets: Ints = self.columns.offsets[self.batches[kernel.FIRST_ROW, 1:] - 1]
        return offsets

    def pieces(self) -> Iterator[_Planned]:
        """The same batches, few enough at a time for a buffer of TARGET_BYTES; a batch that is larger comes alone."""
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
        """The bytes of each batch in the filled `target`."""
        view = memoryview(target)  # type: ignore[arg-type]
        for start, stop in self.batches[kernel.START : kernel.STOP + 1, :-1].T.tolist():
            yield view[start:stop]


class _Rows:
    """The rows of a table, cut into batches slice by slice."""

    def __init__(
        self, table: pa.Table | pa.RecordBatch, base_offset: int | None, batch_records: int, batch_bytes: int, form: _Form
    ) -> None:
        _check_between("batch_records", batch_records, 1, MAX_INT32)
        _check_between("batch_bytes", batch_bytes, 1, MAX_INT32)
        self.columns = _TableColumns(table, base_offset, form.is_control)
        self.batch_records = batch_records
        self.batch_bytes = batch_bytes
        self.magic = form.magic
        self.horizon = kernel.NO_HORIZON if form.delete_horizon_ms is None else form.delete_horizon_ms

    def planned(self) -> Iterator[_Planned]:
        """All rows, some batches at a time."""
        start = 0
        before = -1
        size = SLICE_ROWS
        while start < self.columns.rows:
            stop = min(start + size, self.columns.rows)
            planned = self._plan(start, stop, before)
            if stop < self.columns.rows:
                # More rows might still join the last batch of this slice.
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
        if self.magic < 2 and len(columns.header_offsets) and columns.header_offsets[-1] > 0:
            raise UsageError(f"v{self.magic} messages have no headers: leave out the column, or encode v2 batches")
        kernel.measure(columns, self.magic, sizes)
        limits = self.batch_records, self.batch_bytes
        starts = self.columns.batch_starts(start, stop)
        status, row, count = kernel.plan(
            columns.offsets, columns.timestamps, starts, self.magic, self.horizon, before, *limits, sizes, batches
        )
        if status != kernel.OK:
            where = f"row {start + row} with offset {columns.offsets[row]} and timestamp {columns.timestamps[row]}"
            raise UsageError(f"{where} cannot be encoded: {FAULTS[status]}")
        return _Planned(columns, sizes, batches[:, : count + 1])


def _iter_batches(
    rows: _Rows, form: _Form, leader_epoch: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> Iterator[bytes]:
    for planned in rows.planned():
        target = planned.target()
        kernel.write_records(planned.columns, planned.sizes, planned.batches, target)
        payloads = [form.compress(part) for part in planned.parts(target)]
        headers = np.zeros(planned.count, batch.HEADER)
        headers["base_offset"] = planned.first_offsets
        headers["batch_length"] = [_batch_length(payload) for payload in payloads]
        headers["partition_leader_epoch"] = leader_epoch
        headers["magic"] = 2
        headers["attributes"] = form.attributes
        headers["last_offset_delta"] = planned.last_offsets - planned.first_offsets
        headers["base_timestamp"] = planned.batches[kernel.BASE_TIMESTAMP, :-1]
        append_time = form.log_append_time_ms
        headers["max_timestamp"] = planned.batches[kernel.MAX_TIMESTAMP, :-1] if append_time is None else append_time
        headers["producer_id"] = producer_id
        headers["producer_epoch"] = producer_epoch
        headers["base_sequence"] = sequences = _base_sequences(base_sequence, headers["last_offset_delta"])
        headers["records_count"] = planned.record_counts
        if base_sequence != NO_SEQUENCE:
            base_sequence = increment_sequence(int(sequences[-1]), int(headers["last_offset_delta"][-1]) + 1)
        yield from _with_checksums(headers.tobytes(), payloads)


def _batch_length(payload: memoryview | bytes) -> int:
    length = batch.MIN_BATCH_LENGTH + len(payload)
    if length > MAX_INT32 - batch.LOG_OVERHEAD:
        raise UsageError(f"a batch of {length} compressed bytes cannot be stored: {FAULTS[kernel.TOO_LARGE]}")
    return length


def _base_sequences(first: int, last_offset_deltas: NDArray[Any]) -> Ints:
    """The base sequence of each batch, one behind the last sequence of the batch before it."""
    if first == NO_SEQUENCE:
        return np.full(len(last_offset_deltas), NO_SEQUENCE, np.int64)
    steps: Ints = last_offset_deltas.astype(np.int64) + 1
    sequences: Ints = (first + np.cumsum(steps) - steps) & MAX_INT32
    return sequences


def _with_checksums(headers: bytes, payloads: list[memoryview | bytes]) -> Iterator[bytes]:
    for number, payload in enumerate(payloads):
        start = number * batch.HEADER_SIZE
        front = headers[start : start + batch.CRC_POSITION]
        rest = headers[start + batch.CRC_START : start + batch.HEADER_SIZE]
        checksum: int = crc32c(payload, crc32c(rest))
        yield b"".join((front, checksum.to_bytes(4, "big"), rest, payload))


def _iter_messages(rows: _Rows, form: _Form) -> Iterator[bytes]:
    relative = form.magic == 1 and form.codec != codecs.NONE
    append_time = kernel.NO_APPEND_TIME if form.log_append_time_ms is None else form.log_append_time_ms
    flags = form.attributes & ~batch.CODEC_MASK
    for planned in rows.planned():
        target = planned.target()
        kernel.write_messages(planned.columns, form.magic, flags, append_time, relative, planned.sizes, planned.batches, target)
        parts = planned.parts(target)
        if form.codec == codecs.NONE:
            yield from map(bytes, parts)
            continue
        times = planned.batches[kernel.MAX_TIMESTAMP, :-1].tolist()
        for part, offset, newest in zip(parts, planned.last_offsets.tolist(), times, strict=True):
            time = newest if form.log_append_time_ms is None else form.log_append_time_ms
            yield _wrapper(form, offset, time, form.compress(part))


def _wrapper(form: _Form, offset: int, timestamp: int, payload: memoryview | bytes) -> bytes:
    """The message that holds a compressed set."""
    front = struct.pack(">bb", form.magic, form.attributes)
    if form.magic:
        front += struct.pack(">q", timestamp)
    front += struct.pack(">ii", -1, len(payload))
    size = 4 + len(front) + len(payload)
    if size > MAX_INT32 - batch.LOG_OVERHEAD:
        raise UsageError(f"a set of {size} compressed bytes cannot be stored: {FAULTS[kernel.TOO_LARGE]}")
    return b"".join((struct.pack(">qiI", offset, size, zlib.crc32(payload, zlib.crc32(front))), front, payload))


class _TableColumns:
    """The columns of a table that records are made of, as `kernels.encode` takes them."""

    def __init__(self, table: pa.Table | pa.RecordBatch, base_offset: int | None, is_control: bool) -> None:
        self.rows: int = table.num_rows
        self.key = _find_column(table, "key")
        self.value = _find_column(table, "value")
        self.headers = _find_column(table, "headers_raw", "headers")
        self.timestamp = _find_column(table, "timestamp_ms", "timestamp")
        self.batch_start = _find_column(table, "batch_start")
        self.offset = _find_column(table, "offset") if base_offset is None else None
        self.base_offset = base_offset or 0
        if self.offset is None:
            _check_between("base_offset", self.base_offset, 0, MAX_INT64 - max(self.rows - 1, 0))
        control = _find_column(table, "is_control")
        if control is not None and not is_control and pc.any(_cast("is_control", control, pa.bool_())).as_py():
            raise UsageError("the table holds control records: leave them out, or encode them alone with is_control=True")

    def slice(self, start: int, stop: int) -> kernel.Columns:
        """The rows from `start` to before `stop`."""
        keys = _binary_arrays("key", self.key, start, stop)
        values = _binary_arrays("value", self.value, start, stop)
        headers = self._headers(start, stop)
        arrays: tuple[Any, ...] = (self._offsets(start, stop), self._timestamps(start, stop), *keys, *values, *headers)
        return kernel.Columns(*map(_read_only, arrays))

    def batch_starts(self, start: int, stop: int) -> Bytes:
        """1 for each row that begins a batch; nothing where no row has to."""
        if self.batch_start is None:
            return _read_only(NO_FLAGS)  # type: ignore[no-any-return]
        flags = pc.fill_null(_one_array("batch_start", self.batch_start, start, stop, pa.bool_()), False)
        return _read_only(flags.to_numpy(zero_copy_only=False).view(np.uint8))  # type: ignore[no-any-return]

    def _offsets(self, start: int, stop: int) -> Ints:
        if self.offset is None:
            return np.arange(start, stop, dtype=np.int64) + self.base_offset
        array = _one_array("offset", self.offset, start, stop, pa.int64())
        if array.null_count:
            raise UsageError("column offset has nulls; every record has an offset")
        return _int_values(array)

    def _timestamps(self, start: int, stop: int) -> Ints:
        if self.timestamp is None:
            return np.full(stop - start, -1, np.int64)
        kind = self.timestamp.type
        if pa.types.is_integer(kind):
            array = _one_array("timestamp_ms", self.timestamp, start, stop, pa.int64())
            values = _int_values(array)
        elif pa.types.is_timestamp(kind):
            array = _one_array("timestamp", self.timestamp, start, stop, kind)
            factor, divisor = MILLISECONDS[kind.unit]
            values = _int_values(array)
            if factor > 1 and len(values) and max(-int(values.min()), int(values.max())) > MAX_INT64 // factor:
                raise UsageError("column timestamp holds times that milliseconds in 64 bits cannot say")
            values = values * factor // divisor
        else:
            raise UsageError(f"column timestamp is {kind}; allowed are timestamps, and integers (milliseconds)")
        return np.where(_valid_flags(array), values, -1) if array.null_count else values

    def _headers(self, start: int, stop: int) -> tuple[Ints, Bytes, Ints, Bytes, Ints, Bytes]:
        nothing = (NO_INTS, NO_FLAGS, NO_INTS, NO_FLAGS, NO_INTS, NO_FLAGS)
        if self.headers is None:
            return nothing
        lists = _one_array("headers", self.headers, start, stop, WIDE_HEADERS)
        if lists.null_count == len(lists):
            return nothing
        offsets, pairs = _list_parts(lists)
        keys = pairs.field(0)
        if pairs.null_count or keys.null_count:
            raise UsageError("column headers has a header without a key; only its value may be null")
        key_bytes, key_offsets, _ = _binary_buffers(keys)
        return offsets, key_bytes, key_offsets, *_binary_buffers(pairs.field(1))


def _read_only(array: NDArray[Any]) -> Any:
    """Arrow's arrays are read-only, ours are not: kernels would be compiled anew for every mixture."""
    array = array.view()
    array.flags.writeable = False
    return array


def _find_column(table: pa.Table | pa.RecordBatch, *names: str) -> pa.ChunkedArray | None:
    """The first of these columns that the table has and that is not of type null."""
    for name in names:
        places = table.schema.get_all_field_indices(name)
        if len(places) > 1:
            raise UsageError(f"the table has {len(places)} columns {name}")
        if places and not pa.types.is_null(table.schema.field(places[0]).type):
            column = table.column(places[0])
            return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    return None


def _one_array(name: str, column: pa.ChunkedArray, start: int, stop: int, kind: pa.DataType) -> pa.Array:
    """Rows of a column as one array of `kind`; 64-bit kinds take any number of bytes."""
    part = _cast(name, column.slice(start, stop - start), kind)
    return part.chunk(0) if part.num_chunks == 1 else pa.concat_arrays(part.chunks)


def _cast(name: str, array: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"column {name} is {array.type}, which cannot be taken as {kind}: {error}") from None


def _binary_arrays(name: str, column: pa.ChunkedArray | None, start: int, stop: int) -> tuple[Bytes, Ints, Bytes]:
    """Bytes, offsets and flags of a column; a missing column is null in every row."""
    if column is None:
        return NO_FLAGS, np.zeros(stop - start + 1, np.int64), np.zeros(stop - start, np.uint8)
    return _binary_buffers(_one_array(name, column, start, stop, pa.large_binary()))


def _binary_buffers(array: pa.Array) -> tuple[Bytes, Ints, Bytes]:
    """Bytes, offsets and flags of a large_binary array; no flags where nothing is null."""
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1] if len(array) else NO_INTS
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else NO_FLAGS
    return content, offsets, _valid_flags(array).view(np.uint8) if array.null_count else NO_FLAGS


def _valid_flags(array: pa.Array) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return flags


def _int_values(array: pa.Array) -> Ints:
    """The stored numbers, whatever lies under nulls."""
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)] if len(array) else NO_INTS


def _list_parts(lists: pa.Array) -> tuple[Ints, pa.Array]:
    """(where each row's headers begin, all headers); a null row has none, whatever lies under it."""
    if lists.null_count:
        lists = pc.fill_null(lists, pa.scalar([], WIDE_HEADERS))
    offsets: Ints = lists.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, lists.values.slice(first, last - first)


def _check_between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} {value} is out of range: allowed are {low} to {high}")


def _check_producer(producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool) -> None:
    _check_between("producer_id", producer_id, -1, MAX_INT64)
    _check_between("producer_epoch", producer_epoch, -1, MAX_INT16)
    _check_between("base_sequence", base_sequence, NO_SEQUENCE, MAX_INT32)
    if producer_id < 0:
        if transactional:
            raise UsageError("transactional batches need a producer id")
        return
    if producer_epoch < 0:
        raise UsageError(f"producer {producer_id} needs an epoch")
    if base_sequence < 0 and not control:
        raise UsageError(f"producer {producer_id} needs a sequence number; only control batches go without")
