"""Find the entries of a log and read their headers into the array of an `EntryTable`.

Two walks share `_read_header`: `scan_window` over whole entries in memory, and `scan_file`, which reads only the headers of a
local file and skips everything else. Both stop, with a status, at the first entry that cannot be followed.
"""

from __future__ import annotations

import os

import numpy as np

from kafkalog.format import batch, message
from kafkalog.format.batch import NO_LEADER_EPOCH
from kafkalog.format.entry_front import FRONT_SIZE
from kafkalog.format.entry_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CONTROL_COUNT,
    CONTROL_TYPE,
    COORDINATOR_EPOCH,
    CRC,
    FIRST_BASE,
    FIRST_EPOCH,
    GREATEST_EPOCH,
    GREATEST_LAST,
    IN_ORDER,
    LAST_OFFSET,
    LEADER_EPOCH,
    LEGACY_COUNT,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
    UNKNOWN_CONTROL,
    WRAPPER_COUNT,
)

from ._jit import JIT_OFF, brief_kernel, external_pread, inline, kernel
from .bytes import Bytes, Int, Ints, load_int16, load_int32, load_int64, load_uint32, load_varint, load_varlong

# Why a walk stopped.
END = 0  # exactly at `stop`
NEED_BYTES = 1  # the next entry is not whole
TABLE_FULL = 2
BAD_LENGTH = 3
BAD_MAGIC = 4
ZEROS = 5
TOO_LARGE = 6
READ_FAILED = 7

MAX_HEADER = batch.HEADER_SIZE
CONTROL_PEEK = 128  # a transaction marker is 78 bytes, up to 81 with a delete horizon
HEADER_REACH = 256  # bytes read of an entry when the one before it was larger than a chunk: fewer cost as much


@inline
def _control_type(data: Bytes, at: Int, available: Int, fields: Ints, row: Int) -> None:
    """Type and coordinator epoch of an uncompressed control batch's first record, if its bytes are available."""
    fields[CONTROL_TYPE, row] = UNKNOWN_CONTROL
    fields[COORDINATOR_EPOCH, row] = -1
    stop = min(at + fields[SIZE, row], available)
    _, here = load_varint(data, at + batch.HEADER_SIZE, stop)
    if here < 0:
        return
    _, here = load_varlong(data, here + 1, stop)
    if here < 0:
        return
    _, here = load_varint(data, here, stop)
    if here < 0:
        return
    key_size, here = load_varint(data, here, stop)
    if here < 0 or key_size < 4 or here + key_size > stop or load_int16(data, here) < 0:
        return
    fields[CONTROL_TYPE, row] = load_int16(data, here + 2)
    value_size, here = load_varint(data, here + key_size, stop)
    if here >= 0 and value_size >= 6 and here + 6 <= stop:
        fields[COORDINATOR_EPOCH, row] = load_int32(data, here + 2)


@inline
def _read_batch(data: Bytes, at: Int, available: Int, fields: Ints, row: Int) -> None:
    base_offset = load_int64(data, at)
    attributes = load_int16(data, at + batch.ATTRIBUTES_POSITION)
    count = load_int32(data, at + batch.RECORDS_COUNT_POSITION)
    fields[BASE_OFFSET, row] = base_offset
    fields[LAST_OFFSET, row] = base_offset + load_int32(data, at + batch.LAST_OFFSET_DELTA_POSITION)
    fields[ATTRIBUTES, row] = attributes
    fields[CRC, row] = load_uint32(data, at + batch.CRC_POSITION)
    fields[BASE_TIMESTAMP, row] = load_int64(data, at + batch.BASE_TIMESTAMP_POSITION)
    fields[MAX_TIMESTAMP, row] = load_int64(data, at + batch.MAX_TIMESTAMP_POSITION)
    fields[RECORD_COUNT, row] = count
    fields[PRODUCER_ID, row] = load_int64(data, at + batch.PRODUCER_ID_POSITION)
    fields[PRODUCER_EPOCH, row] = load_int16(data, at + batch.PRODUCER_EPOCH_POSITION)
    fields[BASE_SEQUENCE, row] = load_int32(data, at + batch.BASE_SEQUENCE_POSITION)
    fields[LEADER_EPOCH, row] = load_int32(data, at + batch.PARTITION_LEADER_EPOCH_POSITION)
    fields[CONTROL_TYPE, row] = UNKNOWN_CONTROL
    fields[COORDINATOR_EPOCH, row] = -1
    if attributes & batch.CONTROL and not attributes & batch.CODEC_MASK and count > 0:
        _control_type(data, at, available, fields, row)


