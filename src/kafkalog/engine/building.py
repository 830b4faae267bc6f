"""Build entries from records in memory: v2 batches, v0 and v1 messages and wrappers, byte for byte as Kafka makes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from kafkalog import codecs
from kafkalog.errors import InvalidArgument
from kafkalog.format import batch
from kafkalog.format.batch import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.java import MAX_INT32, as_int32, as_int64, decode_utf8
from kafkalog.format.reference import encode_record

from .entry_records import Headers, Record

MAX_OFFSET_DELTA: Final = MAX_INT32

_FRONT = struct.Struct(">qiibI")
_BODY = struct.Struct(">hiqqqhii")
_MESSAGE_FRONT = struct.Struct(">qiI")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_NULL: Final = _INT32.pack(-1)
assert _FRONT.size + _BODY.size == batch.HEADER_SIZE


class RecordsBuilder:
    """Takes records one by one and makes one v2 batch of them, one wrapper, or plain messages.

    Offsets must rise. The base timestamp is that of the first record, unless there is a delete horizon. With log append time the
    records of a batch keep their own timestamps, which readers ignore; messages get the append time.
    """

    def __init__(
        self,
        base_offset: int,
        *,
        magic: int = 2,
        codec: int = codecs.NONE,
        level: int | None = None,
        timestamp_type: int = batch.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control_batch: bool = False,
        partition_leader_epoch: int = NO_LEADER_EPOCH,
        delete_horizon_ms: int | None = None,
    ) -> None:
        if magic > 0 and timestamp_type == batch.NO_TIMESTAMP_TYPE:
            raise InvalidArgument(f"v{magic} needs a timestamp type")
        if magic < 2 and (is_transactional or is_control_batch or codec == codecs.ZSTD or delete_horizon_ms is not None):
            raise InvalidArgument(f"v{magic} has no transactions, no control records, no delete horizon and no zstd")
        self.base_offset = base_offset
        self.magic = magic
        self.codec = codec
        self.level = level
        self.timestamp_type = timestamp_type
        self.log_append_time = log_append_time
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control_batch = is_control_batch
        self.partition_leader_epoch = partition_leader_epoch
        self.delete_horizon_ms = delete_horizon_ms
        self.last_offset: int | None = None
        self.records_count = 0
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._parts: list[bytes] = []

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the records, or the append time."""
        return self.log_append_time if self._has_append_time else self._max_timestamp

    def append(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        """Add a record; InvalidArgument if the format or the order of offsets forbids it."""
        if self.last_offset is not None and offset <= self.last_offset:
            raise InvalidArgument(f"offset {offset} does not come after {self.last_offset}")
        if timestamp < NO_TIMESTAMP:
            raise InvalidArgument(f"timestamp {timestamp} at offset {offset}: must be -1 or above")
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        if self.magic < 2:
            timestamp = self._append_message(offset, timestamp, key, value, headers)
        else:
            delta = as_int64(timestamp - self._base_timestamp)
            self._parts.append(encode_record(as_int32(offset - self.base_offset), delta, key, value, _in_utf8(headers)))
        if offset - self.base_offset > MAX_OFFSET_DELTA:
            raise InvalidArgument(f"offset {offset} is too far from the base offset {self.base_offset}")
        self.records_count += 1
        self.last_offset = offset
        if self.magic and timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

    def append_all(self, records: Iterable[Record]) -> None:
        """Add records with their own offsets."""
        for record in records:
            self.append(*record)

    def override_last_offset(self, offset: int) -> None:
        """End the batch at `offset`, whatever the last record's is."""
        self.last_offset = offset

    def build(self) -> bytes:
        """The finished entries; empty if there are no records."""
        self._check_producer()
        if not self.records_count:
            return b""
        content = b"".join(self._parts)
        if self.codec:
            content = codecs.compress(self.codec, content, level=self.level, magic=self.magic)
        if self.magic == 2:
            return self._batch(content)
        return self._wrapper(content) if self.codec else content

    @property
    def _has_append_time(self) -> bool:
        return self.timestamp_type == batch.LOG_APPEND_TIME_TYPE

    @property
    def _append_time_bit(self) -> int:
        return batch.LOG_APPEND_TIME if self._has_append_time and self.magic else 0

    def _append_message(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Add a message; returns its timestamp."""
        if headers:
            raise InvalidArgument(f"a v{self.magic} message has no headers")
        if self._has_append_time:
            timestamp = self.log_append_time
        stored_offset = offset - self.base_offset if self.magic and self.codec else offset
        self._parts.append(encode_message(stored_offset, self.magic, self._append_time_bit, timestamp, key, value))
        return timestamp

    def _batch(self, content: bytes) -> bytes:
        assert self.last_offset is not None
        assert self._base_timestamp is not None
        return encode_batch(
            content,
            base_offset=self.base_offset,
            last_offset=self.last_offset,
            records_count=self.records_count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self.max_timestamp,
            attributes=self.codec
            | self._append_time_bit
            | (batch.TRANSACTIONAL if self.is_transactional else 0)
            | (batch.CONTROL if self.is_control_batch else 0)
            | (batch.DELETE_HORIZON if self.delete_horizon_ms is not None else 0),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            partition_leader_epoch=self.partition_leader_epoch,
        )

    def _wrapper(self, content: bytes) -> bytes:
        assert self.last_offset is not None
        attributes = self.codec | self._append_time_bit
        return encode_message(self.last_offset, self.magic, attributes, self.max_timestamp, None, content)

    def _check_producer(self) -> None:
        if self.producer_id == NO_PRODUCER_ID:
            if self.is_transactional:
                raise InvalidArgument("transactional records need a producer id")
            return
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            raise InvalidArgument(f"producer {self.producer_id} has no epoch")
        if self.base_sequence < 0 and not self.is_control_batch:
            raise InvalidArgument(f"sequence number {self.base_sequence} of producer {self.producer_id}")
        if self.magic < 2:
            raise InvalidArgument(f"a v{self.magic} message has no producer id")


def encode_batch(
    content: bytes,
    *,
    base_offset: int,
    last_offset: int,
    records_count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """A v2 batch of encoded records, already compressed if `attributes` name a codec."""
    delta = as_int32(last_offset - base_offset)
    producer = producer_id, producer_epoch, base_sequence
    body = _BODY.pack(attributes, delta, base_timestamp, max_timestamp, *producer, records_count)
    length = batch.MIN_BATCH_LENGTH + len(content)
    checksum = crc32c(content, crc32c(body))
    return b"".join((_FRONT.pack(base_offset, length, partition_leader_epoch, 2, checksum), body, content))


def encode_message(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """A v0 or v1 message."""
    body = b"".join((bytes((magic, attributes)), _INT64.pack(timestamp) if magic else b"", *_sized(key), *_sized(value)))
    return b"".join((_MESSAGE_FRONT.pack(offset, 4 + len(body), zlib.crc32(body)), body))


def end_transaction_marker(
    producer_id: int,
    producer_epoch: int,
    marker: EndTxnMarker,
    *,
    timestamp: int,
    offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The control batch by which a coordinator ends a transaction."""
    builder = RecordsBuilder(
        offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control_batch=True,
        partition_leader_epoch=partition_leader_epoch,
    )
    builder.append(offset, timestamp, *encode_end_txn_marker(marker))
    return builder.build()


def _sized(content: bytes | None) -> tuple[bytes, bytes]:
    return (_NULL, b"") if content is None else (_INT32.pack(len(content)), content)


def _in_utf8(headers: Headers) -> Headers:
    """Headers with keys as Java writes them after reading them: what is not UTF-8 becomes U+FFFD."""
    if all(key.isascii() for key, _ in headers):
        return headers
    return tuple((decode_utf8(key).encode(), value) for key, value in headers)
