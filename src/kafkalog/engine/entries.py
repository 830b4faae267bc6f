"""Entries as the partition log handles them: one v2 batch or one v0 or v1 message in a buffer, with its header parsed.

`iter_entries` walks a set as brokers walk what clients and leaders send: a size below the minimum raises CorruptRecord, an
incomplete entry at the end stops the walk. Iterating over an entry yields its records (`entry_records.py`). The setters write
into the buffer, which must then be a bytearray or a view of one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

from crc32c import crc32c

from kafkalog.errors import CorruptRecord, InvalidArgument, InvalidRecord, InvalidState, LogRefusal
from kafkalog.format import batch, message
from kafkalog.format.batch import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, last_sequence

from .entry_records import Content, Record, decompressed, iter_batch_records

Buffer = bytes | bytearray | memoryview


FRONT_SIZE: Final = batch.MAGIC_POSITION + 1

_FRONT = struct.Struct(">qi4xb")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_MESSAGE = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_ATTRIBUTES_AND_CRC = struct.Struct(">Ih")
assert _HEADER.size == batch.HEADER_SIZE

_KNOWN_ATTRIBUTES: Final = 0x7F
_MAX_CODEC: Final = len(batch.CODEC_NAMES) - 1


class Batch:
    """A v2 batch: the fields of its header as stored, and what follows from them as properties.

    It begins at `start` in `data` and at `position` in the file or set that `data` is part of. Only the records and the checksum
    need more than the header. Where `data` ends inside the header, the rest of it reads as zeros.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "data",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "records_count",
        "size",
        "start",
    )

    data: Buffer
    start: int
    size: int
    position: int
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    def __init__(self, data: Buffer, start: int = 0, position: int = 0) -> None:
        self.data = data
        self.start = start
        self.position = position
        if len(data) - start < batch.HEADER_SIZE:
            data, start = bytes(data[start:]).ljust(batch.HEADER_SIZE, b"\0"), 0
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        ) = _HEADER.unpack_from(data, start)
        self.size = batch.LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return last_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The codec's number; InvalidArgument for an unknown one."""
        return known_codec(self.attributes)

    @property
    def is_compressed(self) -> bool:
        return known_codec(self.attributes) != 0

    @property
    def timestamp_type(self) -> int:
        return batch.LOG_APPEND_TIME_TYPE if self.attributes & batch.LOG_APPEND_TIME else batch.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & batch.TRANSACTIONAL != 0

    @property
    def is_control_batch(self) -> bool:
        return self.attributes & batch.CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & batch.DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def raw(self) -> memoryview:
        """All bytes of the batch."""
        return memoryview(self.data)[self.start : self.start + self.size]

    @property
    def payload(self) -> memoryview:
        """The records, compressed if the batch is."""
        return memoryview(self.data)[self.start + batch.HEADER_SIZE : self.start + self.size]

    @property
    def is_valid(self) -> bool:
        """Whether the batch is at least as long as its header and its checksum matches; records are not read."""
        return self.size >= batch.HEADER_SIZE and self._computed_crc() == self.crc

    def ensure_valid(self) -> None:
        if not self.is_valid:
            raise CorruptRecord(
                f"the checksum {self.crc} of the batch at byte {self.position} does not match its {self.size} bytes"
            )

    def __iter__(self) -> Iterator[Record]:
        return iter_batch_records(self)

    def iter_keys(self) -> Iterator[tuple[bytes | None, int]]:
        """Key and offset of each record."""
        return ((record.key, record.offset) for record in self)

    def set_last_offset(self, offset: int) -> None:
        """Move the batch so that `offset` is its last one."""
        self.base_offset = offset - self.last_offset_delta
        _INT64.pack_into(self.data, self.start, self.base_offset)

    def set_partition_leader_epoch(self, epoch: int) -> None:
        self.partition_leader_epoch = epoch
        _INT32.pack_into(self.data, self.start + batch.PARTITION_LEADER_EPOCH_POSITION, epoch)

    def set_max_timestamp(self, timestamp_type: int, timestamp: int) -> None:
        """Store the timestamp and its type with a new checksum, unless already stored; unused attribute bits then become 0."""
        if timestamp == self.max_timestamp and timestamp_type == self.timestamp_type:
            return
        known_codec(self.attributes)
        append_time = batch.LOG_APPEND_TIME if timestamp_type == batch.LOG_APPEND_TIME_TYPE else 0
        self.attributes = self.attributes & _KNOWN_ATTRIBUTES & ~batch.LOG_APPEND_TIME | append_time
        self.max_timestamp = timestamp
        _INT64.pack_into(self.data, self.start + batch.MAX_TIMESTAMP_POSITION, timestamp)
        _ATTRIBUTES_AND_CRC.pack_into(self.data, self.start + batch.CRC_POSITION, 0, self.attributes)
        self.crc = self._computed_crc()
        _UINT32.pack_into(self.data, self.start + batch.CRC_POSITION, self.crc)

    def _computed_crc(self) -> int:
        return crc32c(memoryview(self.data)[self.start + batch.CRC_START : self.start + self.size])


