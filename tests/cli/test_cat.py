"""`kafkalog cat` as a user types it: the formats, the choice of records, and how it ends."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from rich.cells import cell_len

from kafkalog.cli.commands import cat as command
from kafkalog.cli.render.cells import JSON_ENCODINGS
from kafkalog.cli.render.escape import json_string
from kafkalog.format.quantities import size_text
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tasks.cat import decoding, matching
from tests.builders.small_logs import made_batch, made_records, marker, transactional_batch, write_segment
from tests.cli.runner import COMMAND, Run, batch_of, run_on_terminal, without_styles, write_topic
from tests.conftest import require

HERE = Path(__file__).resolve()
NAMES = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
ODD = (
    b"", b"plain", b'{"a":"b\\c"}', b"tab\tline\nbell\x07del\x7f", "größe 日本語 🙂".encode(), "\u202e\u200b\U000e0001".encode(),
    b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x99", b"x" * 3000, bytes(range(256)), b"a" * 7 + b'"', b"\x00",
)  # fmt: skip


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def offsets(run: Run, *arguments: object) -> list[int]:
    ended = run("cat", *arguments, "--format", "json")
    assert ended.code == 0, ended.errors
    return [line["offset"] for line in lines(ended.text)]


def odd_records(seed: int) -> list[Record]:
    """Records with every odd text, and random bytes and characters, as key, value and header."""
    source = random.Random(seed)
    texts: list[bytes | None] = [None, *ODD, *(source.randbytes(source.randrange(40)) for _ in range(100))]
    for _ in range(100):
        code_points = (source.choice((source.randrange(0xD800), source.randrange(0xE000, 0x110000))) for _ in range(9))
        texts.append("".join(map(chr, code_points)).encode())
    return [
        Record(number, 1000 + number, text, source.choice(texts), ((text or b"h", None), (b"h", text)) if number % 2 else ())
        for number, text in enumerate(texts)
    ]


def expected_lines(records: list[Record], encoding: str) -> str:
    encode = JSON_ENCODINGS[encoding]

    def shown(content: bytes | None) -> str:
        return "null" if content is None else encode(content)

    return "".join(
        f'{{"topic":"odd","partition":0,"offset":{record.offset},"timestamp":{record.timestamp},"timestampType":0,'
        f'"key":{shown(record.key)},"value":{shown(record.value)},'
        f'"headers":[{",".join(f"[{shown(key)},{shown(value)}]" for key, value in record.headers)}]}}\n'
        for record in records
    )


def check_json_lines(folder: Path) -> None:
    """Written by the kernel, compared with what Python's own `json` makes of the same bytes."""
    from kafkalog.cli.main import main

    records = odd_records(7)
    write_topic(folder, "odd-0", encode_batch(records))
    for encoding in JSON_ENCODINGS:
        target = folder / f"{encoding}.jsonl"
        assert main(["cat", str(folder), "--format", "json", "--encoding", encoding, "--output", str(target)]) == 0
        assert target.read_text(encoding="utf-8") == expected_lines(records, encoding)


