"""Compaction of many v2 batches with one call: which records stay, and the bytes of the batches that lose some.

`map_batches` puts the keys of batches into the map of offsets (`offset_map`); `filter_batches` copies batches that lose nothing
as they are, and writes the others anew. Both take the entries of a window in turn and stop at one that they leave to the caller:
an odd one (the caller's plain path knows every rule and raises what has to be raised), or one whose payload needs a codec that
kernels cannot call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkalog.format import batch

from ._jit import call_crc32c, call_lz4, copy_bytes, inline, kernel, wrapping
from .bytes import Bytes, Int, Ints
from .crc import crc32c
from .decompress import LZ4, LZ4_BLOCK, LZ4_HEADER, LZ4_STORED, decompress
from .encode import size_of_varint, store_int, store_varint
from .layout import CRC32C_FUNCTION, ENTRY, OK, START, STOP
from .offset_map import LATEST_OFFSET, SIZE, Words, find, hash_of, store
from .records import find_headers, origin, record_front, sized_bytes
from .scan import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    COUNT,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)
from .scan import SIZE as ENTRY_SIZE

# Why a kernel stopped before the last entry. LEFT: the entry is for the plain path. DECOMPRESS, COMPRESS: a payload is for
# `codecs`. NO_ROOM: in the tables or buffers. FULL: the map has no room, or the output has more than it should.
ALL, LEFT, DECOMPRESS, COMPRESS, NO_ROOM, FULL = range(6)

# Decisions, as bits: what becomes of the entry if it is left without records, and how its records are looked at.
RETAIN_EMPTY, DELETE_EMPTY, DISCARD_RECORDS, ENDS_NOTHING, BY_PLAIN_PATH = 1, 2, 4, 8, 16
DELETE = 0
# The same for the map.
MAP_RECORDS, COUNT_RECORDS, COUNT_ONE = 1, 2, 3

# Rows of the record table.
AT, TAIL, AFTER, OFFSET, TIMESTAMP, KEY_START, KEY_SIZE, VALUE_SIZE, HEADERS_AT, HEADERS_COUNT, KEEP = range(11)
RECORD_FIELDS = 11

# Rows of the rules.
NOW, NEW_HORIZON, ROOM, START_OFFSET, MAX_SIZE = range(5)
RULE_FIELDS = 5

# Rows of the totals. WRITTEN: bytes in the output. The others from RAW on are of the batch at hand: bytes of its records before
# compression, records that stay, their times, records without a key.
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

NOT_READY = -1
NO_TIMESTAMP = np.int64(-1)
NO_LIMIT = np.int64(0x7FFFFFFF)
# What a record may grow by: a timestamp delta of ten bytes instead of one, and the length for it.
MOST_GROWTH = 10
LZ4_BOUND = LZ4_BLOCK + LZ4_BLOCK // 255 + 16  # liblz4 needs so much room for a block to compress it as it does without a bound
LZ4_SIZE_FIELD = 4
KEPT_ATTRIBUTES = batch.LOG_APPEND_TIME | batch.TRANSACTIONAL | batch.CONTROL


class Buffers(NamedTuple):
    """What the kernels work in. `arena` holds one decompressed payload, `payload` is the same memory to read from, `raw` the
    records of one batch before they are compressed; `place` is a payload table of one column."""

    arena: Bytes
    payload: Bytes
    records: Ints
    hashes: Words
    raw: Bytes
    output: Bytes
    place: Ints


@inline
def _parse(data: Bytes, start: Int, stop: Int, fields: Ints, entry: Int, records: Ints) -> Int:
    """Fill the record table with the records in data[start:stop]; a status."""
    count = fields[COUNT, entry]
    if count < 0 or count > (stop - start) // batch.MIN_RECORD_SIZE:
        return LEFT
    if count > records.shape[1]:
        return NO_ROOM
    base_offset, base_timestamp, append_time, max_timestamp = origin(fields, entry)
    at, end = np.uint64(start), np.uint64(stop)
    for row in range(count):
        if at == end:
            return LEFT
        status, tail, after, timestamp_delta, offset_delta = record_front(data, at, end, NO_LIMIT)
        if status != OK:
            return LEFT
        key_size, key_start, here = sized_bytes(data, tail, after)
        if here > after:
            return LEFT
        value_size, _, here = sized_bytes(data, here, after)
        if here > after:
            return LEFT
        status, headers_at, headers_count = find_headers(data, here, after, NO_LIMIT)
        offset = base_offset + offset_delta
        if status != OK or offset < 0:
            return LEFT
        records[AT, row] = at
        records[TAIL, row] = tail
        records[AFTER, row] = after
        records[OFFSET, row] = offset
        records[TIMESTAMP, row] = max_timestamp if append_time else base_timestamp + timestamp_delta
        records[KEY_START, row] = key_start
        records[KEY_SIZE, row] = key_size
        records[VALUE_SIZE, row] = value_size
        records[HEADERS_AT, row] = headers_at
        records[HEADERS_COUNT, row] = headers_count
        at = after
    return ALL if at == end else LEFT


@inline
def _locate(
    data: Bytes, fields: Ints, entry: Int, position: Int, ready: Int, arena: Bytes, place: Ints, tools: Ints
) -> tuple[Int, Int, Int]:
    """(status, start, stop) of the records: in the window, or of a compressed batch in the arena."""
    start = fields[POSITION, entry] - position
    stop = start + fields[ENTRY_SIZE, entry]
    start += batch.HEADER_SIZE
    if not fields[ATTRIBUTES, entry] & batch.CODEC_MASK:
        return ALL, start, stop
    if ready != NOT_READY:
        return ALL, np.int64(0), ready
    place[ENTRY, 0], place[START, 0], place[STOP, 0] = entry, start, stop
    written = decompress(data, arena, fields, place, 0, tools)
    if written < 0:
        return DECOMPRESS, np.int64(0), np.int64(0)
    return ALL, np.int64(0), written


@inline
def _map_records(
    data: Bytes, count: Int, rules: Ints, records: Ints, hashes: Words, table: Words, counts: Ints, secret: Words, totals: Ints
) -> Int:
    """Put the keys into the map; ALL or FULL. All are hashed first: the searches then wait for memory side by side."""
    start_offset, max_size = rules[START_OFFSET], rules[MAX_SIZE]
    for row in range(count):
        if records[KEY_SIZE, row] >= 0:
            hashes[0, row], hashes[1, row] = hash_of(data, records[KEY_START, row], records[KEY_SIZE, row], secret)
    for row in range(count):
        if records[KEY_SIZE, row] >= 0 and records[OFFSET, row] >= start_offset:
            if counts[SIZE] >= max_size:
                totals[MESSAGES_READ] += row
                return FULL
            store(table, counts, hashes[0, row], hashes[1, row], records[OFFSET, row])
    totals[MESSAGES_READ] += count
    return ALL


@wrapping
@kernel
def map_batches(
    data: Bytes,
    fields: Ints,
    decisions: Ints,
    first: Int,
    position: Int,
    ready: Int,
    rules: Ints,
    table: Words,
    counts: Ints,
    secret: Words,
    buffers: Buffers,
    tools: Ints,
    totals: Ints,
) -> tuple[Int, Int]:
    """(status, entry where it stopped) for the entries from `first` on; `position` is the file position of data[0].

    `ready` bytes of the first entry's payload are in the arena, unless it is NOT_READY.
    """
    arena, payload, records, hashes, _, _, place = buffers
    for entry in range(first, decisions.shape[0]):
        decision = decisions[entry]
        if decision == BY_PLAIN_PATH:
            return LEFT, entry
        if decision == COUNT_ONE:
            totals[MESSAGES_READ] += 1
        elif decision == COUNT_RECORDS:
            totals[MESSAGES_READ] += fields[COUNT, entry]
        elif fields[COUNT, entry] != 0:
            status, start, stop = _locate(data, fields, entry, position, ready, arena, place, tools)
            source = payload if fields[ATTRIBUTES, entry] & batch.CODEC_MASK else data
            if status == ALL:
                status = _parse(source, start, stop, fields, entry, records)
            if status == ALL:
                status = _map_records(source, fields[COUNT, entry], rules, records, hashes, table, counts, secret, totals)
            if status != ALL:
                return status, entry
            ready = np.int64(NOT_READY)
        if fields[LAST_OFFSET, entry] >= rules[START_OFFSET]:
            counts[LATEST_OFFSET] = fields[LAST_OFFSET, entry]
    return ALL, np.int64(decisions.shape[0])


@inline
def _select(
    data: Bytes, count: Int, keeps_deletes: Any, records: Ints, hashes: Words, table: Words, latest: Int, secret: Words
) -> tuple[Int, Int]:
    """(records that stay, records without a key): KEEP of each says whether it stays."""
    invalid = np.int64(0)
    for row in range(count):
        if records[OFFSET, row] > latest:
            records[KEEP, row] = 1
        elif records[KEY_SIZE, row] < 0:
            records[KEEP, row] = 0
            invalid += 1
        else:
            records[KEEP, row] = -1
            hashes[0, row], hashes[1, row] = hash_of(data, records[KEY_START, row], records[KEY_SIZE, row], secret)
    kept = np.int64(0)
    for row in range(count):
        if records[KEEP, row] < 0:
            is_latest = records[OFFSET, row] >= find(table, hashes[0, row], hashes[1, row])
            records[KEEP, row] = 1 if is_latest and (records[VALUE_SIZE, row] >= 0 or keeps_deletes) else 0
        kept += records[KEEP, row]
    return kept, invalid


@inline
def _keep_all(count: Int, records: Ints, keep: Int) -> None:
    for row in range(count):
        records[KEEP, row] = keep


@inline
def _has_kept_delete(count: Int, records: Ints) -> Any:
    found = False
    for row in range(count):
        found |= records[KEEP, row] == 1 and records[VALUE_SIZE, row] < 0
    return found


@kernel
def _measure(count: Int, records: Ints, totals: Ints) -> Any:
    """Whether the kept records can be written: offsets rise, timestamps are legal.

    FIRST_TIME and LAST_TIME are set, and RAW to the most bytes that they can take.
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
    """Whether all behind the deltas is as a writer would write it: lengths in as few bytes as possible, header keys in ASCII."""
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
def _lz4_room(size: Int) -> Int:
    """Bytes that `_compress_lz4` may touch for so many."""
    blocks = size // LZ4_BLOCK + 2
    return size + blocks * (LZ4_SIZE_FIELD + LZ4_BOUND - LZ4_BLOCK) + LZ4_BOUND


