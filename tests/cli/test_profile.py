"""`kafkalog profile` as a user types it."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from kafkalog import codecs
from kafkalog.cli.commands import profile as command
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tasks import profile as task
from kafkalog.tasks.profile import entry_counts as entries
from kafkalog.tasks.profile import keys, retention, saving
from kafkalog.tasks.profile import record_counts as records
from tests.builders.small_logs import FIRST_TIME, compress, made_batch, write_segment
from tests.cli.runner import COMMAND, Run, run_on_terminal, without_styles

NOW = FIRST_TIME + 3_600_000
FULL, BAR = "█", "▏▎▍▌▋▊▉█"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Two topics: many records of few keys, and one record of the year 2030 at the start of a segment."""
    headers = ((b"traceparent", b"x" * 20),)
    users = [Record(at, FIRST_TIME + at, b"user-%d" % (at % 4), b"same value " * 9, headers) for at in range(400)]
    write_segment(tmp_path / "orders-0", 0, *(encode_batch(users[at : at + 50]) for at in range(0, 400, 50)))
    late = encode_batch([Record(0, 1_900_000_000_000, None, b"v")])
    write_segment(tmp_path / "late-0", 0, late)
    write_segment(tmp_path / "late-0", 5, encode_batch([Record(5, FIRST_TIME, None, b"v" * 50)], codec=3, compress=compress))
    return tmp_path


def test_the_help_says_what_the_task_does() -> None:
    assert command.WEEK_MS == retention.DEFAULT_RETENTION_MS
    shown = command.NOTES.replace("\n", " ")
    limits = (entries.MOST_PRODUCERS, records.MOST_HOURS, records.MOST_KEYS, records.MOST_PREFIXES, records.MOST_HEADERS)
    for number in (*limits, keys.MOST_SLOTS // 2):
        assert f" {number} " in shown
    assert f"over {saving.WHOLE_BYTES >> 20} MiB" in shown
    assert " ".join(map(chr, records.PREFIX_ENDS)) in shown
    assert {option.name: option.default for option in command.profile.params}["top"] == task.TOP


def test_text_says_what_could_go_and_names_the_largest(run: Run, full: Path) -> None:
    ended = run("profile", full, "--now", NOW, "--full")
    assert (ended.code, ended.errors) == (0, "")
    text = ended.text
    assert "402 records in 10 batches, 2 partitions" in text
    assert "in 396 records, which later ones of 4 keys replace" in " ".join(text.split())
    assert "zstd: would save" in text
    assert "without a key:" in text
    late = "late-0/00000000000000000000.log: 1 record up to 2030-03-17 17:46, kept until 2030-03-24 17:46"
    assert late in " ".join(text.split())
    titles = [line for line in text.splitlines() if line.startswith("by ")]
    names = ("topic", "partition", "codec", "hour (UTC)", "producer", "key", "key prefix", "header name")
    assert titles == [f"by {name}" for name in names]
    rows = [line.split() for line in text.splitlines()]
    assert next(row for row in rows if row[:1] == ["traceparent"])[-1] == "400"
    assert [row[1] for row in rows if row[:1] == ["orders"]][-1] == "user-"
    assert max(len(line) for line in text.splitlines()[1:]) <= 100


def test_disk_usage_is_distinguished_from_the_size_of_sparse_files(run: Run, full: Path) -> None:
    index = full / "orders-0" / "00000000000000000000.index"
    index.touch()
    os.truncate(index, 3 << 30)
    text = " ".join(run("profile", full, "--now", NOW).text.split())
    assert "0 B (sparse: 3.0 GiB) of indexes" in text
    disk = json.loads(run("profile", full, "--now", NOW, "--json").text)["disk"]
    assert (disk["index_bytes"], disk["index_disk_bytes"]) == (3 << 30, 0)
    assert disk["disk_bytes"] < 1 << 20
    shown = run("ls", full).text
    assert "on the disk, with all files: " in shown
    assert "(sparse: 3.0 GiB)" in shown


def most_memory(*arguments: object) -> int:
    """The MiB that a command had at most."""
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return used.ru_maxrss >> 10


def test_a_log_of_zstd_takes_little_more_memory_than_a_tiny_one(tmp_path: Path) -> None:
    value = random.Random(1).randbytes(3000).hex().encode() + b"same " * 10_000
    records = [Record(at, FIRST_TIME, b"k", value) for at in range(2)]
    one = encode_batch(records, codec=codecs.ZSTD, compress=compress)
    copies = (4 << 20) // len(one)  # no checksum covers the offset
    write_segment(tmp_path / "tiny" / "t-0", 0, one)
    write_segment(tmp_path / "large" / "t-0", 0, *((2 * at).to_bytes(8, "big") + one[8:] for at in range(copies)))
    most_memory("profile", tmp_path / "tiny")  # compiles
    tiny, large = (most_memory("profile", tmp_path / name, "--threads", 2) for name in ("tiny", "large"))
    assert large - tiny < 100, "140 MiB decompressed, and every window held all of its own at once"


def test_only_the_first_are_named_and_how_many_there_are(run: Run, full: Path) -> None:
    text = run("profile", full, "--full", "--top", 2).text
    assert "by key: the first 2 of 4" in text
    assert text.count("user-") - text.count("  user- ") == 2


def test_json_has_everything(run: Run, full: Path) -> None:
    content = json.loads(run("profile", full, "--json", "--now", NOW).text)
    assert [topic["topic"] for topic in content["topics"]] == ["orders", "late"]
    assert content["topics"][0]["compaction"]["duplicates"] == {"value": 396, "low": 396, "high": 396, "exact": True}
    assert content["keys"]["items"][0]["topic"] == "orders"
    assert content["pinned"][0]["held_until_ms"] == 1_900_000_000_000 + command.WEEK_MS
    assert content["total"]["records"] == sum(bucket["bytes"] >= 0 for bucket in content["partitions"]) * 201
    assert content["report"]["dropped"] == []


def test_keys_that_are_no_text_are_base64_in_json_and_escaped_in_text(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, encode_batch([Record(0, 1, b"\xff\x1b[2J", b"v"), Record(1, 1, b"", b"v")]))
    items = json.loads(run("profile", tmp_path, "--json").text)["keys"]["items"]
    assert sorted(map(str, (item["name"] for item in items))) == ["", "{'base64': '/xtbMko='}"]
    for options in ((), ("--json",)):
        shown = run_on_terminal("profile", tmp_path, *options)
        assert "\x1b[2J" not in shown.text
        assert options or "\\xff\\x1b[2J" in shown.text


def test_quick_reads_headers_only(run: Run, full: Path) -> None:
    text = run("profile", full, "--quick").text
    assert "402 records in 10 batches" in text
    assert "by key" not in text
    assert "duplicates" not in text
    assert "zstd: would save" in text


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_of_any_width_is_enough(full: Path, columns: int) -> None:
    shown = run_on_terminal("profile", full, "--now", NOW, "--full", "--quiet", columns=columns)
    assert shown.code == 0
    lines = without_styles(shown.text).splitlines()
    bars = [line for line in lines if any(mark in line for mark in BAR)]
    assert len(bars) >= 15
    assert max(map(len, lines[1:])) <= columns
    widest = max(line.count(FULL) for line in bars)
    assert widest == (24 if columns == 120 else 12)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (100, 40)])
