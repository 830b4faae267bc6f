"""Encode many records from columns: where batches are cut, and the bytes of their records.

`measure` and `plan` check the rows and decide which of them share a batch; `write_records` (v2) and `write_messages` (v0, v1)
then fill one buffer of exactly the size that the plan says. Headers of batches and wrappers are the caller's: they need the
compressed size. Kernels take the tuple of columns apart before they loop: handing it to a function costs more than to
encode a record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkalog.format import batch, message

from ._jit import copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import crc32

# Rows of the batch table: first row of each batch, where its records go in the buffer, its timestamps.
FIRST_ROW, START, STOP, BASE_TIMESTAMP, MAX_TIMESTAMP = range(5)
BATCH_FIELDS = 5

# What `plan` may find.
OK, BAD_OFFSET, BAD_TIMESTAMP, TOO_LARGE = range(4)

MAX_INT32 = np.int64(0x7FFFFFFF)
V2_OVERHEAD = batch.HEADER_SIZE
LOG_OVERHEAD = batch.LOG_OVERHEAD
OVERHEAD_V0 = message.OVERHEAD_V0
OVERHEAD_V1 = message.OVERHEAD_V1
NO_HORIZON = -1
NO_APPEND_TIME = -1


class Columns(NamedTuple):
    """Arrow's buffers as arrays. A `valid` without elements says that nothing is null; no `header_offsets`: no headers."""

    offsets: Ints
    timestamps: Ints
    keys: Bytes
    key_offsets: Ints
    key_valid: Bytes
    values: Bytes
    value_offsets: Ints
    value_valid: Bytes
    header_offsets: Ints
    header_keys: Bytes
    header_key_offsets: Ints
    header_values: Bytes
    header_value_offsets: Ints
    header_value_valid: Bytes


@inline
def _size_of_varint(value: Int) -> Int:
    """Bytes of the zig-zag encoding, for 32-bit and 64-bit values alike."""
    if -64 <= value < 64:
        return 1
    rest = np.uint64(value) if value >= 0 else np.uint64(-(value + 1))
    rest >>= np.uint64(6)
    size = 1
    while rest:
        rest >>= np.uint64(7)
        size += 1
    return size


@inline
def _store_varint(target: Bytes, at: np.uint64, value: Int) -> np.uint64:
    """Store `value` in as few bytes as possible; the position after it."""
    if -64 <= value < 64:
        target[at] = (value << 1) ^ (value >> 63)
        return at + np.uint64(1)
    if value >= 0:
        rest = np.uint64(value) << np.uint64(1)
    else:
        rest = (np.uint64(-(value + 1)) << np.uint64(1)) | np.uint64(1)
    while rest >= np.uint64(0x80):
        target[at] = (rest & np.uint64(0x7F)) | np.uint64(0x80)
        rest >>= np.uint64(7)
        at += np.uint64(1)
    target[at] = rest
    return at + np.uint64(1)


@inline
def _store_int(target: Bytes, at: Int, value: Int, size: Int) -> None:
    """Store the low `size` bytes of `value`, big-endian."""
    for index in range(size):
        target[at + index] = (value >> (8 * (size - 1 - index))) & 0xFF


@inline
def _length(offsets: Ints, valid: Bytes, row: Int) -> Int:
    """The size of a value, -1 for null."""
    if valid.shape[0] and not valid[row]:
        return np.int64(-1)
    return offsets[row + 1] - offsets[row]


@inline
def _size_of_bytes(length: Int) -> Int:
    return _size_of_varint(length) + max(length, 0)


