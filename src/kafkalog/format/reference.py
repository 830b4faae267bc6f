"""The reference codec: all three formats in plain Python, written to be read.

This is the specification in code and the oracle that the fast kernels are tested against. It accepts and refuses what Kafka's own
reader does, and is stricter in two cases that no broker ever wrote: offsets of batches or records below 0 or above 2**63 - 1,
and messages of magic 2 or above inside a compressed set.

Codecs are in another layer, so (de)compression is passed in as a function of (codec, data, magic).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog.errors import CodecError, CorruptBatch, LimitExceeded, OutputFull, SegmentError, TornTail, UsageError

from . import batch, message
from .batch import NO_SEQUENCE, increment_sequence, last_sequence
from .java import MAX_INT32, as_int64
from .names import MAX_OFFSET
from .varint import decode_varint, decode_varlong, encode_varint, encode_varlong

Transform = Callable[[int, bytes, int], bytes]
Headers = tuple[tuple[bytes, bytes | None], ...]

MAX_OFFSET_DELTA: Final = MAX_INT32
NULL: Final = struct.pack(">i", -1)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer sees it. The encoders ignore its timestamp type and sequence, which are those of the batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_type: int = batch.CREATE_TIME
    sequence: int = NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class Entry:
    """A v2 batch, or a v0 or v1 message, as stored; fields that its format does not have are -1."""

    position: int
    data: bytes
    magic: int
    crc: int
    attributes: int
    base_offset: int | None  # None for a compressed v0 or v1 message: only its content says
    last_offset: int
    max_timestamp: int
    base_timestamp: int = -1
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    records_count: int | None = None  # None for v0 and v1

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def codec(self) -> int:
        return self.attributes & batch.CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return batch.NO_TIMESTAMP_TYPE
        return batch.LOG_APPEND_TIME_TYPE if self.attributes & batch.LOG_APPEND_TIME else batch.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & batch.TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & batch.CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.magic == 2 and self.attributes & batch.DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        if self.base_offset is None:
            return NO_SEQUENCE
        return last_sequence(self.base_sequence, self.last_offset - self.base_offset)


# Decoding


def decode_entries(data: bytes, *, verify_crc: bool = True) -> Iterator[Entry]:
    """The entries of `data` in order.

    Raises TornTail if the data ends inside an entry or in zeros, CorruptBatch for everything else that is not an entry; the
    position in the error is that of the faulty entry.
    """
    position = 0
    while position < len(data):
        entry = decode_entry(data, position, verify_crc=verify_crc)
        yield entry
        position += entry.size


def decode_entry(data: bytes, position: int, *, verify_crc: bool = True) -> Entry:
    """The entry that begins at `position`."""
    size = _entry_size(data, position)
    stored = bytes(data[position : position + size])
    entry = _batch_entry(position, stored) if stored[batch.MAGIC_POSITION] == 2 else _message_entry(position, stored)
    if verify_crc and entry.crc != (computed := _computed_crc(stored)):
        raise CorruptBatch("crc", position=position, length=size, expected=entry.crc, found=computed)
    first_offset = entry.last_offset if entry.base_offset is None else entry.base_offset
    if first_offset < 0 or not 0 <= entry.last_offset <= MAX_OFFSET:
        raise CorruptBatch("offset-range", position=position, length=size, found=f"{first_offset} to {entry.last_offset}")
    return entry


def decode_records(entry: Entry, decompress: Transform | None = None) -> list[Record]:
    """The records of an entry, control records too; `decompress` is needed only for compressed entries.

    Raises CorruptBatch at the entry's position, or LimitExceeded if the content is larger than `decompress` allows.
    """
    try:
        if entry.magic == 2:
            return _batch_records(entry, decompress)
        if entry.codec:
            return _wrapper_records(entry, decompress)
        key, value = _message_parts(entry.data, entry.magic)
        return [Record(entry.last_offset, entry.max_timestamp, key, value, (), entry.timestamp_type)]
    except SegmentError as error:
        raise _located(error, entry) from None


def _entry_size(data: bytes, position: int) -> int:
    """The whole size of the entry at `position`, after the checks that need only its front."""
    left = len(data) - position
    if left < batch.LOG_OVERHEAD:
        raise _torn(data, position)
    length: int
    (length,) = struct.unpack_from(">i", data, position + batch.BATCH_LENGTH_POSITION)
    if length < message.MIN_MESSAGE_SIZE:
        if not any(data[position:]):
            raise _torn(data, position)
        raise CorruptBatch("length", position=position, expected=f"at least {message.MIN_MESSAGE_SIZE}", found=length)
    if left <= batch.MAGIC_POSITION:
        raise _torn(data, position)
    magic = data[position + batch.MAGIC_POSITION]
    if magic > batch.MAX_MAGIC:
        raise CorruptBatch("magic", position=position, expected="0, 1 or 2", found=magic)
    least = (message.OVERHEAD_V0, message.OVERHEAD_V1, batch.MIN_BATCH_LENGTH)[magic]
    if length < least:
        raise CorruptBatch("length", position=position, expected=f"at least {least}", found=length)
    if length > left - batch.LOG_OVERHEAD:
        raise _torn(data, position, length)
    return batch.LOG_OVERHEAD + length


def _torn(data: bytes, position: int, length: int | None = None) -> TornTail:
    left = len(data) - position
    reason = "torn" if any(data[position:]) else "zero-tail"
    expected = None if length is None else f"{batch.LOG_OVERHEAD + length} bytes"
    return TornTail(reason, position=position, length=left, at_tail=True, expected=expected, found=f"{left} bytes")


def _batch_entry(position: int, stored: bytes) -> Entry:
    header = np.frombuffer(stored, batch.HEADER, 1)[0]
    base_offset = int(header["base_offset"])
    return Entry(
        position,
        stored,
        magic=2,
        crc=int(header["crc"]),
        attributes=int(header["attributes"]),
        base_offset=base_offset,
        last_offset=base_offset + int(header["last_offset_delta"]),
        max_timestamp=int(header["max_timestamp"]),
        base_timestamp=int(header["base_timestamp"]),
        leader_epoch=int(header["partition_leader_epoch"]),
        producer_id=int(header["producer_id"]),
        producer_epoch=int(header["producer_epoch"]),
        base_sequence=int(header["base_sequence"]),
        records_count=int(header["records_count"]),
    )


def _message_entry(position: int, stored: bytes) -> Entry:
    magic = stored[message.MAGIC_POSITION]
    front = np.frombuffer(stored, message.MESSAGE_V1 if magic else message.MESSAGE_V0, 1)[0]
    offset = int(front["offset"])
    attributes = int(front["attributes"])
    return Entry(
        position,
        stored,
        magic=magic,
        crc=int(front["crc"]),
        attributes=attributes,
        base_offset=None if attributes & batch.CODEC_MASK else offset,
        last_offset=offset,
        max_timestamp=int(front["timestamp"]) if magic else -1,
    )


def _computed_crc(stored: bytes) -> int:
    if stored[batch.MAGIC_POSITION] < 2:
        return zlib.crc32(memoryview(stored)[message.CRC_START :])
    import crc32c

    return int(crc32c.crc32c(memoryview(stored)[batch.CRC_START :]))


def _batch_records(entry: Entry, decompress: Transform | None) -> list[Record]:
    count = entry.records_count
    assert count is not None
    if count == 0:  # whatever follows the header, which Kafka's reader ignores
        return []
    payload = _decompressed(entry, entry.data[batch.HEADER_SIZE :], decompress)
    if not 0 < count <= len(payload) // batch.MIN_RECORD_SIZE:
        raise CorruptBatch("count", found=count, detail=f"{len(payload)} bytes of records")
    records = []
    position = 0
    for number in range(count):
        if position == len(payload):
            raise CorruptBatch("count", expected=count, found=number)
        record, position = _decode_record(entry, payload, position)
        records.append(record)
    if position != len(payload):
        raise CorruptBatch("count", found=count, detail=f"{len(payload) - position} bytes follow the last record")
    return records


def _decode_record(entry: Entry, payload: bytes, position: int) -> tuple[Record, int]:
    length, start = decode_varint(payload, position)
    if not 0 < length <= len(payload) - start:
        raise CorruptBatch("record-structure", expected=f"a length of at most {len(payload) - start}", found=length)
    stop = start + length
    timestamp_delta, position = decode_varlong(payload, start + 1, stop)
    offset_delta, position = decode_varint(payload, position, stop)
    key, position = _decode_bytes(payload, position, stop)
    value, position = _decode_bytes(payload, position, stop)
    headers, position = _decode_headers(payload, position, stop)
    if position != stop:
        raise CorruptBatch("record-structure", expected=f"a record of {length} bytes", found=f"{position - start} bytes")
    assert entry.base_offset is not None
    offset = _in_offset_range(entry.base_offset + offset_delta)
    timestamp = entry.max_timestamp if entry.timestamp_type else as_int64(entry.base_timestamp + timestamp_delta)
    sequence = increment_sequence(entry.base_sequence, offset_delta) if entry.base_sequence >= 0 else NO_SEQUENCE
    return Record(offset, timestamp, key, value, headers, entry.timestamp_type, sequence), stop


def _decode_headers(payload: bytes, position: int, stop: int) -> tuple[Headers, int]:
    count, position = decode_varint(payload, position, stop)
    if not 0 <= count <= (stop - position) // 2:  # a header has at least two bytes
        raise CorruptBatch("record-structure", expected=f"at most {(stop - position) // 2} headers", found=count)
    headers = []
    for _ in range(count):
        key, position = _decode_bytes(payload, position, stop)
        if key is None:
            raise CorruptBatch("record-structure", detail="a header without a key")
        value, position = _decode_bytes(payload, position, stop)
        headers.append((key, value))
    return tuple(headers), position


def _decode_bytes(payload: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(payload, position, stop)
    if size < 0:
        return None, position
    if size > stop - position:
        raise CorruptBatch("record-structure", expected=f"at most {stop - position} bytes", found=size)
    return payload[position : position + size], position + size


def _wrapper_records(entry: Entry, decompress: Transform | None) -> list[Record]:
    _, value = _message_parts(entry.data, entry.magic)
    if value is None:
        raise CorruptBatch("record-structure", detail="a compressed message without a value")
    inner = list(_inner_messages(_decompressed(entry, value, decompress)))
    if not inner:
        raise CorruptBatch("count", detail="a compressed message with no messages in it")
    base_offset = _wrapper_base(entry, inner[-1].last_offset)
    records = []
    for each in inner:
        key, value = _message_parts(each.data, each.magic)
        append_time = entry.timestamp_type == batch.LOG_APPEND_TIME_TYPE and each.magic == 1
        timestamp = entry.max_timestamp if append_time else each.max_timestamp
        offset = _in_offset_range(base_offset + each.last_offset)
        records.append(Record(offset, timestamp, key, value, (), entry.timestamp_type))
    return records


def _inner_messages(content: bytes) -> Iterator[Entry]:
    """The messages of a decompressed set. A truncated message ends the set without an error, as in Kafka."""
    position = 0
    while position + batch.LOG_OVERHEAD <= len(content):
        offset, length = struct.unpack_from(">qi", content, position)
        if length < message.MIN_MESSAGE_SIZE:
            raise CorruptBatch("length", expected=f"at least {message.MIN_MESSAGE_SIZE}", found=length, detail="inside a set")
        stop = position + batch.LOG_OVERHEAD + length
        if stop > len(content):
            return
        stored = content[position:stop]
        magic, attributes = stored[message.MAGIC_POSITION], stored[message.ATTRIBUTES_POSITION]
        if magic > 1:
            raise CorruptBatch("magic", expected="0 or 1 inside a set", found=magic)
        if attributes & batch.CODEC_MASK:
            raise CorruptBatch("nested", found=attributes & batch.CODEC_MASK)
        (crc,) = struct.unpack_from(">I", stored, message.CRC_POSITION)
        if crc != (computed := _computed_crc(stored)):
            raise CorruptBatch("inner-crc", expected=crc, found=computed)
        if length < (message.OVERHEAD_V1 if magic else message.OVERHEAD_V0):
            raise CorruptBatch("record-structure", expected=f"at least {message.OVERHEAD_V1} bytes", found=length)
        _in_offset_range(offset)
        yield _message_entry(position, stored)
        position = stop


def _wrapper_base(entry: Entry, last_inner_offset: int) -> int:
    """The number to add to each inner offset."""
    # Offsets inside v0 are absolute, and so in effect are those inside a v1 wrapper with offset 0, as its producer sends it.
    if entry.magic == 0 or entry.last_offset == 0:
        return 0
    if entry.last_offset < last_inner_offset:
        raise CorruptBatch("offset-range", expected=f"at most {entry.last_offset}", found=last_inner_offset)
    return entry.last_offset - last_inner_offset


def _message_parts(stored: bytes, magic: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of a whole v0 or v1 message; bytes after the value are ignored."""
    key, position = _sized_bytes(stored, message.KEY_LENGTH_POSITION_V1 if magic else message.KEY_LENGTH_POSITION_V0)
    value, _ = _sized_bytes(stored, position)
    return key, value