@pytest.mark.parametrize("mode", ["", "NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_json_lines_are_what_python_would_write_in_every_mode_of_the_kernels(mode: str, tmp_path: Path) -> None:
    environment = {**os.environ, **({mode: "1"} if mode else {})}
    program = f"import pathlib, tests.cli.test_cat as here; here.check_json_lines(pathlib.Path({str(tmp_path)!r}))"
    root = HERE.parent.parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_help_names_what_the_task_knows() -> None:
    assert (command.AUTO, command.NONE, *decoding.DECODERS, "avro") == command.DECODERS
    assert command.PATTERNS == matching.PATTERNS


def test_a_line_has_exactly_the_eight_names_and_null_stays_null(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "orders-0", encode_batch([Record(0, 5, None, None, ((b"a", None), (b"b", b"c")))]))
    (line,) = lines(run("cat", tmp_path, "--format", "json").text)
    assert list(line) == NAMES
    assert line == dict(zip(NAMES, ["orders", 0, 0, 5, 0, None, None, [["a", None], ["b", "c"]]], strict=True))


def test_the_longest_line_is_whole(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "long-0", batch_of(b"\x01" * 2_000_000, b"next"))
    assert [line["value"] for line in lines(run("cat", tmp_path, "--format", "json").text)] == ["\x01" * 2_000_000, "next"]


def test_arrow_parquet_and_csv_have_the_columns_of_a_line(run: Run, logs: Path, tmp_path: Path) -> None:
    stream = pa.ipc.open_stream(run("cat", logs, "--topic", "orders", "--format", "arrow").out).read_all()
    assert stream.schema.names == NAMES
    file = tmp_path / "orders.parquet"
    assert run("cat", logs, "--topic", "orders", "--format", "parquet", "--output", file).code == 0
    assert pa.parquet.read_table(file).num_rows == stream.num_rows
    table = run("cat", logs, "--topic", "orders", "--format", "csv").text.splitlines()
    assert table[0] == ",".join(NAMES[:-1])
    assert run("cat", logs, "--topic", "orders", "--format", "csv", "--headers").text.splitlines()[0] == ",".join(NAMES)


def test_text_shows_headers_only_on_request(run: Run, logs: Path) -> None:
    assert "headers" not in run("cat", logs, "--topic", "orders").text.splitlines()[0]
    assert "headers" in run("cat", logs, "--topic", "orders", "--headers").text.splitlines()[0]


@pytest.mark.parametrize(
    ("pattern", "key", "grep", "found"),
    [
        ("text", "key-3", None, [3]),
        ("text", None, "value-1", [1, *range(10, 20)]),
        ("text", "key-12", "value-1", [12]),
        ("hex", "6b65792d33", None, [3]),
        ("hex", None, "2d3139", [19]),
        ("regex", "y-1[57]$", None, [15, 17]),
        ("regex", None, r"^value-\d$", list(range(10))),
        ("text", "key", None, []),
    ],
)
def test_records_are_chosen_by_key_and_value(
    run: Run, tmp_path: Path, pattern: str, key: str | None, grep: str | None, found: list[int]
) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(10))
    chosen = [*(("--key", key) if key else ()), *(("--grep", grep) if grep else ())]
    assert offsets(run, tmp_path, "--pattern", pattern, *chosen) == found


def test_bytes_that_are_no_text_can_be_searched(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "raw-0", batch_of(b"\xff\xfe", b"\xfe", None))
    assert offsets(run, tmp_path, "--pattern", "hex", "--grep", "ff") == [0]
    assert offsets(run, tmp_path, "--pattern", "regex", "--grep", r"\xfe$") == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 95, 1000])
def test_the_tail_is_the_end_of_the_whole(run: Run, tmp_path: Path, count: int) -> None:
    """Two partitions, sparse offsets as compaction leaves them, several segments, an index."""
    sparse = [encode_batch(made_records(base, 3, step=300)) for base in range(0, 20_000, 1000)]
    write_segment(tmp_path / "sparse-0", 0, *sparse[:10], indexed=range(1, 10))
    write_segment(tmp_path / "sparse-0", 10_000, *sparse[10:], indexed=range(1, 10))
    write_segment(tmp_path / "dense-0", 0, *(made_batch(base) for base in range(0, 100, 10)))
    for topic in ("sparse", "dense"):
        whole = offsets(run, tmp_path, "--topic", topic)
        for option in ("--tail", "--tail-each"):
            assert offsets(run, tmp_path, "--topic", topic, option, count) == whole[len(whole) - min(count, len(whole)) :]
    both = offsets(run, tmp_path, "--tail", count)
    assert len(both) == min(count, 100) + min(count, 60)