def test_a_page_fits_the_screen_and_says_how_to_see_all_of_it(full: Path, columns: int, lines: int) -> None:
    for number in range(12):
        one = encode_batch([Record(0, 1, None, b"v" * (2000 + number))])
        write_segment(full / f"a-topic-with-quite-a-long-name-and-the-number-{number:02}-0", 0, one)
    ended = run_on_terminal("profile", full, "--now", NOW, "--quiet", columns=columns, lines=lines)
    shown = without_styles(ended.text).splitlines()
    assert len(shown) < lines
    assert max(map(len, shown[1:])) <= columns
    rows = 3 if lines == 24 else 10
    title = shown.index(f"by topic: the first {rows} of 14 (all tables: --full)")
    assert all(any(mark in line for mark in BAR) for line in shown[title + 2 : title + 2 + rows])
    facts = [line.split("  ")[0] for line in shown[title + 3 + rows :]]
    assert facts == ["keys", "codecs", "batches", "hours UTC", "producers", "headers"][: len(facts)]
    assert len(facts) >= (2 if lines == 24 else 6)


def test_the_page_of_one_topic_has_its_partitions(run: Run, full: Path) -> None:
    assert "by partition (all tables: --full)\n" in run("profile", full, "--topic", "late", "--now", NOW).text


def test_damage_is_left_out_and_makes_the_exit_code_1(run: Run, tmp_path: Path) -> None:
    broken = bytearray(made_batch(0))
    broken[-1] ^= 1
    write_segment(tmp_path / "t-0", 0, bytes(broken), made_batch(10))
    for mode in ("skip", "salvage"):
        ended = run("profile", tmp_path, "--on-damage", mode)
        assert ended.code == 1
        assert "left out 1 damaged range" in ended.errors
        assert "10 records in 1 batch," in ended.text
    strict = run("profile", tmp_path, "--on-damage", "strict")
    assert (strict.code, strict.text) == (1, "")
    assert "--on-damage skip" in strict.errors
    assert run("profile", tmp_path, "--quiet").errors == ""


def test_failures_say_what_to_do(run: Run, full: Path) -> None:
    assert run("profile", full / "none").code == 4
    assert "did you mean orders?" in run("profile", full, "--topic", "order").errors
    assert run("profile", full, "--topic", "late", "--partition", 3).code == 2
    assert run("profile", full, "--top", 0).code == 2


def test_a_log_without_anything_says_so(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0)
    ended = run("profile", tmp_path)
    assert (ended.code, ended.errors) == (0, "")
    assert "0 records in 0 batches" in ended.text
