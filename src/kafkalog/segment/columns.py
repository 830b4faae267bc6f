"""The decoded records of a group of entries, as Arrow arrays that are made on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.format import batch
from kafkalog.format.batch import MAX_SEQUENCE, NO_SEQUENCE
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.java import decode_utf8
from kafkalog.kernels import layout
from kafkalog.kernels.bytes import Ints

from .arrays import Constants
from .windows import Window, rows_of

# Spark and pandas hold timestamps in microseconds, which overflow beyond this many milliseconds: the typed column is null there.
MAX_TIMESTAMP_MS = 9_223_372_036_854_775
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
RAW_HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
ASCII_END = 0x80
NO_OFFSETS = np.zeros(1, np.int32)
NO_BYTES = np.empty(0, np.uint8)
NO_WORDS = np.empty(0, np.uint64)
BINARY = pa.binary()
VIEWS = pa.binary_view()
# Bytes besides the content: of a record, of a key or value with its flag (also as a view), and of a record's headers.
OFFSET_AND_TIMESTAMP, SLOT_OF_TEXT, SLOT_OF_VIEW, SLOT_OF_HEADERS = 16, 5, 17, 4
LEAST_ARENA = 16  # views are made of whole words
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")


def allocate(count: int, dtype: Any) -> tuple[pa.Buffer, NDArray[Any]]:
    """A buffer of Arrow's pool and a NumPy array on it: the pool reuses freed memory without new page faults."""
    size = np.dtype(dtype).itemsize * count
    buffer = pa.allocate_buffer(size)
    return buffer, np.frombuffer(buffer, dtype, count) if size else np.empty(0, dtype)


def validity(valid: NDArray[Any]) -> tuple[pa.Buffer | None, int]:
    """(bitmap, number of nulls) of flags that are 1 where there is a value; no bitmap if nothing is null."""
    nulls = len(valid) - int(np.count_nonzero(valid))
    return (pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None), nulls


def allocate_offsets(count: int) -> tuple[pa.Buffer, NDArray[np.int32]]:
    """Arrow offsets of that many adjacent values; the first is 0."""
    buffer, offsets = allocate(count + 1, np.int32)
    offsets[0] = 0
    return buffer, offsets


class _Texts:
    """Room for `count` binary values with `size` bytes in all."""

    def __init__(self, count: int, size: int, *, is_used: bool) -> None:
        self.offsets, self.valid, self.content = NO_OFFSETS, NO_BYTES, NO_BYTES
        if is_used:
            self._offset_buffer, self.offsets = allocate_offsets(count)
            self._buffer, self.content = allocate(size, np.uint8)
            self.valid = np.empty(count, np.uint8)

    def array(self, count: int, kind: pa.DataType = BINARY, *, may_be_null: bool = True) -> pa.Array:
        """The first `count` values."""
        bitmap, nulls = validity(self.valid[:count]) if may_be_null else (None, 0)
        return pa.Array.from_buffers(kind, count, [bitmap, self._offset_buffer, self._buffer], nulls)


class _Views:
    """Room for views of `count` binary values."""

    def __init__(self, count: int, *, is_used: bool) -> None:
        self.words, self.valid = NO_WORDS, NO_BYTES
        if is_used:
            self._buffer, self.words = allocate(2 * count, np.uint64)
            self.valid = np.empty(count, np.uint8)

    def array(self, count: int, contents: list[pa.Buffer]) -> pa.Array:
        """The first `count` values, which point into `contents`."""
        bitmap, nulls = validity(self.valid[:count])
        return pa.Array.from_buffers(VIEWS, count, [bitmap, self._buffer, *contents], nulls)


