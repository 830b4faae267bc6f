"""Gzip (RFC 1952), read with the rules of Java's `GZIPInputStream`.

    payload = member { member } [anything]
    member  = 1f8b 08 flags:1 mtime:4 extra_flags:1 system:1 [extra] [name] [comment] [header_crc:2] deflate crc32:4 size:4

CRC and size of every member are verified. Bytes after a member that are not the header of another one are ignored.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING, cast

from isal import isal_zlib

from kafkalog.errors import CodecError, OutputFull

if TYPE_CHECKING:
    from typing_extensions import Buffer

# What Java 16 and later write: no name, no time, unknown system.
HEADER = bytes.fromhex("1f8b08000000000000ff")
TRAILER = Struct("<II")

_MEMBER_START = HEADER[:3]
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10
_RAW_DEFLATE = -15
_InflateError = cast(type[Exception], isal_zlib.IsalError)

# Input and output of one call, so that a bomb needs no more memory than this besides the target.
_SLICE = 1 << 20


def decompress(payload: Buffer, out: memoryview, magic: int) -> int:
    """The number of bytes written to `out`."""
    source = memoryview(payload).cast("B")
    position = header_end(source, 0)
    if position < 0:
        raise CodecError("gzip: the payload does not begin with a whole gzip header")
    written = 0
    while position > 0:
        size, position = _inflate(source, position, out[written:])
        written += size
        # As Java does: the rest is another member only if it begins like one and could hold one.
        position = header_end(source, position) if len(source) - position > len(HEADER) + TRAILER.size else -1
    return written


def header_end(source: memoryview, start: int) -> int:
    """Position of the deflate stream of the member at `start`, or -1 where no member begins."""
    position = start + len(HEADER)
    if position > len(source) or source[start : start + 3] != _MEMBER_START:
        return -1
    flags = source[start + 3]
    if flags & _EXTRA:
        position += 2 + int.from_bytes(source[position : position + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            position = _text_end(source, position)
    if flags & _HEADER_CRC:
        crc = isal_zlib.crc32(source[start:position]) & 0xFFFF
        if crc != int.from_bytes(source[position : position + 2], "little"):
            return -1
        position += 2
    return position if position <= len(source) else -1


def _text_end(source: memoryview, position: int) -> int:
    while position < len(source):
        if source[position] == 0:
            return position + 1
        position += 1
    return position + 1


def _inflate(source: memoryview, position: int, out: memoryview) -> tuple[int, int]:
    """How many bytes the member with its deflate stream at `position` gave, and the position after the member."""
    inflater = isal_zlib.decompressobj(_RAW_DEFLATE)
    written = 0
    try:
        while not inflater.eof:
            pending: Buffer = inflater.unconsumed_tail
            if not pending:
                pending = source[position : position + _SLICE]
                position += len(pending)
            # One byte more than there is room for distinguishes a full buffer from one that is too small.
            part = inflater.decompress(pending, min(len(out) - written + 1, _SLICE))
            size = len(part)
            if size > len(out) - written:
                raise OutputFull
            out[written : written + size] = part
            written += size
            if not size and not pending:
                raise CodecError("gzip: the payload ends inside a member")
    except _InflateError as error:
        raise CodecError(f"gzip: {error}") from None
    position -= len(inflater.unused_data)
    if position + TRAILER.size > len(source):
        raise CodecError("gzip: the payload ends inside a member")
    crc, size = TRAILER.unpack_from(source, position)
    if crc != isal_zlib.crc32(out[:written]) or size != written & 0xFFFF_FFFF:
        raise CodecError("gzip: the checksum or size of a member does not match its bytes")
    return written, position + TRAILER.size


def compress(data: Buffer, level: int | None, magic: int) -> bytes:
    """`data` as one member without name and time."""
    deflater = zlib.compressobj(-1 if level is None else level, wbits=_RAW_DEFLATE)
    deflated = (deflater.compress(data), deflater.flush())
    size = memoryview(data).nbytes & 0xFFFF_FFFF
    return b"".join((HEADER, *deflated, TRAILER.pack(zlib.crc32(data), size)))