@kernel
def _compress_lz4(function: Int, raw: Bytes, size: Int, target: Bytes, start: Int) -> Int:
    """Write raw[:size] to target[start:] as Kafka's writer frames it; the position after it. There must be room for LZ4_BOUND."""
    store_int(target, start, 0x04224D18, 4)
    store_int(target, start + 4, 0x604082, 3)
    at = start + LZ4_HEADER
    done = np.int64(0)
    while done < size:
        block = min(size - done, np.int64(LZ4_BLOCK))
        here = np.uintp(target.ctypes.data) + np.uintp(at + LZ4_SIZE_FIELD)
        origin_address = np.uintp(raw.ctypes.data) + np.uintp(done)
        written = np.int64(call_lz4(np.uintp(function), origin_address, here, np.int32(block), np.int32(LZ4_BOUND)))
        stated = written
        if written <= 0 or written >= block:
            copy_bytes(raw, done, target, at + LZ4_SIZE_FIELD, block)
            written = block
            stated = block | LZ4_STORED
        for index in range(LZ4_SIZE_FIELD):
            target[at + index] = (stated >> (8 * index)) & 0xFF
        at += LZ4_SIZE_FIELD + written
        done += block
    store_int(target, at, 0, LZ4_SIZE_FIELD)
    return at + LZ4_SIZE_FIELD


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
    """The header of the batch target[start:stop]: what belongs to its place in the log and to its producer stays."""
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
    """Whether a writer takes what the header says of the producer."""
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
    """Put the header before `payload_size` bytes of a rewritten batch's records in the output, and count it."""
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
    _note_kept(totals, totals[KEPT], _last_kept_offset(fields[COUNT, entry], records), stop)


