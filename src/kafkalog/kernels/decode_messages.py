"""Messages v0 and v1, single or as the compressed set inside a wrapper message, decoded into columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch, message
from kafkalog.format.entry_table import ATTRIBUTES, BASE_OFFSET, BASE_TIMESTAMP, MAGIC

from ._jit import copy_ahead, inline, kernel
from .bytes import Bytes, Int, Ints, load_int32, load_int64
from .crc import fast_crc32, message_matches
from .decode_batches import wanted_range
from .layout import (
    BAD_COUNT,
    BAD_CRC,
    BAD_INNER_CRC,
    BAD_INNER_LENGTH,
    BAD_INNER_MAGIC,
    BAD_OFFSET,
    BAD_STRUCTURE,
    ENTRY,
    FIRST_OFFSET,
    FIRST_ROW,
    HEADERS,
    KEPT,
    KEY,
    LAST_INT64,
    NESTED,
    NO_ROOM,
    OK,
    PLAIN,
    START,
    STATE,
    STOP,
    VALUE,
    Columns,
    HeaderColumns,
    Offsets32,
    has_room,
)

MIN_INNER_ENTRY = batch.LOG_OVERHEAD + message.OVERHEAD_V0
INNER_CODEC_MASK = batch.CODEC_MASK


@kernel
def message_parts(data: Bytes, start: Int, stop: Int, magic: Int) -> tuple[Int, Int, Int, Int, Int]:
    """(status, key start, key size, value start, value size) of the v0 or v1 message in data[start:stop]; size -1: null."""
    at = start + (message.KEY_LENGTH_POSITION_V1 if magic == 1 else message.KEY_LENGTH_POSITION_V0)
    if at + 8 > stop:
        return BAD_STRUCTURE, 0, 0, 0, 0
    key_size = max(load_int32(data, at), -1)
    key_start = at + 4
    if max(key_size, 0) + 4 > stop - key_start:
        return BAD_STRUCTURE, 0, 0, 0, 0
    value_at = key_start + max(key_size, 0)
    value_size = max(load_int32(data, value_at), -1)
    if value_size > stop - value_at - 4:
        return BAD_STRUCTURE, 0, 0, 0, 0
    return OK, key_start, key_size, value_at + 4, value_size


@inline
def _put(
    data: Bytes, start: Int, size: Int, want: Any, row: Int, written: Int, offsets: Offsets32, valid: Bytes, content: Bytes
) -> Int:
    """Append a key or value to its column; returns the bytes in that column now. The caller keeps that number in a register: read
    back from the array it made the loops five times slower."""
    valid[np.uint64(row)] = size >= 0
    if want and size > 0:
        copy_ahead(data, start, content, written, size)
        written += size
    offsets[np.uint64(row + 1)] = written
    return written


@inline
def _end_headers(wants: Int, first: Int, last: Int, headers: HeaderColumns) -> None:
    """No headers for rows first..last - 1."""
    if wants & HEADERS:
        for row in range(first, last):
            headers.offsets[row + 1] = headers.offsets[first]


@inline
def decode_messages(
    data: Bytes,
    fields: Ints,
    payloads: Ints,
    first: Int,
    position: Int,
    crc32: Int,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int, Int]:
    """(status, faulty payload or the one after the run, row after the last one kept) of plain messages from payload `first` on.

    The run ends at the first payload that is not a plain message. Without `crc32`, the address of ISA-L's function, the caller
    has checked them.
    """
    states, entries, starts, stops = payloads[STATE], payloads[ENTRY], payloads[START], payloads[STOP]
    first_wanted, last_wanted, first_time, last_time = wanted_range(bounds)
    offsets, timestamps, key_offsets, key_valid, keys, value_offsets, value_valid, values = columns
    want_key, want_value = wants & KEY != 0, wants & VALUE != 0
    key_bytes = np.int64(key_offsets[row]) if wants & KEPT else np.int64(0)
    value_bytes = np.int64(value_offsets[row]) if wants & KEPT else np.int64(0)
    first_row, status = row, OK
    number = np.uint64(first)
    while number < payloads.shape[1]:
        entry = np.uint64(entries[number])
        magic, start, stop = fields[MAGIC, entry], starts[number], stops[number]
        if magic == 2 or states[number] != PLAIN:
            break
        if crc32 and not message_matches(crc32, data, fields, entry, position):
            status = BAD_CRC
            break
        status, key_start, key_size, value_start, value_size = message_parts(data, start, stop, magic)
        offset, timestamp = fields[BASE_OFFSET, entry], fields[BASE_TIMESTAMP, entry]
        if status == OK and offset < 0:
            status = BAD_OFFSET
        if row == offsets.shape[0] or (want_key and key_bytes + key_size > keys.shape[0]):
            status = NO_ROOM
        if want_value and value_bytes + value_size > values.shape[0]:
            status = NO_ROOM
        if status != OK:
            break
        payloads[FIRST_ROW, number] = row
        payloads[FIRST_OFFSET, number] = offset
        number += np.uint64(1)
        if first_wanted <= offset <= last_wanted and first_time <= timestamp <= last_time:
            offsets[np.uint64(row)] = offset
            timestamps[np.uint64(row)] = timestamp
            if wants & KEPT:
                key_bytes = _put(data, key_start, key_size, want_key, row, key_bytes, key_offsets, key_valid, keys)
                value_bytes = _put(
                    data, value_start, value_size, want_value, row, value_bytes, value_offsets, value_valid, values
                )
            row += 1
    _end_headers(wants, first_row, row, headers)
    return status, np.int64(number), row


@inline
def _check_inner(data: Bytes, at: Int, stop: Int, crc32: Int) -> tuple[Int, Int]:
    """(status, size) of the inner message at data[at]; size 0: the set ends here, as Kafka's reader sees it."""
    if stop - at < batch.LOG_OVERHEAD:
        return OK, 0
    size = load_int32(data, at + message.MESSAGE_SIZE_POSITION)
    if size < message.MIN_MESSAGE_SIZE:
        return BAD_INNER_LENGTH, 0
    if size > stop - at - batch.LOG_OVERHEAD:
        return OK, 0
    magic = np.int64(data[at + message.MAGIC_POSITION])
    if magic > 1:
        return BAD_INNER_MAGIC, 0
    if data[at + message.ATTRIBUTES_POSITION] & INNER_CODEC_MASK:
        return NESTED, 0
    stored = load_int32(data, at + message.CRC_POSITION) & 0xFFFFFFFF
    if stored != fast_crc32(crc32, data, at + message.CRC_START, at + batch.LOG_OVERHEAD + size):
        return BAD_INNER_CRC, 0
    status, _, _, _, _ = message_parts(data, at, at + batch.LOG_OVERHEAD + size, magic)
    return status, size + batch.LOG_OVERHEAD


