"""One entry in plain Python, taken as Kafka's own iterators take it: for what our decoder refuses and theirs prints, in part
or in whole, before it dies.

Kafka's dump checks no checksum before it reads, believes any magic of 2 or above to be a batch, and shows every record of an
uncompressed batch before the first one that it cannot read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from crc32c import crc32c

from kafkalog.errors import CorruptBatch
from kafkalog.format import batch, message
from kafkalog.format.batch import NO_SEQUENCE, increment_sequence, last_sequence
from kafkalog.format.java import as_int64
from kafkalog.format.varint import decode_varint, decode_varlong

from .messages import Message
from .options import DumpOptions
from .place import Place
from .record_line import TIME_LABELS, DumpedRecord, record_line

_BATCH = struct.Struct(">qiibIhiqqqhii")
assert _BATCH.size == batch.HEADER_SIZE


@dataclass(frozen=True)
class OddEntry:
    """An entry of a file. `data` is all of it, or a whole header where the entry is shorter than one."""

    place: Place
    data: bytes

    @property
    def size(self) -> int:
        return self.place.size

    @property
    def magic(self) -> int:
        """Signed, as Kafka reads it: 0x80 and above are below 2, so they are messages."""
        magic = self.data[batch.MAGIC_POSITION]
        return magic - 256 if magic > 127 else magic

    @property
    def is_batch(self) -> bool:
        return self.magic >= 2

    @cached_property
    def header(self) -> tuple[int, ...]:
        """The fields of a batch, in their order."""
        if len(self.data) < batch.HEADER_SIZE:
            raise self.place.corrupt("record-structure", detail="the file ends inside the header of a batch")
        return _BATCH.unpack_from(self.data)

    @cached_property
    def attributes(self) -> int:
        return self.header[5] if self.is_batch else self.data[message.ATTRIBUTES_POSITION]

    @property
    def is_control(self) -> bool:
        return self.is_batch and bool(self.attributes & batch.CONTROL)

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return batch.NO_TIMESTAMP_TYPE
        return batch.LOG_APPEND_TIME_TYPE if self.attributes & batch.LOG_APPEND_TIME else batch.CREATE_TIME

    def lines(self, options: DumpOptions, offsets: list[int]) -> Iterator[str]:
        """Text piece by piece; the offset of each record goes to `offsets`. CorruptBatch where Kafka's tool dies."""
        yield self._front()
        yield self._rest_of_line()
        if options.prints_records:
            yield from self.record_lines(options, offsets)

    def record_lines(self, options: DumpOptions, offsets: list[int]) -> Iterator[str]:
        """The lines of the records alone."""
        for record in self.records(offsets):
            yield from record_line(record, self.timestamp_type, self.is_control, options)

    def _front(self) -> str:
        if not self.is_batch:
            return f"offset: {self._message.offset}"
        base_offset, _, leader_epoch, *_, producer_id, producer_epoch, base_sequence, count = self.header
        delta, base_timestamp = self.header[6:8]
        horizon = f"OptionalLong[{base_timestamp}]" if self.attributes & batch.DELETE_HORIZON else "OptionalLong.empty"
        return (
            f"baseOffset: {base_offset} lastOffset: {as_int64(base_offset + delta)} count: {count} "
            f"baseSequence: {base_sequence} lastSequence: {last_sequence(base_sequence, delta)} producerId: {producer_id} "
            f"producerEpoch: {producer_epoch} partitionLeaderEpoch: {leader_epoch} "
            f"isTransactional: {_flag(self.attributes & batch.TRANSACTIONAL)} isControl: {_flag(self.is_control)} "
            f"deleteHorizonMs: {horizon}"
        )

    def _rest_of_line(self) -> str:
        if self.magic < 0:
            raise self.place.corrupt("magic", expected="0 or above", found=self.magic)
        codec = self.attributes & batch.CODEC_MASK
        if codec >= len(batch.CODEC_NAMES):
            raise self.place.corrupt("codec-unknown", found=codec)
        crc, valid = self._checksum()
        timestamp = self.header[8] if self.is_batch else self._message.timestamp
        return (
            f" position: {self.place.position} {TIME_LABELS[self.timestamp_type]}: {timestamp} size: {self.size} "
            f"magic: {self.magic} compresscodec: {batch.CODEC_NAMES[codec]} crc: {crc} isvalid: {_flag(valid)}\n"
        )

    def _checksum(self) -> tuple[int, bool]:
        """The stored checksum, and whether it fits."""
        if self.is_batch:
            crc = self.header[4]
            return crc, self.size >= batch.HEADER_SIZE and crc32c(self.data[batch.CRC_START : self.size]) == crc
        return self._message.crc, self._message.is_valid

    @property
    def _message(self) -> Message:
        return Message(self.place, self.data[: self.size])

    def records(self, offsets: list[int]) -> Iterator[DumpedRecord]:
        """The records up to the first one that cannot be read; their offsets go to `offsets` as they come."""
        source = self._batch_records() if self.is_batch else self._message_records()
        if self.is_batch and self.attributes & batch.CODEC_MASK:
            for _ in source:  # Kafka reads all of a compressed batch before it hands out the first record
                pass
            source = self._batch_records()
        for record in source:
            offsets.append(record.offset)
            yield record

    def _batch_records(self) -> Iterator[DumpedRecord]:
        count = self.header[12]
        if count == 0:
            return
        if self.size < batch.HEADER_SIZE:
            raise self.place.corrupt("record-structure", detail="the batch is shorter than its header")
        if count < 0:
            raise self.place.corrupt("count", found=count)
        payload, position = self._payload, 0
        for number in range(count):
            if position == len(payload):
                raise self.place.corrupt("record-structure", detail=f"{count} records are declared, {number} are there")
            record, position = self._batch_record(payload, position)
            if number == count - 1 and position != len(payload):  # looked at before the last record is handed out
                raise self.place.corrupt("record-structure", detail=f"{len(payload) - position} bytes follow the last record")
            yield record

    @cached_property
    def _payload(self) -> bytes:
        return self.place.decompress(self.attributes & batch.CODEC_MASK, self.data[batch.HEADER_SIZE : self.size], 2)

    def _batch_record(self, payload: bytes, position: int) -> tuple[DumpedRecord, int]:
        base_offset, *_, base_timestamp, max_timestamp, _, _, base_sequence, _ = self.header
        try:
            length, start = decode_varint(payload, position)
            stop = start + length
            if not 0 < length <= len(payload) - start:
                raise CorruptBatch("record-structure", expected=f"at most {len(payload) - start} bytes", found=length)
            timestamp_delta, position = decode_varlong(payload, start + 1, stop)
            offset_delta, position = decode_varint(payload, position, stop)
            key, position = _sized(payload, position, stop)
            value, position = _sized(payload, position, stop)
            header_keys, position = _header_keys(payload, position, stop)
            if position != stop:
                raise CorruptBatch("record-structure", expected=f"a record of {length} bytes", found=f"{position - start} bytes")
        except CorruptBatch as error:
            what = {"expected": error.expected, "found": error.found, "detail": error.detail}
            raise self.place.corrupt(error.reason, **what) from None
        append_time = self.timestamp_type == batch.LOG_APPEND_TIME_TYPE
        record = DumpedRecord(
            offset=as_int64(base_offset + offset_delta),
            timestamp=max_timestamp if append_time else as_int64(base_timestamp + timestamp_delta),
            key_size=-1 if key is None else len(key),
            value_size=-1 if value is None else len(value),
            key=key,
            value=value,
            sequence=increment_sequence(base_sequence, offset_delta) if base_sequence >= 0 else NO_SEQUENCE,
            header_keys=header_keys,
        )
        return record, stop

    def _message_records(self) -> Iterator[DumpedRecord]:
        outer = self._message
        if not outer.codec:
            yield _message_record(outer, outer.offset, None)
            return
        inner = outer.inner()
        base = outer.base_of_set(inner[-1].offset)
        append_time = outer.timestamp if self.timestamp_type == batch.LOG_APPEND_TIME_TYPE else None
        for each in inner:
            if each.codec:
                raise self.place.corrupt("nested")
            yield _message_record(each, as_int64(base + each.offset), append_time)