def _sized_bytes(stored: bytes, position: int) -> tuple[bytes | None, int]:
    start = position + 4
    if start > len(stored):
        raise CorruptBatch("record-structure", detail="the message ends before its value")
    (size,) = struct.unpack_from(">i", stored, position)
    if size < 0:
        return None, start
    if size > len(stored) - start:
        raise CorruptBatch("record-structure", expected=f"at most {len(stored) - start} bytes", found=size)
    return stored[start : start + size], start + size


def _decompressed(entry: Entry, payload: bytes, decompress: Transform | None) -> bytes:
    if entry.codec == 0:
        return payload
    if entry.codec > (message.MAX_CODEC if entry.magic < 2 else len(batch.CODEC_NAMES) - 1):
        raise CorruptBatch("codec-unknown", found=entry.codec)
    if decompress is None:
        raise UsageError(f"records compressed with {batch.CODEC_NAMES[entry.codec]} need a decompressor")
    try:
        return decompress(entry.codec, payload, entry.magic)
    except OutputFull as error:
        raise LimitExceeded(error.reason, detail=str(error)) from None
    except CodecError as error:
        raise CorruptBatch(error.reason, detail=str(error)) from None


def _located(error: SegmentError, entry: Entry) -> SegmentError:
    return type(error)(
        error.reason,
        position=entry.position,
        length=entry.size,
        base_offset=-1 if entry.base_offset is None else entry.base_offset,
        last_offset=entry.last_offset,
        expected=error.expected,
        found=error.found,
        detail=error.detail,
    )