@inline
def _base_of_set(data: Bytes, start: Int, stop: Int, crc32: Int, magic: Int, wrapper_offset: Int) -> tuple[Int, Int, Int]:
    """(status, what to add to each inner offset, where the set ends), after every inner message has been checked."""
    at = start
    last_inner = np.int64(-1)
    highest_inner = np.int64(-1)
    while at < stop:
        status, size = _check_inner(data, at, stop, crc32)
        if status != OK:
            return status, 0, at
        if size == 0:
            break
        last_inner = load_int64(data, at)
        if last_inner < 0:
            return BAD_OFFSET, 0, at
        highest_inner = max(highest_inner, last_inner)
        at += size
    if at == start:
        return BAD_COUNT, 0, at
    if magic == 0 or wrapper_offset == 0:  # offset 0 on a v1 wrapper: some clients leave it so, and Kafka uses the inner offsets
        return OK, 0, at
    if wrapper_offset < last_inner or wrapper_offset - last_inner > LAST_INT64 - highest_inner:
        return BAD_OFFSET, 0, at
    return OK, wrapper_offset - last_inner, at


@inline
def decode_set(
    data: Bytes,
    fields: Ints,
    entry: Int,
    start: Int,
    stop: Int,
    crc32: Int,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int, Int]:
    """(status, row after the last one kept, first offset) of the inner messages in data[start:stop].

    For `crc32` see `fast_crc32`.
    """
    if not has_room(columns, wants, row, (stop - start) // MIN_INNER_ENTRY, stop - start):
        return NO_ROOM, row, 0
    magic = fields[MAGIC, entry]
    status, base, end = _base_of_set(data, start, stop, crc32, magic, fields[BASE_OFFSET, entry])
    if status != OK:
        return status, row, 0
    append_time = magic == 1 and fields[ATTRIBUTES, entry] & batch.LOG_APPEND_TIME != 0
    first_wanted, last_wanted, first_time, last_time = wanted_range(bounds)
    offsets, timestamps, key_offsets, key_valid, keys, value_offsets, value_valid, values = columns
    want_key, want_value = wants & KEY != 0, wants & VALUE != 0
    key_bytes = np.int64(key_offsets[row]) if wants & KEPT else np.int64(0)
    value_bytes = np.int64(value_offsets[row]) if wants & KEPT else np.int64(0)
    first_row = row
    at = start
    while at < end:
        size = load_int32(data, at + message.MESSAGE_SIZE_POSITION) + batch.LOG_OVERHEAD
        inner_magic = np.int64(data[at + message.MAGIC_POSITION])
        timestamp = load_int64(data, at + message.TIMESTAMP_POSITION) if inner_magic == 1 else np.int64(-1)
        if append_time and inner_magic == 1:
            timestamp = fields[BASE_TIMESTAMP, entry]
        offset = load_int64(data, at) + base
        if first_wanted <= offset <= last_wanted and first_time <= timestamp <= last_time:
            _, key_start, key_size, value_start, value_size = message_parts(data, at, at + size, inner_magic)
            offsets[np.uint64(row)] = offset
            timestamps[np.uint64(row)] = timestamp
            if wants & KEPT:
                key_bytes = _put(data, key_start, key_size, want_key, row, key_bytes, key_offsets, key_valid, keys)
                value_bytes = _put(
                    data, value_start, value_size, want_value, row, value_bytes, value_offsets, value_valid, values
                )
            row += 1
        at += size
    _end_headers(wants, first_row, row, headers)
    return OK, row, load_int64(data, start) + base
