"""CRC-32 (messages v0 and v1) and CRC-32C (batches v2) as kernels that other kernels call.

Both are reflected 32-bit CRCs that begin and end with an inversion. Sixteen tables of 256 entries process sixteen bytes per step:
entry `[k * 256 + b]` is what byte `b` adds to the state when `k` more bytes follow it in the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kafkalog.format import batch, message
from kafkalog.format.entry_table import CRC, POSITION, SIZE

from ._jit import call_crc32, call_crc32c, inline, kernel

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


@inline
def fast_crc32(function: int, data: Bytes, start: int, stop: int) -> Any:
    """As `crc32`; `function` is the address of ISA-L's `crc32_gzip_refl` (`native`), a tenth of the time, or 0."""
    if function == 0:
        return crc32(data, start, stop)
    address = np.uintp(data.ctypes.data) + np.uintp(start)
    return np.int64(call_crc32(np.uintp(function), np.uint32(0), address, np.uintp(stop - start)))


@inline
def message_matches(function: int, data: Bytes, fields: Ints, entry: Any, position: int) -> Any:
    """As `batch_matches` for a message v0 or v1; for `function` see `fast_crc32`."""
    start = fields[POSITION, entry] - position
    return fast_crc32(function, data, start + message.CRC_START, start + fields[SIZE, entry]) == fields[CRC, entry]


@kernel
def check_messages(function: int, data: Bytes, fields: Ints, entries: Ints, position: int, valid: Flags) -> None:
    """Whether the stored CRC-32 of each of these v0/v1 messages matches; see `message_matches`."""
    for index in range(entries.shape[0]):
        valid[index] = message_matches(function, data, fields, entries[index], position)
