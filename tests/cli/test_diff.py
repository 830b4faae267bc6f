"""`kafkalog diff` as a user types it: what it prints, exit codes, JSON, hostile names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.builders.small_logs import made_batch, write_segment
from tests.cli.runner import Run, run_on_terminal

BATCHES = tuple(made_batch(offset, leader_epoch=1) for offset in range(0, 200, 10))


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    for side in "ab":
        write_segment(tmp_path / side / "orders-0", 0, *BATCHES)
    return tmp_path / "a", tmp_path / "b"


def flip(folder: Path, position: int) -> None:
    log = folder / "orders-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[position] ^= 1
    log.write_bytes(content)


def test_the_same_copies_are_one_verdict_and_exit_code_0(run: Run, copies: tuple[Path, Path]) -> None:
    ended = run("diff", *copies)
    assert (ended.code, ended.errors) == (0, "")
    assert ended.text.startswith("verdict: the copies are the same: 1 partition, 20 batches\n")
    assert ended.text.endswith(f"    kafkalog verify {copies[0]}\n")


def test_damage_is_shown_on_both_sides_with_the_commands_to_type_and_exit_code_1(run: Run, copies: tuple[Path, Path]) -> None:
    position = len(BATCHES[0]) + 80
    flip(copies[1], position)
    ended = run("diff", *copies)
    assert ended.code == 1
    text = " ".join(ended.text.split())
    assert "unexplained: crc in b: the stored checksum does not match the bytes" in text
    assert f"first differing byte: {position} in a" in text
    assert f"kafkalog explain {copies[1]}/orders-0/{0:020d}.log --position {len(BATCHES[0])}\n" in ended.text
    assert f"kafkalog salvage {copies[0]}/orders-0 {copies[1]}/orders-0 --out rescued\n" in ended.text


def test_json_is_a_line_for_each_difference_and_one_with_the_verdict(run: Run, copies: tuple[Path, Path]) -> None:
    write_segment(copies[1] / "orders-0", 0, *BATCHES[:4], *BATCHES[5:15])
    ended = run("diff", *copies, "--json")
    *rows, last = map(json.loads, ended.text.splitlines())
    assert ended.code == 1
    assert [(row["reason"], row["side"], row["is_explained"], row["explained_by"]) for row in rows] == [
        ("missing", "b", False, None),
        ("shorter", "b", True, "unfinished tail"),
    ]
    assert (rows[0]["a"]["position"], rows[0]["b"]) == (sum(map(len, BATCHES[:4])), None)
    comparison = last["comparison"]
    assert (comparison["is_same"], comparison["is_explained"]) == (False, False)
    assert comparison["partitions"][0]["newer"] == "a"
    assert [step["command"].split()[1] for step in comparison["next_steps"]] == ["explain", "table", "salvage"]


def test_each_command_to_type_runs(run: Run, copies: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment(copies[1] / "orders-0", 0, *BATCHES[:4], *BATCHES[5:15])
    monkeypatch.chdir(tmp_path)
    comparison = json.loads(run("diff", *copies, "--json").text.splitlines()[-1])["comparison"]
    for step in comparison["next_steps"]:
        assert run(*step["command"].split()[1:]).code == 0, step["command"]
    assert run("diff", tmp_path / "a", tmp_path / "rescued").code == 0


def test_an_explained_difference_has_exit_code_0(run: Run, copies: tuple[Path, Path]) -> None:
    write_segment(copies[1] / "orders-0", 0, *BATCHES[:15])
    ended = run("diff", *copies)
    assert ended.code == 0
    assert "verdict: the copies differ only in what unfinished tail explains: 1 partition\n" in ended.text


def test_only_five_of_a_kind_are_shown_unless_all_are_wanted(run: Run, copies: tuple[Path, Path]) -> None:
    write_segment(copies[1] / "orders-0", 0, *BATCHES[::2])
    assert "… and 4 more (--all shows them)" in run("diff", *copies).text
    assert run("diff", *copies, "--all").text.count("1 batch, 10 records") == 10


def test_what_cannot_be_compared_is_refused(run: Run, copies: tuple[Path, Path], tmp_path: Path) -> None:
    assert run("diff", copies[0], tmp_path / "nowhere").code == 4
    assert run("diff", *copies, "--topic", "order").code == 2
    assert "did you mean orders?" in run("diff", *copies, "--topic", "order").errors
    assert run("diff", copies[0]).code == 2


def test_hostile_names_are_escaped(run: Run, copies: tuple[Path, Path]) -> None:
    evil = shutil.copytree(copies[0], copies[0].parent / "evil\x1b[31m\n")
    flip(evil, 80)
    for arguments in ((), ("--json",)):
        ended = run("diff", copies[1], evil, *arguments)
        assert ended.code == 1
        assert b"\x1b" not in ended.out
        assert b"evil\\" in ended.out


def test_a_terminal_shows_what_nothing_explains_in_red(copies: tuple[Path, Path]) -> None:
    flip(copies[1], 80)
    assert "\x1b[31munexplained\x1b[0m" in run_on_terminal("diff", *copies).text
