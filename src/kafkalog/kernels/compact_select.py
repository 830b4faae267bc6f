"""Compaction of many v2 batches with one call: which records stay, and the bytes of the batches that lose some.

`map_batches` puts the keys of batches into the map of offsets (`offset_map`); `filter_batches` copies batches that lose nothing
and rewrites the others. Both process the entries of a window in order and stop at one that they leave to the caller: an odd one
(the caller's plain path knows every rule and raises the right error), or one whose payload needs a codec that kernels cannot
call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import ATTRIBUTES, BASE_TIMESTAMP, LAST_OFFSET, POSITION, RECORD_COUNT
from kafkalog.format.entry_table import SIZE as ENTRY_SIZE
from kafkalog.format.java import MAX_INT32

from ._jit import inline, kernel, wrapping
from .bytes import Bytes, Int, Ints
from .compact_write import (
    AFTER,
    ALL,
    AT,
    BYTES_READ,
    COMPRESS,
    HEADERS_AT,
    HEADERS_COUNT,
    INVALID,
    INVALID_HERE,
    KEEP,
    KEPT,
    KEY_SIZE,
    KEY_START,
    LEFT,
    MESSAGES_READ,
    NO_ROOM,
    NO_TIMESTAMP,
    OFFSET,
    TAIL,
    TIMESTAMP,
    VALUE_SIZE,
    WRITTEN,
    copy_batch,
    empty_batch,
    rewrite_batch,
)
from .decode_batches import find_headers, origin, record_front, sized_bytes
from .decompress import decompress
from .layout import OK
from .offset_map import LATEST_OFFSET, SIZE, Words, find, hash_of, store

# More reasons to stop before the last entry. DECOMPRESS: `codecs` must decompress a payload. FULL: the map is full, or the output
# has reached its limit.
DECOMPRESS, FULL = 4, 5

# Decisions, as bits: what happens to the entry if no records remain, and how its records are examined.
RETAIN_EMPTY, DELETE_EMPTY, DISCARD_RECORDS, ENDS_NOTHING, BY_PLAIN_PATH = 1, 2, 4, 8, 16
DELETE = 0
# Likewise for the map.
MAP_RECORDS, COUNT_RECORDS, COUNT_ONE = 1, 2, 3

# Rows of the rules.
NOW, NEW_HORIZON, ROOM, START_OFFSET, MAX_SIZE = range(5)
RULE_FIELDS = 5

NOT_READY = -1
NO_LIMIT = np.int64(MAX_INT32)


class Buffers(NamedTuple):
    """Memory that the kernels work in. `arena` holds one decompressed payload, `payload` is the same memory read-only, `raw` the
    records of one batch before they are compressed."""

    arena: Bytes
    payload: Bytes
    records: Ints
    hashes: Words
    raw: Bytes
    output: Bytes


@inline
def _parse(data: Bytes, start: Int, stop: Int, fields: Ints, entry: Int, first: Int, records: Ints) -> Int:
    """Fill the record table from row `first` on with the records in data[start:stop]; a status."""
    count = fields[RECORD_COUNT, entry]
    if count < 0 or count > (stop - start) // batch.MIN_RECORD_SIZE:
        return LEFT
    if first + count > records.shape[1]:
        return NO_ROOM
    base_offset, base_timestamp, append_time, max_timestamp = origin(fields, entry)
    at, end = np.uint64(start), np.uint64(stop)
    for row in range(first, first + count):
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
def _locate(data: Bytes, fields: Ints, entry: Int, position: Int, ready: Int, arena: Bytes, tools: Ints) -> tuple[Int, Int, Int]:
    """(status, start, stop) of the records: in the window, or of a compressed batch in the arena."""
    start = fields[POSITION, entry] - position
    stop = start + fields[ENTRY_SIZE, entry]
    start += batch.HEADER_SIZE
    if not fields[ATTRIBUTES, entry] & batch.CODEC_MASK:
        return ALL, start, stop
    if ready != NOT_READY:
        return ALL, np.int64(0), ready
    written = decompress(data, start, stop, fields[ATTRIBUTES, entry], np.int64(2), arena, np.int64(0), tools)
    if written < 0:
        return DECOMPRESS, np.int64(0), np.int64(0)
    return ALL, np.int64(0), written


@inline
def _hash_keys(data: Bytes, first: Int, stop: Int, records: Ints, hashes: Words, secret: Words) -> None:
    """Hash the keys of these rows. The searches follow together, so that their waits for memory overlap."""
    for row in range(first, stop):
        if records[KEY_SIZE, row] >= 0:
            hashes[0, row], hashes[1, row] = hash_of(data, records[KEY_START, row], records[KEY_SIZE, row], secret)


@inline
def _store_keys(count: Int, rules: Ints, records: Ints, hashes: Words, table: Words, counts: Ints, totals: Ints) -> Int:
    """Put the first rows into the map; ALL or FULL."""
    start_offset, max_size = rules[START_OFFSET], rules[MAX_SIZE]
    for row in range(count):
        if records[KEY_SIZE, row] >= 0 and records[OFFSET, row] >= start_offset:
            if counts[SIZE] >= max_size:
                totals[MESSAGES_READ] += row
                return FULL
            store(table, counts, hashes[0, row], hashes[1, row], records[OFFSET, row])
    totals[MESSAGES_READ] += count
    return ALL


@inline
def _store_waiting(
    rows: Int, rules: Ints, records: Ints, hashes: Words, table: Words, counts: Ints, totals: Ints, last_offset: Int
) -> Int:
    """Put the pending rows, the last of a batch that ends with `last_offset`, into the map, which has room for them."""
    if rows:
        _store_keys(rows, rules, records, hashes, table, counts, totals)
        counts[LATEST_OFFSET] = last_offset
    return np.int64(0)


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

    `ready` bytes of the first entry's payload are in the arena, unless it is NOT_READY. Records of several batches are put into
    the map together, as long as they cannot fill it.
    """
    arena, payload, records, hashes, _, _ = buffers
    start_offset, max_size = rules[START_OFFSET], rules[MAX_SIZE]
    rows = np.int64(0)  # pending
    for entry in range(first, decisions.shape[0]):
        decision, count, last_offset = decisions[entry], fields[RECORD_COUNT, entry], fields[LAST_OFFSET, entry]
        may_wait = decision == MAP_RECORDS and last_offset >= start_offset and counts[SIZE] + rows + count <= max_size
        if rows and (not may_wait or rows + count > records.shape[1]):
            rows = _store_waiting(rows, rules, records, hashes, table, counts, totals, fields[LAST_OFFSET, entry - 1])
        if decision == BY_PLAIN_PATH:
            return LEFT, entry
        if decision == COUNT_ONE:
            totals[MESSAGES_READ] += 1
        elif decision == COUNT_RECORDS:
            totals[MESSAGES_READ] += count
        elif count != 0:
            status, start, stop = _locate(data, fields, entry, position, ready, arena, tools)
            source = payload if fields[ATTRIBUTES, entry] & batch.CODEC_MASK else data
            if status == ALL:
                status = _parse(source, start, stop, fields, entry, rows, records)
            if status != ALL:
                _store_waiting(rows, rules, records, hashes, table, counts, totals, fields[LAST_OFFSET, entry - 1])
                return status, entry
            _hash_keys(source, rows, rows + count, records, hashes, secret)
            ready = np.int64(NOT_READY)
            if may_wait:
                rows += count
                continue
            if _store_keys(count, rules, records, hashes, table, counts, totals) == FULL:
                return FULL, entry
        if last_offset >= start_offset:
            counts[LATEST_OFFSET] = last_offset
    _store_waiting(rows, rules, records, hashes, table, counts, totals, fields[LAST_OFFSET, decisions.shape[0] - 1])
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
    """How many records of a parsed batch stay; INVALID_HERE is set to the number without a key."""
    count = fields[RECORD_COUNT, entry]
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
    """(whether the batch gets a delete horizon now, its delete horizon then or -1)."""
    if fields[ATTRIBUTES, entry] & batch.DELETE_HORIZON:
        return False, fields[BASE_TIMESTAMP, entry]
    if decision & ENDS_NOTHING or _has_kept_delete(fields[RECORD_COUNT, entry], records):
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

    As `map_batches`. With FULL or COMPRESS that entry counts as read; otherwise it has had no effect.
    """
    arena, payload, records, hashes, raw, output = buffers
    latest, now, new_horizon, room = counts[LATEST_OFFSET], rules[NOW], rules[NEW_HORIZON], rules[ROOM]
    for entry in range(first, decisions.shape[0]):
        decision = decisions[entry]
        if decision & BY_PLAIN_PATH:
            return LEFT, entry, NO_TIMESTAMP
        status, horizon = ALL, NO_TIMESTAMP
        if decision != DELETE:
            count, kept = fields[RECORD_COUNT, entry], np.int64(0)
            totals[INVALID_HERE] = 0
            if count != 0:
                status, start, stop = _locate(data, fields, entry, position, ready, arena, tools)
                source = payload if fields[ATTRIBUTES, entry] & batch.CODEC_MASK else data
                if status == ALL:
                    status = _parse(source, start, stop, fields, entry, np.int64(0), records)
                if status != ALL:
                    return status, entry, NO_TIMESTAMP
                kept = _choose(source, fields, entry, decision, now, records, hashes, table, latest, secret, totals)
                if kept:
                    is_new, horizon = _horizon(fields, entry, decision, new_horizon, records)
                    if kept == count and not is_new:
                        status = copy_batch(data, fields, entry, position, kept, output, totals)
                    else:
                        totals[KEPT] = kept
                        status = rewrite_batch(source, fields, entry, horizon, records, raw, output, tools, lz4_compress, totals)
            if not kept and decision & RETAIN_EMPTY:
                status = empty_batch(fields, entry, output, tools, totals)
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
