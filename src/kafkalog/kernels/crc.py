"""CRC-32 (messages v0 and v1) and CRC-32C (batches v2) as kernels that other kernels call.

Both are reflected 32-bit CRCs that begin and end with an inversion. Sixteen tables of 256 entries process sixteen bytes per step:
entry `[k * 256 + b]` is what byte `b` adds to the state when `k` more bytes follow it in the step.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkalog.format import batch
from kafkalog.format.entry_table import CRC, POSITION, SIZE

from ._jit import call_crc32c, inline, kernel

CRC32_POLYNOMIAL = 0xEDB88320
CRC32C_POLYNOMIAL = 0x82F63B78
STEP_BYTES = 16
ALL_ONES = np.uint64(0xFFFFFFFF)

Bytes = npt.NDArray[np.uint8]
Tables = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def _build_tables(polynomial: int) -> Tables:
    tables = np.zeros((STEP_BYTES, 256), dtype=np.uint32)
    state = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        state = (state >> np.uint32(1)) ^ np.where(state & np.uint32(1), np.uint32(polynomial), np.uint32(0))
    tables[0] = state
    for step in range(1, STEP_BYTES):
        before = tables[step - 1]
        tables[step] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(0xFF)]
    flat = tables.reshape(-1)
    flat.flags.writeable = False
    return flat


CRC32_TABLES = _build_tables(CRC32_POLYNOMIAL)
CRC32C_TABLES = _build_tables(CRC32C_POLYNOMIAL)


@inline
def load_word(data: Bytes, position: np.uint64) -> np.uint64:
    """Four bytes, little-endian, widened; the compiler fuses them into one load."""
    return (
        np.uint64(data[position])
        | (np.uint64(data[position + np.uint64(1)]) << np.uint64(8))
        | (np.uint64(data[position + np.uint64(2)]) << np.uint64(16))
        | (np.uint64(data[position + np.uint64(3)]) << np.uint64(24))
    )


@inline
def _spread_word(tables: Tables, word: np.uint64, first_table: np.uint64) -> np.uint64:
    """What four bytes add to the state; the last one uses `first_table`, the ones before it the next three."""
    low = np.uint64(0xFF)
    return (
        np.uint64(tables[(first_table + np.uint64(3)) * np.uint64(256) + (word & low)])
        ^ np.uint64(tables[(first_table + np.uint64(2)) * np.uint64(256) + ((word >> np.uint64(8)) & low)])
        ^ np.uint64(tables[(first_table + np.uint64(1)) * np.uint64(256) + ((word >> np.uint64(16)) & low)])
        ^ np.uint64(tables[first_table * np.uint64(256) + (word >> np.uint64(24))])
    )


@inline
def _step(tables: Tables, state: np.uint64, data: Bytes, position: np.uint64) -> np.uint64:
    """The state after the next sixteen bytes."""
    first = load_word(data, position) ^ state
    second = load_word(data, position + np.uint64(4))
    third = load_word(data, position + np.uint64(8))
    fourth = load_word(data, position + np.uint64(12))
    return (
        _spread_word(tables, fourth, np.uint64(0))
        ^ _spread_word(tables, third, np.uint64(4))
        ^ _spread_word(tables, second, np.uint64(8))
        ^ _spread_word(tables, first, np.uint64(12))
    )


@inline
def advance(tables: Tables, state: np.uint64, data: Bytes, start: int, stop: int) -> np.uint64:
    """The CRC state (not inverted) after `data[start:stop]`; the caller has checked both against the length of `data`."""
    position = np.uint64(start)
    end = np.uint64(stop)
    while position + np.uint64(16) <= end:
        state = _step(tables, state, data, position)
        position += np.uint64(16)
    while position + np.uint64(4) <= end:
        state = _spread_word(tables, load_word(data, position) ^ state, np.uint64(0))
        position += np.uint64(4)
    while position < end:
        state = np.uint64(tables[(state ^ np.uint64(data[position])) & np.uint64(0xFF)]) ^ (state >> np.uint64(8))
        position += np.uint64(1)
    return state


@kernel
def crc32(data: Bytes, start: int, stop: int) -> np.int64:
    """CRC-32 of `data[start:stop]`, as `zlib.crc32` gives it; the caller ensures 0 <= start, stop <= len(data)."""
    return np.int64(advance(CRC32_TABLES, ALL_ONES, data, start, stop) ^ ALL_ONES)


@kernel
def crc32c(data: Bytes, start: int, stop: int) -> np.int64:
    """CRC-32C of `data[start:stop]`; the caller ensures 0 <= start, stop <= len(data)."""
    return np.int64(advance(CRC32C_TABLES, ALL_ONES, data, start, stop) ^ ALL_ONES)


@inline
def batch_matches(function: int, data: Bytes, fields: Ints, entry: int, position: int) -> Any:
    """Whether the stored CRC-32C of an entry, a v2 batch, matches its bytes; `position` is the file position of data[0].

    `function` is the address of ISA-L's `crc32_iscsi` (`native`).
    """
    start = fields[POSITION, entry] - position + batch.CRC_START
    size = fields[SIZE, entry] - batch.CRC_START
    address = np.uintp(data.ctypes.data) + np.uintp(start)
    state = call_crc32c(np.uintp(function), address, np.int32(size), np.uint32(0xFFFFFFFF))
    return (np.int64(state) ^ 0xFFFFFFFF) == fields[CRC, entry]


@kernel
def check_batches(function: int, data: Bytes, fields: Ints, entries: Ints, position: int, valid: Flags) -> None:
    """Whether the stored CRC-32C of each of these v2 batches matches; see `batch_matches`."""
    for index in range(entries.shape[0]):
        valid[index] = batch_matches(function, data, fields, entries[index], position)


@kernel
def check_messages(window: Bytes, starts: Ints, stops: Ints, crcs: Ints, valid: Flags) -> None:
    """Whether the stored CRC-32 of each v0/v1 message matches window[start:stop]."""
    for index in range(starts.shape[0]):
        valid[index] = crc32(window, starts[index], stops[index]) == crcs[index]


def _build_digit_tables(tables: Tables) -> Tables:
    """What byte j of a CRC-32 state becomes after n zero bytes, and after 256 * n: flat, [digit][n][j][byte]."""
    digits = np.zeros((2, 256, 4, 256), dtype=np.uint32)
    for byte in range(4):
        digits[:, 0, byte] = np.arange(256, dtype=np.uint32) << np.uint32(8 * byte)
    for count in range(1, 256):
        before = digits[0, count - 1]
        digits[0, count] = tables[before & np.uint32(0xFF)] ^ (before >> np.uint32(8))
    last = digits[0, 255]
    once = tables[last & np.uint32(0xFF)] ^ (last >> np.uint32(8))
    for count in range(1, 256):
        before = digits[1, count - 1]
        for part in range(4):
            digits[1, count] ^= once[part][(before >> np.uint32(8 * part)) & np.uint32(0xFF)]
    return digits.reshape(-1)


@functools.cache
def digit_tables() -> Tables:
    """The tables that `expected_crc32` takes: 2 MiB, built at first use in a few milliseconds."""
    return _build_digit_tables(CRC32_TABLES)


@inline
def _append_zeros(digits: Tables, state: np.uint64, digit: int, count: np.uint64) -> np.uint64:
    table = (np.uint64(digit * 256) + count) * np.uint64(1024)
    low = np.uint64(0xFF)
    return (
        np.uint64(digits[table + (state & low)])
        ^ np.uint64(digits[table + np.uint64(256) + ((state >> np.uint64(8)) & low)])
        ^ np.uint64(digits[table + np.uint64(512) + ((state >> np.uint64(16)) & low)])
        ^ np.uint64(digits[table + np.uint64(768) + (state >> np.uint64(24))])
    )


@kernel
def expected_crc32(digits: Tables, data: Bytes, starts: Ints, stops: Ints, crcs: Ints) -> np.int64:
    """The CRC-32 of data[starts[0]:stops[-1]] if the stored checksum of every message is right; -1 if one is too long.

    The messages are adjacent; each checksum covers all but the first 16 bytes of its message. CRCs are linear: the checksum of a
    piece gives that of everything up to its end, without reading its bytes. So one checksum over many messages, which libraries
    compute with the machine's own instructions, proves them all.
    """
    state = ALL_ONES
    for index in range(starts.shape[0]):
        state = _step(CRC32_TABLES, state, data, np.uint64(starts[index])) ^ ALL_ONES
        size = np.uint64(stops[index] - starts[index] - STEP_BYTES)
        if size >= np.uint64(1 << 16):
            return np.int64(-1)
        state = _append_zeros(digits, state, 0, size & np.uint64(0xFF))
        if size > np.uint64(0xFF):
            state = _append_zeros(digits, state, 1, size >> np.uint64(8))
        state ^= np.uint64(crcs[index]) ^ ALL_ONES
    return np.int64(state ^ ALL_ONES)
