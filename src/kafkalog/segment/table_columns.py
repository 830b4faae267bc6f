"""The columns of a table to encode, slice by slice, as the encoding kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkalog.errors import UsageError
from kafkalog.format.java import MAX_INT64
from kafkalog.kernels import encode_messages as kernel
from kafkalog.kernels.bytes import Bytes, Ints

WIDE_HEADERS = pa.large_list(pa.struct([pa.field("key", pa.large_binary()), pa.field("value", pa.large_binary())]))
NARROW = frozenset(kind.id for kind in (pa.binary(), pa.string(), pa.list_(pa.binary())))
WIDE = frozenset(kind.id for kind in (pa.large_binary(), pa.large_string(), WIDE_HEADERS))
NO_FLAGS: Bytes = np.empty(0, np.uint8)
NO_INTS: Ints = np.empty(0, np.int64)
MILLISECONDS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


class SliceScratch:
    """Arrays that are reused for slice after slice: new memory costs more than what is written to it here."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self._zero_based = NO_INTS

    def ints(self, name: str, count: int) -> Ints:
        return self._array(name, count, np.int64)

    def bytes(self, name: str, count: int) -> Bytes:
        return self._array(name, count, np.uint8)

    def _array(self, name: str, count: int, kind: type) -> NDArray[Any]:
        if len(self._arrays.get(name, ())) < count:
            self._arrays[name] = np.empty(count, kind)
        return self._arrays[name][:count]

    def counted(self, first: int, count: int) -> Ints:
        """The numbers from `first` on."""
        if len(self._zero_based) < count:
            self._zero_based = np.arange(count, dtype=np.int64)
        return np.add(self._zero_based[:count], first, out=self.ints("counted", count))

    def starts(self, name: str, array: pa.Array) -> Ints:
        """Where the elements of a binary, text or list array begin, and where the last one ends."""
        if not len(array):
            return NO_INTS
        is_wide = array.type.id in WIDE
        stored: NDArray[Any] = np.frombuffer(array.buffers()[1], np.int64 if is_wide else np.int32)
        starts = stored[array.offset : array.offset + len(array) + 1]
        if is_wide:
            return starts
        widened = self.ints(name, len(starts))
        widened[:] = starts
        return widened


