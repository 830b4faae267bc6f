"""Snappy: payloads decompressed, and blocks compressed to the same bytes as the library that Kafka's brokers and Java clients use
(1.1.10).

Any sequence of literals and copies that decompresses to the source is valid. This one is chosen as that library chooses it, so
that a batch recompressed by our partition log has the size it would have on a broker, and segments end where a broker's would.

A table holds, by the hash of four bytes, where these were last seen. The search looks at every position up to 16 after the last
copy, then in longer and longer steps; a copy is followed by others as long as the very next bytes are known too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ._jit import copy_ahead, copy_bytes, copy_earlier, inline, kernel, outline
from .bytes import UNKNOWN, Bytes, Int, Ints, load_little, load_uint32

FRAME_MAGIC: Final = 0x0059505041_4E5382  # 82 'SNAPPY' 00
FRAME_HEADER: Final = 16

MAX_FRAGMENT: Final = 1 << 16  # how far a table looks back; a larger source is cut into fragments
MIN_TABLE: Final = 1 << 8
MAX_TABLE: Final = 1 << 14
MARGIN: Final = 15  # bytes at the end that are never searched
DENSE_SEARCH: Final = 16
FACTOR: Final = 0x1E35A7BD
HASH_SHIFT: Final = 18

_LITERAL_IN_TAG: Final = 60
_MAX_COPY: Final = 64
_SHORT_COPY: Final = 12
_SHORT_DISTANCE: Final = 1 << 11


def max_compressed_size(size: int) -> int:
    """Room that `compress` may need for a source of `size` bytes."""
    return 32 + size + size // 6


def compress(source: memoryview) -> bytes:
    """`source` as one raw block."""
    data = np.frombuffer(source, np.uint8)
    target = np.empty(max_compressed_size(len(data)), np.uint8)
    table = np.empty(MAX_TABLE, np.int64)
    return target[: compress_into(data, target, table)].tobytes()


@kernel
def compress_into(source: Bytes, target: Bytes, table: Ints) -> Int:
    """The number of bytes written to `target`, which has room for `max_compressed_size`."""
    size = np.int64(len(source))
    position = np.int64(0)
    rest = size
    while rest >= 0x80:
        target[position] = (rest & 0x7F) | 0x80
        rest >>= 7
        position += 1
    target[position] = rest
    position += 1
    start = np.int64(0)
    while start < size:
        stop = min(start + MAX_FRAGMENT, size)
        position = _compress_fragment(source[start:stop], target, position, table)
        start = stop
    return position


@inline
def _load(source: Bytes, at: Int) -> Int:
    return (
        np.int64(source[at])
        | (np.int64(source[at + 1]) << 8)
        | (np.int64(source[at + 2]) << 16)
        | (np.int64(source[at + 3]) << 24)
    )


@inline
def _hash(word: Int, mask: Int) -> Int:
    return (((word * FACTOR) & 0xFFFFFFFF) >> HASH_SHIFT) & mask


@inline
def _write_literal(source: Bytes, start: Int, stop: Int, target: Bytes, position: Int) -> Int:
    size = stop - start
    if size <= _LITERAL_IN_TAG:
        target[position] = (size - 1) << 2
        position += 1
    else:
        size_bytes = 1 if size <= 0x100 else 2  # a fragment has none longer
        target[position] = (_LITERAL_IN_TAG - 1 + size_bytes) << 2
        target[position + 1] = (size - 1) & 0xFF
        if size_bytes == 2:
            target[position + 2] = (size - 1) >> 8
        position += 1 + size_bytes
    copy_bytes(source, start, target, position, size)
    return position + size


@inline
def _write_copy(distance: Int, size: Int, target: Bytes, position: Int) -> Int:
    """One copy of at most 64 bytes."""
    if size < _SHORT_COPY and distance < _SHORT_DISTANCE:
        target[position] = 1 | ((size - 4) << 2) | ((distance >> 8) << 5)
        target[position + 1] = distance & 0xFF
        return position + 2
    target[position] = 2 | ((size - 1) << 2)
    target[position + 1] = distance & 0xFF
    target[position + 2] = distance >> 8
    return position + 3


@inline
def _write_copies(distance: Int, size: Int, target: Bytes, position: Int) -> Int:
    while size >= _MAX_COPY + 4:
        position = _write_copy(distance, _MAX_COPY, target, position)
        size -= _MAX_COPY
    if size > _MAX_COPY:  # at least four bytes must be left, the least that a copy can take
        position = _write_copy(distance, _MAX_COPY - 4, target, position)
        size -= _MAX_COPY - 4
    return _write_copy(distance, size, target, position)


@inline
def _find_match(source: Bytes, at: Int, limit: Int, table: Ints, mask: Int) -> tuple[Int, Int]:
    """The next position from `at` on whose four bytes are known, and where they were; -1 for both if none is before `limit`."""
    skip = np.int64(32)
    if limit - at >= DENSE_SEARCH:
        for position in range(at, at + DENSE_SEARCH):
            word = _load(source, position)
            place = _hash(word, mask)
            candidate = table[place]
            table[place] = position
            if _load(source, candidate) == word:
                return np.int64(position), candidate
        at += DENSE_SEARCH
        skip += DENSE_SEARCH
    while True:
        word = _load(source, at)
        step = skip >> 5
        skip += step
        if at + step > limit:
            return np.int64(-1), np.int64(-1)
        place = _hash(word, mask)
        candidate = table[place]
        table[place] = at
        if _load(source, candidate) == word:
            return np.int64(at), candidate
        at += step


@inline
def _compress_fragment(source: Bytes, target: Bytes, position: Int, table: Ints) -> Int:
    size = np.int64(len(source))
    table_size = np.int64(MIN_TABLE)
    while table_size < MAX_TABLE and table_size < size:
        table_size *= 2
    table[:table_size] = 0
    mask = table_size - 1
    limit = size - MARGIN
    written = np.int64(0)  # up to here the source is in the target
    while limit >= 0:
        at, candidate = _find_match(source, written + 1, limit, table, mask)
        if at < 0:
            break
        position = _write_literal(source, written, at, target, position)
        word = _load(source, at)
        while _load(source, candidate) == word:
            stop = at + 4
            while stop < size and source[stop] == source[candidate + stop - at]:
                stop += 1
            position = _write_copies(at - candidate, stop - at, target, position)
            at = written = stop
            if at >= limit:
                break
            table[_hash(_load(source, at - 1), mask)] = at - 1
            word = _load(source, at)
            place = _hash(word, mask)
            candidate = table[place]
            table[place] = at
        if at >= limit:
            break
    return _write_literal(source, written, size, target, position) if written < size else position


@inline
def decompress_payload(data: Bytes, start: Int, stop: Int, arena: Bytes, room: Int) -> Int:
    """Bytes written to arena[:room] of a raw block or of blocks in Java's framing (`codecs/snappy.py`), or UNKNOWN."""
    if stop - start < FRAME_HEADER or load_little(data, start, 8) != FRAME_MAGIC:
        return decompress_block(data, start, stop, arena, np.int64(0), room)
    at = start + FRAME_HEADER
    written = np.int64(0)
    while stop - at >= 4:
        size = load_uint32(data, at)
        at += 4
        if size > stop - at:  # damage, or the header of a further stream
            return np.int64(UNKNOWN)
        got = decompress_block(data, at, at + size, arena, written, room)
        if got < 0:
            return np.int64(UNKNOWN)
        written += got
        at += size
    return written


