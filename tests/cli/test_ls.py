"""`kafkalog ls` as a user types it."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.format.reference import Record, encode_batch, encode_message
from tests.builders.small_logs import FIRST_TIME, made_batch, write_segment
from tests.cli.runner import Run, batch_of, run_on_terminal, without_styles, write_topic


def test_topics_are_listed_with_a_total(run: Run, logs: Path) -> None:
    ended = run("ls", logs)
    assert ended.code == 0
    lines = ended.text.splitlines()
    assert lines[0].split()[:4] == ["topic", "partitions", "segments", "size"]
    assert [line.split()[0] for line in lines[1:5]] == ["legacy", "orders", "payments", "sensors"]
    assert "4 topics, 4 partitions, 4 segments" in ended.text


def test_formats_show_what_to_convert(run: Run, logs: Path) -> None:
    ended = run("ls", logs, "--formats", "--quiet")
    (legacy,) = (line.split() for line in ended.text.splitlines() if line.startswith("legacy"))
    assert [legacy[4], legacy[7], legacy[10]] == ["3", "3", "1"]
    assert "1 topic with v0 or v1: " in ended.text
    assert "everything is v2" in run("ls", logs, "--formats", "--topic", "orders").text


def test_partitions_and_counts(run: Run, logs: Path) -> None:
    ended = run("ls", logs, "--by", "partition", "--deep", "--topic", "orders")
    head, row, *_ = (line.split() for line in ended.text.splitlines())
    assert dict(zip(head[:3], row[:3], strict=True)) == {"topic": "orders", "partition": "0", "state": "live"}
    assert row[head.index("records") + 1] == "10"  # a size has its unit as a word of its own


def test_an_estimated_ratio_is_marked_and_a_deep_one_is_exact(run: Run, tmp_path: Path) -> None:
    values = [b"same" * 5_000] * 50 + [random.Random(at).randbytes(10_000).hex().encode() for at in range(300)]
    kafkalog.append(pa.table({"value": pa.array(values, pa.binary())}), tmp_path / "orders-0", codec="zstd")
    shown = {}
    for options in ((), ("--deep",)):
        head, row, *_ = (re.split(r"  +", line.strip()) for line in run("ls", tmp_path, *options, "--quiet").text.splitlines())
        shown[options] = row[head.index("ratio")]
    assert shown[()].startswith("~2.")
    assert float(shown["--deep",]) == pytest.approx(float(shown[()][1:]), abs=0.3)
    assert json.loads(run("ls", tmp_path, "--json").text)["partitions"][0]["compression_ratio_exact"] is False


def test_the_job_file_of_an_append_is_not_called_strange(run: Run, tmp_path: Path) -> None:
    kafkalog.append(pa.table({"value": pa.array([b"x"])}), tmp_path / "orders-0")
    text = run("ls", tmp_path).text
    assert "not Kafka's" not in text
    assert "written by kafkalog\n  .orders-0.append.json" in text


def test_json_has_one_object_per_partition(run: Run, logs: Path) -> None:
    found = json.loads(run("ls", logs, "--json", "--deep").text)
    legacy = found["partitions"][0]
    assert (legacy["topic"], legacy["magics"], legacy["record_count"]) == ("legacy", [0, 1, 2], 7)
    assert legacy["formats"]["v1"]["records"] == 3


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_rows_fit_a_terminal_and_nothing_untrusted_reaches_it(tmp_path: Path, columns: int) -> None:
    write_topic(tmp_path, "a-topic-with-a-rather-long-name.and.more-0", batch_of(b"x"))
    (tmp_path / "evil\x1b[2J\u202e").mkdir()
    ended = run_on_terminal("ls", tmp_path, "--deep", "--quiet", columns=columns)
    assert ended.code == 0
    lines = without_styles(ended.text).splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines[:5])) <= columns
    assert "evil\\x1b[2J\\u202e" in ended.text


@pytest.mark.parametrize(
    ("columns", "kept"),
    [(60, "topic size offsets from problems"), (80, "topic size offsets from to problems")],
)
def test_names_are_shortened_in_the_middle_and_problems_stay(tmp_path: Path, columns: int, kept: str) -> None:
    for number in (1, 2):
        write_topic(tmp_path, f"upgraded-from-an-old-broker-and-compacted-{number}-0", batch_of(b"x"))
    head, *rows = without_styles(run_on_terminal("ls", tmp_path, columns=columns).text).splitlines()[:3]
    assert head.split() == kept.split()
    assert [row.split()[0][-3:] for row in rows] == ["d-1", "d-2"]
    assert all(row.startswith("upgrade") and "…" in row and len(row) <= columns for row in rows)


def test_nothing_is_cut_in_a_pipe(run: Run, tmp_path: Path) -> None:
    name = "a-very-long-name-" * 12
    write_topic(tmp_path, f"{name}-0", batch_of(b"x"))
    head, row, *_ = run("ls", tmp_path).text.splitlines()
    assert row.split()[0] == name
    assert head.split()[-2:] == ["left", "problems"]


def test_the_state_of_deleted_partitions_is_shown_when_others_are_live(tmp_path: Path) -> None:
    write_topic(tmp_path, "orders-0", batch_of(b"x"))
    for delete in (False, True):
        if delete:
            write_topic(tmp_path, f"orders-1.{'0' * 32}-delete", batch_of(b"x"))
        shown = without_styles(run_on_terminal("ls", tmp_path, "--by", "partition", columns=80).text)
        assert ("state" in shown.splitlines()[0].split()) is delete


def test_exit_codes_distinguish_damage_from_unreadable_files(run: Run, tmp_path: Path) -> None:
    first, second = batch_of(b"x" * 100), batch_of(b"y", base_offset=1)
    path = write_topic(tmp_path / "damage", "orders-0", first[:8] + bytes(4) + first[12:])
    write_topic(tmp_path / "damage", "orders-0", second, base_offset=1)
    ended = run("ls", tmp_path / "damage")
    assert ended.code == 1
    assert f"{path} at byte 0" in ended.text
    (tmp_path / "unread" / "orders-0").mkdir(parents=True)
    os.mkfifo(tmp_path / "unread" / "orders-0" / "00000000000000000000.log")
    assert run("ls", tmp_path / "unread").code == 4
    assert run("ls", tmp_path / "missing").code == 4
    (tmp_path / "empty").mkdir()
    assert "no Kafka log here" in run("ls", tmp_path / "empty").errors
    assert "did you mean orders?" in run("ls", tmp_path / "damage", "--topic", "order").errors


def test_formats_between_the_first_and_the_last_are_not_ruled_out_without_reading_them(run: Run, tmp_path: Path) -> None:
    old, new = Record(0, FIRST_TIME, b"k", b"v"), Record(2, FIRST_TIME, b"k", b"v")
    between = encode_message(Record(1, FIRST_TIME, b"k", b"v"), magic=1)
    write_segment(tmp_path / "audit-0", 0, encode_message(old, magic=0), between, encode_batch([new]))
    plain, deep = run("ls", tmp_path).text, run("ls", tmp_path, "--deep").text
    assert ("v0…v2" in plain, "v0,v1,v2" in deep) == (True, True)


def test_a_deep_listing_says_that_it_checked_no_checksums(run: Run, tmp_path: Path) -> None:
    broken = bytearray(made_batch(0))
    broken[-1] ^= 1
    write_segment(tmp_path / "orders-0", 0, bytes(broken))
    assert f"checksums are not checked here, but by: kafkalog verify {tmp_path}" in run("ls", tmp_path, "--deep").text
