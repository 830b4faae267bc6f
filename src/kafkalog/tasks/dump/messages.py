"""A v0 or v1 message in plain Python, read as Kafka's dump tools read it: lengths are followed, checksums only reported."""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from kafkalog.format import batch, message

from .place import Place

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")


@dataclass(frozen=True)
class Message:
    """The bytes of one message, of an entry or inside one."""

    place: Place
    stored: bytes

    @property
    def offset(self) -> int:
        """As stored: inside a v1 set it is relative."""
        (offset,) = _INT64.unpack_from(self.stored)
        return int(offset)

    @property
    def magic(self) -> int:
        """Signed, as Kafka reads it."""
        magic = self.stored[message.MAGIC_POSITION]
        return magic - 256 if magic > 127 else magic

    @property
    def attributes(self) -> int:
        return self.stored[message.ATTRIBUTES_POSITION]

    @property
    def codec(self) -> int:
        return self.attributes & batch.CODEC_MASK

    @property
    def crc(self) -> int:
        (crc,) = struct.unpack_from(">I", self.stored, message.CRC_POSITION)
        return int(crc)

    @property
    def is_valid(self) -> bool:
        return zlib.crc32(self.stored[message.CRC_START :]) == self.crc

    @property
    def timestamp(self) -> int:
        if self.magic == 0:
            return -1
        if len(self.stored) < message.TIMESTAMP_POSITION + 8:
            raise self.place.corrupt("record-structure", detail="the message ends before its timestamp")
        (timestamp,) = _INT64.unpack_from(self.stored, message.TIMESTAMP_POSITION)
        return int(timestamp)

    def sizes(self) -> tuple[int, int]:
        """The stored sizes of key and value; any negative one means null."""
        key_size = self._size_at(self._key_size_position)
        return key_size, self._size_at(self._value_size_position(key_size))

    def content(self) -> tuple[bytes | None, bytes | None]:
        """Key and value."""
        key_size, value_size = self.sizes()
        key = self._take(self._key_size_position + 4, key_size)
        return key, self._take(self._value_size_position(key_size) + 4, value_size)

    @property
    def _key_size_position(self) -> int:
        return message.KEY_LENGTH_POSITION_V0 if self.magic == 0 else message.KEY_LENGTH_POSITION_V1

    def _value_size_position(self, key_size: int) -> int:
        return self._key_size_position + 4 + max(key_size, 0)

    def _size_at(self, position: int) -> int:
        if position + 4 > len(self.stored):
            raise self.place.corrupt("record-structure", detail="the message ends before its value")
        (size,) = _INT32.unpack_from(self.stored, position)
        return int(size)

    def _take(self, start: int, size: int) -> bytes | None:
        if size > len(self.stored) - start:
            raise self.place.corrupt("record-structure", detail=f"a key or value of {size} bytes does not fit its message")
        return None if size < 0 else self.stored[start : start + size]

    def inner(self) -> InnerMessages:
        """The messages of a compressed one, at least one."""
        _, value = self.content()
        if value is None:
            raise self.place.corrupt("record-structure", detail="a compressed message without a value")
        content = self.place.decompress(self.codec, value, self.magic)
        starts = array("q", self._starts(content))
        if not starts:
            raise self.place.corrupt("count", detail="a compressed message with no messages in it")
        return InnerMessages(self.place, content, starts)

    def _starts(self, content: bytes) -> Iterator[int]:
        """Where the inner messages begin. A message cut short ends the set without an error."""
        position = 0
        while position + batch.LOG_OVERHEAD <= len(content):
            (size,) = _INT32.unpack_from(content, position + message.MESSAGE_SIZE_POSITION)
            if size < message.MIN_MESSAGE_SIZE:
                raise self.place.corrupt("length", found=size, detail="inside a compressed message")
            stop = position + batch.LOG_OVERHEAD + size
            if stop > len(content):
                return
            yield position
            position = stop

    def base_of_set(self, last_inner: int) -> int:
        """What to add to each inner offset."""
        if self.magic == 0 or self.offset == 0:
            return 0
        if self.offset < last_inner:
            raise self.place.corrupt("offset-range", expected=f"at most {self.offset}", found=last_inner)
        return self.offset - last_inner


class InnerMessages(Sequence[Message]):
    """The messages of a set, each made when it is asked for: there can be millions."""

    def __init__(self, place: Place, content: bytes, starts: array[int]) -> None:
        self.place = place
        self.content = content
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, number: int) -> Message: ...
    @overload
    def __getitem__(self, number: slice) -> list[Message]: ...
    def __getitem__(self, number: int | slice) -> Message | list[Message]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        start = self.starts[number]
        (size,) = _INT32.unpack_from(self.content, start + message.MESSAGE_SIZE_POSITION)
        return Message(self.place, self.content[start : start + batch.LOG_OVERHEAD + size])
