"""The decoded records of a group of entries, as Arrow arrays made on demand."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.format import batch
from kafkalog.format.sequence import MAX_SEQUENCE, NO_SEQUENCE
from kafkalog.format.text import decode_utf8
from kafkalog.kernels import decode as kernel
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.gather import gather, gather_headers

from .constant import Constants
from .windows import Window, rows_of

# Spark and pandas hold timestamps in microseconds; beyond this many milliseconds they cannot, and the typed column is null.
MAX_TIMESTAMP_MS = 9_223_372_036_854_775
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
RAW_HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
ARENA_BYTES = 8 << 20
SCRATCH_ROWS = 1 << 16
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")


def allocate(count: int, dtype: Any) -> tuple[pa.Buffer, NDArray[Any]]:
    """A buffer of Arrow's pool and a NumPy array on it: the pool hands freed memory out again without new page faults."""
    size = np.dtype(dtype).itemsize * count
    buffer = pa.allocate_buffer(size)
    return buffer, np.frombuffer(buffer, dtype, count) if size else np.empty(0, dtype)


def validity(valid: NDArray[Any]) -> tuple[pa.Buffer | None, int]:
    """(bitmap, number of nulls) of flags that are 1 where a value is there; no bitmap when none is null."""
    nulls = len(valid) - int(np.count_nonzero(valid))
    return (pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None), nulls


class DecodeScratch(threading.local):
    """Memory that one thread uses again for every window: decompressed payloads, and columns that do not leave."""

    def __init__(self) -> None:
        self.enlarge_arena(ARENA_BYTES)
        self.totals: Ints = np.zeros(kernel.TOTAL_COUNT, np.int64)
        self._allocate(SCRATCH_ROWS)

    def enlarge_arena(self, size: int) -> None:
        self.arena: Bytes = np.empty(size, np.uint8)
        self.view = self.arena.data

    def _allocate(self, rows: int) -> None:
        self.key_valid, self.value_valid = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
        self.key_starts, self.value_starts = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self.header_starts, self.header_counts = np.empty(rows, np.int64), np.empty(rows, np.int64)

    def make_room(self, rows: int) -> None:
        if len(self.key_valid) < rows:
            self._allocate(rows)

    @property
    def columns(self) -> tuple[Bytes, Bytes, Ints, Ints, Ints, Ints]:
        return self.key_valid, self.value_valid, self.key_starts, self.value_starts, self.header_starts, self.header_counts


