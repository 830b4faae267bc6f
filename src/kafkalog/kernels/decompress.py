"""Decompress the payload of an entry, whichever client wrote it.

A damaged payload, one that needs more room, or one framed as no client frames it is left to `codecs`, which knows every variant
and explains what is wrong.
"""

from __future__ import annotations

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import ATTRIBUTES, MAGIC

from . import gzip, lz4, snappy, zstd
from ._jit import inline
from .bytes import UNKNOWN, Bytes, Int, Ints
from .decode_messages import message_parts
from .layout import (
    CRC32_FUNCTION,
    ENTRY,
    INFLATE_FUNCTION,
    INFLATE_STATE,
    LZ4_FUNCTION,
    OK,
    PAYLOAD_LIMIT,
    START,
    STOP,
    XXH32_FUNCTION,
    ZSTD_CONTEXT,
    ZSTD_FUNCTION,
)

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


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
        return lz4.decompress_frame(tools[LZ4_FUNCTION], tools[XXH32_FUNCTION], data, start, stop, magic, arena, room)
    if codec == ZSTD and magic == 2:
        return zstd.decompress_frame(tools[ZSTD_FUNCTION], tools[ZSTD_CONTEXT], data, start, stop, arena, room)
    if codec == SNAPPY:
        return snappy.decompress_payload(data, start, stop, arena, room)
    if codec == GZIP:
        inflate, crc32 = tools[INFLATE_FUNCTION], tools[CRC32_FUNCTION]
        return gzip.decompress_member(inflate, crc32, tools[INFLATE_STATE:], data, start, stop, arena, room)
    return np.int64(UNKNOWN)
