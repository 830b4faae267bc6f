"""Write whole v2 batches from columns in one pass: where they are cut, records, headers, checksums.

Each batch is finished while its bytes are in the nearest cache. Kernels take the tuple of columns apart before they loop: handing
it to a function costs more than to encode a record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch
from kafkalog.format.sequence import MAX_SEQUENCE, NO_SEQUENCE

from ._jit import JIT_OFF, call_crc32c, inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import crc32c
from .encode import (
    BAD_OFFSET,
    BAD_TIMESTAMP,
    MAX_INT32,
    NO_APPEND_TIME,
    NO_HORIZON,
    OK,
    TOO_LARGE,
    Columns,
    length_at,
    size_of_varint,
    store_bytes,
    store_int,
    store_varint,
)
from .native import NOT_FOUND
from .scan import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CONTROL_TYPE,
    COORDINATOR_EPOCH,
    COUNT,
    CRC,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
    UNKNOWN_CONTROL,
)

# What a call may come back with beside what is wrong with a row: no room for the batch of that row, in `target` or `fields`.
NO_ROOM = TOO_LARGE + 1

# Rows of the settings: limits of a batch, what its header says, and the offset that the first row has to come after.
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

NO_CHECKSUM = -1  # as CRC_FUNCTION: the records are going to be compressed

HEADER_SIZE = batch.HEADER_SIZE
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


@inline
def _size_of_headers(offsets: Ints, key_offsets: Ints, value_offsets: Ints, value_valid: Bytes, row: Int) -> Int:
    """Bytes of the headers of a row, their number included."""
    size = _size_of_length(offsets[row + 1] - offsets[row])
    for index in range(offsets[row], offsets[row + 1]):
        size += _size_of_bytes(key_offsets[index + 1] - key_offsets[index])
        size += _size_of_bytes(length_at(value_offsets, value_valid, index))
    return size


@inline
def _store_headers(
    offsets: Ints, keys: Bytes, key_offsets: Ints, values: Bytes, value_offsets: Ints, value_valid: Bytes, row: Int,
    target: Bytes, at: np.uint64,
) -> np.uint64:  # fmt: skip
    at = store_varint(target, at, offsets[row + 1] - offsets[row])
    for index in range(offsets[row], offsets[row + 1]):
        start = key_offsets[index]
        at = store_bytes(target, at, keys, start, key_offsets[index + 1] - start)
        at = store_bytes(target, at, values, value_offsets[index], length_at(value_offsets, value_valid, index))
    return at


@kernel
def _finish_batch(
    settings: Ints, fields: Ints, number: Int, last_offset: Int, count: Int, target: Bytes, start: Int, stop: Int
) -> None:
    """Write the header of the batch in target[start:stop]; `fields` have its first offset and its timestamps."""
    last_delta = last_offset - fields[BASE_OFFSET, number]
    sequence = settings[NEXT_SEQUENCE]
    if sequence != NO_SEQUENCE:
        settings[NEXT_SEQUENCE] = (sequence + last_delta + 1) & MAX_SEQUENCE
    if settings[APPEND_TIME] != NO_APPEND_TIME:
        fields[MAX_TIMESTAMP, number] = settings[APPEND_TIME]
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
    fields[COUNT, number] = count
    fields[PRODUCER_ID, number] = settings[WITH_PRODUCER_ID]
    fields[PRODUCER_EPOCH, number] = settings[WITH_PRODUCER_EPOCH]
    fields[BASE_SEQUENCE, number] = sequence
    fields[LEADER_EPOCH, number] = settings[WITH_LEADER_EPOCH]
    fields[CONTROL_TYPE, number] = UNKNOWN_CONTROL
    fields[COORDINATOR_EPOCH, number] = -1


@kernel
def write_batches(
    columns: Columns, first: Int, is_end: Int, settings: Ints, target: Bytes, fields: Ints
) -> tuple[Int, Int, Int, Int]:
    """(status, row, batches, bytes): fill `target` with batches of the rows from `first` on, and `fields` with their headers.

    A batch ends at MOST_RECORDS, or before it grows beyond MOST_BYTES, unless one record alone is larger; its offsets span 31
    bits. `row` is where to go on, or the one at fault; batches before it are finished. The last batch of the columns is left out
    unless `is_end`: more rows might join it.
    """
    offsets, timestamps = columns.offsets, columns.timestamps
    keys, key_offsets, key_valid = columns.keys, columns.key_offsets, columns.key_valid
    values, value_offsets, value_valid = columns.values, columns.value_offsets, columns.value_valid
    headers = columns.header_offsets
    header_keys, header_key_offsets = columns.header_keys, columns.header_key_offsets
    header_values, header_value_offsets = columns.header_values, columns.header_value_offsets
    header_value_valid = columns.header_value_valid
    has_null_keys, has_null_values, has_headers = key_valid.shape[0] > 0, value_valid.shape[0] > 0, headers.shape[0] > 0
    most_records, most_bytes, horizon = settings[MOST_RECORDS], settings[MOST_BYTES], settings[HORIZON]
    before, room, number = settings[BEFORE], target.shape[0], -1
    at = np.uint64(0)
    start = base_offset = base_timestamp = np.int64(0)
    for row in range(first, offsets.shape[0]):
        offset, timestamp = offsets[row], timestamps[row]
        key = np.int64(-1) if has_null_keys and not key_valid[row] else key_offsets[row + 1] - key_offsets[row]
        value = np.int64(-1) if has_null_values and not value_valid[row] else value_offsets[row + 1] - value_offsets[row]
        parts = 2 + _size_of_bytes(key) + _size_of_bytes(value)
        header_count = headers[row + 1] - headers[row] if has_headers else np.int64(0)
        if header_count:
            parts += _size_of_headers(headers, header_key_offsets, header_value_offsets, header_value_valid, row) - 1
        if offset <= before or timestamp < -1:
            return BAD_OFFSET if offset <= before else BAD_TIMESTAMP, row, max(number, 0), start
        size = parts + size_of_varint(timestamp - base_timestamp) + _size_of_length(offset - base_offset)
        whole = size + _size_of_length(size)
        is_full = row - first >= most_records or offset - base_offset > MAX_INT32 or np.int64(at) - start + whole > most_bytes
        if number < 0 or is_full:
            if number >= 0:
                _finish_batch(settings, fields, number, before, row - first, target, start, np.int64(at))
            number += 1
            start = np.int64(at)
            first = row
            if number == fields.shape[1] or room - start < HEADER_SIZE:
                return NO_ROOM, first, number, start
            base_offset = offset
            base_timestamp = timestamp if horizon == NO_HORIZON else horizon
            fields[BASE_OFFSET, number], fields[BASE_TIMESTAMP, number] = base_offset, base_timestamp
            fields[MAX_TIMESTAMP, number] = timestamp
            at += np.uint64(HEADER_SIZE)
            size = parts + size_of_varint(timestamp - base_timestamp) + 1
            whole = size + _size_of_length(size)
        if HEADER_SIZE + whole > MAX_INT32 or np.int64(at) + whole > room:
            return (TOO_LARGE, row, number, start) if HEADER_SIZE + whole > MAX_INT32 else (NO_ROOM, first, number, start)
        before = offset
        fields[MAX_TIMESTAMP, number] = max(fields[MAX_TIMESTAMP, number], timestamp)
        at = store_varint(target, at, size)
        target[at] = 0
        at = store_varint(target, at + np.uint64(1), timestamp - base_timestamp)
        at = store_varint(target, at, offset - base_offset)
        at = store_bytes(target, at, keys, key_offsets[row], key)
        at = store_bytes(target, at, values, value_offsets[row], value)
        if header_count:
            at = _store_headers(
                headers, header_keys, header_key_offsets, header_values, header_value_offsets, header_value_valid, row, target, at
            )
        else:
            target[at] = 0
            at += np.uint64(1)
    if not is_end or number < 0:
        return OK, first, max(number, 0), start
    _finish_batch(settings, fields, number, before, offsets.shape[0] - first, target, start, np.int64(at))
    return OK, offsets.shape[0], number + 1, np.int64(at)
