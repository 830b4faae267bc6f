"""The part of a damaged payload that Kafka's own streams return before they fail.

A broker reads records as they come out of the stream, so it may find one of them bad, or have read them all, before it reaches
the damage; which of the two happens decides how it refuses a batch. Streams return the output of whole calls of the decompressor:
the output of the call that fails is lost.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from zstandard import ZstdDecompressor, ZstdError

from kafkalog.errors import CodecError

from . import GZIP, LZ4, SNAPPY, gzip, lz4, snappy, zstd

if TYPE_CHECKING:
    from typing_extensions import Buffer

# What a stream does after that part. CLOSED: it fails before it can be read from. ENDS: a truncated zstd frame after a whole one
# counts as the end. BREAKS: a snappy block of absurd size causes an Error, which nobody catches.
CLOSED, FAILS, ENDS, BREAKS = "closed", "fails", "ends", "breaks"

# Sizes of Kafka's calls: compressed bytes passed to Java's inflater, and bytes requested of each stream at a time.
_INFLATER_INPUT = 8 << 10
_GZIP_OUTPUT = _ZSTD_OUTPUT = 16 << 10
_SNAPPY_OUTPUT = 2 << 10
_MAX_SNAPPY_CHUNK = 512 << 20


class Part(NamedTuple):
    """The output before the stream fails, and how it fails."""

    data: bytes
    failure: str = FAILS


def decompressed_part(codec: int, payload: Buffer, *, magic: int = 2) -> Part:
    """The output of Kafka's stream for a payload that `decompress` has refused."""
    source = memoryview(payload).cast("B")
    if codec == GZIP:
        return Part(_part_of_gzip(source)) if gzip.header_end(source, 0) >= 0 else Part(b"", CLOSED)
    if codec == SNAPPY:
        return _part_of_snappy(source) if snappy.is_framed(source) else Part(b"", CLOSED)
    if codec == LZ4:
        return Part(_part_of_lz4(source, magic)) if lz4.has_valid_header(source, magic) else Part(b"", CLOSED)
    return _part_of_zstd(source)


def _part_of_gzip(source: memoryview) -> bytes:
    part = bytearray()
    position = gzip.header_end(source, 0)
    while position >= 0:
        position = _inflate(source, position, part)
        if position >= 0:
            position = gzip.header_end(source, position)
    return bytes(part)


def _inflate(source: memoryview, position: int, part: bytearray) -> int:
    """Append the output of a member to `part`; the position after the member, -1 if it is damaged."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    pending: Buffer = b""
    start = len(part)
    while not inflater.eof:
        if not pending:
            pending = source[position : position + _INFLATER_INPUT]
            position += len(pending)
            if not len(pending):
                return -1
        try:
            part += inflater.decompress(pending, _GZIP_OUTPUT)
        except zlib.error:
            return -1
        pending = inflater.unconsumed_tail
    position -= len(inflater.unused_data)
    expected = gzip.TRAILER.pack(zlib.crc32(part[start:]), (len(part) - start) & 0xFFFF_FFFF)
    return position + gzip.TRAILER.size if source[position : position + gzip.TRAILER.size] == expected else -1


def _part_of_snappy(source: memoryview) -> Part:
    part = bytearray()
    position = len(snappy.HEADER)
    failure = FAILS
    while position + 4 <= len(source):
        if source[position : position + 4] == snappy.MAGIC[:4]:
            position += len(snappy.HEADER)
            continue
        size = int.from_bytes(source[position : position + 4], "big", signed=True)
        position += 4
        if not 0 <= size <= _MAX_SNAPPY_CHUNK:
            failure = BREAKS
            break
        try:
            part += _block(source[position : position + size])
        except CodecError:
            break
        position += size
    return Part(bytes(part[: len(part) // _SNAPPY_OUTPUT * _SNAPPY_OUTPUT]), failure)


def _block(block: memoryview) -> bytes:
    out = bytearray(snappy.MAX_EXPANSION * len(block))
    return bytes(out[: snappy.decompress(block, memoryview(out), 2)])


def _part_of_lz4(source: memoryview, magic: int) -> bytes:
    """The output of whole blocks: the frame is tried with one block less each time."""
    stops = lz4.block_stops(source, magic)
    for stop in reversed(stops):
        frame = bytes(source[:stop]) + 2 * lz4.END
        out = bytearray(lz4.MAX_BLOCK_SIZE * len(stops))
        try:
            return bytes(out[: lz4.decompress(frame, memoryview(out), magic)])
        except CodecError:
            continue
    return b""


def _part_of_zstd(source: memoryview) -> Part:
    part = bytearray()
    rest = bytes(source)
    is_first = True
    while rest:
        inflater = ZstdDecompressor(max_window_size=zstd.MAX_WINDOW_SIZE).decompressobj()
        try:
            part += inflater.decompress(rest)
        except ZstdError:
            return Part(bytes(part + _whole_calls(rest)))
        if not inflater.eof:
            return Part(bytes(part), FAILS if is_first else ENDS)
        rest = inflater.unused_data
        is_first = False
    return Part(bytes(part), ENDS)


def _whole_calls(frame: bytes) -> bytes:
    part = bytearray()
    reader = ZstdDecompressor(max_window_size=zstd.MAX_WINDOW_SIZE).stream_reader(frame)
    try:
        while content := reader.read(_ZSTD_OUTPUT):
            part += content
    except ZstdError:
        pass
    return bytes(part)
