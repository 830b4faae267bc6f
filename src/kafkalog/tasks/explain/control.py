"""Control records cut into their fields, by the grammar of `kafkalog.format.control`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import numpy as np

from kafkalog.errors import CorruptBatch
from kafkalog.format import control

from .cutter import Cutter
from .notes import time_text

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