def test_the_tail_of_a_read_committed_view_ends_where_that_does(run: Run, tmp_path: Path) -> None:
    entries = [made_batch(0), transactional_batch(10, 10, 7), marker(20, 7, commit=False), transactional_batch(21, 5, 8)]
    write_segment(tmp_path / "orders-0", 0, *entries)
    assert offsets(run, tmp_path, "--tail", 3, "--isolation", "read_committed") == [7, 8, 9]
    assert offsets(run, tmp_path, "--tail", 3) == [23, 24, 25]


def test_the_tail_of_a_large_log_reads_its_end_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    from kafkalog.storage.local import LocalFile

    batches = [made_batch(base, 100) for base in range(0, 100_000, 100)]
    path = write_segment(tmp_path / "large-0", 0, *batches, indexed=range(1, 1000))
    taken = []
    read = LocalFile.read_into

    def counted(self: Any, position: int, target: Any) -> Any:
        taken.append(len(memoryview(target).cast("B")))
        return read(self, position, target)

    assert offsets(run, tmp_path) == list(range(100_000))
    monkeypatch.setattr(LocalFile, "read_into", counted)
    assert offsets(run, tmp_path, "--tail", 5) == list(range(99_995, 100_000))
    assert sum(taken) < path.stat().st_size // 10


def places(run: Run, *arguments: object) -> list[tuple[int, int]]:
    ended = run("cat", *arguments, "--format", "json")
    assert ended.code == 0, ended.errors
    return [(line["partition"], line["offset"]) for line in lines(ended.text)]


def test_the_tail_of_a_topic_is_the_newest_of_all_its_partitions_by_time(run: Run, tmp_path: Path) -> None:
    """The event at offset 2 of partition 1 arrived late: it counts as of the time of the one before it."""
    for number, times in enumerate(([10, 20, 50, 60], [30, 40, 5], [1, 2])):
        batch = encode_batch([Record(offset, time, None, b"v") for offset, time in enumerate(times)])
        write_topic(tmp_path, f"orders-{number}", batch)
    assert places(run, tmp_path, "--tail", 4) == [(1, 1), (1, 2), (0, 2), (0, 3)]
    assert places(run, tmp_path, "--tail", 2) == [(0, 2), (0, 3)]
    assert places(run, tmp_path, "--tail", 100)[:4] == [(2, 0), (2, 1), (0, 0), (0, 1)]
    assert places(run, tmp_path, "--tail", 2, "--partition", 1) == [(1, 1), (1, 2)]
    assert places(run, tmp_path, "--tail-each", 1) == [(0, 3), (1, 2), (2, 1)]
    assert "give one of them" in run("cat", tmp_path, "--tail", 1, "--tail-each", 1).errors


def test_a_long_tail_comes_partition_by_partition_with_the_same_records(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        batch = encode_batch([Record(offset, 10 * offset + number, None, b"v") for offset in range(10)])
        write_topic(tmp_path, f"orders-{number}", batch)
    by_time = places(run, tmp_path, "--tail", 10)
    assert by_time == [(number, offset) for offset in range(10) for number in range(3)][-10:]
    for name in ("ORDERED_RECORDS", "ORDERED_BYTES"):
        with monkeypatch.context() as patched:
            patched.setattr(f"kafkalog.tasks.cat.{name}", 5)
            assert places(run, tmp_path, "--tail", 10) == sorted(by_time)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--grep", "value-1"), "11 of 20 records matched"),
        (("--key", "nobody"), "0 of 20 records matched"),
        (("--key", "nobody", "--tail", 5), "0 of the last 5 records matched"),
        (("--start-offset", 100), "no records between these offsets and times"),
        (("--start-time", "2039-01-01T00:00:00Z"), "no records between these offsets and times"),
        (("--tail", 5), ""),
        (("--key", "nobody", "--quiet"), ""),
    ],
)
def test_a_filter_says_how_many_records_matched(run: Run, tmp_path: Path, arguments: tuple[object, ...], says: str) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(10))
    assert run("cat", tmp_path, *arguments).errors == (f"kafkalog: {says}\n" if says else "")


