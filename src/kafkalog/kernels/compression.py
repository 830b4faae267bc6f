"""Decompress payloads in the usual cases, and compress lz4 frames as Kafka's writer does, by C functions (`native`).

The usual cases are lz4 as Kafka's own writer frames it, and zstd in one whole frame. Any other payload, a damaged one, or one
that needs more room is left to `codecs`, which knows every variant and explains what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import ATTRIBUTES, MAGIC

from ._jit import call_lz4, call_zstd, copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .decode_messages import message_parts
from .encode_messages import store_int
from .layout import ENTRY, LZ4_FUNCTION, OK, PAYLOAD_LIMIT, START, STOP, ZSTD_CONTEXT, ZSTD_FUNCTION

UNKNOWN = -1  # a payload for `codecs`
LZ4, ZSTD = 3, 4

LZ4_FRAME_MAGIC = 0x184D2204
# Version 1, independent blocks of 64 KiB, no checksums and no content size; then the header checksum.
LZ4_DESCRIPTOR, LZ4_DESCRIPTOR_V0 = 0x824060, 0x1A4060
LZ4_HEADER = 7
LZ4_BLOCK = 64 << 10
LZ4_STORED, LZ4_SIZE = 0x80000000, 0x7FFFFFFF
BLOCK_BOUND = LZ4_BLOCK + LZ4_BLOCK // 255 + 16  # with less room liblz4 may fail on a block that it could compress
SIZE_FIELD = 4

ZSTD_FRAME_MAGIC = 0xFD2FB528
ZSTD_LEAST_FRAME = 9  # magic, descriptor, window or content size, one block header
ZSTD_SINGLE_SEGMENT, ZSTD_CHECKSUM, ZSTD_DICTIONARY = 0x20, 0x04, 0x03
ZSTD_MAX_WINDOW = 17 << 3  # as the byte in a frame: 128 MiB, the most that Kafka's reader accepts
ZSTD_MAX_CONTENT = 1 << 27
ZSTD_RAW_HEADER = 3
ZSTD_REPEATED_BYTE = 1


@inline
def _load_little(data: Bytes, at: Int, size: Int) -> Int:
    value = np.int64(0)
    for index in range(size):
        value |= np.int64(data[at + index]) << (8 * index)
    return value


@inline
def _lz4(function: Int, data: Bytes, start: Int, stop: Int, magic: Int, arena: Bytes, room: Int) -> Int:
    """Bytes written to arena[:room], or UNKNOWN."""
    if function == 0 or stop - start < LZ4_HEADER or _load_little(data, start, 4) != LZ4_FRAME_MAGIC:
        return np.int64(UNKNOWN)
    if _load_little(data, start + 4, 3) != (LZ4_DESCRIPTOR_V0 if magic == 0 else LZ4_DESCRIPTOR):
        return np.int64(UNKNOWN)
    at = start + LZ4_HEADER
    written = np.int64(0)
    while stop - at >= 4:
        stored = _load_little(data, at, 4)
        size = stored & LZ4_SIZE
        at += 4
        if size == 0:
            return written
        free = min(room - written, LZ4_BLOCK)
        if size > stop - at or size > LZ4_BLOCK:
            return np.int64(UNKNOWN)
        if stored & LZ4_STORED:
            if size > free:
                return np.int64(UNKNOWN)
            copy_bytes(data, at, arena, written, size)
            written += size
        else:
            target = np.uintp(arena.ctypes.data) + np.uintp(written)
            source = np.uintp(data.ctypes.data) + np.uintp(at)
            got = np.int64(call_lz4(np.uintp(function), source, target, np.int32(size), np.int32(free)))
            if got < 0:
                return np.int64(UNKNOWN)
            written += got
        at += size
    return np.int64(UNKNOWN)


@inline
def _is_one_zstd_frame(data: Bytes, start: Int, stop: Int) -> Any:
    """Whether data[start:stop] is exactly one frame without a dictionary and with a window that Kafka accepts."""
    if stop - start < ZSTD_LEAST_FRAME or _load_little(data, start, 4) != ZSTD_FRAME_MAGIC:
        return False
    descriptor = np.int64(data[start + 4])
    is_single = descriptor & ZSTD_SINGLE_SEGMENT != 0
    if descriptor & ZSTD_DICTIONARY or (not is_single and data[start + 5] > ZSTD_MAX_WINDOW):
        return False
    content_size_flag = descriptor >> 6
    content_size_bytes = 1 << content_size_flag if content_size_flag else np.int64(is_single)
    at = start + 5 + (0 if is_single else 1) + content_size_bytes
    last = False
    while not last:
        if stop - at < ZSTD_RAW_HEADER:
            return False
        header = _load_little(data, at, ZSTD_RAW_HEADER)
        last = header & 1 != 0
        at += ZSTD_RAW_HEADER + (1 if header >> 1 & 3 == ZSTD_REPEATED_BYTE else header >> 3)
    return at + (4 if descriptor & ZSTD_CHECKSUM else 0) == stop


@inline
def _zstd(function: Int, context: Int, data: Bytes, start: Int, stop: Int, arena: Bytes, room: Int) -> Int:
    """Bytes written to arena[:room], or UNKNOWN."""
    if function == 0 or context == 0 or not _is_one_zstd_frame(data, start, stop):
        return np.int64(UNKNOWN)
    target = np.uintp(arena.ctypes.data)
    source = np.uintp(data.ctypes.data) + np.uintp(start)
    got = call_zstd(np.uintp(function), np.uintp(context), target, np.uintp(room), source, np.uintp(stop - start))
    return np.int64(got) if 0 <= got <= ZSTD_MAX_CONTENT else np.int64(UNKNOWN)


@inline
def decompress(data: Bytes, arena: Bytes, fields: Ints, payloads: Ints, number: Int, tools: Ints) -> Int:
    """Bytes of that payload, decompressed to the start of the arena, or UNKNOWN."""
    entry, start, stop = payloads[ENTRY, number], payloads[START, number], payloads[STOP, number]
    magic = fields[MAGIC, entry]
    codec = fields[ATTRIBUTES, entry] & batch.CODEC_MASK
    if magic < 2:
        status, _, _, start, size = message_parts(data, start, stop, magic)
        if status != OK or size < 0:
            return np.int64(UNKNOWN)
        stop = start + size
    room = min(arena.shape[0], tools[PAYLOAD_LIMIT])
    if codec == LZ4:
        return _lz4(tools[LZ4_FUNCTION], data, start, stop, magic, arena, room)
    if codec == ZSTD and magic == 2:
        return _zstd(tools[ZSTD_FUNCTION], tools[ZSTD_CONTEXT], data, start, stop, arena, room)
    return np.int64(UNKNOWN)


@kernel
def frame_room(size: Int) -> Int:
    """Bytes that `compress_frame` may touch for a source of `size`."""
    blocks = size // LZ4_BLOCK + 2
    return size + blocks * (SIZE_FIELD + BLOCK_BOUND - LZ4_BLOCK) + BLOCK_BOUND


@kernel
def compress_frame(function: Int, source: Bytes, start: Int, stop: Int, target: Bytes, at: Int) -> Int:
    """Write source[start:stop] to target[at:] as a frame; the position after it. The target must have `frame_room`.

    `function` is the address of `LZ4_compress_default`.
    """
    store_int(target, at, 0x04224D18, 4)
    store_int(target, at + 4, 0x604082, 3)
    at += LZ4_HEADER
    while start < stop:
        block = min(stop - start, np.int64(LZ4_BLOCK))
        here = np.uintp(target.ctypes.data) + np.uintp(at + SIZE_FIELD)
        origin = np.uintp(source.ctypes.data) + np.uintp(start)
        written = np.int64(call_lz4(np.uintp(function), origin, here, np.int32(block), np.int32(BLOCK_BOUND)))
        stated = written
        if written <= 0 or written >= block:
            copy_bytes(source, start, target, at + SIZE_FIELD, block)
            written = block
            stated = block | LZ4_STORED
        for index in range(SIZE_FIELD):
            target[at + index] = (stated >> (8 * index)) & 0xFF
        at += SIZE_FIELD + written
        start += block
    store_int(target, at, 0, SIZE_FIELD)
    return at + SIZE_FIELD
