"""Topics with names as long as Kafka allows: the names of our files next to their partitions fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.small_logs import read_offsets
from tests.cli.runner import Run
from tests.cli.users import COPYING, IN_PLACE, arguments_of, make_log_directory

LONGEST = 249  # of the names of topics


def make_long(folder: Path, length: int) -> str:
    """A log directory with two partitions whose names differ at their end only, and a topic's name of this length."""
    orders = make_log_directory(folder)
    topic = "o".ljust(length, "x")
    orders.rename(orders.with_name(f"{topic}-0"))
    make_log_directory(folder).rename(orders.with_name(f"{topic}-1"))
    return topic


@pytest.mark.parametrize(
    ("command", "length"),
    [*((command, LONGEST) for command in (*IN_PLACE, *COPYING)), *(("salvage", length) for length in (199, 200, 230, 240))],
)
def test_every_command_writes_for_a_topic_with_a_long_name(tmp_path: Path, run: Run, command: str, length: int) -> None:
    topic = make_long(tmp_path, length)
    ended = run(*arguments_of(command, tmp_path, topic))
    assert ended.code == 0, ended.errors
    assert max(len(path.name) for path in tmp_path.rglob("*")) <= 255
    assert not list(tmp_path.rglob("*.inprogress"))


@pytest.mark.parametrize("command", ["salvage", "recover", "convert"])
def test_a_copy_of_several_partitions_with_long_names_is_whole_and_recognised(tmp_path: Path, run: Run, command: str) -> None:
    topic = make_long(tmp_path, LONGEST)
    arguments = [command, tmp_path / "data", "--out", tmp_path / "out", *(["--codec", "gzip"] if command == "convert" else [])]
    for _ in range(2):
        ended = run(*arguments)
        assert ended.code == 0, ended.errors
    for number in range(2):
        assert read_offsets(tmp_path / "out" / f"{topic}-{number}") == list(range(40))


def test_an_append_to_a_long_name_is_recognised(tmp_path: Path, run: Run) -> None:
    topic = make_long(tmp_path, LONGEST)
    for _ in range(2):
        assert run(*arguments_of("append", tmp_path, topic)).code == 0
    assert read_offsets(tmp_path / "data" / f"{topic}-0") == list(range(41))
