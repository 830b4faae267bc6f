"""The first 17 bytes of an entry of any magic: enough to know what it is and where the next one begins.

    front := offset int64                    base offset of a batch, offset of a message
             size int32                      bytes after this field, at least 14; a batch calls it its length
             crc_or_leader_epoch uint32      CRC of a message, leader epoch of a batch
             magic int8

Readers look at it before they know that the bytes are an entry at all, so nothing here raises.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np

from . import batch, message
from .java import MAX_INT8, as_int64

FRONT: Final = np.dtype([("offset", ">i8"), ("size", ">i4"), ("crc_or_leader_epoch", ">u4"), ("magic", "i1")])
FRONT_SIZE: Final = FRONT.itemsize
SMALLEST_ENTRY: Final = batch.LOG_OVERHEAD + message.MIN_MESSAGE_SIZE

# The magic is unsigned here: one comparison then finds every unknown one.
_FRONT = struct.Struct(">qi4xB")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_OFFSET_AND_LENGTH = struct.Struct(">qi")
assert _FRONT.size == FRONT_SIZE == batch.MAGIC_POSITION + 1 == message.MAGIC_POSITION + 1
assert _OFFSET_AND_LENGTH.size == batch.LOG_OVERHEAD


class EntryFront(NamedTuple):
    """The fields that every entry begins with."""

    offset: int
    length: int
    magic: int

    @property
    def size(self) -> int:
        """Bytes of the whole entry."""
        return self.length + batch.LOG_OVERHEAD


def peek_front(data: bytes | memoryview, position: int = 0) -> EntryFront | None:
    """The front of the entry at `position`; None if `data` ends within it."""
    return EntryFront(*_FRONT.unpack_from(data, position)) if len(data) - position >= FRONT_SIZE else None


def peek_crc(data: bytes | memoryview, magic: int) -> int:
    """The stored checksum of the entry at the start of `data`."""
    crc: int = _UINT32.unpack_from(data, batch.CRC_POSITION if magic >= batch.MAX_MAGIC else message.CRC_POSITION)[0]
    return crc


def peek_last_offset(data: bytes | memoryview) -> int:
    """The last offset of the entry at the start of `data`, added as Java adds; the stored offset of a message is its last."""
    offset, _, magic = _FRONT.unpack_from(data)
    if not batch.MAX_MAGIC <= magic <= MAX_INT8:
        return int(offset)
    return as_int64(offset + _INT32.unpack_from(data, batch.LAST_OFFSET_DELTA_POSITION)[0])


def peek_length(data: bytes | memoryview, position: int = 0) -> int | None:
    """The length of the entry at `position`; None if `data` ends before or within it."""
    if len(data) - position < batch.LOG_OVERHEAD:
        return None
    length: int = _OFFSET_AND_LENGTH.unpack_from(data, position)[1]
    return length
