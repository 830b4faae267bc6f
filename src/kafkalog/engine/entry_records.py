"""The records of an entry, one Python object each, read with the rules of Kafka's own iterators.

Kafka reads a batch in two ways, and what a broker accepts depends on which: whole records, where every byte has to be accounted
for, or, where a compressed batch is to be stored as it came, a glance that skips keys and values and trusts the record lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalog import codecs
from kafkalog.codecs.partial import BREAKS, CLOSED, ENDS, decompressed_part
from kafkalog.errors import (
    BrokenSnappy,
    CodecError,
    InvalidArgument,
    InvalidRecord,
    Limits,
    LogRefusal,
    OutputFull,
    RecordTooLarge,
)
from kafkalog.format import batch
from kafkalog.format.java import MAX_INT64, as_int64

if TYPE_CHECKING:
    from .entries import Batch

Headers = tuple[tuple[bytes, bytes | None], ...]

_VARINT_SIZE, _VARLONG_SIZE = 5, 10


class Record(NamedTuple):
    """A record with the offset and timestamp that a consumer sees."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def has_key(self) -> bool:
        return self.key is not None


class Glance(NamedTuple):
    """A record whose key, value and headers were skipped."""

    offset: int
    timestamp: int
    has_key: bool


Found = TypeVar("Found")


class RecordFault(Exception):
    """Why the records of a batch cannot be read any further, and the reason code for it."""

    def __init__(self, detail: str, reason: str = "record-structure") -> None:
        super().__init__(detail)
        self.reason = reason


class CutRecord(RecordFault):
    """The batch ends inside a record."""


class OverlongLength(RecordFault):
    """The length of a record has more bytes than its width needs."""


class _Overlong(Exception):
    """A variable-length integer with more bytes than its width needs."""


class Content(NamedTuple):
    """Decompressed bytes and, if they are incomplete, what a reader that continues past them has to raise."""

    data: bytes
    fault: LogRefusal | None = None
    opens: bool = True

    def end(self, refusal: LogRefusal) -> LogRefusal:
        """What to raise for a reader that needs more bytes: the fault, or else `refusal`."""
        return self.fault or refusal


def decompressed(codec: int, payload: memoryview, magic: int) -> Content:
    """Decompress `payload` as far as possible."""
    try:
        return Content(codecs.decompressed(codec, payload, magic=magic, limit=Limits.decompressed_bytes))
    except OutputFull as error:
        raise RecordTooLarge(f"records of more than {Limits.decompressed_bytes} bytes: {error}") from error
    except CodecError as error:
        part = decompressed_part(codec, payload, magic=magic)
        kind = BrokenSnappy if part.failure == BREAKS else LogRefusal
        fault = None if part.failure == ENDS else kind(f"records cannot be decompressed: {error}")
        return Content(part.data, fault, part.failure != CLOSED)


def iter_batch_records(entry: Batch) -> Iterator[Record]:
    """The records of a batch. InvalidRecord at one that cannot be read, LogRefusal where they do not decompress.

    As in Kafka those of a compressed batch are yielded after all have been read, others one by one.
    """
    records = _walk(entry, read_record)
    return iter(list(records)) if entry.is_compressed else records


def iter_glances(entry: Batch) -> Iterator[Glance]:
    """The records of a compressed batch without keys and values; the lengths of records are trusted."""
    return _walk(entry, _glance_at_record)


def _walk(entry: Batch, read: Callable[[Batch, bytes, int], tuple[Found, int]]) -> Iterator[Found]:
    count = entry.records_count
    if count == 0:
        return
    content = decompressed(entry.codec, entry.payload, 2) if entry.is_compressed else Content(bytes(entry.payload))
    if count < 0:
        refusal = InvalidRecord(f"the batch at byte {entry.position} declares {count} records")
        raise refusal if content.opens else content.end(refusal)
    try:
        yield from walk_records(entry, content.data, read, content.fault)
    except RecordFault as fault:
        # Kafka lets the first of its exceptions through when it reads a plain batch.
        kind = InvalidArgument if isinstance(fault, OverlongLength) and not entry.is_compressed else InvalidRecord
        unreadable = kind(f"the batch at byte {entry.position}: {fault}")
        raise content.end(unreadable) if isinstance(fault, CutRecord) else unreadable from None


