"""The dump of Kafka 0.8: one line per message, found by the rules of the old iterator.

An entry is 12 bytes of offset and size and then the message. A tail too short for either ends the file, and so does a size below
the smallest message; a size above the largest one allowed is an error. Only index files and logs existed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkalog.errors import LimitExceeded, UnsupportedFormat
from kafkalog.format import batch, message
from kafkalog.format.java import decode_utf8
from kafkalog.storage.store import ByteSource

from .messages import Message
from .options import MAX_BYTES, DumpOptions
from .place import Place
from .side_files import IndexDump, offset_entries

CODEC_NAMES = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec", "LZ4CompressionCodec")


@dataclass
class OldGaps:
    """Messages whose offset does not follow the one before; listed newest first."""

    pairs: list[tuple[int, int]] = field(default_factory=list)

    def lines(self, path: str) -> Iterator[str]:
        yield f"Non-secutive offsets in :{path}"  # the old tool's own spelling
        yield from (f"  {before} is followed by {offset}" for before, offset in reversed(self.pairs))


class OldSegmentDump:
    """The dump of one log; `gaps` is filled while lines are read."""

    def __init__(self, source: ByteSource, options: DumpOptions) -> None:
        self.source = source
        self.options = options
        self.max_message_size = MAX_BYTES if options.max_message_size is None else options.max_message_size
        self.stop = min(source.size, options.max_bytes)
        self.gaps = OldGaps()
        self.last_offset = -1

    def lines(self) -> Iterator[str]:
        position = 0
        while (stored := self._read(position)) is not None:
            for one, offset in self._messages(stored):
                self._note_gap(one, offset)
                yield self._line(one, offset, position)
            position += len(stored.stored)
        if position < self.stop:
            yield f"Found {self.stop - position} invalid bytes at the end of {os.path.basename(self.source.path)}\n"

    def first_offset_at(self, position: int) -> int:
        """The offset of the first message at `position`, inside a compressed one too."""
        stored = self._read(position)
        if stored is None or len(stored.stored) > self.options.index_slice_bytes:
            raise Place(self.source.path, position, 0).corrupt(
                "record-structure", detail="the index names this position, and no whole message begins there"
            )
        return (stored.inner()[0] if stored.codec else stored).offset

    def _read(self, position: int) -> Message | None:
        front = self.source.read(position, batch.LOG_OVERHEAD) if 0 <= position < self.stop else b""
        if len(front) < batch.LOG_OVERHEAD:
            return None
        size = int.from_bytes(front[message.MESSAGE_SIZE_POSITION :], "big", signed=True)
        if size < message.MIN_MESSAGE_SIZE:
            return None
        if size > self.max_message_size:
            expected = f"at most {self.max_message_size}"
            raise LimitExceeded("batch-limit", file=self.source.path, position=position, expected=expected, found=size)
        if size > self.stop - position - batch.LOG_OVERHEAD:
            return None
        place = Place(self.source.path, position, size + batch.LOG_OVERHEAD)
        stored = Message(place, self.source.read(position, place.size))
        if stored.magic not in (0, 1):
            detail = f"magic {stored.magic} is no message of Kafka 0.8"
            raise UnsupportedFormat("version", file=place.file, position=position, detail=detail)
        return stored

    def _messages(self, stored: Message) -> Iterator[tuple[Message, int]]:
        if not (self.options.deep_iteration and stored.codec):
            yield stored, stored.offset
            return
        inner = stored.inner()
        base = stored.base_of_set(inner[-1].offset)
        for one in inner:
            if one.codec:
                raise one.place.corrupt("nested")
            yield one, base + one.offset

    def _note_gap(self, one: Message, offset: int) -> None:
        if self.last_offset != -1 and not one.codec and offset != self.last_offset + 1:
            self.gaps.pairs.append((self.last_offset, offset))
        self.last_offset = offset

    def _line(self, one: Message, offset: int, position: int) -> str:
        (key_size, value_size), (key, value) = one.sizes(), one.content()
        if one.codec >= len(CODEC_NAMES):
            raise one.place.corrupt("codec-unknown", found=one.codec)
        text = (
            f"offset: {offset} position: {position} isvalid: {str(one.is_valid).lower()} payloadsize: {value_size} "
            f"magic: {one.magic} compresscodec: {CODEC_NAMES[one.codec]} crc: {one.crc}"
        )
        if key is not None:
            text += f" keysize: {key_size}"
        if self.options.prints_contents:
            if key is not None:
                text += f" key: {decode_utf8(key)}"
            text += f" payload: {'null' if value is None else decode_utf8(value)}"
        return text + "\n"


def old_index_lines(index: IndexDump) -> Iterator[str]:
    """The lines of an .index, each entry compared with the first message that it points to."""
    with index.open_log() as source:
        log = OldSegmentDump(source, index.options)
        for number, (offset, position) in enumerate(offset_entries(index.read(), index.base_offset)):
            found = log.first_offset_at(position)
            if found != offset:
                index.findings.index_mismatches.setdefault(index.file.absolute, {})[offset] = found
            if number and offset == index.base_offset:
                return
            if not index.options.verify_index_only:
                yield f"offset: {offset} position: {position}\n"