PRETTY = """\
orders-0 offset 0  1970-01-01T00:00:01.000Z
  key k
  header k "\\x1b[2J"
  {
    "a": 1.10,
    "b": [
      true,
      {}
    ],
    "c": "\\u202e\\"x"
  }

orders-0 offset 1  1970-01-01T00:00:01.001Z
  key null
  {broken
  second line \\x1b

orders-0 offset 2  1970-01-01T00:00:01.002Z
  key null
  null

"""


def test_pretty_shows_json_indented_and_the_rest_as_text(run: Run, tmp_path: Path) -> None:
    json_value = '{"a":1.10,"b":[true, {}],"c":"\u202e\\"x"}'.encode()
    records = [
        Record(0, 1000, b"k", json_value, ((b"k", b'"\x1b[2J"'),)),
        Record(1, 1001, None, b"{broken\nsecond line \x1b"),
        Record(2, 1002, None, None),
    ]
    write_topic(tmp_path, "orders-0", encode_batch(records))
    ended = run("cat", tmp_path, "--pretty", "--headers")
    assert (ended.code, ended.text, ended.errors) == (0, PRETTY, "")
    assert "pipe them into jq" in run("cat", tmp_path, "--pretty", "--json").errors


@pytest.mark.parametrize("columns", [40, 80])
def test_pretty_fits_a_terminal_and_has_colours_there(tmp_path: Path, columns: int) -> None:
    value = json.dumps(
        {"k" * 50: ["日本語" * 40, 1, None], "deep": {"deeper": {"deepest": "x" * 300}}}, ensure_ascii=False
    ).encode()
    write_topic(tmp_path, "orders-0", batch_of(value, b"plain " * 40, key=b"\x1b]0;owned\x07" * 20))
    shown = run_on_terminal("cat", tmp_path, "--pretty", columns=columns).text
    assert "\x1b[32m" in shown
    plain = without_styles(shown)
    assert max(map(cell_len, plain.split("\n"))) <= columns
    assert all(line.isprintable() for line in plain.split("\n"))
    assert "".join(plain.split()).count("日本語" * 40) == 1


def test_internal_topics_are_decoded_for_people_and_not_in_a_pipe(run: Run, tmp_path: Path) -> None:
    key = bytes.fromhex("0001 0005 67726f7570 0005 746f706963 00000003")
    value = bytes.fromhex("0003 0000000000000007 ffffffff 0000 0000000000000001")
    batch = encode_batch([Record(0, 1000, key, value), Record(1, 1000, b"?", b"?")])
    write_topic(tmp_path, "__consumer_offsets-0", batch)
    write_topic(tmp_path, "orders-0", batch_of(b"plain"))
    on_terminal = run_on_terminal("cat", tmp_path, columns=240).text
    assert '{"type":1,"data":{"group":"group","topic":"topic","partition":3}}' in on_terminal
    assert "__consumer_offsets decoded; --decode none shows the stored bytes" in on_terminal
    assert "could not decode 1 record; shown as stored" in on_terminal
    assert "plain" in on_terminal
    piped = run("cat", tmp_path)
    assert ("type" in piped.text, piped.errors) == (False, "")
    assert '"group": "group"' not in run_on_terminal("cat", tmp_path, "--pretty", "--decode", "none").text
    asked = run("cat", tmp_path, "--decode", "auto", "--json", "--topic", "__consumer_offsets", "--limit", 1)
    assert json.loads(asked.text)["value"]["data"]["offset"] == 7
    assert run("cat", tmp_path, "--pretty").text.count('"offset": 7,') == 1


