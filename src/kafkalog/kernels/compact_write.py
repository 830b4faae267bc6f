"""Write what remains of a batch after compaction: all of it, a new batch of the records that stay, or its header alone.

A batch keeps its place in the log and its producer fields, whichever records are gone. The records have been parsed into a table;
`KEEP` says which of them stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
)
from kafkalog.format.entry_table import SIZE as ENTRY_SIZE

from ._jit import call_crc32c, copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import crc32c
from .decode_batches import sized_bytes
from .decompress import LZ4
from .encode_messages import size_of_varint, store_int, store_varint
from .layout import CRC32C_FUNCTION
from .lz4 import compress_frame, frame_room

# Statuses. LEFT: the plain path must rewrite the batch. COMPRESS: `codecs` must compress its records. NO_ROOM: in the buffers.
ALL, LEFT, COMPRESS, NO_ROOM = range(4)

# Rows of the record table: where a record begins, its part after the deltas, and its end; what was read of it.
AT, TAIL, AFTER, OFFSET, TIMESTAMP, KEY_START, KEY_SIZE, VALUE_SIZE, HEADERS_AT, HEADERS_COUNT, KEEP = range(11)
RECORD_FIELDS = 11

# Rows of the totals. WRITTEN: bytes in the output. Those from RAW on are of the current batch: bytes of its records before
# compression, records that stay, their first and last times, records without a key.
(
    MESSAGES_READ,
    BYTES_READ,
    MESSAGES_RETAINED,
    MAX_OFFSET,
    INVALID,
    WRITTEN,
    RAW,
    KEPT,
    FIRST_TIME,
    LAST_TIME,
    INVALID_HERE,
) = range(11)
TOTAL_FIELDS = 11

NO_TIMESTAMP = np.int64(batch.NO_TIMESTAMP)
# The most by which a record may grow: a timestamp delta of ten bytes instead of one, and a longer length.
MOST_GROWTH = 10
KEPT_ATTRIBUTES = batch.LOG_APPEND_TIME | batch.TRANSACTIONAL | batch.CONTROL


@kernel
def _measure(count: Int, records: Ints, totals: Ints) -> Any:
    """Whether the kept records can be written: offsets rise, timestamps are valid.

    Sets FIRST_TIME and LAST_TIME, and RAW to the most bytes that they can take.
    """
    before = np.int64(-1)
    size = np.int64(0)
    totals[FIRST_TIME] = NO_TIMESTAMP
    totals[LAST_TIME] = NO_TIMESTAMP
    for row in range(count):
        if records[KEEP, row] == 0:
            continue
        offset, timestamp = records[OFFSET, row], records[TIMESTAMP, row]
        if offset <= before or timestamp < NO_TIMESTAMP:
            return False
        if before < 0:
            totals[FIRST_TIME] = timestamp
        before = offset
        totals[LAST_TIME] = max(totals[LAST_TIME], timestamp)
        size += records[AFTER, row] - records[AT, row] + MOST_GROWTH
    totals[RAW] = size
    return True


@inline
def _is_shortest(data: Bytes, records: Ints, row: Int) -> Any:
    """Whether all after the deltas is as a writer would write it: lengths in as few bytes as possible, header keys in ASCII."""
    key_size, value_size, headers = records[KEY_SIZE, row], records[VALUE_SIZE, row], records[HEADERS_COUNT, row]
    if key_size < -1 or value_size < -1:
        return False
    size = size_of_varint(key_size) + max(key_size, 0) + size_of_varint(value_size) + max(value_size, 0) + size_of_varint(headers)
    if size != records[HEADERS_AT, row] - records[TAIL, row]:
        return False
    return headers == 0 or _has_shortest_headers(data, records[HEADERS_AT, row], records[AFTER, row], headers)


@kernel
def _has_shortest_headers(data: Bytes, start: Int, stop: Int, count: Int) -> Any:
    at, end = np.uint64(start), np.uint64(stop)
    size = np.int64(0)
    for _ in range(count):
        key_size, key_start, at = sized_bytes(data, at, end)
        for index in range(key_size):
            if data[key_start + np.uint64(index)] >= 0x80:
                return False
        value_size, _, at = sized_bytes(data, at, end)
        if value_size < -1:
            return False
        size += size_of_varint(key_size) + key_size + size_of_varint(value_size) + max(value_size, 0)
    return size == stop - start


@kernel
def _write(data: Bytes, count: Int, base_offset: Int, base_timestamp: Int, records: Ints, target: Bytes, start: Int) -> Int:
    """Write the kept records to target[start:]; the position after them, or -1 if one is odd."""
    at = np.uint64(start)
    for row in range(count):
        if records[KEEP, row] == 0:
            continue
        if not _is_shortest(data, records, row):
            return np.int64(-1)
        timestamp_delta = records[TIMESTAMP, row] - base_timestamp
        offset_delta = records[OFFSET, row] - base_offset
        tail = records[TAIL, row]
        tail_size = records[AFTER, row] - tail
        at = store_varint(target, at, 1 + size_of_varint(timestamp_delta) + size_of_varint(offset_delta) + tail_size)
        target[at] = 0
        at = store_varint(target, at + np.uint64(1), timestamp_delta)
        at = store_varint(target, at, offset_delta)
        copy_bytes(data, tail, target, np.int64(at), tail_size)
        at += np.uint64(tail_size)
    return np.int64(at)


@inline
def _checksum(function: Int, data: Bytes, start: Int, stop: Int) -> Int:
    if function == 0:
        return crc32c(data, start, stop)
    address = np.uintp(data.ctypes.data) + np.uintp(start)
    return np.int64(call_crc32c(np.uintp(function), address, np.int32(stop - start), np.uint32(0xFFFFFFFF))) ^ 0xFFFFFFFF


@kernel
def _write_header(
    fields: Ints,
    entry: Int,
    attributes: Int,
    base_timestamp: Int,
    max_timestamp: Int,
    count: Int,
    crc: Int,
    target: Bytes,
    start: Int,
    stop: Int,
) -> None:
    """Write the header of the batch target[start:stop]; its place in the log and its producer fields stay."""
    base_offset = fields[BASE_OFFSET, entry]
    store_int(target, start, base_offset, 8)
    store_int(target, start + batch.BATCH_LENGTH_POSITION, stop - start - batch.LOG_OVERHEAD, 4)
    store_int(target, start + batch.PARTITION_LEADER_EPOCH_POSITION, fields[LEADER_EPOCH, entry], 4)
    target[start + batch.MAGIC_POSITION] = 2
    store_int(target, start + batch.ATTRIBUTES_POSITION, attributes, 2)
    store_int(target, start + batch.LAST_OFFSET_DELTA_POSITION, fields[LAST_OFFSET, entry] - base_offset, 4)
    store_int(target, start + batch.BASE_TIMESTAMP_POSITION, base_timestamp, 8)
    store_int(target, start + batch.MAX_TIMESTAMP_POSITION, max_timestamp, 8)
    store_int(target, start + batch.PRODUCER_ID_POSITION, fields[PRODUCER_ID, entry], 8)
    store_int(target, start + batch.PRODUCER_EPOCH_POSITION, fields[PRODUCER_EPOCH, entry], 2)
    store_int(target, start + batch.BASE_SEQUENCE_POSITION, fields[BASE_SEQUENCE, entry], 4)
    store_int(target, start + batch.RECORDS_COUNT_POSITION, count, 4)
    checksum = _checksum(crc, target, start + batch.CRC_START, stop)
    store_int(target, start + batch.CRC_POSITION, checksum, 4)


@inline
def _is_sound(fields: Ints, entry: Int) -> Any:
    """Whether a writer accepts the producer fields of the header."""
    attributes, producer_id = fields[ATTRIBUTES, entry], fields[PRODUCER_ID, entry]
    if producer_id == -1:
        return attributes & batch.TRANSACTIONAL == 0
    return (
        producer_id >= 0
        and fields[PRODUCER_EPOCH, entry] >= 0
        and (fields[BASE_SEQUENCE, entry] >= 0 or attributes & batch.CONTROL != 0)
    )


@inline
def _note_kept(totals: Ints, kept: Int, max_offset: Int, written: Int) -> None:
    totals[MESSAGES_RETAINED] += kept
    totals[MAX_OFFSET] = max(totals[MAX_OFFSET], max_offset)
    totals[WRITTEN] = written


@inline
def _last_kept_offset(count: Int, records: Ints) -> Int:
    for row in range(count - 1, -1, -1):
        if records[KEEP, row] == 1:
            return records[OFFSET, row]
    return np.int64(-1)


@kernel
def finish_batch(
    fields: Ints, entry: Int, horizon: Int, crc: Int, payload_size: Int, records: Ints, output: Bytes, totals: Ints
) -> None:
    """Write the header before the `payload_size` bytes of a rewritten batch's records in the output, and count it."""
    attributes = fields[ATTRIBUTES, entry]
    start = totals[WRITTEN]
    stop = start + batch.HEADER_SIZE + payload_size
    kept_attributes = attributes & (KEPT_ATTRIBUTES | batch.CODEC_MASK)
    base_timestamp = totals[FIRST_TIME]
    if horizon >= 0:
        kept_attributes |= batch.DELETE_HORIZON
        base_timestamp = horizon
    max_timestamp = fields[MAX_TIMESTAMP, entry] if attributes & batch.LOG_APPEND_TIME else totals[LAST_TIME]
    _write_header(fields, entry, kept_attributes, base_timestamp, max_timestamp, totals[KEPT], crc, output, start, stop)
    _note_kept(totals, totals[KEPT], _last_kept_offset(fields[RECORD_COUNT, entry], records), stop)