def _in_offset_range(offset: int) -> int:
    if not 0 <= offset <= MAX_OFFSET:
        raise CorruptBatch("offset-range", expected=f"0 to {MAX_OFFSET}", found=offset)
    return offset


# Encoding


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: int = 0,
    compress: Transform | None = None,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """A v2 batch of `records`, as Kafka writes it; empty for no records.

    `base_offset` and `last_offset` are those of the records unless given (compaction keeps the old ones). Raises UsageError for
    what Kafka's writer refuses too.
    """
    _check_producer(transactional, control, producer_id, producer_epoch, base_sequence)
    if not records:
        return b""
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    _check_records(records, base_offset, last_offset)
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    payload = b"".join(
        encode_record(each.offset - base_offset, as_int64(each.timestamp - base_timestamp), each.key, each.value, each.headers)
        for each in records
    )
    if codec:
        payload = _compressed(codec, payload, 2, compress)
    attributes = _attributes(codec, log_append_time is not None, transactional, control, delete_horizon_ms is not None)
    max_timestamp = max(each.timestamp for each in records) if log_append_time is None else log_append_time
    front = (base_offset, batch.MIN_BATCH_LENGTH + len(payload), leader_epoch, 2)
    body = (attributes, last_offset - base_offset, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence)
    return _with_crc(front, (*body, len(records)), payload)


