"""Copy keys, values and headers from where they lie into the buffers of Arrow columns, once; check the sums of messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import copy_bytes, kernel
from .bytes import Bytes, Int, Ints, load_varint
from .crc import crc32
from .decode import FIRST_ROW, IN_ARENA, Offsets32


@kernel
def gather(window: Bytes, arena: Bytes, payloads: Ints, rows: Int, starts: Ints, offsets: Offsets32, target: Bytes) -> None:
    """Fill `target` with the bytes of every row, which start at starts[row] and go to target[offsets[row]:offsets[row + 1]]."""
    count = payloads.shape[1]
    for number in range(count):
        data = arena if payloads[IN_ARENA, number] else window
        last = payloads[FIRST_ROW, number + 1] if number + 1 < count else rows
        for row in range(payloads[FIRST_ROW, number], last):
            copy_bytes(data, starts[row], target, offsets[row], offsets[row + 1] - offsets[row])


@kernel
def gather_headers(
    window: Bytes,
    arena: Bytes,
    payloads: Ints,
    rows: Int,
    starts: Ints,
    counts: Ints,
    list_offsets: Offsets32,
    key_offsets: Offsets32,
    keys: Bytes,
    value_offsets: Offsets32,
    values: Bytes,
    value_valid: Bytes,
) -> tuple[Int, Any]:
    """(headers, whether all keys are ASCII), with the buffers of a list of (key, value) filled."""
    header = 0
    high_bits = np.uint8(0)
    key_bytes = np.int64(0)
    value_bytes = np.int64(0)
    list_offsets[0] = 0
    key_offsets[0] = 0
    value_offsets[0] = 0
    count = payloads.shape[1]
    for number in range(count):
        data = arena if payloads[IN_ARENA, number] else window
        last = payloads[FIRST_ROW, number + 1] if number + 1 < count else rows
        for row in range(payloads[FIRST_ROW, number], last):
            at = starts[row]
            for _ in range(counts[row]):
                size, at = load_varint(data, at, data.shape[0])
                for index in range(size):
                    byte = data[at + index]
                    keys[key_bytes + index] = byte
                    high_bits |= byte
                at += size
                key_bytes += size
                size, at = load_varint(data, at, data.shape[0])
                value_valid[header] = size >= 0
                size = max(size, 0)
                copy_bytes(data, at, values, value_bytes, size)
                at += size
                value_bytes += size
                header += 1
                key_offsets[header] = key_bytes
                value_offsets[header] = value_bytes
            list_offsets[row + 1] = header
    return header, high_bits < 0x80


@kernel
def check_messages(window: Bytes, starts: Ints, stops: Ints, crcs: Ints, valid: NDArray[np.bool_]) -> None:
    """Whether each v0/v1 message's stored CRC-32 fits window[start:stop]."""
    for index in range(starts.shape[0]):
        valid[index] = crc32(window, starts[index], stops[index]) == crcs[index]
