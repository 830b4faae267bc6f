"""LZ4 frames, read with the rules of Kafka's own frame reader and written as Kafka's own writer does.

    frame      = 04224d18 descriptor { block } end [content_checksum:uint32]      little-endian
    descriptor = flags:1 block_descriptor:1 [content_size:uint64] header_checksum:1
    flags      = version:2 (01)  independent:1 (1)  block_checksum:1  content_size:1  content_checksum:1  reserved:2 (00)
    block_desc = reserved:1 (0)  max_block:3 (4..7 = 64 KiB, 256 KiB, 1 MiB, 4 MiB)  reserved:4 (0000)
    block      = size:uint32 (top bit: stored as is) bytes [xxh32:uint32]
    end        = a size of 0

The header checksum is the second byte of xxh32(descriptor). Kafka before 0.10 hashed the frame's magic along with it, so
since KIP-57 it is written in that broken way, and not checked, in messages of magic 0; from magic 1 on it must be right.
Block checksums are verified, content size and content checksum are skipped, and bytes after the frame are ignored.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

import cramjam
import lz4.block
import lz4.frame

from kafkalog.errors import CodecError, OutputFull

if TYPE_CHECKING:
    from typing_extensions import Buffer

FRAME_MAGIC = b"\x04\x22\x4d\x18"
HEADER = FRAME_MAGIC + b"\x60\x40\x82"
BROKEN_HEADER = FRAME_MAGIC + b"\x60\x40\x1a"
END = b"\x00\x00\x00\x00"
BLOCK_SIZE = 64 << 10
MAX_BLOCK_SIZE = 4 << 20

_STORED = 0x8000_0000
_SIZE = 0x7FFF_FFFF
_LONGEST_HEADER = 15
# Most batches are one block in a frame as Kafka writes it: header, size, block, end.
_BLOCK_START = len(HEADER) + 4
_ONE_BLOCK = _BLOCK_START + len(END)
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x10, 0x08, 0x04

_decompress_block_into = cramjam.lz4.decompress_block_into
_uint32 = struct.Struct("<I")
_read_start = struct.Struct("<7sI").unpack_from
_read_size = _uint32.unpack_from


def decompress(payload: Buffer, out: memoryview, magic: int) -> int:
    """The number of bytes written to `out`."""
    source = memoryview(payload).cast("B")
    try:
        header, size = _read_start(source)
        if header == HEADER and len(source) == _ONE_BLOCK + size and size <= BLOCK_SIZE and source[-4:] == END:
            return _read_block(source[_BLOCK_START : _BLOCK_START + size], size, out[:BLOCK_SIZE], BLOCK_SIZE)
        position, block_size, flags = len(HEADER), BLOCK_SIZE, 0
        if header != HEADER:
            if header[4] & _CONTENT_SIZE:
                header = bytes(source[:_LONGEST_HEADER])
            position, block_size, flags = _read_descriptor(header, magic)
            size = _read_size(source, position)[0]
        written = 0
        while size & _SIZE:
            start = position + 4
            stop = start + (size & _SIZE)
            if stop > len(source) or stop - start > block_size:
                raise CodecError(f"lz4: a block of {stop - start} bytes; allowed {block_size}, left {len(source) - start}")
            if flags & _BLOCK_CHECKSUM:
                _verify_block(source[position : stop + 4], stop - start, block_size)
            written += _read_block(source[start:stop], size, out[written : written + block_size], block_size)
            position = stop + 4 if flags & _BLOCK_CHECKSUM else stop
            size = _read_size(source, position)[0]
        if flags & _CONTENT_CHECKSUM:
            _read_size(source, position + 4)
    except struct.error:
        raise CodecError("lz4: the payload ends inside the frame") from None
    return written


def has_valid_header(source: memoryview, magic: int) -> bool:
    """Whether a frame begins here."""
    try:
        _read_descriptor(bytes(source[:_LONGEST_HEADER]), magic)
    except (CodecError, IndexError):
        return False
    return True


def block_stops(source: memoryview, magic: int) -> list[int]:
    """Where each whole block of a frame with a valid header ends, up to the first impossible size."""
    stops = []
    position, block_size, flags = _read_descriptor(bytes(source[:_LONGEST_HEADER]), magic)
    try:
        while size := _read_size(source, position)[0] & _SIZE:
            position += 4 + size + (4 if flags & _BLOCK_CHECKSUM else 0)
            if position > len(source) or size > block_size:
                break
            stops.append(position)
    except struct.error:
        pass
    return stops


def _read_block(block: memoryview, size: int, target: memoryview, block_size: int) -> int:
    """The number of bytes written to `target`, which has room for the largest block unless the output ends earlier."""
    if size & _STORED:
        if len(block) > len(target):
            raise OutputFull
        target[: len(block)] = block
        return len(block)
    try:
        written: int = _decompress_block_into(block, target)
    except cramjam.DecompressionError as error:
        if len(target) < block_size and _fits(block, block_size):
            raise OutputFull from None
        raise CodecError(f"lz4: {error}") from None
    return written


def _fits(block: memoryview, block_size: int) -> bool:
    try:
        _decompress_block_into(block, memoryview(bytearray(block_size)))
    except cramjam.DecompressionError:
        return False
    return True


@lru_cache(maxsize=64)
def _read_descriptor(header: bytes, magic: int) -> tuple[int, int, int]:
    """Position after the header, largest block size and flags of a frame that begins with `header`."""
    if header[:4] != FRAME_MAGIC:
        raise CodecError(f"lz4: a frame begins with {FRAME_MAGIC.hex()}, not with {header[:4].hex()}")
    flags, block_descriptor = header[4], header[5]
    if flags & 0b1110_0011 != 0b0110_0000:
        raise CodecError(f"lz4: frame flags {flags:#04x} are not version 1 with independent blocks")
    block_size_id = block_descriptor >> 4
    if block_descriptor & 0b1000_1111 or block_size_id < 4:
        raise CodecError(f"lz4: block descriptor {block_descriptor:#04x} names no block size")
    position = len(HEADER) + (8 if flags & _CONTENT_SIZE else 0)
    if position > len(header):
        raise CodecError("lz4: the frame ends inside its header")
    if magic > 0 and header[position - 1] != _header_checksum(header[4 : position - 1]):
        raise CodecError("lz4: the header checksum does not match the header")
    return position, 1 << (8 + 2 * block_size_id), flags


def _header_checksum(descriptor: bytes) -> int:
    """The second byte of xxh32 over the 2 or 10 bytes of a descriptor."""
    mask = 0xFFFF_FFFF
    prime_1, prime_2, prime_3, prime_4, prime_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    words = len(descriptor) // 4 * 4
    checksum = prime_5 + len(descriptor)
    for (word,) in _uint32.iter_unpack(descriptor[:words]):
        checksum = (checksum + word * prime_3) & mask
        checksum = ((checksum << 17 | checksum >> 15) * prime_4) & mask
    for byte in descriptor[words:]:
        checksum = (checksum + byte * prime_5) & mask
        checksum = ((checksum << 11 | checksum >> 21) * prime_1) & mask
    checksum = ((checksum ^ checksum >> 15) * prime_2) & mask
    checksum = ((checksum ^ checksum >> 13) * prime_3) & mask
    return (checksum ^ checksum >> 16) >> 8 & 0xFF


def _verify_block(block: memoryview, stored_bytes: int, block_size: int) -> None:
    """Pass a block with its size and checksum to liblz4 as a frame of its own: that library checks xxh32 only in frames."""
    if len(block) != stored_bytes + 8:
        raise CodecError("lz4: a block checksum is missing")
    descriptor = bytes((0x60 | _BLOCK_CHECKSUM, (block_size.bit_length() - 9) // 2 << 4))
    frame = b"".join((FRAME_MAGIC, descriptor, bytes((_header_checksum(descriptor),)), block, END))
    try:
        lz4.frame.LZ4FrameDecompressor().decompress(frame, max_length=block_size + 1)
    except RuntimeError as error:
        raise CodecError(f"lz4: {error}") from None


def compress(data: Buffer, level: int | None, magic: int) -> bytes:
    """`data` in independent blocks of 64 KiB, without checksums or content size."""
    source = memoryview(data).cast("B")
    parts: list[Buffer] = [BROKEN_HEADER if magic == 0 else HEADER]
    for start in range(0, len(source), BLOCK_SIZE):
        raw = source[start : start + BLOCK_SIZE]
        block = _compress_block(raw, level)
        if len(block) < len(raw):
            parts += (_uint32.pack(len(block)), block)
        else:
            parts += (_uint32.pack(len(raw) | _STORED), raw)
    parts.append(END)
    return b"".join(parts)


def _compress_block(raw: memoryview, level: int | None) -> bytes:
    if level is None:  # the same bytes as Kafka's library; the package lz4 bundles an older one with other bytes
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    if level <= 2:  # one compressor for both levels, new in Kafka's library; of the packages only Arrow has it
        import pyarrow

        return bytes(pyarrow.Codec("lz4_raw", compression_level=2).compress(raw, asbytes=True))
    return bytes(lz4.block.compress(raw, mode="high_compression", compression=level, store_size=False))
