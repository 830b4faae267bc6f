"""LZ4 frames as Kafka's writer lays them out, compressed block by block by liblz4 itself (`native`)."""

from __future__ import annotations

import numpy as np

from ._jit import call_lz4, copy_bytes, kernel
from .bytes import Bytes, Int
from .decompress import LZ4_BLOCK, LZ4_HEADER, LZ4_STORED
from .encode_messages import store_int

BLOCK_BOUND = LZ4_BLOCK + LZ4_BLOCK // 255 + 16  # with less room liblz4 may fail on a block that it could compress
SIZE_FIELD = 4


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