def _flag(value: object) -> str:
    return "true" if value else "false"


def _message_record(each: Message, offset: int, append_time: int | None) -> DumpedRecord:
    key_size, value_size = each.sizes()
    try:
        key, value = each.content()
        problem = None
    except CorruptBatch as error:  # Kafka's tool dies of it only when it prints them
        key = value = None
        problem = error
    timestamp = each.timestamp if append_time is None or each.magic == 0 else append_time
    return DumpedRecord(
        offset, timestamp, key_size, value_size, key, value, crc=each.crc, is_valid=each.is_valid, problem=problem
    )


def _sized(payload: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(payload, position, stop)
    if size < 0:
        return None, position
    if size > stop - position:
        raise CorruptBatch("record-structure", expected=f"at most {stop - position} bytes", found=size)
    return payload[position : position + size], position + size


def _header_keys(payload: bytes, position: int, stop: int) -> tuple[tuple[bytes, ...], int]:
    count, position = decode_varint(payload, position, stop)
    if not 0 <= count <= stop - position:
        raise CorruptBatch("record-structure", expected=f"at most {stop - position} headers", found=count)
    keys = []
    for _ in range(count):
        key, position = _sized(payload, position, stop)
        if key is None:
            raise CorruptBatch("record-structure", detail="a header without a key")
        _, position = _sized(payload, position, stop)
        keys.append(key)
    return tuple(keys), position
