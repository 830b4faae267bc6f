"""The records of a v2 batch cut into their fields; control records by the grammar of `kafkalog.format.control`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import numpy as np

from kafkalog.errors import CorruptBatch
from kafkalog.format import batch, control
from kafkalog.format.batch import increment_sequence
from kafkalog.format.java import as_int64

from .cutter import MORE, Cutter, fault
from .notes import NO_OFFSET, Values, is_offset, time_text

INT8: Final = np.dtype("i1")
INT16: Final = np.dtype(">i2")
UINT16: Final = np.dtype(">u2")
INT32: Final = np.dtype(">i4")
INT64: Final = np.dtype(">i8")

TYPE_NAMES: Final = {
    control.ABORT: "ABORT",
    control.COMMIT: "COMMIT",
    control.LEADER_CHANGE: "LEADER_CHANGE",
    control.SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    control.SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    control.KRAFT_VERSION: "KRAFT_VERSION",
    control.KRAFT_VOTERS: "KRAFT_VOTERS",
}
NEWER = "of a newer version: read as version 0"
LENGTH_NOTE = "length + 1"


def cut_records(cut: Cutter, header: Values) -> None:
    """The records up to the end of `cut`; if their count cannot be right, as many as there are."""
    count = header["records_count"]
    plausible = 0 < count <= cut.left // batch.MIN_RECORD_SIZE
    if not plausible:
        cut.part_problem = fault(CorruptBatch("count", found=count, detail=f"{cut.left} bytes of records"))
    number = 0
    while cut.left and (number < count or not plausible):
        if cut.is_full:
            cut.rest(MORE, note=f"{count - number if plausible else 'more'} records are not cut; to see them: kafkalog cat")
            return
        if not _cut_record(cut, number, header):
            return
        number += 1
    if plausible and number < count:
        raise CorruptBatch("count", expected=count, found=number)
    if cut.left:
        raise CorruptBatch("count", found=count, detail=f"{cut.left} bytes follow the last record")


def _cut_record(cut: Cutter, number: int, header: Values) -> bool:
    """Whether the record says where it ends."""
    framed = False
    with cut.part(f"record {number}") as record:
        length = record.varint("length")
        if not 0 < length <= record.left:
            raise CorruptBatch("record-structure", expected=f"a length of at most {record.left}", found=length)
        record.stop = record.position + length
        framed = True
        record.number("attributes", INT8)
        record.note("not used")
        delta = record.varint("timestamp_delta", long=True)
        record.note(_timestamp_note(header, delta))
        delta = record.varint("offset_delta")
        record.note(*_offset_remarks(header, delta))
        record.part_offset = header["base_offset"] + delta
        record.part_note = f"offset {record.part_offset}"
        _cut_key_and_value(record, bool(header["attributes"] & batch.CONTROL))
        _cut_headers(record)
        if record.left:
            raise CorruptBatch("record-structure", expected=f"a record of {length} bytes", found=f"{length - record.left} bytes")
    return framed


def _timestamp_note(header: Values, delta: int) -> str:
    if header["attributes"] & batch.LOG_APPEND_TIME:
        return "not used: LogAppendTime, max_timestamp counts"
    timestamp = as_int64(header["base_timestamp"] + delta)  # as Java adds
    return f"base_timestamp + {delta}: {time_text(timestamp)}"


def _offset_remarks(header: Values, delta: int) -> tuple[str, str]:
    offset, sequence = header["base_offset"] + delta, header["base_sequence"]
    note = f"offset {header['base_offset']} + {delta} = {offset}"
    if sequence >= 0:
        note += f"; sequence number {increment_sequence(sequence, delta)}"
    return note, "" if is_offset(offset) else NO_OFFSET


def _cut_key_and_value(record: Cutter, is_control: bool) -> None:
    key_length = record.varint("key_length")
    record.note("null" if key_length < 0 else "")
    if is_control:
        control_type = cut_control_key(record, key_length)
    else:
        record.content("key", key_length)
    value_length = record.varint("value_length")
    record.note("null" + ("" if is_control else ", a tombstone") if value_length < 0 else "")
    if is_control:
        cut_control_value(record, control_type, value_length)
    else:
        record.content("value", value_length)


def _cut_headers(record: Cutter) -> None:
    count = record.varint("headers_count")
    most = record.left // 2  # a header has two bytes at least
    if not 0 <= count <= most:
        raise CorruptBatch("record-structure", expected=f"at most {most} headers", found=count)
    for number in range(count):
        if record.is_full:
            record.rest(MORE, note=f"{count - number} headers are not cut")
            return
        if not _cut_header(record, number):
            return


def _cut_header(record: Cutter, number: int) -> bool:
    """Whether it is whole; what follows one that is not cannot be read."""
    whole = False
    with record.part(f"header {number}") as header:
        length = header.varint("header_key_length")
        if length < 0:
            raise CorruptBatch("record-structure", detail="a header without a key")
        header.content("header_key", length, "text")
        length = header.varint("header_value_length")
        header.note("null" if length < 0 else "")
        header.content("header_value", length)
        header.stop = header.position
        whole = True
    return whole


def cut_control_key(record: Cutter, size: int) -> int | None:
    """The type that the key names; None if it names none."""
    control_type = None
    with _sized(record, "key", size) as key:
        key.shortage = "control"
        if size < control.KEY_SIZE:
            found = "no key" if size < 0 else f"{size} bytes"
            raise CorruptBatch("control", expected=f"a key of {control.KEY_SIZE} bytes", found=found)
        version = key.number("key_version", INT16)
        key.note("", "expected 0 or above" if version < 0 else "")
        control_type = key.number("key_type", INT16)
        key.note(TYPE_NAMES.get(control_type, "a type that is not known: readers skip it"))
        key.rest("key_rest", note=NEWER)
    return control_type


def cut_control_value(record: Cutter, control_type: int | None, size: int) -> None:
    cut = _VALUES.get(-1 if control_type is None else control_type)
    if cut is None:
        record.content("value", size)
        return
    with _sized(record, "value", size) as value:
        value.shortage = "control"
        if size < 0:
            raise CorruptBatch("control", expected=f"a value for control type {control_type}", found="none")
        version = value.number("value_version", INT16)
        if control_type in (control.ABORT, control.COMMIT):
            value.note("", "expected 0 or above" if version < 0 else "")
        try:
            cut(value)
        except CorruptBatch as error:
            raise CorruptBatch("control", expected=error.expected, found=error.found, detail=error.detail) from None
        value.rest("value_rest", note=NEWER)


def _sized(record: Cutter, name: str, size: int) -> AbstractContextManager[Cutter]:
    if size > record.left:
        raise CorruptBatch("record-structure", expected=f"at most {record.left} bytes of {name}", found=size)
    return record.part(name, record.position + max(size, 0))


def _cut_marker(value: Cutter) -> None:
    value.number("coordinator_epoch", INT32)
    value.note("of the transaction coordinator")


def _cut_leader_change(value: Cutter) -> None:
    value.number("leader_id", INT32)
    _cut_array(value, "voters", _cut_voter_id)
    _cut_array(value, "granting_voters", _cut_voter_id)
    _cut_tags(value)


def _cut_voter_id(value: Cutter) -> None:
    value.number("voter_id", INT32)
    _cut_tags(value)


def _cut_snapshot_header(value: Cutter) -> None:
    value.note(time_text(value.number("last_contained_log_timestamp", INT64)))
    _cut_tags(value)


def _cut_kraft_version(value: Cutter) -> None:
    value.number("kraft_version", INT16)
    _cut_tags(value)


def _cut_voters(value: Cutter) -> None:
    _cut_array(value, "voters", _cut_voter)
    _cut_tags(value)


def _cut_voter(value: Cutter) -> None:
    value.number("voter_id", INT32)
    directory_id = base64.urlsafe_b64encode(value.data[value.position : value.position + 16]).decode().rstrip("=")
    value.take("directory_id", 16, "uuid", directory_id)
    _cut_array(value, "endpoints", _cut_endpoint)
    value.number("min_supported_version", INT16)
    value.number("max_supported_version", INT16)
    _cut_tags(value)  # of the pair of versions
    _cut_tags(value)


def _cut_endpoint(value: Cutter) -> None:
    for name in ("name", "host"):
        value.content(name, _cut_length(value, f"{name}_length"), "text")
    value.number("port", UINT16)
    _cut_tags(value)


def _cut_length(value: Cutter, name: str) -> int:
    length = value.uvarint(name, LENGTH_NOTE) - 1
    if length < 0:
        raise CorruptBatch("control", detail=f"null as {name}, where a value must be")
    return length


def _cut_array(value: Cutter, name: str, element: Callable[[Cutter], None]) -> None:
    count = _cut_length(value, f"{name}_count")
    if count > value.left:
        raise CorruptBatch("control", expected=f"at most {value.left} {name}", found=count)
    for _ in range(count):
        element(value)


def _cut_tags(value: Cutter) -> None:
    for _ in range(value.uvarint("tags_count", "tagged fields: later additions that old readers skip")):
        value.uvarint("tag")
        value.content("tag_content", value.uvarint("tag_size"))


_VALUES: Final[dict[int, Callable[[Cutter], None]]] = {
    control.ABORT: _cut_marker,
    control.COMMIT: _cut_marker,
    control.LEADER_CHANGE: _cut_leader_change,
    control.SNAPSHOT_HEADER: _cut_snapshot_header,
    control.SNAPSHOT_FOOTER: _cut_tags,
    control.KRAFT_VERSION: _cut_kraft_version,
    control.KRAFT_VOTERS: _cut_voters,
}