@kernel
def _rewrite(
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
    count = fields[COUNT, entry]
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
        if start + _lz4_room(stop) > output.shape[0]:
            return NO_ROOM
        stop = _compress_lz4(lz4_compress, raw, stop, output, start)
    elif codec:
        totals[RAW] = stop
        return COMPRESS
    finish_batch(fields, entry, horizon, tools[CRC32C_FUNCTION], stop - start, records, output, totals)
    return ALL


@inline
def _copy(data: Bytes, fields: Ints, entry: Int, position: Int, kept: Int, output: Bytes, totals: Ints) -> Int:
    """Copy the batch as it is; a status."""
    size, written = fields[ENTRY_SIZE, entry], totals[WRITTEN]
    if written + size > output.shape[0]:
        return NO_ROOM
    copy_bytes(data, fields[POSITION, entry] - position, output, written, size)
    _note_kept(totals, kept, fields[LAST_OFFSET, entry], written + size)
    return ALL


@kernel
def _empty(fields: Ints, entry: Int, output: Bytes, tools: Ints, totals: Ints) -> Int:
    """Write the header alone; a status."""
    start = totals[WRITTEN]
    stop = start + batch.HEADER_SIZE
    if stop > output.shape[0]:
        return NO_ROOM
    attributes = fields[ATTRIBUTES, entry] & KEPT_ATTRIBUTES
    crc, newest = tools[CRC32C_FUNCTION], fields[MAX_TIMESTAMP, entry]
    _write_header(fields, entry, attributes, NO_TIMESTAMP, newest, np.int64(0), crc, output, start, stop)
    _note_kept(totals, np.int64(0), fields[LAST_OFFSET, entry], stop)
    return ALL


@inline
def _choose(
    data: Bytes,
    fields: Ints,
    entry: Int,
    decision: Int,
    now: Int,
    records: Ints,
    hashes: Words,
    table: Words,
    latest: Int,
    secret: Words,
    totals: Ints,
) -> Int:
    """How many records stay of a batch that was parsed; INVALID_HERE is set to those without a key."""
    count = fields[COUNT, entry]
    totals[INVALID_HERE] = 0
    if decision & DISCARD_RECORDS:
        _keep_all(count, records, 0)
        return np.int64(0)
    if fields[ATTRIBUTES, entry] & batch.CONTROL:
        _keep_all(count, records, 1)
        return count
    keeps_deletes = not fields[ATTRIBUTES, entry] & batch.DELETE_HORIZON or now < fields[BASE_TIMESTAMP, entry]
    kept, totals[INVALID_HERE] = _select(data, count, keeps_deletes, records, hashes, table, latest, secret)
    return kept


@inline
def _horizon(fields: Ints, entry: Int, decision: Int, new_horizon: Int, records: Ints) -> tuple[Any, Int]:
    """(whether the batch gets a delete horizon now, the one that it then has or -1)."""
    if fields[ATTRIBUTES, entry] & batch.DELETE_HORIZON:
        return False, fields[BASE_TIMESTAMP, entry]
    if decision & ENDS_NOTHING or _has_kept_delete(fields[COUNT, entry], records):
        return True, new_horizon
    return False, NO_TIMESTAMP


@wrapping
@kernel
def filter_batches(
    data: Bytes,
    fields: Ints,
    decisions: Ints,
    first: Int,
    position: Int,
    ready: Int,
    rules: Ints,
    table: Words,
    counts: Ints,
    secret: Words,
    buffers: Buffers,
    tools: Ints,
    lz4_compress: Int,
    totals: Ints,
) -> tuple[Int, Int, Int]:
    """(status, entry where it stopped, delete horizon of that entry if it is to be compressed) for the entries from `first` on.

    As `map_batches`. With FULL or COMPRESS that entry counts as read; else it has left no trace.
    """
    arena, payload, records, hashes, raw, output, place = buffers
    latest, now, new_horizon, room = counts[LATEST_OFFSET], rules[NOW], rules[NEW_HORIZON], rules[ROOM]
    for entry in range(first, decisions.shape[0]):
        decision = decisions[entry]
        if decision & BY_PLAIN_PATH:
            return LEFT, entry, NO_TIMESTAMP
        status, horizon = ALL, NO_TIMESTAMP
        if decision != DELETE:
            count, kept = fields[COUNT, entry], np.int64(0)
            totals[INVALID_HERE] = 0
            if count != 0:
                status, start, stop = _locate(data, fields, entry, position, ready, arena, place, tools)
                source = payload if fields[ATTRIBUTES, entry] & batch.CODEC_MASK else data
                if status == ALL:
                    status = _parse(source, start, stop, fields, entry, records)
                if status != ALL:
                    return status, entry, NO_TIMESTAMP
                kept = _choose(source, fields, entry, decision, now, records, hashes, table, latest, secret, totals)
                if kept:
                    is_new, horizon = _horizon(fields, entry, decision, new_horizon, records)
                    if kept == count and not is_new:
                        status = _copy(data, fields, entry, position, kept, output, totals)
                    else:
                        totals[KEPT] = kept
                        status = _rewrite(source, fields, entry, horizon, records, raw, output, tools, lz4_compress, totals)
            if not kept and decision & RETAIN_EMPTY:
                status = _empty(fields, entry, output, tools, totals)
            if status != ALL and status != COMPRESS:
                return status, entry, NO_TIMESTAMP
            ready = np.int64(NOT_READY)
            totals[MESSAGES_READ] += count
            totals[INVALID] += totals[INVALID_HERE]
        totals[BYTES_READ] += fields[ENTRY_SIZE, entry]
        if status == COMPRESS:
            return status, entry, horizon
        if totals[WRITTEN] > room:
            return FULL, entry, NO_TIMESTAMP
    return ALL, np.int64(decisions.shape[0]), NO_TIMESTAMP