@inline
def _read_message(data: Bytes, at: Int, magic: Int, fields: Ints, row: Int) -> None:
    offset = load_int64(data, at)
    attributes = np.int64(data[at + message.ATTRIBUTES_POSITION])
    timestamp = load_int64(data, at + message.TIMESTAMP_POSITION) if magic == 1 else np.int64(-1)
    fields[BASE_OFFSET, row] = offset
    fields[LAST_OFFSET, row] = offset
    fields[ATTRIBUTES, row] = attributes
    fields[CRC, row] = load_uint32(data, at + message.CRC_POSITION)
    fields[BASE_TIMESTAMP, row] = timestamp
    fields[MAX_TIMESTAMP, row] = timestamp
    fields[RECORD_COUNT, row] = -1
    fields[PRODUCER_ID, row] = -1
    fields[PRODUCER_EPOCH, row] = -1
    fields[BASE_SEQUENCE, row] = -1
    fields[LEADER_EPOCH, row] = -1
    fields[CONTROL_TYPE, row] = UNKNOWN_CONTROL
    fields[COORDINATOR_EPOCH, row] = -1


@inline
def _check_front(data: Bytes, at: Int, limit: Int) -> tuple[Int, Int, Int]:
    """(status, whole size, magic) from the 17 bytes that all formats share; END means plausible."""
    length = load_int32(data, at + batch.BATCH_LENGTH_POSITION)
    magic = np.int64(data[at + batch.MAGIC_POSITION])
    if length == 0 and magic == 0 and load_int64(data, at) == 0:
        return ZEROS, 0, 0
    if length < message.MIN_MESSAGE_SIZE:
        return BAD_LENGTH, length, magic
    if magic > batch.MAX_MAGIC:
        return BAD_MAGIC, length, magic
    if (magic == 2 and length < batch.MIN_BATCH_LENGTH) or (magic == 1 and length < message.OVERHEAD_V1):
        return BAD_LENGTH, length, magic
    if length > limit:
        return TOO_LARGE, length, magic
    return END, length + batch.LOG_OVERHEAD, magic


@inline
def _read_header(data: Bytes, at: Int, available: Int, position: Int, size: Int, magic: Int, fields: Ints, row: Int) -> None:
    fields[POSITION, row] = position
    fields[SIZE, row] = size
    fields[MAGIC, row] = magic
    if magic == 2:
        _read_batch(data, at, available, fields, row)
    else:
        _read_message(data, at, magic, fields, row)


@kernel
def scan_window(data: Bytes, start: Int, stop: Int, position: Int, limit: Int, fields: Ints) -> tuple[Int, Int, Int]:
    """(status, entries found, index in `data` where the walk stopped) for the whole entries in data[start:stop].

    `position` is the file position of data[0].
    """
    capacity = fields.shape[1]
    row = np.int64(0)
    at = start
    while at < stop:
        if stop - at < FRONT_SIZE:
            return NEED_BYTES, row, at
        status, size, magic = _check_front(data, at, limit)
        if status != END:
            return status, row, at
        if size > stop - at:
            return NEED_BYTES, row, at
        if row == capacity:
            return TABLE_FULL, row, at
        _read_header(data, at, stop, position + at, size, magic, fields, row)
        row += 1
        at += size
    return END, row, at


