"""The records of a v2 batch cut into their fields; control records too."""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkalog.errors import CorruptBatch
from kafkalog.format import batch
from kafkalog.format.batch import increment_sequence
from kafkalog.format.java import as_int64

from .control import cut_control_key, cut_control_value
from .cutter import MORE, Cutter, fault
from .notes import NO_OFFSET, Values, is_offset, time_text

INT8: Final = np.dtype("i1")


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
        record.part_note = f"offset {header['base_offset'] + delta}"
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
    """Whether it is whole; nothing can be said of what lies behind one that is not."""
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
