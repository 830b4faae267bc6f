"""The line of one record in plain Python: for what the kernel leaves out, and for entries that are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkalog.errors import CorruptBatch
from kafkalog.format.java import decode_utf8
from kafkalog.payloads.internal_topics import control_text

from .options import DumpOptions

TIME_LABELS = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """What a record's line shows. The checksum is None for a v2 record, which has none of its own."""

    offset: int
    timestamp: int
    key_size: int
    value_size: int
    key: bytes | None
    value: bytes | None
    sequence: int = -1
    header_keys: tuple[bytes, ...] = ()
    crc: int | None = None
    is_valid: bool = True
    problem: CorruptBatch | None = None  # what is wrong with the key or the value of a v0 or v1 message


def record_line(record: DumpedRecord, timestamp_type: int, is_control: bool, options: DumpOptions) -> Iterator[str]:
    """The record's line in the pieces that DumpLogSegments prints: it may die between two of them."""
    if not options.skip_record_metadata:
        yield _metadata(record, TIME_LABELS[timestamp_type])
        if is_control:
            yield control_text(record.key, record.value)
    if options.prints_contents and not is_control:
        yield from _contents(record, options)
    yield "\n"


def _metadata(record: DumpedRecord, label: str) -> str:
    text = f"| offset: {record.offset} {label}: {record.timestamp} keySize: {record.key_size} valueSize: {record.value_size}"
    if record.crc is not None:
        return f"{text} isValid: {str(record.is_valid).lower()} crc: {record.crc}"
    return f"{text} sequence: {record.sequence} headerKeys: [{','.join(map(decode_utf8, record.header_keys))}]"


def _contents(record: DumpedRecord, options: DumpOptions) -> Iterator[str]:
    if record.problem is not None:
        raise record.problem
    if options.contents is not None:
        key, value = options.contents(record.offset, record.key, record.value)
    else:
        key = None if record.key is None else decode_utf8(record.key)
        value = None if record.value is None else decode_utf8(record.value)
    prefix = "| " if options.skip_record_metadata else " "
    if key is not None:
        yield f"{prefix}key: {key}"
        prefix = " "
    if value is not None:
        yield f"{prefix}payload: {value}"
