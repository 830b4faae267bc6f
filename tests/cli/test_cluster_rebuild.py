"""`kafkalog cluster rebuild` as a user types it: the plan, the obstacles, and what asks before it changes a disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.small_clusters import OTHER_ID, STRAY, CopyFiles, disk_files, write_files
from tests.builders.small_logs import made_batch
from tests.cli.runner import Run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, disk_files("b1/d1", 1, {"orders-0": CopyFiles(made_batch(0, leader_epoch=1))}))
    return tmp_path


def test_the_plan_says_what_is_known_lost_and_chosen(run: Run, folder: Path) -> None:
    ended = run("cluster", "rebuild", "b1", "--out", "out", "--dry-run")
    assert ended.code == 0, ended
    headings = [line for line in ended.text.splitlines() if line and not line.startswith(" ")]
    assert headings[0].endswith("1 topic, 1 partition, 1 node, 298 B to copy: not written")
    assert headings[1:4] == ["Known:", "Lost:", "Chosen:"]
    assert "the same command without --dry-run; it writes below out" in ended.text
    assert not (folder / "out").exists()


def test_the_end_says_which_log_directories_each_node_gets(run: Run, folder: Path) -> None:
    ended = run("cluster", "rebuild", "b1/d1", "--out", "out")
    assert ended.code == 0, ended
    assert ended.text.splitlines()[-1] == f"  node 1: log.dirs={folder}/out/node-1/d1"
    again = run("cluster", "rebuild", "b1/d1", "--out", "out")
    assert (again.code, again.text.splitlines()[0].endswith(": already there")) == (0, True)


def test_the_result_as_json_is_one_object(run: Run, folder: Path) -> None:
    found = json.loads(run("cluster", "rebuild", "b1", "--out", "out", "--json").text)
    assert (found["state"], found["topics"], found["nodes"], found["obstacles"]) == ("written", ["orders"], [1], [])
    assert found["partitions"][0]["copies"][0]["in_sync"] is True


def test_an_obstacle_ends_with_the_code_of_wrong_usage_and_nothing_is_written(run: Run, folder: Path) -> None:
    write_files(folder, disk_files("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(made_batch(0), OTHER_ID)}))
    ended = run("cluster", "rebuild", "b1", "--out", "out")
    assert ended.code == 2, ended
    assert "Nothing is written before this is decided:" in ended.text
    assert "--prefer stray" in ended.text
    assert not (folder / "out").exists()


def test_a_disk_is_changed_only_after_consent(run: Run, folder: Path) -> None:
    before = (folder / "b1/d1/bootstrap.checkpoint").read_bytes()
    refused = run("cluster", "rebuild", "b1", "--in-place")
    assert (refused.code, "add --yes, or look at the plan first with --dry-run" in refused.errors) == (2, True), refused
    assert (folder / "b1/d1/bootstrap.checkpoint").read_bytes() == before
    assert run("cluster", "rebuild", "b1", "--in-place", "--yes").code == 0
    assert (folder / "b1/d1/bootstrap.checkpoint").read_bytes() != before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--out DIR, or --in-place"),
        (["--out", "out", "--config", "missing.properties"], "--config: "),
        (["--out", "out", "--topic-id", "orders"], "give TOPIC=ID"),
    ],
)
def test_a_mistake_is_named(run: Run, folder: Path, words: list[str], message: str) -> None:
    ended = run("cluster", "rebuild", "b1", *words)
    assert (ended.code, message in ended.errors) == (2, True), ended