class RecordColumns:
    """Records of `payloads` (rows of `kernels.decode`).

    Everything that points into the window or the arena is copied by `gather`; both can be used again while the columns live on.
    """

    def __init__(self, window: Window, payloads: Ints, scratch: DecodeScratch, capacity: int) -> None:
        self.window = window
        self.payloads = payloads
        self.scratch = scratch
        self.rows = 0
        self.offset_buffer, self.offsets = allocate(capacity, np.int64)
        self.timestamp_buffer, self.timestamps = allocate(capacity, np.int64)
        self.key_offset_buffer, self.key_offsets = allocate(capacity + 1, np.int32)
        self.value_offset_buffer, self.value_offsets = allocate(capacity + 1, np.int32)
        self.key_offsets[0] = 0
        self.value_offsets[0] = 0
        scratch.make_room(capacity)
        scratch.totals[:] = 0
        self._arrays: dict[str, pa.Array] = {}

    def kernel_columns(self) -> kernel.Columns:
        """The columns as `kernels.decode` takes them."""
        return (self.offsets, self.timestamps, self.key_offsets, self.value_offsets, *self.scratch.columns)

    def gather(self, columns: frozenset[str]) -> None:
        """Copy what leaves, for the columns that were asked for, and let go of everything else."""
        scratch = self.scratch
        if "key" in columns:
            self._arrays["key"] = self._gather_bytes(
                scratch.key_starts, self.key_offset_buffer, self.key_offsets, scratch.key_valid
            )
        if "value" in columns:
            self._arrays["value"] = self._gather_bytes(
                scratch.value_starts, self.value_offset_buffer, self.value_offsets, scratch.value_valid
            )
        if "headers" in columns or "headers_raw" in columns:
            self._gather_headers(columns)
        self.entries = self.payloads[kernel.ENTRY]
        self.first_rows = self.payloads[kernel.FIRST_ROW]
        self.first_offsets = self.payloads[kernel.FIRST_OFFSET]
        self.entry_fields = rows_of(self.window.fields, self.entries)
        del self.scratch, self.key_offsets, self.value_offsets

    @cached_property
    def row_counts(self) -> NDArray[np.int64]:
        """Records of each entry."""
        counts: NDArray[np.int64] = np.append(self.first_rows[1:], self.rows) - self.first_rows
        return counts

    def _gather_bytes(self, starts: Ints, offset_buffer: pa.Buffer, offsets: NDArray[np.int32], valid: Bytes) -> pa.Array:
        buffer, target = allocate(int(offsets[self.rows]), np.uint8)
        gather(self.window.data, self.scratch.arena, self.payloads, self.rows, starts, offsets, target)
        bitmap, nulls = validity(valid[: self.rows])
        return pa.Array.from_buffers(pa.binary(), self.rows, [bitmap, offset_buffer, buffer], nulls)

    def _gather_headers(self, columns: frozenset[str]) -> None:
        scratch = self.scratch
        count, key_bytes, value_bytes = scratch.totals.tolist()  # of all records read, so at least of those within the range
        list_buffer, list_offsets = allocate(self.rows + 1, np.int32)
        key_offset_buffer, key_offsets = allocate(count + 1, np.int32)
        value_offset_buffer, value_offsets = allocate(count + 1, np.int32)
        key_buffer, keys = allocate(key_bytes, np.uint8)
        value_buffer, values = allocate(value_bytes, np.uint8)
        value_valid = np.empty(count, np.uint8)
        count, ascii_only = gather_headers(
            self.window.data,
            scratch.arena,
            self.payloads,
            self.rows,
            scratch.header_starts,
            scratch.header_counts,
            list_offsets,
            key_offsets,
            keys,
            value_offsets,
            values,
            value_valid,
        )
        bitmap, nulls = validity(value_valid[:count])
        value = pa.Array.from_buffers(pa.binary(), count, [bitmap, value_offset_buffer, value_buffer], nulls)
        key_buffers = [None, key_offset_buffer, key_buffer]
        present, absent = validity(scratch.header_counts[: self.rows] > 0)
        for name, kind in (("headers", HEADERS_TYPE), ("headers_raw", RAW_HEADERS_TYPE)):
            if name in columns:
                as_text = name == "headers" and ascii_only
                key = pa.Array.from_buffers(pa.string() if as_text else pa.binary(), count, key_buffers, 0)
                if name == "headers" and not ascii_only:
                    key = header_text(key)
                pairs = pa.StructArray.from_arrays([key, value], fields=list(kind.value_type))
                self._arrays[name] = pa.Array.from_buffers(kind, self.rows, [present, list_buffer], absent, children=[pairs])

    def column(self, name: str, constants: Constants) -> pa.Array:
        """The column of that name, of `rows` values."""
        if name in self._arrays:
            return self._arrays[name]
        if name == "offset":
            return pa.Array.from_buffers(pa.int64(), self.rows, [None, self.offset_buffer], 0)
        if name == "timestamp_ms":
            return pa.Array.from_buffers(pa.int64(), self.rows, [None, self.timestamp_buffer], 0)
        if name == "timestamp":
            return self._typed_timestamps()
        if name == "sequence":
            return pa.array(self._sequences())
        return self._entry_column(name, constants)

    def _typed_timestamps(self) -> pa.Array:
        timestamps = self.timestamps[: self.rows]
        if int(timestamps.max()) <= MAX_TIMESTAMP_MS and int(timestamps.min()) >= -MAX_TIMESTAMP_MS:
            bitmap, nulls = None, 0
        else:
            in_range = (timestamps <= MAX_TIMESTAMP_MS) & (timestamps >= -MAX_TIMESTAMP_MS)
            bitmap, nulls = validity(in_range.astype(np.uint8))
        return pa.Array.from_buffers(TIMESTAMP_TYPE, self.rows, [bitmap, self.timestamp_buffer], nulls)

    def _sequences(self) -> NDArray[np.int32]:
        base = self._repeat(self.entry_fields[scan.BASE_SEQUENCE])
        delta = self.offsets[: self.rows] - self._repeat(self.entry_fields[scan.BASE_OFFSET])
        # An offset before its batch's gets the number that Kafka's 32-bit arithmetic arrives at (`format.sequence`).
        sequence = np.where(delta < 0, (base + delta) % (1 << 32) - (1 << 31), (base + delta) & MAX_SEQUENCE)
        return np.where(base < 0, NO_SEQUENCE, sequence).astype(np.int32)

    def _repeat(self, values: NDArray[Any]) -> NDArray[Any]:
        """One value per entry, spread over the records of each."""
        return np.repeat(values, self.row_counts)

    def _entry_column(self, name: str, constants: Constants) -> pa.Array:
        """A column that is the same for all records of an entry."""
        fields = self.entry_fields
        if name == "base_offset":
            return pa.array(self._repeat(self.first_offsets))
        if name == "codec":
            return codec_names(fields[scan.ATTRIBUTES]).take(pa.array(self._repeat(np.arange(len(self.entries)))))
        if name == "timestampType":
            if _is_constant(fields[scan.ATTRIBUTES]) and _is_constant(fields[scan.MAGIC]):
                return constants.array(int(timestamp_types(fields[:, :1])[0]), pa.int32(), self.rows)
            return pa.array(self._repeat(timestamp_types(fields)))
        if name == "is_transactional":
            return pa.array(self._repeat(fields[scan.ATTRIBUTES] & batch.TRANSACTIONAL != 0))
        if name == "is_control":
            return pa.array(self._repeat(fields[scan.ATTRIBUTES] & batch.CONTROL != 0))
        row, dtype = ENTRY_COLUMNS[name]
        return pa.array(self._repeat(fields[row].astype(dtype)))