@dataclass
class Room:
    """The capacity of the columns of a group; one of views has `payload_bytes` in its arena instead of keys and values."""

    records: int
    key_bytes: int
    value_bytes: int
    headers: int
    header_bytes: int
    payload_bytes: int = 0
    slot: int = SLOT_OF_TEXT

    def size(self, wants: int) -> int:
        """Bytes of memory, if all of it is used."""
        of_record = OFFSET_AND_TIMESTAMP
        of_record += 2 * self.slot if wants & layout.KEPT else 0
        of_record += SLOT_OF_HEADERS if wants & layout.HEADERS else 0
        texts = self.key_bytes + self.value_bytes + 2 * self.header_bytes + self.payload_bytes
        return self.records * of_record + self.headers * 2 * SLOT_OF_TEXT + texts


class RecordColumns:
    """Records of one window: room that kernels fill, then columns.

    Nothing here points into the window's bytes, which can be reused while the columns are still in use. With `as_views` keys and
    values are given out as views all the same.
    """

    are_views = False

    def __init__(self, window: Window, wants: int, room: Room, *, as_views: bool = False) -> None:
        self.window = window
        self.wants = wants
        self.as_views = as_views
        self.rows = 0
        self.offset_buffer, self.offsets = allocate(room.records, np.int64)
        self.timestamp_buffer, self.timestamps = allocate(room.records, np.int64)
        self._make_room(room)
        has_headers = wants & layout.HEADERS != 0
        self._header_buffer, self._header_offsets = allocate_offsets(room.records if has_headers else 0)
        self._header_keys = _Texts(room.headers, room.header_bytes, is_used=has_headers)
        self._header_values = _Texts(room.headers, room.header_bytes, is_used=has_headers)
        self._header_key_bits = np.zeros(1, np.uint8)
        self._arrays: dict[str, pa.Array] = {}

    def _make_room(self, room: Room) -> None:
        self._keys = _Texts(room.records, room.key_bytes, is_used=self.wants & layout.KEPT != 0)
        self._values = _Texts(room.records, room.value_bytes, is_used=self.wants & layout.KEPT != 0)

    def kernel_columns(self) -> tuple[Any, layout.HeaderColumns]:
        """The columns as the kernel of this group takes them."""
        header_keys, header_values = self._header_keys, self._header_values
        return self._key_value_columns(), layout.HeaderColumns(
            self._header_offsets,
            header_keys.offsets,
            header_keys.content,
            header_values.offsets,
            header_values.valid,
            header_values.content,
            self._header_key_bits,
        )

    def _key_value_columns(self) -> Any:
        keys, values = self._keys, self._values
        return layout.Columns(
            self.offsets,
            self.timestamps,
            keys.offsets,
            keys.valid,
            keys.content,
            values.offsets,
            values.valid,
            values.content,
        )

    def close(self, payloads: Ints, columns: frozenset[str]) -> None:
        """Turn the filled room into arrays. `payloads` (rows of `kernels.layout`) are those that were decoded into it."""
        self.entries = payloads[layout.ENTRY]
        self.first_rows = payloads[layout.FIRST_ROW]
        self.first_offsets = payloads[layout.FIRST_OFFSET]
        self.payload_sizes = payloads[layout.STOP] - payloads[layout.START]  # decompressed
        self.entry_table = rows_of(self.window.entries, self.entries)
        self._close_keys_and_values(payloads, columns)
        for name in ("headers", "headers_raw"):
            if name in columns:
                self._arrays[name] = self._headers(name)
        del self._keys, self._values, self._header_keys, self._header_values

    def _close_keys_and_values(self, payloads: Ints, columns: frozenset[str]) -> None:
        for name, texts in (("key", self._keys), ("value", self._values)):
            if name in columns:
                array = texts.array(self.rows)
                self._arrays[name] = array.cast(VIEWS) if self.as_views else array

    def used(self) -> Room:
        """The room that was needed; call it before `close`."""
        if not self.wants & layout.KEPT:
            return Room(self.rows, 0, 0, 0, 0)
        headers = int(self._header_offsets[self.rows]) if self.wants & layout.HEADERS else 0
        header_bytes = max(int(self._header_keys.offsets[headers]), int(self._header_values.offsets[headers]))
        return replace(self._used_besides_headers(), headers=headers, header_bytes=header_bytes)

    def _used_besides_headers(self) -> Room:
        return Room(self.rows, int(self._keys.offsets[self.rows]), int(self._values.offsets[self.rows]), 0, 0)

    @cached_property
    def row_counts(self) -> NDArray[np.int64]:
        """Records of each entry."""
        counts: NDArray[np.int64] = np.append(self.first_rows[1:], self.rows) - self.first_rows
        return counts

    def _headers(self, name: str) -> pa.Array:
        count = int(self._header_offsets[self.rows])
        is_ascii = int(self._header_key_bits[0]) < ASCII_END
        if name == "headers_raw":
            kind, key = RAW_HEADERS_TYPE, self._header_keys.array(count, may_be_null=False)
        elif is_ascii:
            kind, key = HEADERS_TYPE, self._header_keys.array(count, pa.string(), may_be_null=False)
        else:
            kind, key = HEADERS_TYPE, header_text(self._header_keys.array(count, may_be_null=False))
        pairs = pa.StructArray.from_arrays([key, self._header_values.array(count)], fields=list(kind.value_type))
        present, absent = validity(np.diff(self._header_offsets[: self.rows + 1]) > 0)
        return pa.Array.from_buffers(kind, self.rows, [present, self._header_buffer], absent, children=[pairs])

    def column(self, name: str, constants: Constants, start: int = 0, stop: int | None = None) -> pa.Array:
        """The column of that name, from row `start` to before `stop`."""
        rows = range(self.rows)[start:stop]
        if name in self._arrays:
            return self._arrays[name].slice(rows.start, len(rows))
        if name == "offset":
            return pa.Array.from_buffers(pa.int64(), len(rows), [None, self.offset_buffer], 0, rows.start)
        if name == "timestamp_ms":
            return pa.Array.from_buffers(pa.int64(), len(rows), [None, self.timestamp_buffer], 0, rows.start)
        if name == "timestamp":
            return self._typed_timestamps().slice(rows.start, len(rows))
        if name == "sequence":
            return pa.array(self._sequences(rows))
        return self._entry_column(name, constants, rows)

    def _typed_timestamps(self) -> pa.Array:
        timestamps = self.timestamps[: self.rows]
        if int(timestamps.max()) <= MAX_TIMESTAMP_MS and int(timestamps.min()) >= -MAX_TIMESTAMP_MS:
            bitmap, nulls = None, 0
        else:
            in_range = (timestamps <= MAX_TIMESTAMP_MS) & (timestamps >= -MAX_TIMESTAMP_MS)
            bitmap, nulls = validity(in_range.astype(np.uint8))
        return pa.Array.from_buffers(TIMESTAMP_TYPE, self.rows, [bitmap, self.timestamp_buffer], nulls)

    def _sequences(self, rows: range) -> NDArray[np.int32]:
        base = self._repeat(self.entry_table.base_sequence, rows)
        delta = self.offsets[rows.start : rows.stop] - self._repeat(self.entry_table.base_offset, rows)
        # An offset before its batch's base offset gets the number that Kafka's 32-bit arithmetic gives (`increment_sequence`).
        sequence = np.where(delta < 0, (base + delta) % (1 << 32) - (1 << 31), (base + delta) & MAX_SEQUENCE)
        return np.where(base < 0, NO_SEQUENCE, sequence).astype(np.int32)

    def _repeat(self, values: NDArray[Any], rows: range) -> NDArray[Any]:
        """One value per entry, repeated for each of its records among `rows`."""
        if len(rows) == self.rows:
            return np.repeat(values, self.row_counts)
        bounds = np.clip(np.append(self.first_rows, self.rows), rows.start, rows.stop)
        return np.repeat(values, np.diff(bounds))

    def _entry_column(self, name: str, constants: Constants, rows: range) -> pa.Array:
        """A column that is the same for all records of an entry."""
        entries = self.entry_table
        if name == "base_offset":
            return pa.array(self._repeat(self.first_offsets, rows))
        if name == "codec":
            return codec_names(entries.attributes).take(pa.array(self._repeat(np.arange(len(self.entries)), rows)))
        if name == "timestampType":
            if _is_constant(entries.attributes) and _is_constant(entries.magic):
                return constants.array(int(timestamp_types(entries[:1])[0]), pa.int32(), len(rows))
            return pa.array(self._repeat(timestamp_types(entries), rows))
        if name == "is_transactional":
            return pa.array(self._repeat(entries.attributes & batch.TRANSACTIONAL != 0, rows))
        if name == "is_control":
            return pa.array(self._repeat(entries.attributes & batch.CONTROL != 0, rows))
        return pa.array(self._repeat(entries.column(name).astype(ENTRY_COLUMNS[name]), rows))


