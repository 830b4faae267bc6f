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

from kafkalog.cli.commands import cat as command
from kafkalog.cli.render.cells import JSON_ENCODINGS
from kafkalog.cli.render.escape import json_string
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tasks.cat import decoding, matching
from tests.builders.small_logs import made_batch, made_records, marker, transactional_batch, write_segment
from tests.cli.runner import COMMAND, Run, batch_of, run_on_terminal, write_topic

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
    assert (*decoding.DECODERS, "avro") == command.DECODERS
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
        assert offsets(run, tmp_path, "--topic", topic, "--tail", count) == whole[len(whole) - min(count, len(whole)) :]
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
