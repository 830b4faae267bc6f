"""Decompress the payload of an entry, whichever client wrote it.

A damaged payload, one that needs more room, or one framed as no client frames it is left to `codecs`, which knows every variant
and explains what is wrong. Each codec is compiled by itself when a log first needs it; kernels call it by its address.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kafkalog.format import batch

from . import gzip, lz4, native, snappy, zstd
from ._jit import JIT_OFF, array_at, call_codec, codec_address, inline
from .bytes import UNKNOWN, Bytes, Int, Ints
from .layout import (
    CODECS,
    CRC32_FUNCTION,
    INFLATE_FUNCTION,
    INFLATE_STATE,
    LZ4_FUNCTION,
    PAYLOAD_LIMIT,
    XXH32_FUNCTION,
    ZSTD_CONTEXT,
    ZSTD_FUNCTION,
)

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


@inline
def decompress(data: Bytes, start: Int, stop: Int, codec: Int, magic: Int, arena: Bytes, at: Int, tools: Ints) -> Int:
    """Bytes of data[start:stop] decompressed, now at arena[at:], or UNKNOWN."""
    function = tools[CODECS + (codec & batch.CODEC_MASK)]
    if function == 0:
        return np.int64(UNKNOWN)
    return call_codec(
        np.uintp(function),
        np.uintp(tools.ctypes.data),
        np.uintp(data.ctypes.data),
        data.shape[0],
        start,
        stop,
        magic,
        np.uintp(arena.ctypes.data) + np.uintp(at),
        arena.shape[0] - at,
    )


def add_codec(tools: Ints, codec: int) -> bool:
    """Add the function for a codec to the tools; False if it is there already, or there is none."""
    if JIT_OFF or codec not in _FUNCTIONS or tools[CODECS + codec]:
        return False
    tools[CODECS + codec] = _address(codec)
    return True


@functools.cache
def _address(codec: int) -> int:
    return codec_address(_FUNCTIONS[codec])


@inline
def _arrays(tools: Any, data: Any, size: Int, arena: Any, room: Int) -> tuple[Ints, Bytes, Bytes, Int]:
    """Tools, data and arena as arrays, and the most bytes that the payload may have."""
    numbers = array_at(tools, (TOOL_COUNT,))
    return numbers, array_at(data, (size,)), array_at(arena, (room,)), min(room, numbers[PAYLOAD_LIMIT])


def _decompress_gzip(tools: Any, data: Any, size: Int, start: Int, stop: Int, magic: Int, arena: Any, room: Int) -> Int:
    numbers, source, target, most = _arrays(tools, data, size, arena, room)
    inflate, crc32 = numbers[INFLATE_FUNCTION], numbers[CRC32_FUNCTION]
    return gzip.decompress_member(inflate, crc32, numbers[INFLATE_STATE:], source, start, stop, target, most)


def _decompress_snappy(tools: Any, data: Any, size: Int, start: Int, stop: Int, magic: Int, arena: Any, room: Int) -> Int:
    _, source, target, most = _arrays(tools, data, size, arena, room)
    return snappy.decompress_payload(source, start, stop, target, most)


def _decompress_lz4(tools: Any, data: Any, size: Int, start: Int, stop: Int, magic: Int, arena: Any, room: Int) -> Int:
    numbers, source, target, most = _arrays(tools, data, size, arena, room)
    return lz4.decompress_frame(numbers[LZ4_FUNCTION], numbers[XXH32_FUNCTION], source, start, stop, magic, target, most)


def _decompress_zstd(tools: Any, data: Any, size: Int, start: Int, stop: Int, magic: Int, arena: Any, room: Int) -> Int:
    numbers, source, target, most = _arrays(tools, data, size, arena, room)
    if magic < 2:
        return np.int64(UNKNOWN)
    return zstd.decompress_frame(numbers[ZSTD_FUNCTION], numbers[ZSTD_CONTEXT], source, start, stop, target, most)


_FUNCTIONS = {GZIP: _decompress_gzip, SNAPPY: _decompress_snappy, LZ4: _decompress_lz4, ZSTD: _decompress_zstd}
TOOL_COUNT = INFLATE_STATE + native.INFLATE_STATE_BYTES // 8