class ViewedColumns(RecordColumns):
    """Records of v2 batches whose keys and values are views: into the window's bytes, and into an arena of what was decompressed.

    Both stay in memory as long as the columns, and are not copied.
    """

    are_views = True
    _keys: _Views  # type: ignore[assignment]
    _values: _Views  # type: ignore[assignment]

    def _make_room(self, room: Room) -> None:
        self._keys = _Views(room.records, is_used=self.wants & layout.KEY != 0)
        self._values = _Views(room.records, is_used=self.wants & layout.VALUE != 0)
        self._arena_buffer, self.arena = allocate(max(room.payload_bytes, LEAST_ARENA), np.uint8)
        self._arena_used = np.zeros(1, np.int64)

    def _key_value_columns(self) -> Any:
        keys, values = self._keys, self._values
        return layout.ViewColumns(
            self.offsets, self.timestamps, keys.words, keys.valid, values.words, values.valid, self._arena_used
        )

    def _close_keys_and_values(self, payloads: Ints, columns: frozenset[str]) -> None:
        is_plain = bool((payloads[layout.STATE] != layout.READY).any())
        arena = self._arena_buffer.slice(0, int(self._arena_used[0]))
        contents = [pa.py_buffer(self.window.lend() if is_plain else NO_BYTES), arena]
        for name, views in (("key", self._keys), ("value", self._values)):
            if name in columns:
                self._arrays[name] = views.array(self.rows, contents)

    def _used_besides_headers(self) -> Room:
        return Room(self.rows, 0, 0, 0, 0, int(self._arena_used[0]), SLOT_OF_VIEW)


