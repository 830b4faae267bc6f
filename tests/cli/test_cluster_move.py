"""`kafkalog cluster move` as a user types it: the plan, what asks before it changes a disk, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog.payloads.metadata_snapshot import NewMetadataRecord
from tests.builders.small_clusters import (
    OTHER_ID,
    TOPIC_ID,
    CopyFiles,
    cluster_records,
    directory_id,
    disk_files,
    metadata_batch,
    metadata_files,
    write_files,
)
from tests.builders.small_logs import made_batch
from tests.cli.runner import Run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk of a broker, b1, and that of another cluster, into."""
    monkeypatch.chdir(tmp_path)
    copy = CopyFiles(made_batch(0, leader_epoch=1))
    records = cluster_records({1: [directory_id(1, 7)]}, levels={"metadata.version": 30})
    records.append(NewMetadataRecord("TopicRecord", 0, {"name": "users", "topicId": OTHER_ID}))
    write_files(
        tmp_path, disk_files("b1/d1", 1, {"orders-0": copy, "users-0": CopyFiles(made_batch(0), "dXNlcnMgb2YgdGhlIHRlcw")})
    )
    write_files(tmp_path, disk_files("into/d1", 1, {}, number=7, cluster="VGFyZ2V0IG9mIHRoZSB0ZQ"))
    write_files(tmp_path, metadata_files("into/d1", [1], metadata_batch(0, *records)))
    return tmp_path


MOVE = ("cluster", "move", "b1", "--topic", "orders", "--into", "into")


def test_the_plan_says_what_the_cluster_would_get_and_writes_nothing(run: Run, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    ended = run(*MOVE, "--dry-run")
    assert ended.code == 0, ended
    lines = ended.text.splitlines()
    assert lines[0] == "into cluster VGFyZ2V0IG9mIHRoZSB0ZQ: 1 topic, 1 partition, 298 B to copy: not written"
    assert lines[1] == f"  orders, topic id {TOPIC_ID}: 1 partition, 1 replica, on node 1"
    assert lines[-2:] == [
        "The metadata of 1 controller would get 4 records from offset 4 on, in epoch 2.",
        "To do it: the same command without --dry-run; it changes the disks after --into.",
    ]
    assert sorted(folder.rglob("*")) == before


def test_a_disk_is_changed_only_after_consent(run: Run, folder: Path) -> None:
    refused = run(*MOVE)
    assert (refused.code, "add --yes, or look at the plan first with --dry-run" in refused.errors) == (2, True), refused
    assert not (folder / "into/d1/orders-0").exists()
    ended = run(*MOVE, "--yes")
    assert ended.code == 0, ended
    assert ended.text.splitlines()[-1] == "  kafkalog cluster into"
    assert (folder / "into/d1/orders-0").exists()
    again = run(*MOVE, "--yes")
    assert (again.code, again.text.splitlines()[0].endswith(": already there")) == (0, True)


def test_the_result_as_json_is_one_object(run: Run, folder: Path) -> None:
    found = json.loads(run(*MOVE, "--as", "orders=orders.old", "--yes", "--json").text)
    assert (found["state"], found["obstacles"]) == ("written", [])
    assert found["topics"] == [{"source": "orders", "topic": "orders.old", "topic_id": TOPIC_ID}]


def test_an_obstacle_ends_with_the_code_of_wrong_usage_and_nothing_is_written(run: Run, folder: Path) -> None:
    ended = run(*MOVE, "--topic", "users", "--yes")
    assert ended.code == 2, ended
    assert "Nothing is written before this is decided:" in ended.text
    assert "--as users=NAME" in ended.text
    assert not (folder / "into/d1/orders-0").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "missing.properties"], "--config: "),
        (["--as", "orders"], "--as orders: give TOPIC=NAME"),
        (["--topic-id", "orders"], "--topic-id orders: give TOPIC=ID"),
        (["--replicas", "0"], "0 is too small"),
        (["--topic", "order"], "no disk has a folder of it"),
    ],
)
def test_a_mistake_is_named(run: Run, folder: Path, words: list[str], message: str) -> None:
    ended = run(*MOVE, *words, "--yes")
    assert (ended.code, message in ended.errors) == (2, True), ended