class CutBatch(Batch):
    """A batch at the end of a file, shorter than its header, of which only the first fields can be read: the result of damage."""

    __slots__ = ()

    def __init__(self, data: Buffer, start: int = 0, position: int = 0) -> None:
        self.data = data
        self.start = start
        self.position = position
        self.base_offset, self.batch_length, self.magic = _FRONT.unpack_from(data, start)
        self.size = batch.LOG_OVERHEAD + self.batch_length

    def __getattr__(self, name: str) -> Any:
        raise LogRefusal(f"the entry at byte {self.position} ends before the header of a batch does")

    def ensure_valid(self) -> None:
        raise CorruptRecord(f"the batch at byte {self.position} has {self.size} bytes, too few for its header")


class Message:
    """A v0 or v1 message, plain or the wrapper of a compressed set; fields that its format lacks read as -1 or None.

    A message inside a wrapper refers to it: timestamp type and append time are the wrapper's, and its `offset` is absolute.
    """

    __slots__ = ("attributes", "crc", "data", "magic", "offset", "position", "size", "start", "stored_timestamp", "wrapper")

    partition_leader_epoch: Final = NO_LEADER_EPOCH
    producer_id: Final = NO_PRODUCER_ID
    producer_epoch: Final = NO_PRODUCER_EPOCH
    base_sequence: Final = NO_SEQUENCE
    last_sequence: Final = NO_SEQUENCE
    records_count: Final = None
    delete_horizon_ms: Final = None
    has_producer_id: Final = False
    is_transactional: Final = False
    is_control_batch: Final = False

    data: Buffer
    start: int
    size: int
    position: int
    wrapper: Message | None
    offset: int
    crc: int
    magic: int
    attributes: int
    stored_timestamp: int

    def __init__(self, data: Buffer, start: int = 0, position: int = 0, wrapper: Message | None = None) -> None:
        self.data = data
        self.start = start
        self.position = position
        self.wrapper = wrapper
        self.stored_timestamp = NO_TIMESTAMP
        self.offset, message_size, self.crc, self.magic, self.attributes = _MESSAGE.unpack_from(data, start)
        self.size = batch.LOG_OVERHEAD + message_size
        if self.magic:
            if message_size < message.OVERHEAD_V1:
                raise CorruptRecord(f"the message at byte {position} has {message_size} bytes, too few for one with a timestamp")
            self.stored_timestamp = _INT64.unpack_from(data, start + message.TIMESTAMP_POSITION)[0]

    @property
    def base_offset(self) -> int:
        """The first offset; for a wrapper, that of its first inner message."""
        return self.inner_messages()[0].offset if self.is_compressed else self.offset

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def next_offset(self) -> int:
        return self.offset + 1

    @property
    def max_timestamp(self) -> int:
        if self.magic < 0:  # the result of damage; Kafka knows no header length, and so no timestamp, for it
            raise InvalidArgument(f"the message at byte {self.position} has magic {self.magic}; only 0, 1 and 2 are known")
        return self.timestamp

    @property
    def timestamp(self) -> int:
        if self.wrapper is not None and self.magic and self.wrapper.timestamp_type == batch.LOG_APPEND_TIME_TYPE:
            return self.wrapper.stored_timestamp
        return self.stored_timestamp

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return batch.NO_TIMESTAMP_TYPE
        attributes = self.attributes if self.wrapper is None else self.wrapper.attributes
        return batch.LOG_APPEND_TIME_TYPE if attributes & batch.LOG_APPEND_TIME else batch.CREATE_TIME

    @property
    def codec(self) -> int:
        """The codec's number; InvalidArgument for one unknown to every format."""
        return known_codec(self.attributes)

    @property
    def is_compressed(self) -> bool:
        return known_codec(self.attributes) != 0

    @property
    def raw(self) -> memoryview:
        """All bytes of the message."""
        return memoryview(self.data)[self.start : self.start + self.size]

    @property
    def is_valid(self) -> bool:
        """Whether the checksum matches; for a wrapper, the wrapper's own."""
        return self._computed_crc() == self.crc

    def ensure_valid(self) -> None:
        if not self.is_valid:
            raise CorruptRecord(f"the checksum {self.crc} of the message at byte {self.position} does not match its bytes")

    @property
    def has_key(self) -> bool:
        return self._length_at(self._key_position) >= 0

    @property
    def key(self) -> bytes | None:
        return self._bytes_at(self._key_position)

    @property
    def value(self) -> bytes | None:
        position = self._key_position
        return self._bytes_at(position + 4 + max(0, self._length_at(position)))

    @property
    def record(self) -> Record:
        return Record(self.offset, self.timestamp, self.key, self.value)

    def __iter__(self) -> Iterator[Record]:
        for each in self.messages():
            yield each.record

    def iter_keys(self) -> Iterator[tuple[bytes | None, int]]:
        """Key and offset of each record. The value is not read, so a wrong length of it goes unnoticed."""
        return ((each.key, each.offset) for each in self.messages())

    def messages(self) -> Iterator[Message]:
        """The messages that are records: those inside a wrapper, or this one itself."""
        if not self.is_compressed:
            yield self
            return
        for each in self.inner_messages():
            if each.is_compressed:
                raise InvalidRecord(f"a compressed message inside the one at byte {self.position}")
            yield each

    def inner_messages(self) -> list[Message]:
        """The messages in a wrapper, with absolute offsets. An incomplete one at the end is ignored."""
        if self.magic not in (0, 1) or self.codec > message.MAX_CODEC:
            raise InvalidRecord(
                f"the wrapper at byte {self.position} has magic {self.magic} and codec {self.codec}, which do not go together"
            )
        value = self.value
        if value is None:
            raise InvalidRecord(f"the wrapper at byte {self.position} has no value")
        inner = list(self._read_inner(decompressed(self.codec, memoryview(value), self.magic)))
        if not inner:
            raise InvalidRecord(f"the wrapper at byte {self.position} contains no messages")
        # Some versions of librdkafka produced wrappers with offset 0.
        if self.magic and self.offset:
            if self.offset < inner[-1].offset:
                raise InvalidRecord(f"a wrapper with offset {self.offset} holds a message with offset {inner[-1].offset}")
            base_offset = self.offset - inner[-1].offset
            for each in inner:
                each.offset += base_offset
        return inner

    def _read_inner(self, content: Content) -> Iterator[Message]:
        data = content.data
        start = 0
        while start + batch.LOG_OVERHEAD <= len(data):
            length: int = _INT32.unpack_from(data, start + batch.BATCH_LENGTH_POSITION)[0]
            if length < message.MIN_MESSAGE_SIZE:
                raise CorruptRecord(f"a message of {length} bytes inside the wrapper at byte {self.position}")
            size = batch.LOG_OVERHEAD + length
            if start + size > len(data):
                break
            yield Message(data, start, self.position, self)
            start += size
        if content.fault:
            raise content.fault

    def set_last_offset(self, offset: int) -> None:
        self.offset = offset
        _INT64.pack_into(self.data, self.start, offset)

    def set_partition_leader_epoch(self, epoch: int) -> None:
        raise InvalidState(f"a v{self.magic} message cannot store leader epoch {epoch}")

    def set_max_timestamp(self, timestamp_type: int, timestamp: int) -> None:
        """Store the timestamp and its type with a new checksum, unless already stored; unused attribute bits then become 0."""
        if self.magic == 0:
            raise InvalidState("a v0 message has no timestamp")
        if timestamp == self.timestamp and timestamp_type == self.timestamp_type:
            return
        self.attributes = self.codec | (batch.LOG_APPEND_TIME if timestamp_type == batch.LOG_APPEND_TIME_TYPE else 0)
        self.stored_timestamp = timestamp
        self.data[self.start + message.ATTRIBUTES_POSITION] = self.attributes  # type: ignore[index]
        _INT64.pack_into(self.data, self.start + message.TIMESTAMP_POSITION, timestamp)
        self.crc = self._computed_crc()
        _UINT32.pack_into(self.data, self.start + message.CRC_POSITION, self.crc)

    @property
    def _key_position(self) -> int:
        return message.KEY_LENGTH_POSITION_V1 if self.magic else message.KEY_LENGTH_POSITION_V0

    def _length_at(self, position: int) -> int:
        if position + 4 > self.size:
            raise CorruptRecord(f"the message at byte {self.position} ends before the lengths of its key and value")
        length: int = _INT32.unpack_from(self.data, self.start + position)[0]
        return length

    def _bytes_at(self, position: int) -> bytes | None:
        length = self._length_at(position)
        if length < 0:
            return None
        first = position + 4
        if length > self.size - first:
            raise InvalidArgument(
                f"the message at byte {self.position} declares {length} bytes where {self.size - first} are left"
            )
        return bytes(memoryview(self.data)[self.start + first : self.start + first + length])

    def _computed_crc(self) -> int:
        return zlib.crc32(memoryview(self.data)[self.start + message.CRC_START : self.start + self.size])


