"""Gzip payloads of one member with a plain header, inflated by ISA-L."""

from __future__ import annotations

import numpy as np

from ._jit import call_crc32, call_inflate, inline
from .bytes import UNKNOWN, Bytes, Int, Ints, load_little

MEMBER_START = 0x00088B1F  # deflate, and none of the optional fields
HEADER, TRAILER = 10, 8
# The first words of ISA-L's inflate_state: next_out, avail_out and total_out, next_in, read_in, avail_in and read_in_length.
NEXT_OUT, AVAILABLE_OUT, NEXT_IN, _, AVAILABLE_IN = range(5)
LOW_WORD = 0xFFFFFFFF
MAX_INT32 = 0x7FFFFFFF


@inline
def decompress_member(inflate: Int, crc32: Int, state: Ints, data: Bytes, start: Int, stop: Int, arena: Bytes, room: Int) -> Int:
    """Bytes written to arena[:room], or UNKNOWN.

    `inflate` is the address of `isal_inflate_stateless`, `crc32` that of `crc32_gzip_refl`, `state` ISA-L's inflate_state.
    """
    size = stop - start
    if inflate == 0 or size < HEADER + TRAILER or size > MAX_INT32 or load_little(data, start, 4) != MEMBER_START:
        return np.int64(UNKNOWN)
    state[NEXT_OUT] = np.int64(np.uintp(arena.ctypes.data))
    state[AVAILABLE_OUT] = min(room, np.int64(MAX_INT32))
    state[NEXT_IN] = np.int64(np.uintp(data.ctypes.data) + np.uintp(start + HEADER))
    state[AVAILABLE_IN] = size - HEADER
    if call_inflate(np.uintp(inflate), np.uintp(state.ctypes.data)) != 0:
        return np.int64(UNKNOWN)
    at = stop - (state[AVAILABLE_IN] & LOW_WORD)
    # As Java does: bytes after the trailer are not looked at, unless they could be another member.
    if stop - at < TRAILER or stop - at > HEADER + 2 * TRAILER:
        return np.int64(UNKNOWN)
    written = (state[AVAILABLE_OUT] >> 32) & LOW_WORD
    checksum = call_crc32(np.uintp(crc32), np.uint32(0), np.uintp(arena.ctypes.data), np.uintp(written))
    if np.int64(checksum) != load_little(data, at, 4) or written != load_little(data, at + 4, 4):
        return np.int64(UNKNOWN)
    return written