@brief_kernel
def survey(fields: Ints, count: Int, facts: Ints) -> None:
    """Fill `facts` (`TableFacts`) for the first `count` entries, at least one.

    IN_ORDER: no offset is negative or not above those before it, no leader epoch goes back or is below -1. For wrappers, whose
    first offset is not in the header, the last one is used.
    """
    facts[:] = 0
    in_order = True
    before = np.int64(-1)
    epoch = np.int64(NO_LEADER_EPOCH)
    first_epoch = np.int64(NO_LEADER_EPOCH)
    for row in range(count):
        attributes = fields[ATTRIBUTES, row]
        base, last, leader_epoch = fields[BASE_OFFSET, row], fields[LAST_OFFSET, row], fields[LEADER_EPOCH, row]
        if fields[MAGIC, row] < 2:
            facts[LEGACY_COUNT] += 1
            if attributes & batch.CODEC_MASK:
                facts[WRAPPER_COUNT] += 1
        elif attributes & batch.CONTROL:
            facts[CONTROL_COUNT] += 1
        if base <= before or last < base or leader_epoch < NO_LEADER_EPOCH or NO_LEADER_EPOCH < leader_epoch < epoch:
            in_order = False
        before = last
        if leader_epoch > NO_LEADER_EPOCH:
            first_epoch = leader_epoch if first_epoch == NO_LEADER_EPOCH else first_epoch
            epoch = max(epoch, leader_epoch)
        facts[GREATEST_LAST] = max(facts[GREATEST_LAST], last)
    facts[IN_ORDER] = in_order
    facts[FIRST_BASE] = fields[BASE_OFFSET, 0]
    facts[FIRST_EPOCH] = first_epoch
    facts[GREATEST_EPOCH] = epoch


@kernel
def scan_headers(chunk: Bytes, position: Int, stop: Int, limit: Int, fields: Ints) -> tuple[Int, Int, Int]:
    """(status, entries found, how far after `position` the walk came) for headers within `chunk`, the bytes at `position`.

    Unlike `scan_window` it needs only the headers, so it may end beyond the chunk. NEED_BYTES: the next header is not in it.
    """
    capacity = fields.shape[1]
    have = chunk.shape[0]
    row, at = np.int64(0), np.int64(0)
    while position + at < stop:
        needed = min(CONTROL_PEEK, stop - position - at)
        if have - at < needed or have - at < FRONT_SIZE:
            return NEED_BYTES, row, at
        status, size, magic = _check_front(chunk, at, limit)
        if status != END:
            return status, row, at
        if size > stop - position - at:
            return NEED_BYTES, row, at
        if row == capacity:
            return TABLE_FULL, row, at
        _read_header(chunk, at, have, position + at, size, magic, fields, row)
        row += 1
        at += size
    return END, row, at


_pread = external_pread()


@inline
def _read_chunk(descriptor: Int, chunk: Bytes, size: Int, position: Int, stop: Int) -> Int:
    """Bytes of the file at `position` now in `chunk`; negative: the read failed or the file is shorter than `stop`."""
    wanted = min(size, stop - position)
    have = 0
    while have < wanted:
        got = _pread(descriptor, chunk.ctypes.data + have, wanted - have, position + have)
        if got <= 0:
            return -1
        have += got
    return have


def _read_chunk_without_jit(descriptor: Int, chunk: Bytes, size: Int, position: Int, stop: Int) -> Int:
    wanted = min(size, stop - position)
    data = os.pread(descriptor, wanted, position)
    chunk[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data) if len(data) == wanted else -1


if JIT_OFF:
    _read_chunk = _read_chunk_without_jit


@kernel
def scan_file(descriptor: Int, start: Int, stop: Int, limit: Int, chunk: Bytes, fields: Ints) -> tuple[Int, Int, Int]:
    """(status, entries found, file position where the walk stopped), reading headers only.

    An entry that reaches beyond `stop` ends the walk with NEED_BYTES.
    """
    capacity = fields.shape[1]
    row, have, size = np.int64(0), np.int64(0), np.int64(0)
    position = start
    chunk_position = start
    while position < stop:
        at = position - chunk_position
        if at + CONTROL_PEEK > have and chunk_position + have < stop:
            reach = HEADER_REACH if size > chunk.shape[0] else chunk.shape[0]
            have = _read_chunk(descriptor, chunk, reach, position, stop)
            if have < 0:
                return READ_FAILED, row, position
            chunk_position = position
            at = 0
        if have - at < FRONT_SIZE:
            return NEED_BYTES, row, position
        status, size, magic = _check_front(chunk, at, limit)
        if status != END:
            return status, row, position
        if size > stop - position:
            return NEED_BYTES, row, position
        if row == capacity:
            return TABLE_FULL, row, position
        _read_header(chunk, at, have, position, size, magic, fields, row)
        row += 1
        position += size
    return END, row, position
