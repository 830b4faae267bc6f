"""An explanation compared with the bytes it explains, and with the records of the reference codec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkalog import codecs
from kafkalog.errors import SegmentError
from kafkalog.format import batch
from kafkalog.format.batch import NO_SEQUENCE, increment_sequence
from kafkalog.format.reference import Record, decode_entry, decode_records
from kafkalog.payloads.internal_topics import decode_control_record
from kafkalog.tasks.explain import Explanation, Field, Part
from kafkalog.tasks.explain.entries import explain_entries

DECOMPRESSED_LIMIT = 1 << 20


def decompress(codec: int, payload: bytes, magic: int) -> bytes:
    return codecs.decompressed(codec, payload, magic=magic, limit=DECOMPRESSED_LIMIT)


def assert_every_byte_has_one_field(explanation: Explanation, data: bytes) -> int:
    """The number of fields, decompressed ones too, after every byte of `data` was found in exactly one."""
    position, count = explanation.start, 0
    for part in explanation.parts:
        assert part.position == position
        count += assert_part_is_whole(part, data)
        position = part.stop
    assert position == explanation.stop
    return count


def assert_part_is_whole(part: Part, data: bytes) -> int:
    """The same for one part; `data` is all that its positions count in."""
    position, count = part.position, 0
    for child in part.children:
        assert child.position == position, (part.name, child.name)
        position = child.stop
        if isinstance(child, Part):
            count += assert_part_is_whole(child, data)
            continue
        count += 1
        assert child.size > 0, child.name
        assert child.data == data[child.position : child.stop], child.name
        if child.content is not None:
            count += _assert_content_is_whole(child.content)
    assert position == part.stop
    return count


def _assert_content_is_whole(content: Part) -> int:
    assert content.position == 0
    return assert_part_is_whole(content, b"".join(field.data for field in content.fields()))


def field(part: Part, name: str) -> Field:
    """The field of that name right in the part."""
    (found,) = (child for child in part.children if isinstance(child, Field) and child.name == name)
    return found


def number(part: Part, name: str) -> int:
    value = field(part, name).value
    assert isinstance(value, int)
    return value


def content_of(part: Part, length_name: str, name: str) -> bytes | None:
    size = number(part, length_name)
    if size <= 0:
        return None if size < 0 else b""
    return b"".join(each.data for each in _leaves(part, name))


def _leaves(part: Part, name: str) -> Iterator[Field]:
    for child in part.children:
        if child.name == name:
            yield from child.fields() if isinstance(child, Part) else (child,)


# Records as the fields say


def explained_records(entry: Part) -> list[Record]:
    """The records of a batch or message, put together from the values of its fields."""
    if entry.name == "batch":
        return [_batch_record(entry, record) for record in _inner_parts(entry, "records")]
    timestamp = number(entry, "timestamp") if number(entry, "magic") else -1
    kind = _timestamp_type(entry)
    if not number(entry, "attributes") & batch.CODEC_MASK:
        key, value = content_of(entry, "key_length", "key"), content_of(entry, "value_length", "value")
        return [Record(number(entry, "offset"), timestamp, key, value, (), kind)]
    inner = _inner_parts(entry, "value")
    relative = number(entry, "magic") == 1 and number(entry, "offset") > 0
    shift = number(entry, "offset") - number(inner[-1], "offset") if relative else 0
    return [_set_record(each, shift, timestamp, kind) for each in inner]


def _set_record(each: Part, shift: int, timestamp: int, kind: int) -> Record:
    own = number(each, "timestamp") if number(each, "magic") else -1
    if kind == batch.LOG_APPEND_TIME_TYPE and number(each, "magic") == 1:
        own = timestamp
    key, value = content_of(each, "key_length", "key"), content_of(each, "value_length", "value")
    return Record(number(each, "offset") + shift, own, key, value, (), kind)


def _inner_parts(entry: Part, name: str) -> list[Part]:
    compressed = [child for child in entry.children if isinstance(child, Field) and child.name == name and child.content]
    outer = compressed[0].content if compressed else entry
    assert outer is not None
    return [child for child in outer.children if isinstance(child, Part)]


def _timestamp_type(entry: Part) -> int:
    if number(entry, "magic") == 0:
        return batch.NO_TIMESTAMP_TYPE
    append_time = number(entry, "attributes") & batch.LOG_APPEND_TIME
    return batch.LOG_APPEND_TIME_TYPE if append_time else batch.CREATE_TIME


def _batch_record(entry: Part, record: Part) -> Record:
    kind = _timestamp_type(entry)
    added = (number(entry, "base_timestamp") + number(record, "timestamp_delta") + 2**63) % 2**64 - 2**63
    delta, sequence = number(record, "offset_delta"), number(entry, "base_sequence")
    headers = tuple(
        (content_of(each, "header_key_length", "header_key") or b"", content_of(each, "header_value_length", "header_value"))
        for each in record.children
        if isinstance(each, Part) and each.name.startswith("header ")
    )
    return Record(
        number(entry, "base_offset") + delta,
        number(entry, "max_timestamp") if kind else added,
        content_of(record, "key_length", "key"),
        content_of(record, "value_length", "value"),
        headers,
        kind,
        increment_sequence(sequence, delta) if sequence >= 0 else NO_SEQUENCE,
    )


# The oracle


def reference_records(data: bytes, position: int) -> list[Record]:
    """The records of the entry at `position`; SegmentError if anything about it is wrong, a control record too."""
    entry = decode_entry(data, position)
    records = decode_records(entry, decompress)
    if entry.is_control:
        for record in records:
            decode_control_record(record.key, record.value)
    return records


def has_problem(part: Part) -> bool:
    return bool(part_problems(part))


def part_problems(part: Part) -> list[Any]:
    return Explanation("", "log", 0, part.position, part.stop, (part,)).problems


def compare_with_reference(data: bytes) -> tuple[int, int]:
    """(entries in order, entries refused) of `data`, after both sides were found to agree on every one."""
    healthy = refused = 0
    for part in explain_entries(data, 0, decompress):
        try:
            expected = reference_records(data, part.position)
        except SegmentError as error:
            assert has_problem(part) or (part.name == "zeros" and error.reason == "zero-tail"), error
            refused += 1
        else:
            assert not has_problem(part), part_problems(part)
            assert explained_records(part) == expected
            healthy += 1
    return healthy, refused
