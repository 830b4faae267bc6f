"""Zstandard payloads of one whole frame, decompressed by libzstd."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._jit import call_zstd, inline
from .bytes import UNKNOWN, Bytes, Int, load_little

FRAME_MAGIC = 0xFD2FB528
LEAST_FRAME = 9  # magic, descriptor, window or content size, one block header
SINGLE_SEGMENT, CHECKSUM, DICTIONARY = 0x20, 0x04, 0x03
MAX_WINDOW = 17 << 3  # as the byte in a frame: 128 MiB, the most that Kafka's reader accepts
MAX_CONTENT = 1 << 27
BLOCK_HEADER = 3
REPEATED_BYTE = 1


@inline
def _is_one_frame(data: Bytes, start: Int, stop: Int) -> Any:
    """Whether data[start:stop] is exactly one frame without a dictionary and with a window that Kafka accepts."""
    if stop - start < LEAST_FRAME or load_little(data, start, 4) != FRAME_MAGIC:
        return False
    descriptor = np.int64(data[start + 4])
    is_single = descriptor & SINGLE_SEGMENT != 0
    if descriptor & DICTIONARY or (not is_single and data[start + 5] > MAX_WINDOW):
        return False
    content_size_flag = descriptor >> 6
    content_size_bytes = 1 << content_size_flag if content_size_flag else np.int64(is_single)
    at = start + 5 + (0 if is_single else 1) + content_size_bytes
    last = False
    while not last:
        if stop - at < BLOCK_HEADER:
            return False
        header = load_little(data, at, BLOCK_HEADER)
        last = header & 1 != 0
        at += BLOCK_HEADER + (1 if header >> 1 & 3 == REPEATED_BYTE else header >> 3)
    return at + (4 if descriptor & CHECKSUM else 0) == stop


@inline
def decompress_frame(function: Int, context: Int, data: Bytes, start: Int, stop: Int, arena: Bytes, room: Int) -> Int:
    """Bytes written to arena[:room], or UNKNOWN. `function` is the address of `ZSTD_decompressDCtx`."""
    if function == 0 or context == 0 or not _is_one_frame(data, start, stop):
        return np.int64(UNKNOWN)
    target = np.uintp(arena.ctypes.data)
    source = np.uintp(data.ctypes.data) + np.uintp(start)
    got = call_zstd(np.uintp(function), np.uintp(context), target, np.uintp(room), source, np.uintp(stop - start))
    return np.int64(got) if 0 <= got <= MAX_CONTENT else np.int64(UNKNOWN)
