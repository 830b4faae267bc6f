"""Integers and varints from a byte array: the smallest kernels.

Every byte is widened on load and all arithmetic is 64-bit, so that results are the same with the JIT off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import inline

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Int = Any  # np.int64 when compiled, otherwise perhaps a Python integer

UNKNOWN = -1  # instead of a number of bytes: the payload is left to `codecs`


@inline
def load_int16(data: Bytes, at: Int) -> Int:
    value = (np.int64(data[at]) << 8) | np.int64(data[at + 1])
    return value - ((value & 0x8000) << 1)


@inline
def load_uint32(data: Bytes, at: Int) -> Int:
    return (np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16) | (np.int64(data[at + 2]) << 8) | np.int64(data[at + 3])


@inline
def load_int32(data: Bytes, at: Int) -> Int:
    value = load_uint32(data, at)
    return value - ((value & 0x80000000) << 1)


@inline
def load_int64(data: Bytes, at: Int) -> Int:
    return (load_int32(data, at) << 32) | load_uint32(data, at + 4)


@inline
def load_little(data: Bytes, at: Int, size: Int) -> Int:
    """A little-endian integer of `size` bytes without a sign."""
    value = np.int64(0)
    for index in range(size):
        value |= np.int64(data[at + index]) << (8 * index)
    return value


@inline
def load_varint(data: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """(value, position after it) of a zig-zag 32-bit integer; position -1: it ends beyond `stop` or is longer than 5 bytes."""
    raw = np.int64(0)
    shift = 0
    while at < stop and shift < 35:
        byte = np.int64(data[at])
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    return np.int64(0), -1


@inline
def load_varlong(data: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """As `load_varint` for 64 bits, at most 10 bytes."""
    raw = np.uint64(0)
    shift = 0
    while at < stop and shift < 70:
        byte = np.uint64(data[at])
        at += 1
        raw |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < np.uint64(0x80):
            half = np.int64(raw >> np.uint64(1))
            return half ^ -np.int64(raw & np.uint64(1)), at
        shift += 7
    return np.int64(0), -1