@kernel
def measure(columns: Columns, magic: Int, sizes: Ints) -> None:
    """Put into `sizes` what each record needs whichever batch it is in: all of a v0 or v1 entry, key, value and headers of v2."""
    keys, key_valid = columns.key_offsets, columns.key_valid
    values, value_valid = columns.value_offsets, columns.value_valid
    headers = columns.header_offsets
    header_keys = columns.header_key_offsets
    header_values, header_value_valid = columns.header_value_offsets, columns.header_value_valid
    for row in range(sizes.shape[0]):
        key = _length(keys, key_valid, row)
        value = _length(values, value_valid, row)
        if magic < 2:
            sizes[row] = LOG_OVERHEAD + (OVERHEAD_V1 if magic else OVERHEAD_V0) + max(key, 0) + max(value, 0)
            continue
        size = _size_of_bytes(key) + _size_of_bytes(value)
        if headers.shape[0] == 0:
            sizes[row] = size + 1
            continue
        size += _size_of_varint(headers[row + 1] - headers[row])
        for index in range(headers[row], headers[row + 1]):
            size += _size_of_bytes(header_keys[index + 1] - header_keys[index])
            size += _size_of_bytes(_length(header_values, header_value_valid, index))
        sizes[row] = size


@inline
def _sizes(size: Int, magic: Int, offset_delta: Int, timestamp_delta: Int) -> tuple[Int, Int]:
    """(size behind the length of a v2 record, or of a v0 or v1 entry; all bytes that it takes) from what `measure` found."""
    if magic < 2:
        return size, size
    size += 1 + _size_of_varint(timestamp_delta) + _size_of_varint(offset_delta)
    return size, size + _size_of_varint(size)


@kernel
def plan(
    offsets: Ints,
    timestamps: Ints,
    starts: Bytes,
    magic: Int,
    horizon: Int,
    before: Int,
    max_records: Int,
    max_bytes: Int,
    sizes: Ints,
    batches: Ints,
) -> tuple[Int, Int, Int]:
    """(status, row at fault, batches): which rows share a batch.

    A batch holds at most `max_records`, and with its header at most `max_bytes` before compression unless one record alone is
    larger; its offsets span 31 bits. Where `starts`, if it has elements, is not 0, one begins. `before` is the offset that the
    first row must come after. `sizes`, filled by `measure`, gets the size of a record behind its length (v2). One column of
    `batches` follows the last batch: its FIRST_ROW is where that ends.
    """
    count = 0
    position = np.int64(0)
    overhead = V2_OVERHEAD if magic == 2 else 0
    base_offset = np.int64(0)
    base_timestamp = np.int64(0)
    rows = offsets.shape[0]
    for row in range(rows):
        offset = offsets[row]
        timestamp = timestamps[row]
        if offset <= before:
            return BAD_OFFSET, row, count
        if timestamp < -1:
            return BAD_TIMESTAMP, row, count
        before = offset
        size, whole = _sizes(sizes[row], magic, offset - base_offset, timestamp - base_timestamp)
        if (
            count == 0
            or (starts.shape[0] and starts[row])
            or row - batches[FIRST_ROW, count - 1] >= max_records
            or offset - base_offset > MAX_INT32
            or overhead + position - batches[START, count - 1] + whole > max_bytes
        ):
            base_offset = offset
            base_timestamp = timestamp if horizon == NO_HORIZON else horizon
            size, whole = _sizes(sizes[row], magic, np.int64(0), timestamp - base_timestamp)
            batches[FIRST_ROW, count] = row
            batches[START, count] = position
            batches[BASE_TIMESTAMP, count] = base_timestamp
            batches[MAX_TIMESTAMP, count] = timestamp
            count += 1
        if overhead + whole > MAX_INT32:
            return TOO_LARGE, row, count
        sizes[row] = size
        position += whole
        batches[STOP, count - 1] = position
        batches[MAX_TIMESTAMP, count - 1] = max(batches[MAX_TIMESTAMP, count - 1], timestamp)
    batches[FIRST_ROW, count] = rows
    return OK, -1, count


@inline
def _store_bytes(target: Bytes, at: np.uint64, source: Bytes, start: Int, length: Int) -> np.uint64:
    """Store a varint length (-1: null) and its bytes; the position after them."""
    at = _store_varint(target, at, length)
    if length <= 0:
        return at
    copy_bytes(source, start, target, np.int64(at), length)
    return at + np.uint64(length)