Entry = Batch | Message


def known_codec(attributes: int) -> int:
    """The codec number in `attributes`; InvalidArgument for an unknown one."""
    codec = attributes & batch.CODEC_MASK
    if codec > _MAX_CODEC:
        raise InvalidArgument(f"there is no codec {codec}")
    return codec


def iter_entries(data: Buffer, *, position: int = 0) -> Iterator[Entry]:
    """The whole entries of `data`, a set in memory; `position` is where it begins in its file."""
    start = 0
    stop = len(data)
    while (size := entry_size(data, start, stop)) is not None:
        yield entry_at(data, start, position + start)
        start += size


def entry_size(data: Buffer, start: int, stop: int) -> int | None:
    """The size of the entry at `start`, None if it does not end before `stop`; CorruptRecord if it cannot be an entry."""
    left = stop - start
    if left < batch.LOG_OVERHEAD:
        return None
    length: int = _INT32.unpack_from(data, start + batch.BATCH_LENGTH_POSITION)[0]
    if length < message.MIN_MESSAGE_SIZE:
        raise CorruptRecord(f"an entry of {length} bytes at byte {start} is below the minimum of {message.MIN_MESSAGE_SIZE}")
    if left < FRONT_SIZE:
        return None
    if data[start + batch.MAGIC_POSITION] > batch.MAX_MAGIC:
        raise CorruptRecord(
            f"the entry at byte {start} has magic {data[start + batch.MAGIC_POSITION]}; only 0, 1 and 2 are known"
        )
    size = batch.LOG_OVERHEAD + length
    return size if size <= left else None


