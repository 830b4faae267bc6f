"""The records of v2 batches, decoded into columns.

Every length is compared with what remains before it is used. A varint of one byte is the common case and is read inline;
positions are unsigned, which avoids Numba's test for negative indices; a key or value is copied while its record is in the
nearest cache. All three were measured to matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import ATTRIBUTES, BASE_OFFSET, BASE_TIMESTAMP, LAST_OFFSET, MAX_TIMESTAMP, RECORD_COUNT

from ._jit import copy_ahead, copy_bytes, inline, outline
from .bytes import Bytes, Int, Ints, load_varint
from .layout import (
    BAD_COUNT,
    BAD_OFFSET,
    BAD_STRUCTURE,
    BAD_VARINT,
    CHECK,
    FIRST_TIME,
    FIRST_WANTED,
    HEADERS,
    HEADERS_LIMIT,
    KEY,
    LAST_INT64,
    LAST_TIME,
    LAST_WANTED,
    LEAST_FRONT,
    NO_ROOM,
    OK,
    OVER_HEADERS_LIMIT,
    OVER_RECORD_LIMIT,
    RECORD_LIMIT,
    VALUE,
    Columns,
    HeaderColumns,
    has_header_room,
    has_room,
)

MAX_VARINT, MAX_VARLONG = 5, 10  # bytes
SHORT_FRONT = 7  # a length, attributes, two deltas of at most two bytes each
Position = np.uint64


@inline
def _two_byte_varint(data: Bytes, at: Position) -> tuple[Int, Position]:
    """(raw value, position after it) of a varint of one or two bytes, or (-1, at) for a longer one; two bytes must be there."""
    first = np.int64(data[at])
    if first < 0x80:
        return first, at + np.uint64(1)
    second = np.int64(data[at + np.uint64(1)])
    if second < 0x80:
        return (first & 0x7F) | (second << 7), at + np.uint64(2)
    return np.int64(-1), at


@inline
def _unzigzag(raw: Int) -> Int:
    return (raw >> 1) ^ -(raw & 1)


@inline
def _varint(data: Bytes, at: Position, stop: Position) -> tuple[Int, Position]:
    """(zig-zag value, position after it); a position above `stop` means that it is truncated, or (stop + 2) too long."""
    if at + np.uint64(1) < stop:
        raw, after = _two_byte_varint(data, at)
        if raw >= 0:
            return _unzigzag(raw), after
    return _long_varint(data, at, stop, MAX_VARINT)


@outline
def _long_varint(data: Bytes, at: Position, stop: Position, longest: Int) -> tuple[Int, Position]:
    """As `_varint`, for up to `longest` bytes: 5 for 32 bits (bits above are dropped, as Kafka does), 10 for 64."""
    raw = np.uint64(0)
    for number in range(longest):
        if at >= stop:
            return np.int64(0), stop + np.uint64(1)
        byte = np.uint64(data[at])
        at += np.uint64(1)
        raw |= (byte & np.uint64(0x7F)) << np.uint64(7 * number)
        if byte < np.uint64(0x80):
            if longest == MAX_VARINT:
                raw &= np.uint64(0xFFFFFFFF)
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
    return np.int64(0), stop + np.uint64(2)


@inline
def status_of(at: Position, stop: Position) -> Int:
    return BAD_VARINT if at == stop + np.uint64(2) else BAD_STRUCTURE


@inline
def record_front(data: Bytes, at: Position, end: Position, record_limit: Int) -> tuple[Int, Position, Position, Int, Int]:
    """(status, position after the deltas, where the record stops, timestamp delta, offset delta) of the record at `at`.

    Three short varints are the common case, and need one comparison with the end instead of one for each byte.
    """
    if end - at >= np.uint64(SHORT_FRONT):
        size, after = _two_byte_varint(data, at)
        timestamp, following = _two_byte_varint(data, after + np.uint64(1))
        offset, last = _two_byte_varint(data, following)
        stop = after + np.uint64(size >> 1)
        if size >= 0 and size & 1 == 0 and timestamp >= 0 and offset >= 0 and last <= stop <= end and size >> 1 <= record_limit:
            return OK, last, stop, _unzigzag(timestamp), _unzigzag(offset)
    return _long_front(data, at, end, record_limit)


@outline
def _long_front(data: Bytes, at: Position, end: Position, record_limit: Int) -> tuple[Int, Position, Position, Int, Int]:
    """As `record_front`, for any sizes."""
    size, at = _varint(data, at, end)
    if at > end:
        return status_of(at, end), at, end, np.int64(0), np.int64(0)
    if size < 1 or np.uint64(size) > end - at:
        return BAD_STRUCTURE, at, end, np.int64(0), np.int64(0)
    if size > record_limit:
        return OVER_RECORD_LIMIT, at, end, np.int64(0), np.int64(0)
    stop = at + np.uint64(size)
    timestamp_delta, at = _long_varint(data, at + np.uint64(1), stop, MAX_VARLONG)
    if at > stop:
        return status_of(at, stop), at, stop, np.int64(0), np.int64(0)
    offset_delta, at = _varint(data, at, stop)
    if at > stop:
        return status_of(at, stop), at, stop, np.int64(0), np.int64(0)
    return OK, at, stop, timestamp_delta, offset_delta


@inline
def sized_bytes(data: Bytes, at: Position, stop: Position) -> tuple[Int, Position, Position]:
    """(size or negative for null, where the bytes start, position after them); a position above `stop`: they do not fit."""
    size, start = _varint(data, at, stop)
    if start > stop or size <= 0:
        return size, start, start
    after = start + np.uint64(size)
    return size, start, after if after <= stop else stop + np.uint64(1)


@inline
def _skip_headers(data: Bytes, at: Position, stop: Position, count: Int) -> Position:
    """The position after `count` headers, or above `stop` when they do not fit."""
    for _ in range(count):
        size, _, at = sized_bytes(data, at, stop)
        if at > stop or size < 0:
            return stop + np.uint64(1) if at <= stop else at
        _, _, at = sized_bytes(data, at, stop)
        if at > stop:
            return at
    return at


@inline
def _check_headers(data: Bytes, at: Position, stop: Position, count: Int, limit: Int) -> Int:
    """Whether `count` headers, at least one, fill data[at:stop] exactly."""
    if count < 0 or np.uint64(count) > (stop - at) // np.uint64(2):
        return BAD_STRUCTURE
    if count > limit:
        return OVER_HEADERS_LIMIT
    at = _skip_headers(data, at, stop, count)
    if at == stop:
        return OK
    return BAD_STRUCTURE if at < stop else status_of(at, stop)


@inline
def find_headers(data: Bytes, at: Position, stop: Position, limit: Int) -> tuple[Int, Position, Int]:
    """(status, where the headers start, how many there are) of a record whose value ends at `at`."""
    count, at = _varint(data, at, stop)
    if at > stop:
        return status_of(at, stop), at, np.int64(0)
    status = OK
    if count != 0 or at != stop:
        status = _check_headers(data, at, stop, count, limit)
    return status, at, count


@outline
def copy_headers(data: Bytes, start: Position, count: Int, row: Int, columns: HeaderColumns) -> None:
    """Append the `count` headers at data[start:], which have been checked, as those of `row`."""
    header = np.int64(columns.offsets[row])
    key_bytes = np.int64(columns.key_offsets[header])
    value_bytes = np.int64(columns.value_offsets[header])
    high_bits = columns.key_bits[0]
    at = np.int64(start)
    for _ in range(count):
        size, at = load_varint(data, at, data.shape[0])
        for index in range(size):
            byte = data[at + index]
            columns.keys[key_bytes + index] = byte
            high_bits |= byte
        at += size
        key_bytes += size
        size, at = load_varint(data, at, data.shape[0])
        columns.value_valid[header] = size >= 0
        size = max(size, 0)
        copy_bytes(data, at, columns.values, value_bytes, size)
        at += size
        value_bytes += size
        header += 1
        columns.key_offsets[header] = key_bytes
        columns.value_offsets[header] = value_bytes
    columns.offsets[row + 1] = header
    columns.key_bits[0] = high_bits


@inline
def origin(fields: Ints, entry: Int) -> tuple[Int, Int, Any, Int]:
    """(base offset, base timestamp, whether the append time applies to all records, that time) of a batch."""
    append_time = fields[ATTRIBUTES, entry] & batch.LOG_APPEND_TIME != 0
    return fields[BASE_OFFSET, entry], fields[BASE_TIMESTAMP, entry], append_time, fields[MAX_TIMESTAMP, entry]


@inline
def wanted_range(bounds: Ints) -> tuple[Int, Int, Int, Int]:
    """(first and last offset, first and last timestamp) of what is to be kept."""
    return bounds[FIRST_WANTED], bounds[LAST_WANTED], bounds[FIRST_TIME], bounds[LAST_TIME]


@inline
def count_records(fields: Ints, entry: Int, start: Int, stop: Int) -> Int:
    """The number of records that a batch states, or -1 if it cannot have that many in data[start:stop]."""
    count = fields[RECORD_COUNT, entry]
    offsets_there = fields[LAST_OFFSET, entry] - fields[BASE_OFFSET, entry] + 1
    if count == 0 or (0 < count <= (stop - start) // batch.MIN_RECORD_SIZE and count <= offsets_there):
        return count
    return np.int64(-1)


@inline
def decode_batch(
    data: Bytes,
    fields: Ints,
    entry: Int,
    start: Int,
    stop: Int,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int]:
    """(status, row after the last one kept) of a v2 batch whose records are in data[start:stop]."""
    count = count_records(fields, entry, start, stop)
    if count <= 0:
        return (OK if count == 0 else BAD_COUNT), row
    content = stop - start - count * LEAST_FRONT
    if not has_room(columns, wants, row, count, content) or (wants & HEADERS and not has_header_room(headers, row, content)):
        return NO_ROOM, row
    base_offset, base_timestamp, append_time, max_timestamp = origin(fields, entry)
    first_wanted, last_wanted, first_time, last_time = wanted_range(bounds)
    record_limit, headers_limit = bounds[RECORD_LIMIT], bounds[HEADERS_LIMIT]
    offsets, timestamps, key_offsets, key_valid, keys, value_offsets, value_valid, values = columns
    want_key, want_value, want_headers = wants & KEY != 0, wants & VALUE != 0, wants & HEADERS != 0
    at, end, here = np.uint64(start), np.uint64(stop), np.uint64(row)
    header_start, header_count = np.uint64(0), np.int64(0)
    key_bytes, value_bytes = np.int64(key_offsets[row]), np.int64(value_offsets[row])
    for _ in range(count):
        if at == end:
            return BAD_COUNT, row
        status, at, record_stop, timestamp_delta, offset_delta = record_front(data, at, end, record_limit)
        if status != OK:
            return status, row
        if offset_delta > LAST_INT64 - base_offset or base_offset + offset_delta < 0:
            return BAD_OFFSET, row
        key_size, key_start, at = sized_bytes(data, at, record_stop)
        if at > record_stop:
            return status_of(at, record_stop), row
        value_size, value_start, at = sized_bytes(data, at, record_stop)
        if at > record_stop:
            return status_of(at, record_stop), row
        if want_headers:
            status, header_start, header_count = find_headers(data, at, record_stop, headers_limit)
            if status != OK:
                return status, row
        at = record_stop
        offset = base_offset + offset_delta
        timestamp = max_timestamp if append_time else base_timestamp + timestamp_delta
        if first_wanted <= offset <= last_wanted and first_time <= timestamp <= last_time:
            offsets[here] = offset
            timestamps[here] = timestamp
            key_valid[here] = key_size >= 0
            value_valid[here] = value_size >= 0
            if want_headers:
                copy_headers(data, header_start, header_count, np.int64(here), headers)
            if want_key and key_size > 0:
                copy_ahead(data, key_start, keys, key_bytes, key_size)
                key_bytes += key_size
            if want_value and value_size > 0:
                copy_ahead(data, value_start, values, value_bytes, value_size)
                value_bytes += value_size
            here += np.uint64(1)
            key_offsets[here] = key_bytes
            value_offsets[here] = value_bytes
    return (OK if at == end else BAD_COUNT), np.int64(here)


@inline
def _check_rest(data: Bytes, at: Position, stop: Position, headers_limit: Int) -> Int:
    """Whether key, value and headers fill data[at:stop]."""
    for _ in range(2):
        _, _, at = sized_bytes(data, at, stop)
        if at > stop:
            return status_of(at, stop)
    status, _, _ = find_headers(data, at, stop, headers_limit)
    return status


@inline
def decode_batch_positions(
    data: Bytes,
    fields: Ints,
    entry: Int,
    start: Int,
    stop: Int,
    wants: Int,
    bounds: Ints,
    row: Int,
    offsets: Ints,
    timestamps: Ints,
) -> tuple[Int, Int]:
    """As `decode_batch` for offsets and timestamps alone: the rest of each record is skipped, or only checked."""
    count = count_records(fields, entry, start, stop)
    if count <= 0:
        return (OK if count == 0 else BAD_COUNT), row
    if row + count > offsets.shape[0]:
        return NO_ROOM, row
    base_offset, base_timestamp, append_time, max_timestamp = origin(fields, entry)
    first_wanted, last_wanted, first_time, last_time = wanted_range(bounds)
    record_limit, headers_limit = bounds[RECORD_LIMIT], bounds[HEADERS_LIMIT]
    at, end, here = np.uint64(start), np.uint64(stop), np.uint64(row)
    for _ in range(count):
        if at == end:
            return BAD_COUNT, row
        status, at, record_stop, timestamp_delta, offset_delta = record_front(data, at, end, record_limit)
        if status != OK:
            return status, row
        if offset_delta > LAST_INT64 - base_offset or base_offset + offset_delta < 0:
            return BAD_OFFSET, row
        if wants & CHECK:
            status = _check_rest(data, at, record_stop, headers_limit)
            if status != OK:
                return status, row
        at = record_stop
        offset = base_offset + offset_delta
        timestamp = max_timestamp if append_time else base_timestamp + timestamp_delta
        if first_wanted <= offset <= last_wanted and first_time <= timestamp <= last_time:
            offsets[here] = offset
            timestamps[here] = timestamp
            here += np.uint64(1)
    return (OK if at == end else BAD_COUNT), np.int64(here)