class TableColumns:
    """The columns that are encoded; see `encode.encode_runs`. The arrays of a slice are valid until the next is requested."""

    def __init__(self, table: pa.Table | pa.RecordBatch, base_offset: int | None, is_control: bool) -> None:
        self.rows: int = table.num_rows
        self.scratch = SliceScratch()
        self.key = _find_column(table, "key")
        self.value = _find_column(table, "value")
        self.headers = _find_column(table, "headers_raw", "headers")
        self.timestamp = _find_column(table, "timestamp_ms", "timestamp")
        self.batch_start = _find_column(table, "batch_start")
        self.offset = _find_column(table, "offset") if base_offset is None else None
        self.base_offset = base_offset or 0
        if self.offset is None:
            check_between("base_offset", self.base_offset, 0, MAX_INT64 - max(self.rows - 1, 0))
        control = _find_column(table, "is_control")
        if control is not None and not is_control and pc.any(_cast("is_control", control, pa.bool_())).as_py():
            raise UsageError("the table holds control records: leave them out, or encode them alone with is_control=True")

    def slice(self, start: int, stop: int) -> kernel.Columns:
        """The rows from `start` to before `stop`."""
        keys = self._binary_arrays("key", self.key, start, stop)
        values = self._binary_arrays("value", self.value, start, stop)
        headers = self._headers(start, stop)
        arrays: tuple[Any, ...] = (self._offsets(start, stop), self._timestamps(start, stop), *keys, *values, *headers)
        return kernel.Columns(*map(_read_only, arrays))

    def batch_starts(self, start: int, stop: int) -> Bytes:
        """1 for each row that begins a batch; empty if the table does not say."""
        flags = NO_FLAGS
        if self.batch_start is not None:
            wanted = pc.fill_null(_one_array("batch_start", self.batch_start, start, stop, pa.bool_()), False)
            flags = wanted.to_numpy(zero_copy_only=False).view(np.uint8)
        found: Bytes = _read_only(flags)
        return found

    def _offsets(self, start: int, stop: int) -> Ints:
        if self.offset is None:
            return self.scratch.counted(self.base_offset + start, stop - start)
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
                raise UsageError("column timestamp holds times beyond milliseconds in 64 bits")
            values = values * factor // divisor
        else:
            raise UsageError(f"column timestamp is {kind}; allowed are timestamps, and integers (milliseconds)")
        return np.where(_valid_flags(array), values, -1) if array.null_count else values

    def _headers(self, start: int, stop: int) -> tuple[Ints, Bytes, Bytes, Ints, Bytes, Ints, Bytes]:
        nothing = (NO_INTS, NO_FLAGS, NO_FLAGS, NO_INTS, NO_FLAGS, NO_INTS, NO_FLAGS)
        if self.headers is None:
            return nothing
        lists = _one_array("headers", self.headers, start, stop, WIDE_HEADERS)
        if lists.null_count == len(lists):
            return nothing
        starts = self.scratch.starts("headers", lists)
        first, last = int(starts[0]), int(starts[-1])
        pairs = lists.values.slice(first, last - first)
        keys = pairs.field(0)
        if pairs.null_count or keys.null_count:
            raise UsageError("column headers has a header without a key; only its value may be null")
        key_bytes, key_starts, _ = self._binary_buffers("header key", keys)
        values = self._binary_buffers("header value", pairs.field(1))
        starts = np.subtract(starts, first, out=self.scratch.ints("headers", len(starts)))
        return starts, _flags_if_null(lists), key_bytes, key_starts, *values

    def _binary_arrays(self, name: str, column: pa.ChunkedArray | None, start: int, stop: int) -> tuple[Bytes, Ints, Bytes]:
        """Bytes, starts and flags of a column; a missing column is null in every row."""
        if column is None:
            return NO_FLAGS, np.zeros(stop - start + 1, np.int64), np.zeros(stop - start, np.uint8)
        return self._binary_buffers(name, _one_array(name, column, start, stop, pa.large_binary()))

    def _binary_buffers(self, name: str, array: pa.Array) -> tuple[Bytes, Ints, Bytes]:
        """Bytes, starts and flags of an array of bytes or text; no flags where nothing is null."""
        data = array.buffers()[2]
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else NO_FLAGS
        return content, self.scratch.starts(name, array), _flags_if_null(array)


def _read_only(array: NDArray[Any]) -> Any:
    """A read-only view. Arrow's arrays are read-only and ours are not: kernels would be compiled for every mixture."""
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
    """Rows of a column as one array of `kind`, or of a type with the same buffers; 64-bit kinds hold any number of bytes."""
    part = column.slice(start, stop - start)
    if part.num_chunks == 1 and _is_like(part.type, kind):
        return part.chunk(0)
    part = _cast(name, part, kind)
    return part.chunk(0) if part.num_chunks == 1 else pa.concat_arrays(part.chunks)


def _is_like(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether an array differs from one of the 64-bit `kind` at most in the width of its offsets, or in being text."""
    if found == kind:
        return True
    if found.id not in NARROW | WIDE or kind.id not in WIDE:
        return False
    if kind != WIDE_HEADERS:
        return not pa.types.is_nested(found)
    return pa.types.is_nested(found) and _is_pair(found.value_type)


def _is_pair(kind: pa.DataType) -> bool:
    """Whether these are structs of `key` and `value`, both bytes or text."""
    if not pa.types.is_struct(kind) or [field.name for field in kind] != ["key", "value"]:
        return False
    return all(_is_like(field.type, pa.large_binary()) for field in kind)


def _cast(name: str, array: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"column {name} is {array.type}, which cannot be converted to {kind}: {error}") from None


def _flags_if_null(array: pa.Array) -> Bytes:
    return _valid_flags(array) if array.null_count else NO_FLAGS


def _valid_flags(array: pa.Array) -> Bytes:
    """1 for each element that is not null, of an array with nulls."""
    start = array.offset % 8
    bits = np.frombuffer(array.buffers()[0], np.uint8)[array.offset // 8 : (array.offset + len(array) + 7) // 8]
    return np.unpackbits(bits, bitorder="little")[start : start + len(array)]


def _int_values(array: pa.Array) -> Ints:
    """The stored numbers, arbitrary ones under nulls."""
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)] if len(array) else NO_INTS


def check_between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} {value} is out of range: allowed are {low} to {high}")