def walk_records(
    entry: Batch, payload: bytes, read: Callable[[Batch, bytes, int], tuple[Found, int]], fault: LogRefusal | None = None
) -> Iterator[Found]:
    """The records of a decompressed payload, one by one; RecordFault at the first that cannot be read.

    `fault` is why the payload did not decompress beyond its end. Like bytes that are left over, it comes before the last record.
    """
    count = entry.records_count
    position = 0
    for number in range(count):
        try:
            found, position = read(entry, payload, position)
        except _Overlong:
            raise OverlongLength(f"the length of record {number} of {count} is too long", "varint") from None
        except IndexError:
            raise CutRecord(f"record {number} of {count} does not end within the batch") from None
        if number == count - 1:
            if position < len(payload):
                raise RecordFault(f"{len(payload) - position} bytes follow the last of its {count} records")
            if fault:
                raise fault
        yield found


def read_record(entry: Batch, payload: bytes, position: int) -> tuple[Record, int]:
    """The record at `position`, and the position after it. IndexError if the payload ends inside it."""
    length, start = _read_varint(payload, position)
    stop = start + length
    if stop > len(payload):
        raise IndexError
    try:
        offset, timestamp, position = _read_deltas(entry, payload, start + 1)
        key, position = _read_bytes(payload, position)
        value, position = _read_bytes(payload, position)
        count, position = _read_varint(payload, position)
        headers: Headers = ()
        if count:
            headers, position = _read_headers(payload, position, count)
    except _Overlong:
        raise RecordFault(f"a number in a record of {length} bytes is too long", "varint") from None
    except IndexError:
        raise RecordFault(f"the fields of a record of {length} bytes do not end within the batch") from None
    if position != stop:
        raise RecordFault(f"a record of {length} bytes has fields of {position - start} bytes")
    return Record(offset, timestamp, key, value, headers), stop


def _glance_at_record(entry: Batch, payload: bytes, position: int) -> tuple[Glance, int]:
    """Like `read_record`, but skips keys and values and ignores the record's length."""
    _, position = _read_varint(payload, position)
    offset, timestamp, position = _read_deltas(entry, payload, position + 1)
    key_size, position = _read_varint(payload, position)
    value_size, position = _read_varint(payload, position + max(key_size, 0))
    count, position = _read_varint(payload, position + max(value_size, 0))
    if count < 0:
        raise RecordFault(f"a record declares {count} headers")
    for _ in range(count):
        size, position = _read_varint(payload, position)
        if size < 0:
            raise RecordFault(f"a header declares a key of {size} bytes")
        size, position = _read_varint(payload, position + size)
        position += max(size, 0)
    if position > len(payload):
        raise IndexError
    return Glance(offset, timestamp, key_size >= 0), position


def _read_deltas(entry: Batch, payload: bytes, position: int) -> tuple[int, int, int]:
    """(offset, timestamp, position after the two deltas)."""
    timestamp_delta, position = _read_varint(payload, position, _VARLONG_SIZE)
    offset_delta, position = _read_varint(payload, position)
    if entry.attributes & batch.LOG_APPEND_TIME:
        return entry.base_offset + offset_delta, entry.max_timestamp, position
    timestamp = entry.base_timestamp + timestamp_delta
    if not -MAX_INT64 <= timestamp <= MAX_INT64:
        timestamp = as_int64(timestamp)
    return entry.base_offset + offset_delta, timestamp, position


def _read_headers(payload: bytes, position: int, count: int) -> tuple[Headers, int]:
    if not 0 <= count <= len(payload) - position:
        raise RecordFault(f"a record declares {count} headers")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(payload, position)
        if key is None:
            raise RecordFault("a header has no key")
        value, position = _read_bytes(payload, position)
        headers.append((key, value))
    return tuple(headers), position


def _read_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(payload, position)
    if size < 0:
        return None, position
    stop = position + size
    if stop > len(payload):
        raise IndexError
    return payload[position:stop], stop


def _read_varint(payload: bytes, position: int, max_size: int = _VARINT_SIZE) -> tuple[int, int]:
    """The signed integer at `position`, and the position after it."""
    byte = payload[position]
    position += 1
    groups = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift == 7 * max_size:
            raise _Overlong
        byte = payload[position]
        position += 1
        groups |= (byte & 0x7F) << shift
        shift += 7
    if shift >= 7 * max_size:
        groups &= 0xFFFF_FFFF if max_size == _VARINT_SIZE else 0xFFFF_FFFF_FFFF_FFFF
    return (groups >> 1) ^ -(groups & 1), position
