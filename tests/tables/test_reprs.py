"""Objects of the lower layers in a session: one line, bounded, without I/O."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kafkalog
from kafkalog.errors import CorruptBatch, Limits, SegmentError
from kafkalog.format.entry_table import EntryHeader, EntryTable
from kafkalog.format.reference import Record, encode_batch
from kafkalog.payloads.internal_topics import CoordinatorRecord, MetadataRecord
from kafkalog.payloads.messages import messages
from kafkalog.payloads.values import PayloadSpec, make_decoder
from kafkalog.segment.windows import Window
from kafkalog.tables.schemas import find_table

LONGEST = 400
HOSTILE_NAME = "\x1b[31m\n" + "x" * 10_000


def _table() -> EntryTable:
    table = EntryTable.with_room(2)
    table.fields[:] = 0
    table.position, table.size, table.magic = [0, 100], [100, 1436], 2
    table.base_offset, table.last_offset = [5, 8], [7, 41]
    return table


def test_logs_show_topics_partitions_segments_and_bytes(tmp_path: Path) -> None:
    data = encode_batch([Record(0, 1, b"k", b"v" * 2000)])
    for folder in ("orders-0", "orders-1", "payments-0"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{0:020d}.log").write_bytes(data)
    (tmp_path / "orders-1" / f"{1:020d}.log").write_bytes(b"")
    assert repr(kafkalog.open(tmp_path)) == f"Logs({str(tmp_path)!r}, 2 topics, 3 partitions, 4 segments, 6.1 KiB)"
    assert repr(kafkalog.open(tmp_path / "orders-0")).endswith(", 1 topic, 1 partition, 1 segment, 2.0 KiB)")


def test_a_table_of_headers_shows_its_entries() -> None:
    table = _table()
    assert repr(table) == "EntryTable(2 entries, offsets 5 to 41, 1.5 KiB)"
    assert repr(table[:1]) == "EntryTable(1 entry, offsets 5 to 7, 100 B)"
    assert repr(table[:0]) == "EntryTable(0 entries)"
    assert repr(table.header(1)) == "EntryHeader(v2 at byte 100, 1.4 KiB, offsets 8 to 41)"
    assert len(repr(EntryTable.with_room(3))) < LONGEST
    assert len(repr(EntryHeader(*[-(1 << 63)] * 16))) < LONGEST


def test_a_window_shows_its_file_and_place() -> None:
    window = Window("/data/t-0/0.log", 4096, np.zeros(1536, np.uint8), _table(), 2)
    assert repr(window) == "Window('/data/t-0/0.log', 2 entries, 1.5 KiB at byte 4096)"
    assert len(repr(Window(HOSTILE_NAME, 0, np.zeros(0, np.uint8), _table(), 0))) < LONGEST


def test_a_data_error_shows_reason_file_and_position() -> None:
    error = CorruptBatch("crc", file="/data/t-0/0.log", position=4096, expected=1, found=2)
    assert repr(error) == "CorruptBatch('crc', file='/data/t-0/0.log', position=4096)"
    hostile = repr(CorruptBatch("crc", file=HOSTILE_NAME, position=0, detail="y" * 10_000))
    assert len(hostile) < LONGEST
    assert "\x1b" not in hostile
    assert "\n" not in hostile
    assert repr(SegmentError.__new__(SegmentError)) == "SegmentError('', file='', position=-1)"


def test_limits_show_every_field() -> None:
    assert repr(Limits(record_bytes=5)).startswith("Limits(batch_bytes=134217728, ")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (PayloadSpec("json"), "PayloadSpec('json', schema to be inferred)"),
        (PayloadSpec("json", "id bigint", is_inferred=True), "PayloadSpec('json', schema 'id bigint', inferred)"),
        (make_decoder(PayloadSpec("json", "id bigint, name string")), "JsonDecoder(2 fields)"),
        (messages("client")["LeaderChangeMessage"], "MessageSchema('LeaderChangeMessage', Versions(0-1), 4 fields)"),
        (CoordinatorRecord(1, {"group": "g"}), "CoordinatorRecord(type=1, key={'group': 'g'}, tombstone)"),
        (MetadataRecord(2, "TOPIC_RECORD", 0, {"name": "t"}), "MetadataRecord(TOPIC_RECORD, version=0, {'name': 't'})"),
        (find_table("epochs"), "Table('epochs', 7 columns)"),
    ],
)
def test_schemas_and_values_show_themselves(shown: object, expected: str) -> None:
    assert repr(shown) == expected


def test_values_of_any_size_show_in_a_line() -> None:
    value = {f"field{number}": "z" * 10_000 for number in range(500)}
    assert len(repr(CoordinatorRecord(1, value, 0, value))) < LONGEST * 2
    assert len(repr(MetadataRecord(2, "TOPIC_RECORD", 0, {"nested": [value] * 100}))) < LONGEST
    assert len(repr(PayloadSpec("json", "a" * 10_000))) < LONGEST
