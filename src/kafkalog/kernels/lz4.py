"""LZ4 frames: read in every variant that Kafka reads, written as Kafka's writer lays them out; liblz4 itself handles each block.

`codecs/lz4.py` has the grammar of a frame.
"""

from __future__ import annotations

import numpy as np

from ._jit import call_lz4, call_xxh32, copy_bytes, inline, kernel, outline
from .bytes import UNKNOWN, Bytes, Int, load_little
from .encode_messages import store_int

FRAME_MAGIC = 0x184D2204
# Version 1, independent blocks of 64 KiB, no checksums, no content size; then the header checksum: as Java and librdkafka write.
USUAL_DESCRIPTOR, USUAL_DESCRIPTOR_V0 = 0x824060, 0x1A4060
HEADER = 7
BLOCK = 64 << 10
STORED, SIZE = 0x80000000, 0x7FFFFFFF
CONTENT_SIZE_FIELD, CHECKSUM_FIELD, SIZE_FIELD = 8, 4, 4
VERSION_1, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM = 0x60, 0x10, 0x08, 0x04
FIXED_FLAGS, NO_BLOCK_SIZE, LEAST_BLOCK_SIZE = 0xE3, 0x8F, 0x40

BLOCK_BOUND = BLOCK + BLOCK // 255 + 16  # with less room liblz4 may fail on a block that it could compress


@outline
def _block_size(xxh32: Int, data: Bytes, start: Int, stop: Int, magic: Int) -> Int:
    """The largest block of a frame whose descriptor is not the usual one, or UNKNOWN if `codecs` would refuse it."""
    flags, block_descriptor = np.int64(data[start + 4]), np.int64(data[start + 5])
    if flags & FIXED_FLAGS != VERSION_1 or block_descriptor & NO_BLOCK_SIZE or block_descriptor < LEAST_BLOCK_SIZE:
        return np.int64(UNKNOWN)
    checksum_at = start + HEADER - 1 + (CONTENT_SIZE_FIELD if flags & CONTENT_SIZE else 0)
    if checksum_at >= stop:
        return np.int64(UNKNOWN)
    if magic > 0:
        descriptor = np.uintp(data.ctypes.data) + np.uintp(start + 4)
        checksum = np.int64(call_xxh32(np.uintp(xxh32), descriptor, np.uintp(checksum_at - start - 4), np.uint32(0)))
        if checksum >> 8 & 0xFF != data[checksum_at]:
            return np.int64(UNKNOWN)
    return np.int64(1) << (8 + 2 * (block_descriptor >> 4))


@inline
def decompress_frame(function: Int, xxh32: Int, data: Bytes, start: Int, stop: Int, magic: Int, arena: Bytes, room: Int) -> Int:
    """Bytes written to arena[:room], or UNKNOWN.

    `function` is the address of `LZ4_decompress_safe`, `xxh32` that of `XXH32`. Block checksums are verified; content size and
    content checksum are not, as Kafka's reader does.
    """
    if function == 0 or stop - start < HEADER or load_little(data, start, 4) != FRAME_MAGIC:
        return np.int64(UNKNOWN)
    at = start + HEADER
    flags, block_size = np.int64(VERSION_1), np.int64(BLOCK)
    if load_little(data, start + 4, 3) != (USUAL_DESCRIPTOR_V0 if magic == 0 else USUAL_DESCRIPTOR):
        if xxh32 == 0:
            return np.int64(UNKNOWN)
        block_size = _block_size(xxh32, data, start, stop, magic)
        if block_size < 0:
            return np.int64(UNKNOWN)
        flags = np.int64(data[start + 4])
        at += CONTENT_SIZE_FIELD if flags & CONTENT_SIZE else 0
    written = np.int64(0)
    while stop - at >= SIZE_FIELD:
        stored = load_little(data, at, SIZE_FIELD)
        size = stored & SIZE
        at += SIZE_FIELD
        if size == 0:
            return written if not flags & CONTENT_CHECKSUM or stop - at >= CHECKSUM_FIELD else np.int64(UNKNOWN)
        free = min(room - written, block_size)
        if size > stop - at or size > block_size:
            return np.int64(UNKNOWN)
        source = np.uintp(data.ctypes.data) + np.uintp(at)
        at += size
        if flags & BLOCK_CHECKSUM:
            if stop - at < CHECKSUM_FIELD:
                return np.int64(UNKNOWN)
            checksum = np.int64(call_xxh32(np.uintp(xxh32), source, np.uintp(size), np.uint32(0)))
            if checksum != load_little(data, at, CHECKSUM_FIELD):
                return np.int64(UNKNOWN)
        if stored & STORED:
            if size > free:
                return np.int64(UNKNOWN)
            copy_bytes(data, at - size, arena, written, size)
            written += size
        else:
            target = np.uintp(arena.ctypes.data) + np.uintp(written)
            got = np.int64(call_lz4(np.uintp(function), source, target, np.int32(size), np.int32(free)))
            if got < 0:
                return np.int64(UNKNOWN)
            written += got
        if flags & BLOCK_CHECKSUM:
            at += CHECKSUM_FIELD
    return np.int64(UNKNOWN)


@kernel
def frame_room(size: Int) -> Int:
    """Bytes that `compress_frame` may touch for a source of `size`."""
    blocks = size // BLOCK + 2
    return size + blocks * (SIZE_FIELD + BLOCK_BOUND - BLOCK) + BLOCK_BOUND


@kernel
def compress_frame(function: Int, source: Bytes, start: Int, stop: Int, target: Bytes, at: Int) -> Int:
    """Write source[start:stop] to target[at:] as a frame; the position after it. The target must have `frame_room`.

    `function` is the address of `LZ4_compress_default`.
    """
    store_int(target, at, 0x04224D18, 4)
    store_int(target, at + 4, 0x604082, 3)
    at += HEADER
    while start < stop:
        block = min(stop - start, np.int64(BLOCK))
        here = np.uintp(target.ctypes.data) + np.uintp(at + SIZE_FIELD)
        origin = np.uintp(source.ctypes.data) + np.uintp(start)
        written = np.int64(call_lz4(np.uintp(function), origin, here, np.int32(block), np.int32(BLOCK_BOUND)))
        stated = written
        if written <= 0 or written >= block:
            copy_bytes(source, start, target, at + SIZE_FIELD, block)
            written = block
            stated = block | STORED
        for index in range(SIZE_FIELD):
            target[at + index] = (stated >> (8 * index)) & 0xFF
        at += SIZE_FIELD + written
        start += block
    store_int(target, at, 0, SIZE_FIELD)
    return at + SIZE_FIELD
