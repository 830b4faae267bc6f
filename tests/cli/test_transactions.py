"""`kafkalog transactions` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog.cli.commands import transactions as command
from kafkalog.tasks import transactions as task
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, transactional_batch, write_segment
from tests.cli.runner import Run, run_on_terminal

NOW = FIRST_TIME + 3_600_000


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A partition with a committed, an aborted and two open transactions, and one without any."""
    ended = [transactional_batch(0, 2, 7), marker(2, 7, commit=True), transactional_batch(3, 4, 8)]
    entries = [*ended, transactional_batch(7, 1, 9), marker(8, 8, commit=False), transactional_batch(9, 3, 10)]
    write_segment(tmp_path / "payments-0", 0, *entries)
    write_segment(tmp_path / "plain-0", 0, made_batch(0))
    return tmp_path


def test_the_help_names_what_the_task_knows() -> None:
    assert command.STATES == task.STATES


def test_text_says_who_holds_a_partition_back_and_how_to_end_it(run: Run, held: Path) -> None:
    ended = run("transactions", held, "--now", NOW, "--bootstrap-server", "kafka:9092")
    assert (ended.code, ended.errors) == (0, "")
    rows = [line.split() for line in ended.text.splitlines()]
    assert rows[1] == ["payments-0", "2", "1", "1", "0", "7", "12", "5", "9"]
    assert [row[1:3] for row in rows[2:] if row[1:2] == ["open"]] == [["open", "9"], ["open", "10"]]
    place = "abort --topic payments --partition 0 --start-offset 7"
    assert f"kafka-transactions.sh --bootstrap-server kafka:9092 {place}" in ended.text
    assert "59 min" in ended.text
    assert "yes" in ended.text


def test_json_has_every_transaction_or_those_in_a_state(run: Run, held: Path) -> None:
    content = json.loads(run("transactions", held, "--json", "--now", NOW).text)["partitions"]
    held_back, plain = content
    assert (held_back["last_stable_offset"], held_back["end_offset"], held_back["held_back_by"]) == (7, 12, 9)
    assert [found["state"] for found in held_back["transactions"]] == ["committed", "aborted", "open", "open"]
    assert held_back["transactions"][1]["last_stable_offset"] == 7
    assert held_back["transactions"][2]["age_ms"] == NOW - FIRST_TIME - 7
    assert (plain["last_stable_offset"], plain["transactions"]) == (10, [])
    only = json.loads(run("transactions", held, "--json", "--state", "aborted").text)["partitions"][0]["transactions"]
    assert [(found["producer_id"], found["record_count"], found["abort_command"]) for found in only] == [(8, 4, None)]


def test_damage_is_reported_because_a_marker_may_be_missing(run: Run, tmp_path: Path) -> None:
    entries = transactional_batch(0, 2, 7), bytes(70), marker(2, 7, commit=True)
    write_segment(tmp_path / "damaged-0", 0, *entries)
    ended = run("transactions", tmp_path)
    assert ended.code == 1
    assert "damaged range" in ended.errors


def test_a_hostile_topic_is_safe_on_a_terminal(tmp_path: Path) -> None:
    write_segment(tmp_path / "a\x1b[2J;rm-0", 0, transactional_batch(0, 2, 7))
    for options in ((), ("--json",)):
        shown = run_on_terminal("transactions", tmp_path, *options)
        assert "\x1b[2J" not in shown.text
        assert "[2J" in shown.text


def test_failures_say_what_to_do(run: Run, held: Path) -> None:
    assert run("transactions", held / "none").code == 4
    assert run("transactions", held, "--topic", "plan").errors.find("did you mean plain?") > 0
    assert run("transactions", held, "--topic", "plain").text == "no transactions in 1 partition\n"