@kernel
def write_records(columns: Columns, sizes: Ints, batches: Ints, target: Bytes) -> None:
    """Fill `target` with the v2 records of the planned `batches`; the last column only says where the rows end."""
    offsets, timestamps = columns.offsets, columns.timestamps
    keys, key_offsets, key_valid = columns.keys, columns.key_offsets, columns.key_valid
    values, value_offsets, value_valid = columns.values, columns.value_offsets, columns.value_valid
    headers = columns.header_offsets
    header_keys, header_key_offsets = columns.header_keys, columns.header_key_offsets
    header_values, header_value_offsets = columns.header_values, columns.header_value_offsets
    header_value_valid = columns.header_value_valid
    for number in range(batches.shape[1] - 1):
        first = batches[FIRST_ROW, number]
        base_offset = offsets[first]
        base_timestamp = batches[BASE_TIMESTAMP, number]
        at = np.uint64(batches[START, number])
        for row in range(first, batches[FIRST_ROW, number + 1]):
            at = _store_varint(target, at, sizes[row])
            target[at] = 0
            at = _store_varint(target, at + np.uint64(1), timestamps[row] - base_timestamp)
            at = _store_varint(target, at, offsets[row] - base_offset)
            at = _store_bytes(target, at, keys, key_offsets[row], _length(key_offsets, key_valid, row))
            at = _store_bytes(target, at, values, value_offsets[row], _length(value_offsets, value_valid, row))
            if headers.shape[0] == 0:
                at = _store_varint(target, at, np.int64(0))
                continue
            at = _store_varint(target, at, headers[row + 1] - headers[row])
            for index in range(headers[row], headers[row + 1]):
                start = header_key_offsets[index]
                at = _store_bytes(target, at, header_keys, start, header_key_offsets[index + 1] - start)
                length = _length(header_value_offsets, header_value_valid, index)
                at = _store_bytes(target, at, header_values, header_value_offsets[index], length)


@inline
def _store_sized(target: Bytes, at: Int, source: Bytes, start: Int, length: Int) -> Int:
    """Store a 32-bit length (-1: null) and its bytes; the position after them."""
    _store_int(target, at, length, 4)
    at += 4
    if length > 0:
        copy_bytes(source, start, target, at, length)
        at += length
    return at


@kernel
def write_messages(
    columns: Columns, magic: Int, attributes: Int, append_time: Int, relative: Int, sizes: Ints, batches: Ints, target: Bytes
) -> None:
    """Fill `target` with one v0 or v1 entry a row, checksums included.

    `relative`: offsets count from the first row of each batch. `append_time`, unless it is -1, stands for every timestamp.
    """
    offsets, timestamps = columns.offsets, columns.timestamps
    keys, key_offsets, key_valid = columns.keys, columns.key_offsets, columns.key_valid
    values, value_offsets, value_valid = columns.values, columns.value_offsets, columns.value_valid
    for number in range(batches.shape[1] - 1):
        first = batches[FIRST_ROW, number]
        start = batches[START, number]
        base_offset = offsets[first] if relative else np.int64(0)
        for row in range(first, batches[FIRST_ROW, number + 1]):
            stop = start + sizes[row]
            _store_int(target, start, offsets[row] - base_offset, 8)
            _store_int(target, start + 8, sizes[row] - LOG_OVERHEAD, 4)
            target[start + 16] = magic
            target[start + 17] = attributes
            at = start + 18
            if magic:
                _store_int(target, at, timestamps[row] if append_time == NO_APPEND_TIME else append_time, 8)
                at += 8
            at = _store_sized(target, at, keys, key_offsets[row], _length(key_offsets, key_valid, row))
            _store_sized(target, at, values, value_offsets[row], _length(value_offsets, value_valid, row))
            _store_int(target, start + 12, crc32(target, start + 16, stop), 4)
            start = stop
