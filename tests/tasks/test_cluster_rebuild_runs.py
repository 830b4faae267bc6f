"""`cluster rebuild`: second runs, changes of the disks themselves, new clusters out of backups, and input that is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.errors import NoLogs, StorageError, UsageError
from kafkalog.storage.lock import broker_lock
from kafkalog.tasks.cluster_rebuild.options import read_configs
from tests.builders.small_clusters import (
    CLUSTER,
    OTHER_ID,
    STRAY,
    TOPIC_ID,
    CopyFiles,
)
from tests.builders.small_logs import made_batch
from tests.clusters import packed
from tests.tasks.rebuilt import LONGER, SHORTER, disk, rebuild, tree, written


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def unpacked_three(golden_folder: Path) -> Path:
    return packed.unpack(golden_folder.parent / "clusters") / "three"


# -- runs that stop, and runs again --------------------------------------------------------------------------------------------


def test_a_second_run_touches_nothing() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    rebuild("b1")
    Path("out/node-1/d1/orders-0/00000000000000000000.log").write_bytes(LONGER + b"of a broker that ran on it")
    before = tree("out")
    assert rebuild("b1").state == "already there"
    assert tree("out") == before


def test_another_rebuild_at_the_same_place_is_refused() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    rebuild("b1")
    with pytest.raises(UsageError, match="of another rebuild; choose another --out"):
        rebuild("b1", cluster_id="YW5vdGhlciBjbHVzdGVyIQ")


def test_a_dry_run_writes_nothing_and_says_the_same() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    planned = rebuild("b1", dry_run=True)
    assert not Path("out").exists()
    done = rebuild("b1")
    assert (planned.state, done.state) == ("not written", "written")
    assert planned.as_dict() == {**done.as_dict(), "state": "not written"}


def test_the_journal_says_what_was_decided() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    result = rebuild("b1")
    events = [json.loads(line) for line in Path("out/cluster.rebuild.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "rebuild"
    assert {event["event"] for event in events} == {"rebuild", "directory", "known", "lost", "chosen", "configs", "partition"}
    assert [event["text"] for event in events if event["event"] == "lost"] == result.notes_of("lost")


# -- on the disks themselves ---------------------------------------------------------------------------------------------------


def test_in_place_no_log_is_touched_and_folders_get_their_names_back() -> None:
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER), "users-0": CopyFiles(LONGER, None)})
    formatted = Path("b1/d1/bootstrap.checkpoint").read_bytes()
    log = Path(f"b1/d1/orders-0{STRAY}/00000000000000000000.log").stat()
    result = kafkalog.cluster_rebuild("b1", in_place=True)
    assert result.state == "written"
    assert Path("b1/d1/orders-0/00000000000000000000.log").stat().st_ino == log.st_ino
    assert Path("b1/d1/orders-0/00000000000000000000.log").stat().st_mtime_ns == log.st_mtime_ns
    assert Path("b1/d1/bootstrap.checkpoint.before-rebuild").read_bytes() == formatted
    assert Path("b1/d1/users-0/partition.metadata").exists()
    assert [each["partitionId"] for each in written("PARTITION_RECORD", "b1/d1")] == [0, 0]
    assert not Path("b1/d1/.lock").exists()
    before = tree("b1")
    assert kafkalog.cluster_rebuild("b1", in_place=True).state == "already there"
    assert tree("b1") == before


def test_in_place_the_metadata_is_put_aside_and_a_second_run_still_knows_it(unpacked_three: Path) -> None:
    shutil.copytree(unpacked_three, "three", ignore=shutil.ignore_patterns("expected"))
    disks = sorted(Path("three").glob("b*/d*"))
    first = kafkalog.cluster_rebuild(disks, in_place=True)
    assert [len(list(each.glob("__cluster_metadata-0*"))) for each in disks] == [1, 0, 1, 0, 1, 0]
    assert not list(Path("three").rglob("__cluster_metadata-0"))
    second = kafkalog.cluster_rebuild(disks, in_place=True)
    assert second.state == "already there"
    assert (second.configs, second.partitions, second.next_producer_id) == (
        first.configs,
        first.partitions,
        first.next_producer_id,
    )


def test_in_place_a_folder_that_is_in_the_way_is_named() -> None:
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER), "orders-0": CopyFiles(made_batch(0, 1), OTHER_ID)})
    before = tree("b1")
    with pytest.raises(UsageError, match=r"orders-0 is in the way of .*-stray; move it out of the log directory, or use --out"):
        kafkalog.cluster_rebuild("b1", in_place=True, prefer="stray")
    assert tree("b1") == before


def test_in_place_of_a_running_broker_nothing_is_written() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    with broker_lock(str(Path("b1/d1").absolute())), pytest.raises(StorageError, match="a broker is running"):
        kafkalog.cluster_rebuild("b1", in_place=True)


@pytest.mark.parametrize("choices", [{"node": 1}, {"cluster_id": CLUSTER}, {"controllers": [3]}])
def test_in_place_no_other_cluster_is_made(choices: dict[str, Any]) -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    with pytest.raises(UsageError, match="need --out"):
        kafkalog.cluster_rebuild("b1", in_place=True, **choices)


@pytest.mark.parametrize(("out", "in_place"), [(None, False), ("out", True)])
def test_one_place_for_the_result_is_needed(out: str | None, in_place: bool) -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    with pytest.raises(UsageError, match="--out DIR, or --in-place"):
        kafkalog.cluster_rebuild("b1", out, in_place=in_place)


# -- a new cluster out of a backup ---------------------------------------------------------------------------------------------


def test_the_disks_of_several_nodes_become_one_node_with_the_best_copies() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(SHORTER), "orders-1": CopyFiles(LONGER)})
    disk("b2/d1", 2, {"orders-0": CopyFiles(LONGER)})
    result = rebuild("b1", "b2", node=7, cluster_id="YW5vdGhlciBjbHVzdGVyIQ")
    (directory,) = result.directories
    assert Path(directory.folder) == Path("out/node-7/data").absolute()
    made = dict(line.split("=") for line in Path("out/node-7/data/meta.properties").read_text().splitlines())
    assert (made["node.id"], made["cluster.id"]) == ("7", "YW5vdGhlciBjbHVzdGVyIQ")
    records = written("PARTITION_RECORD", "out/node-7/data")
    assert [(each["replicas"], each["isr"], each["directories"]) for each in records] == [([7], [7], [made["directory.id"]])] * 2
    assert Path("out/node-7/data/orders-0/00000000000000000000.log").read_bytes() == LONGER
    assert Path("out/node-7/data/.kafka_cleanshutdown").exists()


def test_disks_without_meta_properties_can_still_become_a_new_node() -> None:
    disk("rescued", None, {"orders-0": CopyFiles(LONGER)}, levels=None)
    with pytest.raises(UsageError, match="--cluster-id"):
        rebuild("rescued", node=1, release="4.3")
    result = rebuild("rescued", node=1, release="4.3", cluster_id=CLUSTER)
    assert result.features == {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "share.version": 1,
        "streams.version": 1,
    }


# -- input that is refused -----------------------------------------------------------------------------------------------------


def _refused() -> Iterator[Any]:
    yield pytest.param(["b1", "b1/d1"], {}, "the same log directory as .*give each disk once", id="a disk twice")
    yield pytest.param(["b1", "copy"], {}, "copies of one log directory .*give one of them", id="a copy of a disk")
    yield pytest.param(["b1", "foreign"], {}, "disks of 2 clusters .*give those of one cluster", id="two clusters")
    yield pytest.param(["b1", "bare"], {}, "no meta.properties with a node.id", id="nobody's disk")
    yield pytest.param(["unformatted"], {}, "--release 4.3", id="release unknown")
    yield pytest.param(["b1"], {"release": "2.8"}, "known are 3.3", id="release not known")
    yield pytest.param(["b1"], {"configs": {"order": {"a": "b"}}}, "no disk has the topic order; there are: orders", id="config")
    yield pytest.param(["b1"], {"topic_ids": {"order": TOPIC_ID}}, "no disk has a topic of this name", id="topic id")
    yield pytest.param(["b1"], {"prefer": "both"}, "stray or live", id="preference")
    yield pytest.param(["b1"], {"controllers": [-1]}, "0 or above", id="number of a node")
    yield pytest.param(["controller"], {}, "give those of the brokers too", id="controllers only")


@pytest.mark.parametrize(("disks", "choices", "message"), list(_refused()))
def test_input_that_cannot_be_right_is_named(disks: Sequence[str], choices: dict[str, Any], message: str) -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    disk("copy", 1, {"orders-0": CopyFiles(LONGER)})
    disk("foreign", 2, {"orders-0": CopyFiles(LONGER)}, cluster="YW5vdGhlciBjbHVzdGVyIQ")
    disk("bare", None, {"orders-1": CopyFiles(LONGER)})
    disk("unformatted", 3, {"orders-0": CopyFiles(LONGER)}, levels=None)
    disk("controller", 100, {})
    with pytest.raises(UsageError, match=message):
        rebuild(*disks, **choices)
    assert not Path("out").exists()


def test_a_running_broker_is_not_rebuilt() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    with broker_lock(str(Path("b1/d1").absolute())), pytest.raises(StorageError, match="a broker is running"):
        rebuild("b1")


def test_an_output_on_one_of_the_disks_is_refused() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    with pytest.raises(UsageError, match="which is one of the disks"):
        kafkalog.cluster_rebuild("b1", "b1/d1/out")


def test_a_folder_without_logs_is_named() -> None:
    Path("empty").mkdir()
    with pytest.raises(NoLogs, match="no log directory here"):
        rebuild("empty")


@pytest.mark.parametrize("line", [b"retention.ms=1", b"/retention.ms=1", b"orders/=1", b"orders/a=\\u12"])
def test_a_line_that_names_no_topic_and_key_is_refused(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"topics\.properties"):
        read_configs(line, "topics.properties")