@kernel
def rewrite_batch(
    data: Bytes,
    fields: Ints,
    entry: Int,
    horizon: Int,
    records: Ints,
    raw: Bytes,
    output: Bytes,
    tools: Ints,
    lz4_compress: Int,
    totals: Ints,
) -> Int:
    """Write the kept records of the batch as a new one; a status. With COMPRESS they are in `raw`, RAW bytes of them."""
    count = fields[RECORD_COUNT, entry]
    if not _is_sound(fields, entry) or not _measure(count, records, totals):
        return LEFT
    base_offset = fields[BASE_OFFSET, entry]
    base_timestamp = horizon if horizon >= 0 else totals[FIRST_TIME]
    codec = fields[ATTRIBUTES, entry] & batch.CODEC_MASK
    start = totals[WRITTEN] + batch.HEADER_SIZE
    if codec == 0:
        if start + totals[RAW] > output.shape[0]:
            return NO_ROOM
        stop = _write(data, count, base_offset, base_timestamp, records, output, start)
    else:
        if totals[RAW] > raw.shape[0]:
            return NO_ROOM
        stop = _write(data, count, base_offset, base_timestamp, records, raw, np.int64(0))
    if stop < 0:
        return LEFT
    if codec == LZ4 and lz4_compress:
        if start + frame_room(stop) > output.shape[0]:
            return NO_ROOM
        stop = compress_frame(lz4_compress, raw, np.int64(0), stop, output, start)
    elif codec:
        totals[RAW] = stop
        return COMPRESS
    finish_batch(fields, entry, horizon, tools[CRC32C_FUNCTION], stop - start, records, output, totals)
    return ALL


@inline
def copy_batch(data: Bytes, fields: Ints, entry: Int, position: Int, kept: Int, output: Bytes, totals: Ints) -> Int:
    """Copy the batch as it is; a status."""
    size, written = fields[ENTRY_SIZE, entry], totals[WRITTEN]
    if written + size > output.shape[0]:
        return NO_ROOM
    copy_bytes(data, fields[POSITION, entry] - position, output, written, size)
    _note_kept(totals, kept, fields[LAST_OFFSET, entry], written + size)
    return ALL


@kernel
def empty_batch(fields: Ints, entry: Int, output: Bytes, tools: Ints, totals: Ints) -> Int:
    """Write only the header; a status."""
    start = totals[WRITTEN]
    stop = start + batch.HEADER_SIZE
    if stop > output.shape[0]:
        return NO_ROOM
    attributes = fields[ATTRIBUTES, entry] & KEPT_ATTRIBUTES
    crc, newest = tools[CRC32C_FUNCTION], fields[MAX_TIMESTAMP, entry]
    _write_header(fields, entry, attributes, NO_TIMESTAMP, newest, np.int64(0), crc, output, start, stop)
    _note_kept(totals, np.int64(0), fields[LAST_OFFSET, entry], stop)
    return ALL
