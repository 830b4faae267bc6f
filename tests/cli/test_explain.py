"""`kafkalog explain` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from kafkalog.format.reference import Record, encode_batch
from tests.builders.small_logs import compress
from tests.cli.runner import Run, batch_of, run_child, run_on_terminal, without_styles, write_topic
from tests.cli.test_terminal import HOSTILE


def test_a_batch_is_shown_field_by_field_with_the_numbers_of_the_format_page(run: Run, tmp_path: Path) -> None:
    path = write_topic(tmp_path, "orders-0", encode_batch([Record(5, 1000, b"k", b"v", ((b"h", None),))], leader_epoch=0))
    ended = run("explain", path)
    assert ended.code == 0
    lines = ended.text.splitlines()
    assert "batch: v2, offsets 5 to 5, 1 record, 73 bytes" in lines
    assert [line for line in lines if "57 86 92 49" in line and "0x57869249" in line and "CRC-32C" in ended.text]
    assert any(line.split()[:4] == ["72", "01", "header_value_length", "varint"] for line in lines)
    assert "zig-zag 1; null" in ended.text


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_lines_fit_a_terminal_and_nothing_untrusted_reaches_it(tmp_path: Path, columns: int) -> None:
    path = write_topic(tmp_path, "hostile-0", batch_of(*HOSTILE, header=b"\x1b[2J"))
    ended = run_on_terminal("explain", path, columns=columns)
    assert ended.code == 0
    assert "\x1b[1m" in ended.text
    lines = without_styles(ended.text).splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(map(cell_len, lines[1:])) <= columns
    assert "\\x1b]0;owned" in ended.text


def test_a_pipe_gets_no_colours() -> None:
    ended = run_child("explain", "--help")
    assert ended.code == 0
    assert "\x1b" not in ended.text


def test_json_has_every_byte_and_value(run: Run, tmp_path: Path) -> None:
    stored = batch_of(b"x" * 5000, key=b"\xff")
    ended = run("explain", write_topic(tmp_path, "orders-0", stored), "--json")
    found = json.loads(ended.text)
    assert (ended.code, found["kind"], found["stop"], found["problems"]) == (0, "log", len(stored), [])
    record = found["parts"][0]["children"][-1]
    assert record["part"] == "record 0"
    value = next(child for child in record["children"] if child.get("field") == "value")
    assert value["hex"] == "78" * 5000
    assert value["value"] == "x" * 5000


def test_a_folder_and_an_offset_find_the_segment(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "orders-0", batch_of(b"a", b"b"))
    write_topic(tmp_path, "orders-0", batch_of(b"c", base_offset=2), base_offset=2)
    ended = run("explain", tmp_path / "orders-0", "--offset", 2)
    assert ended.code == 0
    assert "offsets 2 to 2" in ended.text


def test_a_byte_inside_a_batch_is_marked(run: Run, tmp_path: Path) -> None:
    ended = run("explain", write_topic(tmp_path, "orders-0", batch_of(b"a")), "--position", 23)
    (marked,) = (line for line in ended.text.splitlines() if line.startswith(">"))
    assert marked.split()[1] == "23"
    assert "last_offset_delta" in marked


@pytest.mark.parametrize("codec", [0, 4])
def test_the_record_of_the_asked_offset_is_marked_and_no_other(run: Run, tmp_path: Path, codec: int) -> None:
    stored = encode_batch([Record(offset, 1000, None, b"v%d" % offset) for offset in (5, 6, 8)], codec=codec, compress=compress)
    write_topic(tmp_path, "orders-0", stored, base_offset=5)
    ended = run("explain", tmp_path / "orders-0", "--offset", 6)
    title, *fields = (line.lstrip("│ ") for line in ended.text.splitlines() if line.lstrip("│ ").startswith(">"))
    assert title == "> record 1: offset 6"
    assert [line.split()[-1] for line in fields if " value " in line] == ['"v6"']
    found = json.loads(run("explain", tmp_path / "orders-0", "--offset", 6, "--json").text)
    assert found["offset"] == 6
    compacted = run("explain", tmp_path / "orders-0", "--offset", 7)
    assert (compacted.code, ">" in compacted.text) == (0, False)
    assert "offset 7: no such record in this batch any more; compaction removes records" in compacted.text


def test_the_asked_message_inside_a_compressed_set_is_marked(run: Run, logs: Path) -> None:
    lines = run("explain", logs / "legacy-0", "--offset", 1).text.splitlines()
    assert [line for line in lines if "│ > message" in line] == ["│ > message 0: v0, offset 1, 42 bytes"]


def test_an_asked_record_after_the_last_one_shown_is_named_with_the_command_for_it(run: Run, tmp_path: Path) -> None:
    path = write_topic(tmp_path, "many-0", batch_of(*[b""] * 10_100))
    assert f"to see it: kafkalog cat {path} --start-offset 10050 --limit 1" in run("explain", path, "--offset", 10_050).text


def test_damage_is_marked_and_reported_by_the_exit_code(run: Run, tmp_path: Path) -> None:
    stored = bytearray(batch_of(b"a"))
    stored[-2] ^= 1
    ended = run("explain", write_topic(tmp_path, "orders-0", bytes(stored)))
    assert ended.code == 1
    assert "! does not match: the bytes give 0x" in ended.text
    assert "wrong at byte 17: batch / crc" in ended.errors


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--offset", 99), 2, "no entry holds offset 99; it has 0 to 0"),
        (("--position", 9999), 2, "no byte 9999"),
        (("--offset", 1, "--position", 2), 2, "exclude each other"),
        (("--count", 0), 2, "--count"),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused(
    run: Run, tmp_path: Path, arguments: tuple[object, ...], code: int, words: str
) -> None:
    ended = run("explain", write_topic(tmp_path, "orders-0", batch_of(b"a")), *arguments)
    assert ended.code == code
    assert words in ended.errors


def test_wrong_paths_are_distinguished(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "orders-0", batch_of(b"a"))
    (tmp_path / "notes.txt").write_text("not a log")
    assert run("explain", tmp_path / "missing").code == 4
    assert "give one of its files" in run("explain", tmp_path / "orders-0").errors
    assert "not an entry of a Kafka log" in run("explain", tmp_path / "notes.txt").errors
    assert run("explain", tmp_path / "notes.txt", "--position", 0).code == 1