@outline
def decompress_block(data: Bytes, start: Int, stop: Int, arena: Bytes, first: Int, room: Int) -> Int:
    """Bytes written to arena[first:room], or UNKNOWN if data[start:stop] is no whole block or there is too little room."""
    size, shift, at = np.int64(0), 0, start
    while True:
        if at >= stop or shift > 28:
            return np.int64(UNKNOWN)
        byte = np.int64(data[at])
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if size > room - first:
        return np.int64(UNKNOWN)
    to, end = first, first + size
    while at < stop:
        tag = np.int64(data[at])
        at += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length > _LITERAL_IN_TAG:
                size_bytes = length - _LITERAL_IN_TAG
                if size_bytes > stop - at:
                    return np.int64(UNKNOWN)
                length = load_little(data, at, size_bytes) + 1
                at += size_bytes
            if length > stop - at or length > end - to:
                return np.int64(UNKNOWN)
            copy_ahead(data, at, arena, to, length)
            at += length
        else:
            distance_bytes = 1 if kind == 1 else (2 if kind == 2 else 4)
            if distance_bytes > stop - at:
                return np.int64(UNKNOWN)
            if kind == 1:
                length = 4 + ((tag >> 2) & 7)
                distance = ((tag >> 5) << 8) | np.int64(data[at])
            elif kind == 2:
                length = (tag >> 2) + 1
                distance = np.int64(data[at]) | (np.int64(data[at + 1]) << 8)
            else:
                length = (tag >> 2) + 1
                distance = load_little(data, at, 4)
            at += distance_bytes
            if distance == 0 or distance > to - first or length > end - to:
                return np.int64(UNKNOWN)
            copy_earlier(arena, to - distance, to, length)
        to += length
    return size if to == end else np.int64(UNKNOWN)
