"""Snappy, as raw blocks and in the framing of the Java library (called xerial).

    framed  = header { length:int32 block }          big-endian; another header may be where a length is expected
    header  = 82 'SNAPPY' 00  version:int32  oldest_compatible_version:int32
    block   = size:uvarint { literal | copy }        decompresses to exactly `size` bytes

Kafka's Java writers frame blocks of 32 KiB; other clients store one raw block. A payload that does not begin with the
magic is one raw block.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import cramjam

from kafkalog.errors import CodecError, OutputFull

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
BLOCK_SIZE = 32 << 10

# The densest element, a copy, turns 3 bytes into 64.
MAX_EXPANSION = 22

_decompress_raw_into = cramjam.snappy.decompress_raw_into
_int32 = Struct(">i")
_NEXT_HEADER = _int32.unpack(MAGIC[:4])[0]


def decompress(payload: Buffer, out: memoryview, magic: int) -> int:
    """The number of bytes written to `out`."""
    source = memoryview(payload).cast("B")
    if not is_framed(source):
        return _decompress_block(source, out)
    read_length = _int32.unpack_from
    written = 0
    position = len(HEADER)
    # As in Java, fewer than four bytes where a length is expected are the end.
    last = len(source) - 4
    while position <= last:
        length = read_length(source, position)[0]
        if length == _NEXT_HEADER:
            position = _skip_header(source, position)
            continue
        position += 4
        stop = position + length
        if length < 0 or stop > len(source):
            raise CodecError(f"snappy: block of {length} bytes where {len(source) - position} are left")
        written += _decompress_block(source[position:stop], out[written:])
        position = stop
    return written


def is_framed(source: memoryview) -> bool:
    """Whether a header and blocks follow; otherwise the payload is one raw block."""
    return len(source) >= len(HEADER) and source[: len(MAGIC)] == MAGIC


def _skip_header(source: memoryview, position: int) -> int:
    """Position after the header of another stream. Java checks only its version, and only after the right magic."""
    stop = position + len(HEADER)
    if stop > len(source):
        raise CodecError("snappy: another stream ends inside its header")
    if source[position : position + len(MAGIC)] == MAGIC and _int32.unpack_from(source, position + len(MAGIC))[0] < 1:
        raise CodecError("snappy: another stream has a version below 1")
    return stop


def _decompress_block(block: memoryview, out: memoryview) -> int:
    try:
        size: int = _decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        claimed = _claimed_size(block)
        if len(out) < claimed <= MAX_EXPANSION * len(block):
            raise OutputFull from None
        raise CodecError(f"snappy: {error}") from None
    if not block:
        raise CodecError("snappy: empty block")
    return size


def _claimed_size(block: memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    return -1


def compress(data: Buffer, level: int | None, magic: int) -> bytes:
    """`data` in blocks of 32 KiB, framed."""
    from kafkalog.kernels.snappy import compress as compress_block  # other libraries choose other copies than Kafka's

    source = memoryview(data).cast("B")
    parts = [HEADER]
    for start in range(0, len(source), BLOCK_SIZE):
        block = compress_block(source[start : start + BLOCK_SIZE])
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)
