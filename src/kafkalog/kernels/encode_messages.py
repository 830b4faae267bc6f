"""Encode v0 and v1 messages from columns: which share a set, and their bytes; `encode_batches` does so for v2.

`measure` and `plan` check the rows and decide which of them share a set; `write_messages` then fills one buffer of exactly the
size that the plan says. The caller makes the wrappers, which need the compressed size. Kernels unpack the tuple of columns before
they loop: passing it, or an array, to a function costs as much as encoding a record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkalog.format import batch, java, message

from ._jit import copy_ahead, copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import crc32

# Rows of the table of sets: first row of each, where its messages go in the buffer, its largest timestamp.
FIRST_ROW, START, STOP, MAX_TIMESTAMP = range(4)
BATCH_FIELDS = 4

# Statuses: what is wrong with a row.
OK, BAD_OFFSET, BAD_TIMESTAMP, TOO_LARGE = range(4)

MAX_INT32 = np.int64(java.MAX_INT32)
LOG_OVERHEAD = batch.LOG_OVERHEAD
OVERHEAD_V0 = message.OVERHEAD_V0
OVERHEAD_V1 = message.OVERHEAD_V1
NO_HORIZON = -1
NO_APPEND_TIME = -1


class Columns(NamedTuple):
    """Arrow's buffers as arrays. An empty `valid` means that nothing is null, an empty `header_offsets` no headers."""

    offsets: Ints
    timestamps: Ints
    keys: Bytes
    key_offsets: Ints
    key_valid: Bytes
    values: Bytes
    value_offsets: Ints
    value_valid: Bytes
    header_offsets: Ints
    header_valid: Bytes
    header_keys: Bytes
    header_key_offsets: Ints
    header_values: Bytes
    header_value_offsets: Ints
    header_value_valid: Bytes


@inline
def size_of_varint(value: Int) -> Int:
    """Bytes of the zig-zag encoding, for 32-bit and 64-bit values alike."""
    if -64 <= value < 64:
        return 1
    if -8192 <= value < 8192:
        return 2
    rest = np.uint64(value) if value >= 0 else np.uint64(-(value + 1))
    rest >>= np.uint64(13)
    size = 2
    while rest:
        rest >>= np.uint64(7)
        size += 1
    return size


@inline
def store_varint(target: Bytes, at: np.uint64, value: Int) -> np.uint64:
    """Store `value` in as few bytes as possible; the position after it."""
    if -64 <= value < 64:
        target[at] = (value << 1) ^ (value >> 63)
        return at + np.uint64(1)
    if value >= 0:
        rest = np.uint64(value) << np.uint64(1)
    else:
        rest = (np.uint64(-(value + 1)) << np.uint64(1)) | np.uint64(1)
    if rest < np.uint64(0x4000):
        target[at] = (rest & np.uint64(0x7F)) | np.uint64(0x80)
        target[at + np.uint64(1)] = rest >> np.uint64(7)
        return at + np.uint64(2)
    while rest >= np.uint64(0x80):
        target[at] = (rest & np.uint64(0x7F)) | np.uint64(0x80)
        rest >>= np.uint64(7)
        at += np.uint64(1)
    target[at] = rest
    return at + np.uint64(1)


@inline
def store_int(target: Bytes, at: Int, value: Int, size: Int) -> None:
    """Store the low `size` bytes of `value`, big-endian."""
    for index in range(size):
        target[at + index] = (value >> (8 * (size - 1 - index))) & 0xFF


@inline
def length_at(offsets: Ints, valid: Bytes, row: Int) -> Int:
    """The size of a value, -1 for null."""
    if valid.shape[0] and not valid[row]:
        return np.int64(-1)
    return offsets[row + 1] - offsets[row]


@kernel
def measure(columns: Columns, magic: Int, sizes: Ints) -> None:
    """Fill `sizes` with the bytes that each entry needs."""
    keys, key_valid = columns.key_offsets, columns.key_valid
    values, value_valid = columns.value_offsets, columns.value_valid
    overhead = LOG_OVERHEAD + (OVERHEAD_V1 if magic else OVERHEAD_V0)
    for row in range(sizes.shape[0]):
        sizes[row] = overhead + max(length_at(keys, key_valid, row), 0) + max(length_at(values, value_valid, row), 0)


@kernel
def plan(
    offsets: Ints, timestamps: Ints, before: Int, max_records: Int, max_bytes: Int, sizes: Ints, batches: Ints
) -> tuple[Int, Int, Int]:
    """(status, faulty row, sets): which rows share a set.

    A set holds at most `max_records`, and at most `max_bytes` before compression unless one message alone is larger; its offsets
    span 31 bits. `before` is the offset that the first row must come after. One column of `batches` follows the last set: its
    FIRST_ROW is where that ends.
    """
    count = 0
    position = np.int64(0)
    base_offset = np.int64(0)
    rows = offsets.shape[0]
    for row in range(rows):
        offset = offsets[row]
        timestamp = timestamps[row]
        if offset <= before:
            return BAD_OFFSET, row, count
        if timestamp < -1:
            return BAD_TIMESTAMP, row, count
        before = offset
        size = sizes[row]
        if (
            count == 0
            or row - batches[FIRST_ROW, count - 1] >= max_records
            or offset - base_offset > MAX_INT32
            or position - batches[START, count - 1] + size > max_bytes
        ):
            base_offset = offset
            batches[FIRST_ROW, count] = row
            batches[START, count] = position
            batches[MAX_TIMESTAMP, count] = timestamp
            count += 1
        if size > MAX_INT32:
            return TOO_LARGE, row, count
        position += size
        batches[STOP, count - 1] = position
        batches[MAX_TIMESTAMP, count - 1] = max(batches[MAX_TIMESTAMP, count - 1], timestamp)
    batches[FIRST_ROW, count] = rows
    return OK, -1, count


@inline
def store_bytes(target: Bytes, at: np.uint64, source: Bytes, start: Int, length: Int) -> np.uint64:
    """Store a varint length (-1: null) and its bytes; the position after them."""
    at = store_varint(target, at, length)
    if length <= 0:
        return at
    copy_ahead(source, start, target, np.int64(at), length)
    return at + np.uint64(length)


@inline
def _store_sized(target: Bytes, at: Int, source: Bytes, start: Int, length: Int) -> Int:
    """Store a 32-bit length (-1: null) and its bytes; the position after them."""
    store_int(target, at, length, 4)
    at += 4
    if length > 0:
        copy_bytes(source, start, target, at, length)
        at += length
    return at


@kernel
def write_messages(
    columns: Columns, magic: Int, attributes: Int, append_time: Int, relative: Int, sizes: Ints, batches: Ints, target: Bytes
) -> None:
    """Fill `target` with one v0 or v1 entry per row, checksums included.

    `relative`: offsets count from the first row of each set. `append_time`, unless it is -1, replaces every timestamp.
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
            store_int(target, start, offsets[row] - base_offset, 8)
            store_int(target, start + 8, sizes[row] - LOG_OVERHEAD, 4)
            target[start + 16] = magic
            target[start + 17] = attributes
            at = start + 18
            if magic:
                store_int(target, at, timestamps[row] if append_time == NO_APPEND_TIME else append_time, 8)
                at += 8
            at = _store_sized(target, at, keys, key_offsets[row], length_at(key_offsets, key_valid, row))
            _store_sized(target, at, values, value_offsets[row], length_at(value_offsets, value_valid, row))
            store_int(target, start + 12, crc32(target, start + 16, stop), 4)
            start = stop
