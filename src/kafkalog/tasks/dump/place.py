"""Where an entry lies, for errors about it, and its payload decompressed within the limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalog import codecs
from kafkalog.errors import CodecError, CorruptBatch, LimitExceeded, Limits, OutputFull

FIRST_ROOM = 1 << 16


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of a file."""

    file: str
    position: int
    size: int

    def corrupt(self, reason: str, **what: Any) -> CorruptBatch:
        return CorruptBatch(reason, file=self.file, position=self.position, length=self.size, **what)

    def decompress(self, codec: int, payload: bytes, magic: int) -> bytes:
        """All that the payload of this entry decompresses to."""
        if codec == codecs.NONE:
            return payload
        limit, room = Limits().decompressed_bytes, FIRST_ROOM
        while True:
            target = bytearray(min(room, limit))
            try:
                size = codecs.decompress(codec, payload, memoryview(target), magic=magic)
                return bytes(memoryview(target)[:size])
            except OutputFull:
                if room >= limit:
                    expected = f"at most {limit} bytes"
                    raise LimitExceeded(
                        "decompressed-limit", file=self.file, position=self.position, length=self.size, expected=expected
                    ) from None
                room *= 8
            except CodecError as error:
                raise self.corrupt(error.reason, detail=str(error)) from error