def file_entry_size(data: Buffer, start: int, left_in_file: int) -> int | None:
    """Like `entry_size` by the rules for files: any magic is accepted, and 17 bytes or fewer at the end never are an entry.

    `left_in_file` counts from `start`. `data` must hold at least FRONT_SIZE bytes if the file has more.
    """
    if left_in_file <= FRONT_SIZE:
        return None
    _, length, _ = _FRONT.unpack_from(data, start)
    if length < message.MIN_MESSAGE_SIZE:
        raise CorruptRecord(f"an entry of {length} bytes is below the minimum of {message.MIN_MESSAGE_SIZE}")
    size: int = batch.LOG_OVERHEAD + length
    return size if size <= left_in_file else None


def entry_at(data: Buffer, start: int, position: int) -> Entry:
    """The entry at `start` of `data`. As in Kafka a magic above 127 is negative, so below 2."""
    if 2 <= data[start + batch.MAGIC_POSITION] < 0x80:
        return Batch(data, start, position)
    return Message(data, start, position)


def file_entry_at(data: Buffer, start: int, position: int) -> Entry:
    """Like `entry_at` for data of a file, which ends inside a header only if the file does."""
    entry = entry_at(data, start, position)
    is_cut = isinstance(entry, Batch) and len(data) - start < batch.HEADER_SIZE
    return CutBatch(data, start, position) if is_cut else entry
