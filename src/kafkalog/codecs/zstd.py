"""A sequence of Zstandard frames (RFC 8878).

    frame     = 28b52ffd descriptor:1 [window:1] [dictionary:0-4] [content_size:0-8] { block } [checksum:4]
    block     = header:3 (little-endian: last:1 type:2 size:21) bytes
    skippable = 5?2a4d18 size:uint32 bytes

The frames are walked before anything is decompressed: that is the only way to detect a truncated payload, because the library's
reader ends silently there. Kafka's reader is more lenient: it takes a truncated frame after a whole one for the end.
"""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING

from zstandard import COMPRESSOBJ_FLUSH_BLOCK, ZstdCompressor, ZstdDecompressor, ZstdError

from kafkalog.errors import CodecError, OutputFull

if TYPE_CHECKING:
    from typing_extensions import Buffer

DEFAULT_LEVEL = 3

# The largest window that Kafka's reader accepts by default, 128 MiB.
MAX_WINDOW_SIZE = 1 << 27

_FRAME_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_BLOCK_TYPE, _REPEATED_BYTE = 0b110, 0b010
_CHECKSUM_FLAG, _CHECKSUM_BYTES = 0b100, 4

_read_start = struct.Struct("<IB").unpack_from


def _header_size(descriptor: int) -> int:
    """Bytes of a frame header with this descriptor, magic included."""
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    return 6 - single_segment + dictionary_bytes + content_size_bytes


_HEADER_SIZES = tuple(map(_header_size, range(256)))


class _ThreadState(threading.local):
    """These objects can be used by one thread at a time, and creating one costs as much as a batch."""

    def __init__(self) -> None:
        self.decompressor = ZstdDecompressor(max_window_size=MAX_WINDOW_SIZE)
        self.compressors: dict[int, ZstdCompressor] = {}


_thread = _ThreadState()


def decompress(payload: Buffer, out: memoryview, magic: int) -> int:
    """The number of bytes written to `out`."""
    source = memoryview(payload).cast("B")
    position = 0
    try:
        while position < len(source):
            position = _frame_end(source, position)
    except (IndexError, struct.error):
        position = len(source) + 1
    if position > len(source):
        raise CodecError("zstd: the payload ends inside a frame")
    try:
        reader = _thread.decompressor.stream_reader(source, read_across_frames=True)
        written: int = reader.readinto(out) if len(out) else 0
        if written == len(out) and reader.read(1):
            raise OutputFull
    except ZstdError as error:
        raise CodecError(f"zstd: {error}") from None
    return written


def _frame_end(source: memoryview, start: int) -> int:
    """Position after the frame that begins at `start`."""
    frame_magic, descriptor = _read_start(source, start)
    if frame_magic & ~0xF == _SKIPPABLE_MAGIC:
        return start + 8 + int.from_bytes(source[start + 4 : start + 8], "little")
    if frame_magic != _FRAME_MAGIC:
        raise CodecError(f"zstd: no frame begins at byte {start}")
    position: int = start + _HEADER_SIZES[descriptor]
    last = 0
    while not last:
        header = source[position] | source[position + 1] << 8 | source[position + 2] << 16
        last = header & 1
        position += 4 if header & _BLOCK_TYPE == _REPEATED_BYTE else 3 + (header >> 3)
    return position + (_CHECKSUM_BYTES if descriptor & _CHECKSUM_FLAG else 0)


def compress(data: Buffer, level: int | None, magic: int) -> bytes:
    """`data` as one frame of Kafka's writer: no content size, no checksum, and an empty block at the end."""
    key = DEFAULT_LEVEL if level is None else level
    compressor = _thread.compressors.get(key)
    if compressor is None:
        compressor = _thread.compressors[key] = ZstdCompressor(level=key, write_content_size=False)
    stream = compressor.compressobj()
    return stream.compress(memoryview(data)) + stream.flush(COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()
