"""Sizes that are computed are the sizes of what the encoder writes, and the worked numbers of docs/format.md come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.errors import UsageError
from kafkalog.format.java import MAX_INT32
from kafkalog.format.reference import Record, encode_batch, encode_message
from kafkalog.segment.encode import EncodeOptions, encode_batches, encode_messages
from kafkalog.tasks.estimate import Estimation, estimate_sizes, estimate_table, read_records
from kafkalog.tasks.json_records import SCHEMA, read_json_records


def size(found: Estimation, magic: int, codec: str = "none", batch_records: int = 1) -> int:
    return {(each.magic, each.codec, each.batch_records): each.bytes for each in found.sizes}[magic, codec, batch_records]


def test_a_message_with_key_and_value_has_30_bytes_and_42_in_the_log() -> None:
    found = estimate_sizes(key_size=3, value_size=5)
    message, stored = found.sums["v1"]
    assert (message.total, stored.total) == (30, 42)
    assert str(message) == ("4 crc + 1 magic + 1 attributes + 8 timestamp + 4 key length + 3 key + 4 value length + 5 value = 30")
    assert (size(found, 0), size(found, 1), size(found, 2)) == (34, 42, 76)
    assert [each.total for each in found.sums["v2"]] == [15, 76]


def test_without_a_key_it_has_27_bytes_and_39_in_the_log() -> None:
    assert [each.total for each in estimate_sizes(value_size=5).sums["v1"]] == [27, 39]


def test_both_together_make_81_bytes() -> None:
    lines = [b'{"key":"key","value":"hello"}', b"", b'{"value":"hello"}']
    assert size(estimate_table(read_json_records(lines, "two"), "two"), 1) == 81


def test_the_100th_record_of_a_batch_has_14_bytes() -> None:
    found = estimate_sizes(count=100, value_size=5)
    assert found.sums["v2, record 100 of a batch"][0].total == 14
    assert size(found, 2, batch_records=100) == 1333
    assert size(estimate_sizes(count=1000, value_size=5), 2, batch_records=1000) == 13933


def test_a_v1_message_has_22_bytes_at_least_and_a_v2_record_7() -> None:
    found = estimate_sizes()
    assert (found.sums["v0"][0].total, found.sums["v1"][0].total, found.sums["v2"][0].total) == (14, 22, 7)


def test_v2_becomes_smaller_than_v1_at_the_third_record() -> None:
    v0, v1 = estimate_sizes(value_size=5).turning_points
    assert (v1.magic, v1.records, v1.v2_bytes, v1.other_bytes) == (1, 3, 97, 117)
    assert (v0.magic, v0.records) == (0, 4)


CONTENT = st.none() | st.binary(max_size=300)
HEADER = st.fixed_dictionaries({"key": st.binary(max_size=70), "value": CONTENT})
ROW = st.fixed_dictionaries(
    {
        "key": CONTENT,
        "value": CONTENT,
        "timestamp_ms": st.integers(-1, 2**42),
        "headers_raw": st.none() | st.lists(HEADER, min_size=1, max_size=3),
    }
)


@settings(max_examples=60)
@given(st.lists(ROW, min_size=1, max_size=70), st.sampled_from([1, 2, 7, 64, 100]))
def test_every_size_is_that_of_the_encoded_bytes(rows: list[dict[str, Any]], records: int) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    found = estimate_table(table, "rows", batch_sizes=[records])
    for each in found.sizes:
        options = EncodeOptions(each.codec, batch_records=records, batch_bytes=MAX_INT32, base_offset=0)
        if each.magic == 2:
            encoded = encode_batches(table, options)
        else:
            encoded = encode_messages(table.drop_columns(["headers_raw"]), each.magic, options)
        assert each.bytes == sum(map(len, encoded)), each


@settings(max_examples=60)
@given(ROW)
def test_the_sums_are_those_of_the_reference_codec(row: dict[str, Any]) -> None:
    found = estimate_table(pa.Table.from_pylist([row], schema=SCHEMA), "row", codec_names=["none"])
    headers = tuple((each["key"], each["value"]) for each in row["headers_raw"] or ())
    plain = Record(0, row["timestamp_ms"], row["key"], row["value"])
    assert found.sums["v2"][1].total == len(encode_batch([Record(*plain_fields(plain), headers)]))
    for magic in (0, 1):
        assert found.sums[f"v{magic}"][1].total == len(encode_message(plain, magic=magic))


def plain_fields(record: Record) -> tuple[int, int, bytes | None, bytes | None]:
    return record.offset, record.timestamp, record.key, record.value


def test_records_of_a_log_and_of_json_lines_measure_the_same(tmp_path: Path) -> None:
    records = [Record(at, 1000 + at, b"k%d" % at, b"value " * at, ((b"h", None),)) for at in range(50)]
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_batch(records))
    lines = tmp_path / "records.jsonl"
    lines.write_text(
        "".join(
            json.dumps({"key": f"k{at}", "value": "value " * at, "timestamp": 1000 + at, "headers": [["h", None]]}) + "\n"
            for at in range(50)
        )
    )
    first, second = (estimate_table(read_records(str(path)), "same") for path in (log, lines))
    assert first == second
    assert size(first, 2, batch_records=50) == log.stat().st_size
    assert read_records(str(log), 7).num_rows == read_records(str(lines), 7).num_rows == 7


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 1: not JSON"),
        (b'{"partition": -1}', "is not a partition"),
        (b'{"value": {"base64": "!"}}', "not base64"),
        (b'{"timestamp": "soon"}', "is not a timestamp"),
        (b'{"timestamp": "2026-01-01T00:00:00"}', "no time zone"),
        (b'{"headers": 1}', "headers are"),
        (b'{"headers": [[null, "x"]]}', "only its value may be null"),
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_json_records([line], "lines")


def test_other_json_stands_for_its_own_text_and_base64_for_bytes() -> None:
    table = read_json_records([b'{"key": {"base64": "/w=="}, "value": {"a": [1, "\xc3\xa4"]}}'], "lines")
    assert table.to_pylist()[0]["key"] == b"\xff"
    assert table.to_pylist()[0]["value"] == '{"a":[1,"ä"]}'.encode()


def test_a_line_without_a_key_or_a_value_is_a_value_itself() -> None:
    lines = [b'"text"', b"17", b"[1, 2]", b'{"id": 1, "timestamp": "soon"}', b'{"timestamp": 5}']
    rows = read_json_records(lines, "lines").to_pylist()
    assert [row["value"] for row in rows] == [b"text", b"17", b"[1,2]", b'{"id":1,"timestamp":"soon"}', None]
    assert [row["timestamp_ms"] for row in rows] == [-1, -1, -1, -1, 5]
