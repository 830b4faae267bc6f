"""One entry read in plain Python as Kafka's own iterators read it: for entries that our decoder refuses and Kafka's tool prints,
in part or in whole, before it fails.

Kafka's dump checks no checksum before it reads, treats any magic of 2 or above as a batch, and prints every record of an
uncompressed batch before the first one that it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kafkalog.engine.entries import Batch
from kafkalog.engine.entry_records import Record, RecordFault, read_record, walk_records
from kafkalog.errors import CorruptBatch
from kafkalog.format import batch, message
from kafkalog.format.batch import NO_SEQUENCE, increment_sequence
from kafkalog.format.java import as_int64

from .messages import Message
from .options import DumpOptions
from .place import Place
from .record_line import TIME_LABELS, DumpedRecord, record_line


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
    def batch(self) -> Batch:
        """The entry with the fields of a batch."""
        if len(self.data) < batch.HEADER_SIZE:
            raise self.place.corrupt("record-structure", detail="the file ends inside the header of a batch")
        return Batch(self.data, position=self.place.position)

    @cached_property
    def attributes(self) -> int:
        return self.batch.attributes if self.is_batch else self.data[message.ATTRIBUTES_POSITION]

    @property
    def is_control(self) -> bool:
        return self.is_batch and self.batch.is_control_batch

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return batch.NO_TIMESTAMP_TYPE
        return batch.LOG_APPEND_TIME_TYPE if self.attributes & batch.LOG_APPEND_TIME else batch.CREATE_TIME

    def lines(self, options: DumpOptions, offsets: list[int]) -> Iterator[str]:
        """Text piece by piece; the offset of each record goes to `offsets`. CorruptBatch where Kafka's tool fails."""
        yield self._batch_line_start()
        yield self._batch_line_end()
        if options.prints_records:
            yield from self.record_lines(options, offsets)

    def record_lines(self, options: DumpOptions, offsets: list[int]) -> Iterator[str]:
        """The lines of the records alone."""
        for record in self.records(offsets):
            yield from record_line(record, self.timestamp_type, self.is_control, options)

    def _batch_line_start(self) -> str:
        if not self.is_batch:
            return f"offset: {self._message.offset}"
        entry = self.batch
        horizon = entry.delete_horizon_ms
        return (
            f"baseOffset: {entry.base_offset} lastOffset: {as_int64(entry.last_offset)} count: {entry.records_count} "
            f"baseSequence: {entry.base_sequence} lastSequence: {entry.last_sequence} producerId: {entry.producer_id} "
            f"producerEpoch: {entry.producer_epoch} partitionLeaderEpoch: {entry.partition_leader_epoch} "
            f"isTransactional: {_flag(entry.is_transactional)} isControl: {_flag(entry.is_control_batch)} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        )

    def _batch_line_end(self) -> str:
        if self.magic < 0:
            raise self.place.corrupt("magic", expected="0 or above", found=self.magic)
        codec = self.attributes & batch.CODEC_MASK
        if codec >= len(batch.CODEC_NAMES):
            raise self.place.corrupt("codec-unknown", found=codec)
        crc, valid = self._checksum()
        timestamp = self.batch.max_timestamp if self.is_batch else self._message.timestamp
        return (
            f" position: {self.place.position} {TIME_LABELS[self.timestamp_type]}: {timestamp} size: {self.size} "
            f"magic: {self.magic} compresscodec: {batch.CODEC_NAMES[codec]} crc: {crc} isvalid: {_flag(valid)}\n"
        )

    def _checksum(self) -> tuple[int, bool]:
        """The stored checksum, and whether it matches."""
        entry = self.batch if self.is_batch else self._message
        return entry.crc, entry.is_valid

    @property
    def _message(self) -> Message:
        return Message(self.place, self.data[: self.size])

    def records(self, offsets: list[int]) -> Iterator[DumpedRecord]:
        """The records up to the first one that cannot be read; their offsets go to `offsets` as they come."""
        source = self._batch_records() if self.is_batch else self._message_records()
        if self.is_batch and self.attributes & batch.CODEC_MASK:
            for _ in source:  # Kafka reads all of a compressed batch before it returns the first record
                pass
            source = self._batch_records()
        for record in source:
            offsets.append(record.offset)
            yield record

    def _batch_records(self) -> Iterator[DumpedRecord]:
        entry = self.batch
        if entry.records_count == 0:
            return
        if self.size < batch.HEADER_SIZE:
            raise self.place.corrupt("record-structure", detail="the batch is shorter than its header")
        if entry.records_count < 0:
            raise self.place.corrupt("count", found=entry.records_count)
        try:
            for record in walk_records(entry, self._payload, read_record):
                yield _batch_record(entry, record)
        except RecordFault as fault:
            raise self.place.corrupt(fault.reason, detail=str(fault)) from None

    @cached_property
    def _payload(self) -> bytes:
        return self.place.decompress(self.attributes & batch.CODEC_MASK, bytes(self.batch.payload), 2)

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


def _batch_record(entry: Batch, record: Record) -> DumpedRecord:
    base_sequence = entry.base_sequence
    return DumpedRecord(
        offset=as_int64(record.offset),
        timestamp=record.timestamp,
        key_size=-1 if record.key is None else len(record.key),
        value_size=-1 if record.value is None else len(record.value),
        key=record.key,
        value=record.value,
        sequence=increment_sequence(base_sequence, record.offset - entry.base_offset) if base_sequence >= 0 else NO_SEQUENCE,
        header_keys=tuple(key for key, _ in record.headers),
    )


def _message_record(each: Message, offset: int, append_time: int | None) -> DumpedRecord:
    key_size, value_size = each.sizes()
    try:
        key, value = each.content()
        problem = None
    except CorruptBatch as error:  # Kafka's tool fails only when it prints them
        key = value = None
        problem = error
    timestamp = each.timestamp if append_time is None or each.magic == 0 else append_time
    return DumpedRecord(
        offset, timestamp, key_size, value_size, key, value, crc=each.crc, is_valid=each.is_valid, problem=problem
    )