ENTRY_COLUMNS: dict[str, Any] = {
    "leader_epoch": np.int32,
    "producer_id": np.int64,
    "producer_epoch": np.int16,
    "magic": np.int8,
    "position": np.int64,
}


def _is_constant(values: NDArray[Any]) -> bool:
    return bool(values.min() == values.max())


def codec_names(attributes: Ints) -> pa.Array:
    """The codec name of each entry; `unknown` for numbers that Kafka never used."""
    names = (*batch.CODEC_NAMES, "unknown", "unknown", "unknown")
    return pa.array(names).take(pa.array(attributes & batch.CODEC_MASK))


def timestamp_types(entries: EntryTable) -> NDArray[np.int32]:
    """-1 where the format has no timestamps (v0), otherwise 0 (create time) or 1 (log append time)."""
    types = np.where(entries.attributes & batch.LOG_APPEND_TIME != 0, batch.LOG_APPEND_TIME_TYPE, batch.CREATE_TIME)
    return np.where(entries.magic == 0, batch.NO_TIMESTAMP_TYPE, types).astype(np.int32)


def header_text(keys: pa.Array) -> pa.Array:
    """Header keys as text; bytes that are not UTF-8 become U+FFFD, as in a Java client."""
    return pa.array([decode_utf8(key.as_py()) for key in keys], pa.string())
