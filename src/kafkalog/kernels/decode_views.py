"""Decode v2 batches without copying keys and values: Arrow's views say where they are, in the window or in the arena."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format.entry_table import ATTRIBUTES, MAGIC

from ._jit import inline, kernel, load_word, source_of
from .bytes import Bytes, Int, Ints
from .decode import begin, check_batch
from .decode_batches import (
    Position,
    copy_headers,
    count_records,
    find_headers,
    origin,
    record_front,
    sized_bytes,
    status_of,
    wanted_range,
)
from .decompress import decompress
from .layout import (
    BAD_COUNT,
    BAD_OFFSET,
    COMPRESSED,
    DROPPED,
    ENTRY,
    HEADERS,
    HEADERS_LIMIT,
    KEY,
    LAST_INT64,
    LEAST_FRONT,
    LEFT,
    NO_ROOM,
    OK,
    READY,
    RECORD_LIMIT,
    START,
    STATE,
    STOP,
    VALUE,
    HeaderColumns,
    ViewColumns,
    has_header_room,
)

# The buffers that views point into.
WINDOW, ARENA = 0, 1
# A view is the size, then either the bytes themselves or the first four, the number of the buffer, and the position there.
INLINE_BYTES, PREFIX_BYTES = 12, 4
WORD_BYTES = np.uint64(8)
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


@inline
def _load_near_end(source: Any, room: Position, at: Position) -> Any:
    """The bytes at source[at:room] or the first eight of them, at <= room, as a little-endian number."""
    if at + WORD_BYTES <= room:
        return load_word(source, at)
    missing = at + WORD_BYTES - room
    return load_word(source, room - WORD_BYTES) >> (missing << np.uint64(3)) if missing < WORD_BYTES else np.uint64(0)


@inline
def _lowest(word: np.uint64, count: Int) -> np.uint64:
    """The lowest `count` bytes of a word, 1 to 8."""
    return word & (ALL_BITS >> np.uint64(64 - 8 * count))


@inline
def _view_of(source: Any, room: Position, start: Position, size: Int, buffer: Int) -> tuple[np.uint64, np.uint64]:
    """The view of source[start : start + size], at least eight bytes in all, or of nothing if that is null (-1)."""
    if size <= 0:
        return np.uint64(0), np.uint64(0)
    first = _load_near_end(source, room, start)
    if size > INLINE_BYTES:
        return np.uint64(size) | first << np.uint64(32), np.uint64(buffer) | start << np.uint64(32)
    first = np.uint64(size) | _lowest(first, min(size, PREFIX_BYTES)) << np.uint64(32)
    if size <= PREFIX_BYTES:
        return first, np.uint64(0)
    return first, _lowest(_load_near_end(source, room, start + np.uint64(PREFIX_BYTES)), size - PREFIX_BYTES)


@inline
def _decode_batch(
    data: Bytes,
    buffer: Int,
    fields: Ints,
    entry: Int,
    start: Int,
    stop: Int,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: ViewColumns,
    headers: HeaderColumns,
) -> tuple[Int, Int]:
    """(status, row after the last one kept) of a v2 batch whose records are in data[start:stop]."""
    count = count_records(fields, entry, start, stop)
    if count <= 0:
        return (OK if count == 0 else BAD_COUNT), row
    if row + count > columns.offsets.shape[0]:
        return NO_ROOM, row
    if wants & HEADERS and not has_header_room(headers, row, stop - start - count * LEAST_FRONT):
        return NO_ROOM, row
    base_offset, base_timestamp, append_time, max_timestamp = origin(fields, entry)
    first_wanted, last_wanted, first_time, last_time = wanted_range(bounds)
    record_limit, headers_limit = bounds[RECORD_LIMIT], bounds[HEADERS_LIMIT]
    offsets, timestamps, key_views, key_valid, value_views, value_valid, _ = columns
    want_key, want_value, want_headers = wants & KEY != 0, wants & VALUE != 0, wants & HEADERS != 0
    at, end, here = np.uint64(start), np.uint64(stop), np.uint64(row)
    header_start, header_count = np.uint64(0), np.int64(0)
    source, room = source_of(data), np.uint64(data.shape[0])
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
            view = here + here
            if want_headers:
                copy_headers(data, header_start, header_count, np.int64(here), headers)
            if want_key:
                key_valid[here] = key_size >= 0
                key_views[view], key_views[view + np.uint64(1)] = _view_of(source, room, key_start, key_size, buffer)
            if want_value:
                value_valid[here] = value_size >= 0
                value_views[view], value_views[view + np.uint64(1)] = _view_of(source, room, value_start, value_size, buffer)
            here += np.uint64(1)
    return (OK if at == end else BAD_COUNT), np.int64(here)


@kernel
def decode_views(
    window: Bytes,
    arena: Bytes,
    fields: Ints,
    payloads: Ints,
    first: Int,
    position: Int,
    tools: Ints,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: ViewColumns,
    headers: HeaderColumns,
) -> tuple[Int, Int, Int]:
    """As `decode.decode_records`, with views as columns; START and STOP of a decompressed payload are its place in the arena."""
    for number in range(first, payloads.shape[1]):
        if payloads[STATE, number] == DROPPED:
            continue
        status = check_batch(window, fields, payloads, number, position, tools)
        if status != OK:
            return status, number, row
        entry, start, stop = payloads[ENTRY, number], payloads[START, number], payloads[STOP, number]
        is_compressed = payloads[STATE, number] & COMPRESSED != 0
        if is_compressed:
            used = columns.arena_used[0]
            written = decompress(window, start, stop, fields[ATTRIBUTES, entry], fields[MAGIC, entry], arena, used, tools)
            if written < 0:
                return LEFT, number, row
            start, stop = used, used + written
        status = begin(fields, payloads, number, row)
        if status != OK:
            return status, number, row
        data = arena if is_compressed else window
        buffer = ARENA if is_compressed else WINDOW
        status, next_row = _decode_batch(data, buffer, fields, entry, start, stop, wants, bounds, row, columns, headers)
        if status != OK:
            return status, number, row
        if is_compressed:
            payloads[STATE, number], payloads[START, number], payloads[STOP, number] = READY, start, stop
            columns.arena_used[0] = stop
        row = next_row
    return OK, payloads.shape[1], row