def test_a_narrow_terminal_leaves_out_the_topic_and_not_the_value(tmp_path: Path) -> None:
    write_topic(tmp_path, "a-topic-with-a-long-name-0", batch_of(b"the value " * 9, key=b"key" * 9))
    heading, *_, note = run_on_terminal("cat", tmp_path, columns=80).text.splitlines()
    assert without_styles(heading).split() == ["partition", "offset", "timestamp", "key", "value"]
    assert note == "kafkalog: no room on this terminal for topic; see everything with --pretty or --format json"


def test_follow_shows_new_records(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "live-0", 0, made_batch(0))
    child = subprocess.Popen([*COMMAND, "cat", tmp_path, "--follow", "--tail", "2", "--format", "json"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    seen = [json.loads(child.stdout.readline())["offset"] for _ in range(2)]
    with path.open("ab") as log:
        log.write(made_batch(10, 1))
    seen.append(json.loads(child.stdout.readline())["offset"])
    child.send_signal(signal.SIGINT)
    child.stdout.close()
    assert (seen, child.wait(30)) == ([8, 9, 10], 130)


def test_json_values_become_json_and_broken_ones_stay_text(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "values-0", batch_of(b'{"a":\n1.10}', b"{broken", None, '["\u202e"]'.encode(), b"NaN"))
    ended = run("cat", tmp_path, "--format", "json", "--decode", "json")
    assert [line["value"] for line in lines(ended.text)] == [{"a": 1.1}, "{broken", None, ["\u202e"], "NaN"]
    assert '{"a": 1.10}' in ended.text
    assert "\u202e" not in ended.text
    assert "could not decode 2 records as json; shown as stored" in ended.errors
    assert '{"a": 1.10}' in run("cat", tmp_path, "--decode", "json").text


def test_avro_values_need_their_schema(run: Run, tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "raw", "type": "bytes"}]}
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, schema, {"id": 7, "raw": b"\xff"})
    write_topic(tmp_path, "orders-0", batch_of(b"\0\0\0\0\1" + encoded.getvalue(), b"bad"))
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(schema))
    options = ("--format", "json", "--decode", "avro", "--registry-prefix")
    shown = lines(run("cat", tmp_path, *options, "--schema", file).text)
    assert [line["value"] for line in shown] == [{"id": 7, "raw": base64.b64encode(b"\xff").decode()}, "bad"]
    assert "--schema" in run("cat", tmp_path, *options).errors


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_a_registrys_prefix_that_hinders_decoding_is_named_with_its_option(run: Run, tmp_path: Path, kind: str) -> None:
    require("fastavro")
    file = tmp_path / "text.avsc"
    file.write_text('"string"')
    value = b'{"a":1}' if kind == "json" else b"\x02x"
    write_topic(tmp_path, "orders-0", batch_of(*[b"\0\0\0\0\7" + value] * 3))
    options = ("--json", "--decode", kind, *(("--schema", file) if kind == "avro" else ()))
    assert "(schema id 7): try --registry-prefix" in run("cat", tmp_path, *options).errors
    shown = run("cat", tmp_path, *options, "--registry-prefix")
    assert (lines(shown.text)[2]["value"], shown.errors) == ({"a": 1} if kind == "json" else "x", "")