ENTRY_COLUMNS: dict[str, tuple[int, Any]] = {
    "leader_epoch": (scan.LEADER_EPOCH, np.int32),
    "producer_id": (scan.PRODUCER_ID, np.int64),
    "producer_epoch": (scan.PRODUCER_EPOCH, np.int16),
    "magic": (scan.MAGIC, np.int8),
    "position": (scan.POSITION, np.int64),
}


def _is_constant(values: NDArray[Any]) -> bool:
    return bool(values.min() == values.max())


def codec_names(attributes: Ints) -> pa.Array:
    """The codec's name of each entry; `unknown` for numbers that no Kafka has used."""
    names = (*batch.CODEC_NAMES, "unknown", "unknown", "unknown")
    return pa.array(names).take(pa.array(attributes & batch.CODEC_MASK))


def timestamp_types(fields: Ints) -> NDArray[np.int32]:
    """-1 where the format has no timestamps (v0), else 0 (create time) or 1 (log append time)."""
    types = np.where(fields[scan.ATTRIBUTES] & batch.LOG_APPEND_TIME != 0, batch.LOG_APPEND_TIME_TYPE, batch.CREATE_TIME)
    return np.where(fields[scan.MAGIC] == 0, batch.NO_TIMESTAMP, types).astype(np.int32)


def header_text(keys: pa.Array) -> pa.Array:
    """Header keys as text; bytes that are not UTF-8 become U+FFFD, as in a Java client."""
    return pa.array([decode_utf8(key.as_py()) for key in keys], pa.string())
