"""Records to append, in every format; and errors in a source, with their place."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import kafkalog
from kafkalog.errors import StorageError, UsageError
from kafkalog.tasks.append.sources import read_tables, source_file, with_timestamps

ROWS = pa.table(
    {
        "key": pa.array(["a", None]),
        "value": pa.array([b"1", b"\xff"], pa.binary()),
        "timestamp": pa.array([1_500_000, None], pa.timestamp("us", "UTC")),
        "other": [1, 2],
    }
)


def read(path: Path | str, *options: str) -> list[dict[str, object]]:
    return [row for table in read_tables(source_file(str(path), *options)) for row in table.to_pylist()]


def test_arrow_and_parquet_keep_the_columns_that_count(tmp_path: Path) -> None:
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as sink, pa.ipc.new_file(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    with pa.OSFile(str(tmp_path / "stream.arrows"), "wb") as sink, pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    pyarrow.parquet.write_table(ROWS, tmp_path / "rows.parquet")
    expected = ROWS.select(["key", "value", "timestamp"]).to_pylist()
    for name in ("file.arrow", "stream.arrows", "rows.parquet"):
        assert read(tmp_path / name) == expected


def test_csv_distinguishes_null_from_empty_and_takes_quotes_line_breaks_and_headers(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text(
        "topic,partition,offset,timestamp,key,value,headers\r\n"
        't,0,1,2026-11-15T09:20:09.449Z,,"a, ""b""\nc","[[""h"",null]]"\r\n'
        't,1,2,17,"",x,\r\n'
    )
    first, second = read(path)
    assert first["key"] is None
    assert first["value"] == b'a, "b"\nc'
    assert (first["timestamp_ms"], second["timestamp_ms"]) == (1_794_734_409_449, 17)
    assert first["headers_raw"] == [{"key": b"h", "value": None}]
    assert (second["key"], second["partition"], second["headers_raw"]) == (b"", 1, None)


def test_headers_are_pairs_or_an_object(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(
        '{"value": 1, "headers": [["a", "1"], ["a", null]]}\n'
        '{"value": 1, "headers": [{"key": "a", "value": "1"}, {"key": "a", "value": null}]}\n'
        '{"value": 1, "headers": {"a": "1", "b": null}}\n'
        '{"value": 1, "headers": {}}\n'
    )
    twice = [{"key": b"a", "value": b"1"}, {"key": b"a", "value": None}]
    both = [{"key": b"a", "value": b"1"}, {"key": b"b", "value": None}]
    assert [row["headers_raw"] for row in read(path)] == [twice, twice, both, None]


def test_lines_and_encodings(tmp_path: Path) -> None:
    path = tmp_path / "values.txt"
    path.write_bytes(b"one\r\n\nthr\xffee")
    assert [row["value"] for row in read(path)] == [b"one", b"", b"thr\xffee"]
    path.write_bytes(b"6f6e65\n")
    assert read(path, "lines", "hex") == [{"value": b"one"}]
    (tmp_path / "keys.csv").write_text("key,value\nYQ==,Yg==\n")
    assert read(tmp_path / "keys.csv", "csv", "base64") == [{"key": b"a", "value": b"b"}]
    (tmp_path / "keys.jsonl").write_text('{"key": "6b", "value": {"base64": "/w=="}}\n')
    assert read(tmp_path / "keys.jsonl", "json", "hex")[0]["key"] == b"k"
    assert read(tmp_path / "keys.jsonl", "json", "hex")[0]["value"] == b"\xff"


def test_standard_input_is_json_unless_a_format_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'"a"\n2\n')))
    assert [row["value"] for row in read("-")] == [b"a", b"2"]
    with pytest.raises(UsageError, match="Parquet cannot be read from standard input"):
        source_file("-", "parquet")


def test_errors_are_reported_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such file"):
        source_file(str(tmp_path / "none.csv"))
    (tmp_path / "records.data").touch()
    with pytest.raises(UsageError, match="give --format"):
        source_file(str(tmp_path / "records.data"))
    for name, content, words in (
        ("a.csv", "k,v\n1,2\n", "neither a column key nor a column value; there are: 'k', 'v'"),
        ("b.csv", "key,key\n1,2\n", "column key occurs twice"),
        ("c.csv", "value,timestamp\nx,soon\n", "record 1: 'soon' is not a timestamp"),
        ("d.jsonl", '"fine"\n{\n', "line 2: not JSON"),
        ("d2.jsonl", '{"value": 1, "headers": "a=1"}', 'line 1: headers are .* or {"name": "value"}'),
        ("e.parquet", "no", "cannot be read as parquet"),
        ("f.arrow", "garbage here", "cannot be read as arrow"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(UsageError, match=words):
            read(tmp_path / name)


def test_a_record_without_a_time_gets_the_time_of_now() -> None:
    times = with_timestamps(ROWS, 99, keep=True).column("timestamp_ms").to_pylist()
    assert times == [1500, 99]
    assert with_timestamps(ROWS, 99, keep=False).column("timestamp_ms").to_pylist() == [99, 99]
    assert with_timestamps(ROWS.select(["value"]), 7, keep=True).column("timestamp_ms").to_pylist() == [7, 7]


def test_a_table_without_a_column_that_counts_is_refused_and_appends_no_nulls(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the table: neither a column key nor a column value; there are: 'k', 'v'"):
        kafkalog.append(pa.table({"k": [b"1"], "v": [b"2"]}), tmp_path / "orders-0")
    assert not (tmp_path / "orders-0").exists()
