"""Copy keys, values and headers from where they lie into the buffers of Arrow columns, once.

A plain byte loop: inside Numba it is several times faster than slice assignment, which builds array views.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import inline, kernel
from .bytes import Bytes, Int, Ints, load_varint
from .crc import crc32
from .decode import FIRST_ROW, HEADERS_COUNT, HEADERS_START, IN_ARENA, Offsets32


@inline
def _copy(source: Bytes, source_start: Int, target: Bytes, target_start: Int, target_stop: Int) -> None:
    here = np.uint64(target_start)
    stop = np.uint64(target_stop)
    there = np.uint64(source_start)
    while here < stop:
        target[here] = source[there]
        here += np.uint64(1)
        there += np.uint64(1)


@kernel
def gather(window: Bytes, arena: Bytes, payloads: Ints, rows: Int, starts: Ints, offsets: Offsets32, target: Bytes) -> None:
    """Fill `target` with the bytes of every row, which start at starts[row] and go to target[offsets[row]:offsets[row + 1]]."""
    count = payloads.shape[1]
    for number in range(count):
        data = arena if payloads[IN_ARENA, number] else window
        last = payloads[FIRST_ROW, number + 1] if number + 1 < count else rows
        for row in range(payloads[FIRST_ROW, number], last):
            _copy(data, starts[row], target, offsets[row], offsets[row + 1])


@kernel
def measure_headers(window: Bytes, arena: Bytes, payloads: Ints, rows: Int, scratch: Ints) -> tuple[Int, Int, Int]:
    """(headers, bytes of their keys, bytes of their values) of all rows; `decode` has checked every length."""
    total = 0
    key_bytes = 0
    value_bytes = 0
    count = payloads.shape[1]
    for number in range(count):
        data = arena if payloads[IN_ARENA, number] else window
        last = payloads[FIRST_ROW, number + 1] if number + 1 < count else rows
        for row in range(payloads[FIRST_ROW, number], last):
            at = scratch[HEADERS_START, row]
            for _ in range(scratch[HEADERS_COUNT, row]):
                key_size, at = load_varint(data, at, data.shape[0])
                value_size, at = load_varint(data, at + key_size, data.shape[0])
                at += max(value_size, 0)
                total += 1
                key_bytes += key_size
                value_bytes += max(value_size, 0)
    return total, key_bytes, value_bytes


@kernel
def gather_headers(
    window: Bytes,
    arena: Bytes,
    payloads: Ints,
    rows: Int,
    scratch: Ints,
    list_offsets: Offsets32,
    key_offsets: Offsets32,
    keys: Bytes,
    value_offsets: Offsets32,
    values: Bytes,
    value_valid: Bytes,
) -> bool:
    """Fill the buffers of a list of (key, value); whether all keys are ASCII."""
    header = 0
    ascii_only = True
    list_offsets[0] = 0
    key_offsets[0] = 0
    value_offsets[0] = 0
    count = payloads.shape[1]
    for number in range(count):
        data = arena if payloads[IN_ARENA, number] else window
        last = payloads[FIRST_ROW, number + 1] if number + 1 < count else rows
        for row in range(payloads[FIRST_ROW, number], last):
            at = scratch[HEADERS_START, row]
            for _ in range(scratch[HEADERS_COUNT, row]):
                key_size, at = load_varint(data, at, data.shape[0])
                start = np.int64(key_offsets[header])
                for index in range(key_size):
                    byte = data[at + index]
                    keys[start + index] = byte
                    ascii_only = ascii_only and byte < 0x80
                key_offsets[header + 1] = start + key_size
                value_size, at = load_varint(data, at + key_size, data.shape[0])
                start = np.int64(value_offsets[header])
                _copy(data, at, values, start, start + max(value_size, 0))
                value_offsets[header + 1] = start + max(value_size, 0)
                value_valid[header] = value_size >= 0
                at += max(value_size, 0)
                header += 1
            list_offsets[row + 1] = header
    return ascii_only


@kernel
def check_messages(window: Bytes, starts: Ints, stops: Ints, crcs: Ints, valid: NDArray[np.bool_]) -> None:
    """Whether each v0/v1 message's stored CRC-32 fits window[start:stop]."""
    for index in range(starts.shape[0]):
        valid[index] = crc32(window, starts[index], stops[index]) == crcs[index]
