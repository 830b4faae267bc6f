"""Write whole v2 batches from columns in one pass: where they are cut, records, headers, checksums; compress them with lz4.

Each batch is finished while its bytes are in the nearest cache. Kernels unpack the tuple of columns before they loop: passing it
to a function costs more than encoding a record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch
from kafkalog.format.batch import MAX_SEQUENCE, NO_SEQUENCE
from kafkalog.format.entry_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CONTROL_TYPE,
    COORDINATOR_EPOCH,
    CRC,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
    UNKNOWN_CONTROL,
)

from ._jit import JIT_OFF, call_crc32c, copy_ahead, copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import crc32c
from .encode_messages import (
    BAD_OFFSET,
    BAD_TIMESTAMP,
    MAX_INT32,
    NO_APPEND_TIME,
    NO_HORIZON,
    OK,
    TOO_LARGE,
    Columns,
    size_of_varint,
    store_bytes,
    store_int,
    store_varint,
)
from .lz4 import BLOCK, BLOCK_BOUND, HEADER, SIZE_FIELD, compress_frame
from .native import NOT_FOUND

# A status besides those of `encode_messages`: no room for the batch of that row, in `target` or `fields`.
NO_ROOM = TOO_LARGE + 1

# Rows of the settings: limits of a batch, fields of its header, and the offset that the first row must come after.
(
    MOST_RECORDS,
    MOST_BYTES,
    WITH_ATTRIBUTES,
    WITH_LEADER_EPOCH,
    WITH_PRODUCER_ID,
    WITH_PRODUCER_EPOCH,
    NEXT_SEQUENCE,
    HORIZON,
    APPEND_TIME,
    BEFORE,
    CRC_FUNCTION,
) = range(11)
SETTING_COUNT = 11

NO_CHECKSUM = -1  # as CRC_FUNCTION: the records will be compressed

HEADER_SIZE = batch.HEADER_SIZE
MAX_LENGTH_SIZE = 5  # bytes of a varint
CRC_START = batch.CRC_START


@inline
def _size_of_length(length: Int) -> Int:
    """Bytes of a length, -1 to 2**31 - 1, as a varint."""
    if length < 64:
        return 1
    if length < 8192:
        return 2
    if length < 1 << 20:
        return 3
    return 4 if length < 1 << 27 else 5


@inline
def _size_of_bytes(length: Int) -> Int:
    return _size_of_length(length) + max(length, 0)


@inline
def _checksum(function: Int, target: Bytes, start: Int, stop: Int) -> Any:
    if function == NO_CHECKSUM:
        return np.int64(0)
    if JIT_OFF or function == NOT_FOUND:
        return crc32c(target, start, stop)
    address = np.uintp(target.ctypes.data) + np.uintp(start)
    state = call_crc32c(np.uintp(function), address, np.int32(stop - start), np.uint32(0xFFFFFFFF))
    return np.int64(state) ^ 0xFFFFFFFF


@kernel
def write_headers(columns: Columns, target: Bytes, stops: Ints) -> None:
    """Fill `target` with the headers of each row in record format, and `stops` with where those of each row end.

    They do not depend on the batch, so they are encoded before batches are cut.
    """
    offsets, valid = columns.header_offsets, columns.header_value_valid
    keys, key_offsets = columns.header_keys, columns.header_key_offsets
    values, value_offsets = columns.header_values, columns.header_value_offsets
    lists_valid = columns.header_valid
    has_nulls, has_null_lists = valid.shape[0] > 0, lists_valid.shape[0] > 0
    at = np.uint64(0)
    for row in range(stops.shape[0]):
        first, last = offsets[row], offsets[row + 1]
        if has_null_lists and not lists_valid[row]:  # whatever is stored under it
            last = first
        at = store_varint(target, at, last - first)
        for index in range(first, last):
            start, stop = value_offsets[index], value_offsets[index + 1]
            at = store_bytes(target, at, keys, key_offsets[index], key_offsets[index + 1] - key_offsets[index])
            at = store_bytes(target, at, values, start, np.int64(-1) if has_nulls and not valid[index] else stop - start)
        stops[row] = np.int64(at)


def max_headers_size(columns: Columns) -> int:
    """Bytes that `write_headers` may need."""
    lengths = len(columns.header_offsets) + 2 * len(columns.header_key_offsets)
    parts = columns.header_key_offsets, columns.header_value_offsets
    return MAX_LENGTH_SIZE * lengths + sum(int(offsets[-1] - offsets[0]) for offsets in parts if len(offsets))


@kernel
def _finish_batch(
    settings: Ints, fields: Ints, number: Int, last_offset: Int, newest: Int, count: Int, target: Bytes, start: Int, stop: Int
) -> None:
    """Write the header of the batch in target[start:stop]; `fields` have its first offset and its base timestamp."""
    last_delta = last_offset - fields[BASE_OFFSET, number]
    sequence = settings[NEXT_SEQUENCE]
    if sequence != NO_SEQUENCE:
        settings[NEXT_SEQUENCE] = (sequence + last_delta + 1) & MAX_SEQUENCE
    fields[MAX_TIMESTAMP, number] = newest if settings[APPEND_TIME] == NO_APPEND_TIME else settings[APPEND_TIME]
    settings[BEFORE] = last_offset
    store_int(target, start, fields[BASE_OFFSET, number], 8)
    store_int(target, start + batch.BATCH_LENGTH_POSITION, stop - start - batch.LOG_OVERHEAD, 4)
    store_int(target, start + batch.PARTITION_LEADER_EPOCH_POSITION, settings[WITH_LEADER_EPOCH], 4)
    target[start + batch.MAGIC_POSITION] = 2
    store_int(target, start + batch.ATTRIBUTES_POSITION, settings[WITH_ATTRIBUTES], 2)
    store_int(target, start + batch.LAST_OFFSET_DELTA_POSITION, last_delta, 4)
    store_int(target, start + batch.BASE_TIMESTAMP_POSITION, fields[BASE_TIMESTAMP, number], 8)
    store_int(target, start + batch.MAX_TIMESTAMP_POSITION, fields[MAX_TIMESTAMP, number], 8)
    store_int(target, start + batch.PRODUCER_ID_POSITION, settings[WITH_PRODUCER_ID], 8)
    store_int(target, start + batch.PRODUCER_EPOCH_POSITION, settings[WITH_PRODUCER_EPOCH], 2)
    store_int(target, start + batch.BASE_SEQUENCE_POSITION, sequence, 4)
    store_int(target, start + batch.RECORDS_COUNT_POSITION, count, 4)
    fields[CRC, number] = _checksum(settings[CRC_FUNCTION], target, start + CRC_START, stop)
    store_int(target, start + batch.CRC_POSITION, fields[CRC, number], 4)
    fields[POSITION, number] = start
    fields[SIZE, number] = stop - start
    fields[MAGIC, number] = 2
    fields[LAST_OFFSET, number] = last_offset
    fields[ATTRIBUTES, number] = settings[WITH_ATTRIBUTES]
    fields[RECORD_COUNT, number] = count
    fields[PRODUCER_ID, number] = settings[WITH_PRODUCER_ID]
    fields[PRODUCER_EPOCH, number] = settings[WITH_PRODUCER_EPOCH]
    fields[BASE_SEQUENCE, number] = sequence
    fields[LEADER_EPOCH, number] = settings[WITH_LEADER_EPOCH]
    fields[CONTROL_TYPE, number] = UNKNOWN_CONTROL
    fields[COORDINATOR_EPOCH, number] = -1


@kernel
def write_batches(
    columns: Columns,
    starts: Bytes,
    headers: Bytes,
    header_stops: Ints,
    first: Int,
    is_end: Int,
    settings: Ints,
    target: Bytes,
    fields: Ints,
) -> tuple[Int, Int, Int, Int]:
    """(status, row, batches, bytes): fill `target` with batches of the rows from `first` on, and `fields` with their headers.

    A batch ends at MOST_RECORDS, or before it grows beyond MOST_BYTES, unless one record alone is larger; its offsets span 31
    bits. Where `starts`, if it has elements, is not 0, one begins. `row` is where to continue, or the faulty one; batches before
    it are finished. The last batch of the columns is left out unless `is_end`: more rows might join it. Without `header_stops`
    records have no headers.
    """
    offsets, timestamps = columns.offsets, columns.timestamps
    keys, key_offsets, key_valid = columns.keys, columns.key_offsets, columns.key_valid
    values, value_offsets, value_valid = columns.values, columns.value_offsets, columns.value_valid
    has_null_keys, has_null_values, has_headers = key_valid.shape[0] > 0, value_valid.shape[0] > 0, header_stops.shape[0] > 0
    most_records, most_bytes, horizon = settings[MOST_RECORDS], settings[MOST_BYTES], settings[HORIZON]
    before, room, number, has_starts = settings[BEFORE], target.shape[0], -1, starts.shape[0] > 0
    spare = most_bytes if most_bytes <= room // 4 else np.int64(HEADER_SIZE)  # a batch begun with less may be encoded twice
    at = np.uint64(0)
    start = base_offset = base_timestamp = max_timestamp = np.int64(0)
    key_stop, value_stop = key_offsets[first], value_offsets[first]
    header_stop = header_stops[first - 1] if has_headers and first else np.int64(0)
    for row in range(first, offsets.shape[0]):
        this, following = np.uint64(row), np.uint64(row + 1)
        offset, timestamp = offsets[this], timestamps[this]
        key_start, value_start, header_start = key_stop, value_stop, header_stop
        key_stop, value_stop = key_offsets[following], value_offsets[following]
        key = np.int64(-1) if has_null_keys and not key_valid[this] else key_stop - key_start
        value = np.int64(-1) if has_null_values and not value_valid[this] else value_stop - value_start
        header_stop = header_stops[this] if has_headers else header_start + 1
        header_size = header_stop - header_start
        parts = 1 + _size_of_bytes(key) + _size_of_bytes(value) + header_size
        if offset <= before or timestamp < -1:
            return BAD_OFFSET if offset <= before else BAD_TIMESTAMP, row, max(number, 0), start
        size = parts + size_of_varint(timestamp - base_timestamp) + _size_of_length(offset - base_offset)
        whole = size + _size_of_length(size)
        is_full = row - first >= most_records or offset - base_offset > MAX_INT32 or np.int64(at) - start + whole > most_bytes
        if number < 0 or is_full or (has_starts and starts[this]):
            if number >= 0:
                _finish_batch(settings, fields, number, before, max_timestamp, row - first, target, start, np.int64(at))
            number += 1
            start = np.int64(at)
            first = row
            if number == fields.shape[1] or room - start < (spare if number else HEADER_SIZE):
                return NO_ROOM, first, number, start
            base_offset = offset
            base_timestamp = timestamp if horizon == NO_HORIZON else horizon
            fields[BASE_OFFSET, number], fields[BASE_TIMESTAMP, number] = base_offset, base_timestamp
            max_timestamp = timestamp
            at += np.uint64(HEADER_SIZE)
            size = parts + size_of_varint(timestamp - base_timestamp) + 1
            whole = size + _size_of_length(size)
        if HEADER_SIZE + whole > MAX_INT32 or np.int64(at) + whole > room:
            return (TOO_LARGE, row, number, start) if HEADER_SIZE + whole > MAX_INT32 else (NO_ROOM, first, number, start)
        before = offset
        max_timestamp = max(max_timestamp, timestamp)
        at = store_varint(target, at, size)
        target[at] = 0
        at = store_varint(target, at + np.uint64(1), timestamp - base_timestamp)
        at = store_varint(target, at, offset - base_offset)
        at = store_bytes(target, at, keys, key_start, key)
        at = store_bytes(target, at, values, value_start, value)
        target[at] = 0
        if header_size > 1:
            copy_ahead(headers, header_start, target, np.int64(at), header_size)
        at += np.uint64(header_size)
    if not is_end or number < 0:
        return OK, first, max(number, 0), start
    _finish_batch(settings, fields, number, before, max_timestamp, offsets.shape[0] - first, target, start, np.int64(at))
    return OK, offsets.shape[0], number + 1, np.int64(at)


@kernel
def compress_batches(data: Bytes, fields: Ints, function: Int, crc_function: Int, target: Bytes) -> Int:
    """Fill `target` with the batches in `data`, their records compressed with lz4; returns the bytes written.

    `fields`, which describe `data`, are updated. `target` must have `compressed_room`.
    """
    at = np.int64(0)
    for number in range(fields.shape[1]):
        start = fields[POSITION, number]
        stop = start + fields[SIZE, number]
        copy_bytes(data, start, target, at, np.int64(HEADER_SIZE))
        end = compress_frame(function, data, start + HEADER_SIZE, stop, target, at + HEADER_SIZE)
        store_int(target, at + batch.BATCH_LENGTH_POSITION, end - at - batch.LOG_OVERHEAD, 4)
        fields[CRC, number] = _checksum(crc_function, target, at + CRC_START, end)
        store_int(target, at + batch.CRC_POSITION, fields[CRC, number], 4)
        fields[POSITION, number] = at
        fields[SIZE, number] = end - at
        at = end
    return at


def compressed_room(size: int, count: int) -> int:
    """Bytes that `compress_batches` may touch for `count` batches of `size` bytes: a block that does not shrink is stored."""
    blocks = size // BLOCK + count
    return size + count * (HEADER + SIZE_FIELD) + blocks * SIZE_FIELD + BLOCK_BOUND
