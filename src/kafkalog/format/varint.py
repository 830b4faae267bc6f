"""Variable-length integers: seven bits per byte, lowest first; the top bit says that more follow.

    uvarint   unsigned, 32 bits, at most 5 bytes
    varint    signed, 32 bits: zig-zag (0, -1, 1, -2 become 0, 1, 2, 3), then uvarint
    varlong   signed, 64 bits: zig-zag, at most 10 bytes

Decoders behave as Kafka's: more bytes than needed are accepted, bits above the width are dropped, a top bit on the last byte
allowed is an error. Each returns the value and the position after it, and raises CorruptBatch: `varint` if it is too long,
`record-structure` if the data ends inside it.
"""

from __future__ import annotations

from typing import Final

from kafkalog.errors import CorruptBatch

MAX_VARINT_SIZE: Final = 5
MAX_VARLONG_SIZE: Final = 10

Bytes = bytes | bytearray | memoryview


def encode_uvarint(value: int) -> bytes:
    """`value` (0 to 2**64 - 1) in as few bytes as possible."""
    assert 0 <= value < 1 << 64, value
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_varint(value: int) -> bytes:
    """`value` (32 bits, signed) in as few bytes as possible."""
    assert -(1 << 31) <= value < 1 << 31, value
    return encode_uvarint((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """`value` (64 bits, signed) in as few bytes as possible."""
    assert -(1 << 63) <= value < 1 << 63, value
    return encode_uvarint((value << 1) ^ (value >> 63))


def decode_uvarint(data: Bytes, position: int, stop: int | None = None) -> tuple[int, int]:
    """The unsigned 32-bit integer at `position`, and the position after it; `stop` defaults to the end of the data."""
    groups, position = _decode_groups(data, position, stop, MAX_VARINT_SIZE)
    return groups & 0xFFFF_FFFF, position


def decode_varint(data: Bytes, position: int, stop: int | None = None) -> tuple[int, int]:
    """The signed 32-bit integer at `position`, and the position after it."""
    groups, position = decode_uvarint(data, position, stop)
    return (groups >> 1) ^ -(groups & 1), position


def decode_varlong(data: Bytes, position: int, stop: int | None = None) -> tuple[int, int]:
    """The signed 64-bit integer at `position`, and the position after it."""
    groups, position = _decode_groups(data, position, stop, MAX_VARLONG_SIZE)
    groups &= 0xFFFF_FFFF_FFFF_FFFF
    return (groups >> 1) ^ -(groups & 1), position


def _decode_groups(data: Bytes, start: int, stop: int | None, max_size: int) -> tuple[int, int]:
    stop = len(data) if stop is None else stop
    groups = 0
    for size in range(max_size):
        position = start + size
        if position >= stop:
            raise CorruptBatch("record-structure", position=start, detail="the data ends inside a variable-length integer")
        byte = data[position]
        groups |= (byte & 0x7F) << 7 * size
        if byte < 0x80:
            return groups, position + 1
    raise CorruptBatch("varint", position=start, expected=f"at most {max_size} bytes", found="more")


def size_of_uvarint(value: int) -> int:
    """How many bytes encode_uvarint needs."""
    return max(1, (value.bit_length() + 6) // 7)


def size_of_varint(value: int) -> int:
    """How many bytes encode_varint needs."""
    return size_of_uvarint((value << 1) ^ (value >> 31))


def size_of_varlong(value: int) -> int:
    """How many bytes encode_varlong needs."""
    return size_of_uvarint((value << 1) ^ (value >> 63))