def encode_empty_batch(
    *,
    base_offset: int,
    last_offset: int,
    max_timestamp: int,
    leader_epoch: int = -1,
    log_append_time: bool = False,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """The header that compaction keeps of a batch whose records are all gone."""
    attributes = _attributes(0, log_append_time, transactional, control, False)
    front = (base_offset, batch.MIN_BATCH_LENGTH, leader_epoch, 2)
    body = (attributes, last_offset - base_offset, -1, max_timestamp, producer_id, producer_epoch, base_sequence, 0)
    return _with_crc(front, body, b"")


def encode_control_batch(
    key: bytes,
    value: bytes,
    *,
    offset: int,
    timestamp: int,
    leader_epoch: int = -1,
    log_append_time: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytes:
    """A batch of one control record: a transaction marker if it names a producer, otherwise one of KRaft's."""
    return encode_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        log_append_time=log_append_time,
        transactional=producer_id >= 0,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    """One record of a v2 batch."""
    parts = [b"\0", encode_varlong(timestamp_delta), encode_varint(offset_delta), _encode_bytes(key), _encode_bytes(value)]
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        parts += _encode_bytes(name), _encode_bytes(content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def encode_message(record: Record, *, magic: int = 1, codec: int = 0, log_append_time: bool = False) -> bytes:
    """A v0 or v1 message with the offset, timestamp (v1), key and value of `record`."""
    _check_message(record, magic, log_append_time)
    attributes = codec | (batch.LOG_APPEND_TIME if log_append_time else 0)
    timestamp = struct.pack(">q", record.timestamp) if magic else b""
    body = bytes([magic, attributes]) + timestamp + _sized(record.key) + _sized(record.value)
    return struct.pack(">qiI", record.offset, len(body) + 4, zlib.crc32(body)) + body


def encode_wrapper(
    records: Sequence[Record], *, codec: int, compress: Transform | None, magic: int = 1, log_append_time: int | None = None
) -> bytes:
    """A compressed v0 or v1 message that holds `records`, as Kafka's writers made it; empty for no records.

    With log append time the inner messages have the bit and the time too; brokers before 0.11 set them only on the wrapper.
    """
    if not 0 < codec <= message.MAX_CODEC:
        raise UsageError(f"codec {codec} cannot be in a v{magic} message: allowed are 1 (gzip), 2 (snappy), 3 (lz4)")
    if not records:
        return b""
    append_time = log_append_time is not None
    first_offset = records[0].offset if magic else 0
    content = b"".join(
        encode_message(
            Record(
                each.offset - first_offset, each.timestamp if log_append_time is None else log_append_time, each.key, each.value
            ),
            magic=magic,
            log_append_time=append_time,
        )
        for each in records
    )
    timestamp = max(each.timestamp for each in records) if log_append_time is None else log_append_time
    wrapper = Record(records[-1].offset, timestamp, None, _compressed(codec, content, magic, compress))
    return encode_message(wrapper, magic=magic, codec=codec, log_append_time=append_time)


def _with_crc(front: tuple[int, ...], body: tuple[int, ...], payload: bytes) -> bytes:
    try:
        header = bytearray(np.array((*front, 0, *body), batch.HEADER).tobytes())
    except OverflowError as error:
        raise UsageError(f"a field of the batch is too large: {error}") from None
    crc = _computed_crc(bytes(header) + payload)
    header[batch.CRC_POSITION : batch.CRC_START] = crc.to_bytes(4, "big")
    return bytes(header) + payload


def _attributes(codec: int, append_time: bool, transactional: bool, control: bool, horizon: bool) -> int:
    flags = (append_time, batch.LOG_APPEND_TIME), (transactional, batch.TRANSACTIONAL), (control, batch.CONTROL)
    return codec | sum(mask for given, mask in (*flags, (horizon, batch.DELETE_HORIZON)) if given)


def _compressed(codec: int, content: bytes, magic: int, compress: Transform | None) -> bytes:
    if compress is None:
        raise UsageError(f"codec {codec} needs a compressor")
    return compress(codec, content, magic)


def _encode_bytes(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


def _sized(content: bytes | None) -> bytes:
    return NULL if content is None else struct.pack(">i", len(content)) + content


def _check_producer(transactional: bool, control: bool, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    if producer_id < 0:
        if transactional:
            raise UsageError("a transactional batch needs a producer id")
        return
    if producer_epoch < 0:
        raise UsageError(f"producer {producer_id} needs an epoch")
    if base_sequence < 0 and not control:
        raise UsageError(f"producer {producer_id} needs a sequence number; only control batches go without")


def _check_records(records: Sequence[Record], base_offset: int, last_offset: int) -> None:
    before = base_offset - 1
    for each in records:
        if each.offset <= before:
            raise UsageError(f"offset {each.offset} does not come after {before}")
        if each.timestamp < -1:
            raise UsageError(f"timestamp {each.timestamp} at offset {each.offset}: allowed are -1 and 0 or above")
        before = each.offset
    if not (base_offset >= 0 and before <= last_offset <= min(base_offset + MAX_OFFSET_DELTA, MAX_OFFSET)):
        raise UsageError(f"a batch at offset {base_offset} cannot end at {last_offset}, with its last record at {before}")


def _check_message(record: Record, magic: int, log_append_time: bool) -> None:
    if magic not in (0, 1):
        raise UsageError(f"magic {magic} is not a message format: allowed are 0 and 1")
    if record.headers:
        raise UsageError(f"a v{magic} message has no headers")
    if log_append_time and magic == 0:
        raise UsageError("a v0 message has no timestamp")
    if not 0 <= record.offset <= MAX_OFFSET or record.timestamp < -1:
        raise UsageError(f"offset {record.offset} or timestamp {record.timestamp} is out of range")