@pytest.mark.parametrize("command", [("cat",), ("table", "records")])
def test_parquet_has_text_columns_on_request_and_says_what_was_written(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    write_topic(tmp_path, "orders-0", batch_of(b'{"id": 7}', None, key=b"k"), batch_of(b"\xff", base_offset=2))
    file = tmp_path / "orders.parquet"
    options = ("--format", "parquet", "--output", file, "--text", "key,value")
    stopped = run(*command, tmp_path, *options)
    assert (stopped.code, file.exists()) == (2, False)
    assert "the value is not UTF-8" in stopped.errors
    done = run(*command, tmp_path, *options, "--stop-offset", 2)
    assert (done.code, done.errors) == (0, f"kafkalog: wrote 2 rows, {size_text(file.stat().st_size)}, to {file}\n")
    assert duckdb.sql(f"SELECT key, json_extract(value, '$.id') FROM '{file}'").fetchall() == [("k", "7"), ("k", None)]
    as_bytes = run(*command, tmp_path, *options[:-2])
    assert as_bytes.errors.endswith("; key and value are bytes: --text key,value makes them text\n")
    into_folder = run(*command, tmp_path, "--output", tmp_path)
    assert (into_folder.code, "--on-damage skip" in into_folder.errors) == (4, False), "it is not the log that is unreadable"
    replaced = run(*command, tmp_path, *options, "--text-errors", "replace")
    assert "1 text had bytes that are not UTF-8: U+FFFD is in their place" in replaced.errors
    assert "works on arrow and parquet" in run(*command, tmp_path, "--text", "value").errors


def test_searched_records_can_be_text_columns(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0))
    stream = run("cat", tmp_path, "--key", "key-3", "--grep", "3", "--text", "value", "--format", "arrow").out
    assert pa.ipc.open_stream(stream).read_all()["value"].to_pylist() == ["value-3"]


def test_untrusted_bytes_do_not_reach_a_terminal_raw(tmp_path: Path) -> None:
    write_topic(tmp_path, "hostile-0", batch_of(b"\x1b]0;owned\x07", "\u202etxt".encode(), b"a\rb", header=b"\x1b[2J"))
    for name in ("text", "json", "csv"):
        shown = run_on_terminal("cat", tmp_path, "--format", name, "--headers", "--limit", "3")
        assert shown.code == 0
        plain = shown.text.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r", "")
        assert all(line.isprintable() for line in plain.split("\n")), name


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("{folder}/none",), 4, "no such file or folder"),
        (("{folder}", "--topic", "orderz"), 2, "did you mean orders?"),
        (("{folder}", "--grep", "(", "--pattern", "regex"), 2, "not a regular expression"),
        (("{folder}", "--key", "xyz", "--pattern", "hex"), 2, "not hexadecimal"),
        (("{folder}", "--decode", "json", "--format", "parquet"), 2, "--decode produces text"),
        (("{folder}", "--follow", "--format", "parquet"), 2, "--follow never ends"),
        (("{folder}", "--schema", "x"), 2, "--decode avro"),
        (("{folder}", "--decode", "avro", "--schema", "{folder}/none"), 4, "cannot read"),
        (("{folder}", "--topic", "damaged", "--tail", "5"), 1, "--on-damage skip"),
    ],
)
def test_each_failure_has_its_exit_code_and_says_what_to_do(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path, run: Run
) -> None:
    write_topic(tmp_path, "orders-0", batch_of(b"a"))
    broken = bytearray(batch_of(b"a", b"b"))
    broken[-1] ^= 1
    write_topic(tmp_path, "damaged-0", bytes(broken), batch_of(b"c", base_offset=2))
    ended = run("cat", *(each.format(folder=tmp_path) for each in arguments))
    assert (ended.code, says in ended.errors) == (code, True), ended.errors


def test_a_reader_that_goes_away_and_an_interrupt_end_it_quietly(tmp_path: Path) -> None:
    write_topic(tmp_path, "orders-0", *(batch_of(b"v" * 2000, base_offset=offset) for offset in range(3000)))
    for leave, code in ((True, 141), (False, 130)):
        arguments = [*COMMAND, "cat", str(tmp_path), "--format", "json"]
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline()
        if leave:
            child.stdout.close()
        else:
            time.sleep(0.5)  # it waits for a reader now
            child.send_signal(signal.SIGINT)
            child.stdout.read()
        errors = child.stderr.read().decode()
        assert (child.wait(30), "Traceback" in errors) == (code, False)
        child.stdout.close()
        child.stderr.close()


def test_json_string_and_the_kernel_share_their_rule() -> None:
    assert json_string("\u202e\x7f\n") == '"\\u202e\\u007f\\n"'
