"""Every output format gives the rows that the library gives."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import kafkalog
from kafkalog.cli.commands import shared_options
from kafkalog.cli.commands import table as command
from kafkalog.cli.render import writers
from kafkalog.cli.render.cells import TEXT_ENCODINGS
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tables import logs as library
from kafkalog.tables.schemas import LOG_TABLES, TABLES
from tests.cli.runner import Run, batch_of, write_topic

UNHURT = ("--topic", "orders", "--topic", "legacy", "--topic", "payments")
VALUES = (b"plain", b"", None, b'quo"te,comma', b"line\r\nbreak", b"\xff\x00\xfe", "Größe 🎉".encode(), b"\x1b[31m", b"null")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """One record for each troublesome value."""
    write_topic(tmp_path, "odd-0", batch_of(*VALUES, header=b"h\xff"))
    return tmp_path


def expected(logs: Path, name: str, **choices: Any) -> pa.Table:
    return kafkalog.open(logs).read(name, **choices).read_all()


def test_the_names_in_the_help_are_those_of_the_library() -> None:
    assert tuple(TABLES) == command.TABLES
    assert library.ISOLATIONS == shared_options.ISOLATIONS
    assert library.DAMAGE_MODES == shared_options.DAMAGE_MODES
    assert writers.FORMATS == shared_options.FORMATS
    assert tuple(TEXT_ENCODINGS) == shared_options.ENCODINGS


@pytest.mark.parametrize("name", LOG_TABLES)
def test_arrow_and_parquet_hold_the_table_itself(run: Run, logs: Path, tmp_path: Path, name: str) -> None:
    wanted = expected(logs, name, topics=["orders", "legacy", "payments"])
    stream = run("table", name, logs, *UNHURT, "--format", "arrow")
    assert (stream.code, stream.errors) == (0, "")
    assert pa.ipc.open_stream(stream.out).read_all().equals(wanted)
    file = tmp_path / "out.parquet"
    assert run("table", name, logs, *UNHURT, "--format", "parquet", "--output", file).code == 0
    assert pa.parquet.read_table(file).cast(wanted.schema).equals(wanted)
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize("name", LOG_TABLES)
def test_json_csv_and_text_have_a_line_for_every_row(run: Run, logs: Path, name: str) -> None:
    wanted = expected(logs, name, topics=["orders", "legacy", "payments"])
    lines = [json.loads(line) for line in run("table", name, logs, *UNHURT, "--format", "json").text.splitlines()]
    assert [list(line) for line in lines] == [wanted.schema.names] * wanted.num_rows
    for column in set(wanted.schema.names) & {"offset", "topic", "base_offset", "is_control", "state", "size"}:
        assert [line[column] for line in lines] == wanted[column].to_pylist()
    rows = list(csv.reader(io.StringIO(run("table", name, logs, *UNHURT, "--format", "csv").text, newline="")))
    assert rows[0] == wanted.schema.names
    assert len(rows) == wanted.num_rows + 1
    assert len(run("table", name, logs, *UNHURT).text.splitlines()) == wanted.num_rows + 1


def test_json_keeps_every_byte_and_distinguishes_null_from_empty(run: Run, odd: Path) -> None:
    lines = [json.loads(line) for line in run("table", "records", odd, "--format", "json").text.splitlines()]
    assert [line["value"] for line in lines] == [
        "plain", "", None, 'quo"te,comma', "line\r\nbreak", {"base64": "/wD+"}, "Größe 🎉", "\x1b[31m", "null",
    ]  # fmt: skip
    assert lines[0]["headers"] == [{"key": "h�", "value": {"base64": "aP8="}}]
    assert lines[0]["timestamp"] == "1970-01-01T00:00:01.000Z"


@pytest.mark.parametrize(("encoding", "plain", "binary"), [("hex", "706c61696e", "ff00fe"), ("base64", "cGxhaW4=", "/wD+")])
def test_hex_and_base64_are_exact_in_every_text_format(run: Run, odd: Path, encoding: str, plain: str, binary: str) -> None:
    for name in ("text", "json", "csv"):
        out = run("table", "records", odd, "--columns", "value", "--format", name, "--encoding", encoding).text
        assert plain in out
        assert binary in out


def test_csv_for_a_spreadsheet_holds_no_formula_and_other_csv_reads_back(run: Run, tmp_path: Path) -> None:
    formulas = (b"=1+1", b"+1", b"-1", b"@SUM(A1)", b"\t=1", b"\r=1", b"\n=1", "\uff1d1".encode())
    harmless = (b"a=1", b"", None, b"1", b"'=1")
    write_topic(tmp_path, "odd-0", batch_of(*formulas, *harmless, key=b"=k"))
    for words in (("table", "records", tmp_path, "--columns", "key,value"), ("cat", tmp_path)):
        plain, safe = (
            list(csv.DictReader(io.StringIO(run(*words, "--format", "csv", *options).out.decode(), newline="")))
            for options in ((), ("--csv-safe",))
        )
        assert [row["value"].encode() for row in plain] == [value or b"" for value in (*formulas, *harmless)]
        assert [row["value"].encode() for row in safe[: len(formulas)]] == [b"'" + value for value in formulas]
        assert [row["value"] for row in safe[len(formulas) :]] == [row["value"] for row in plain[len(formulas) :]]
        assert {row["key"] for row in safe} == {"'=k"}
    refused = run("cat", tmp_path, "--csv-safe")
    assert refused.code == 2
    assert "--csv-safe has no meaning for --format text" in refused.errors


def test_csv_distinguishes_null_from_empty_and_quotes_the_rest(run: Run, odd: Path) -> None:
    out = run("table", "records", odd, "--columns", "offset,value", "--format", "csv").out
    assert out.startswith(
        b'offset,value\r\n0,plain\r\n1,""\r\n2,\r\n3,"quo""te,comma"\r\n4,"line\r\nbreak"\r\n5,\\xff\x00\\xfe\r\n'
    )
    assert len(list(csv.reader(io.StringIO(out.decode(), newline="")))) == len(VALUES) + 1


def test_text_escapes_what_is_not_printable_and_marks_null_and_empty(run: Run, odd: Path) -> None:
    lines = run("table", "records", odd, "--columns", "offset,value").text.splitlines()
    assert lines[0].split() == ["offset", "value"]
    assert [line[8:] for line in lines[1:]] == [
        "plain", '""', "null", 'quo"te,comma', "line\\r\\nbreak", "\\xff\\x00\\xfe", "Größe 🎉", "\\x1b[31m", "null",
    ]  # fmt: skip


def test_text_is_aligned_and_plain_in_a_pipe(run: Run, logs: Path) -> None:
    lines = run("table", "records", logs, "--topic", "orders", "--columns", "offset,key,value,codec").text.splitlines()
    assert "\x1b" not in "".join(lines)
    starts = {line.index(codec) for line, codec in zip(lines[1::2], ("none", "gzip", "snappy", "lz4", "zstd"), strict=True)}
    assert len(starts) == 1
    assert all(re.match(r" {5}\d  ", line) for line in lines[1:])


def test_values_are_whole_in_a_pipe(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "wide-0", batch_of(b"x" * 100_000, b"y"))
    out = run("table", "records", tmp_path, "--columns", "value,offset").text
    assert "x" * 100_000 in out
    assert len(out) < 101_000  # one wide value does not pad every other row


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (9_223_372_036_854_775, "+294247-01-10T04:00:54.775Z"),
        ((1 << 63) - 1, None),
    ],
)
def test_any_timestamp_is_written_or_null_and_the_number_stays(run: Run, tmp_path: Path, milliseconds: int, shown: str) -> None:
    write_topic(tmp_path, "times-0", encode_batch([Record(0, milliseconds, None, b"")]))
    ended = run("table", "records", tmp_path, "--columns", "timestamp,timestamp_ms", "--format", "json")
    assert json.loads(ended.out) == {"timestamp": shown, "timestamp_ms": milliseconds}


def test_rows_are_streamed_in_chunks_that_each_fit_their_widest_value(run: Run, tmp_path: Path) -> None:
    batches = [batch_of(*[b"v" * (1 + base // 500)] * 500, base_offset=base) for base in range(0, 5000, 500)]
    write_topic(tmp_path, "many-0", *batches)
    lines = run("table", "records", tmp_path, "--columns", "value,offset").text.splitlines()
    assert [int(line.split()[1]) for line in lines[1:]] == list(range(5000))


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (1, 1), (3, 3), (10, 10), (11, 10)])
@pytest.mark.parametrize("name", ["json", "csv", "text", "arrow", "parquet"])
def test_limit_gives_the_first_rows(run: Run, logs: Path, limit: int, rows: int, name: str) -> None:
    ended = run("table", "records", logs, "--topic", "orders", "--columns", "offset", "--limit", limit, "--format", name)
    assert ended.code == 0
    if name == "arrow":
        found = pa.ipc.open_stream(ended.out).read_all()["offset"].to_pylist()
    elif name == "parquet":
        found = pa.parquet.read_table(pa.BufferReader(ended.out))["offset"].to_pylist()
    elif name == "json":
        found = [json.loads(line)["offset"] for line in ended.text.splitlines()]
    else:
        found = [int(line) for line in ended.text.splitlines()[1:]]
    assert found == list(range(rows))


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--start-offset", "3", "--stop-offset", "6"], [3, 4, 5]),
        (["--start-time", "2026-01-01T00:00:07Z"], [7, 8, 9]),
        (["--start-time", "2026-01-01T01:00:07+01:00", "--stop-time", "1767225608000"], [7]),
        (["--partition", "0", "--stop-offset", "1", "--threads", "1"], [0]),
    ],
)
def test_ranges_and_choices_reach_the_read(run: Run, logs: Path, options: list[str], offsets: list[int]) -> None:
    ended = run("table", "records", logs, "--topic", "orders", "--columns", "offset", "--format", "csv", *options)
    assert [int(line) for line in ended.text.split()[1:]] == offsets


def test_isolation_and_control_records_reach_the_read(run: Run, logs: Path) -> None:
    def offsets(*options: str) -> list[int]:
        ended = run("table", "records", logs, "--topic", "payments", "--columns", "offset", "--format", "csv", *options)
        return [int(line) for line in ended.text.split()[1:]]

    assert offsets() == [0, 1, 3, 4]
    assert offsets("--isolation", "read_committed") == [0, 1]
    assert offsets("--include-control") == [0, 1, 2, 3, 4, 5]
