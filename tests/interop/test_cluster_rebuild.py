"""Real brokers on rebuilt log directories: every record, offset, group, transaction and replica is as it was before."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.tasks.cluster_rebuild import RebuildResult
from tests.clusters import packed
from tests.conftest import require, unavailable
from tests.golden import sets
from tests.interop.live.broker import resolve_jars
from tests.interop.live.cluster import Node, running_cluster
from tests.interop.live.cluster_clients import TRANSACTED, clients_go_on
from tests.interop.live.cluster_differences import differences
from tests.interop.live.moved_topics import moved_differences, use_moved

pytestmark = pytest.mark.slow
METADATA = "__cluster_metadata-0"
WRITTEN = ("orders-0", "grown-2", "moved-1")
MOVED = {"orders": "orders.moved", "txn": "txn-moved", "weird.name_-1": "weird"}


@pytest.fixture(scope="module")
def unpacked(golden_folder: Path) -> Path:
    folder = golden_folder.parent / "clusters"
    sets.unpack("records", folder, packed.DATA)
    return packed.unpack(folder)


def _jars(release: str) -> None:
    require("java", "mvn")
    if (problem := resolve_jars(release)) is not None:
        unavailable(problem)


def disks_without_metadata(cluster: Path, target: Path) -> list[Path]:
    """A copy of a cluster's disks, on none of which the metadata is left."""
    shutil.copytree(cluster, target, ignore=shutil.ignore_patterns(METADATA, "expected"))
    return packed.log_directories(target)


def nodes_of(result: RebuildResult, roles: str = "broker,controller") -> list[Node]:
    folders = {node: [Path(each.folder) for each in result.directories if each.node == node] for node in result.nodes}
    return [Node(node, log_dirs, roles) for node, log_dirs in folders.items()]


def strays(nodes: Sequence[Node]) -> list[Path]:
    return [found for node in nodes for log_dir in node.log_dirs for found in log_dir.iterdir() if found.name.endswith("-stray")]


def last_values(nodes: Sequence[Node], place: str) -> list[bytes | None]:
    """The last value of a partition in each of its copies."""
    found = []
    for folder in [log_dir / place for node in nodes for log_dir in node.log_dirs if (log_dir / place).exists()]:
        values = [
            value for batch in kafkalog.open(folder).read("records", ["value"]) for value in batch.column("value").to_pylist()
        ]
        found.append(values[-1] if values else None)
    return found


def _compared(unpacked: Path, name: str, state: dict[str, Any], folder: Path, **choices: Any) -> list[str]:
    return differences(state, folder, packed.admin(unpacked / name), unpacked / f"{name}-records", **choices)


@pytest.mark.parametrize(("name", "release"), [("single39", "3.9.1"), ("three", "4.3.0")])
def test_brokers_on_a_rebuilt_cluster_serve_every_record_offset_and_group(
    name: str, release: str, unpacked: Path, tmp_path: Path
) -> None:
    _jars("4.3.0")
    _jars(release)
    disks = disks_without_metadata(unpacked / name, tmp_path / "disks")
    result = kafkalog.cluster_rebuild(disks, tmp_path / "out")
    nodes = nodes_of(result)
    with running_cluster(nodes, tmp_path / "run", release) as cluster:
        state = cluster.check(tmp_path / "check", len(result.partitions))
        assert _compared(unpacked, name, state, tmp_path / "check") == []
        assert strays(nodes) == []
        ends = {place: found["latest"] for place, found in state["partitionOffsets"].items()}
        written = dict(line.split() for line in cluster.client("write", *WRITTEN))
        assert {place: int(offset) for place, offset in written.items()} == {place: ends[place] for place in WRITTEN}
        committed = {
            f"{each['topic']}-{each['partition']}": each["offset"]
            for each in state["groupOffsets"]
            if each["groupId"] == "g-classic"
        }
        resumed = dict(line.split() for line in cluster.client("resume", "g-classic"))
        assert {place: int(offset) for place, offset in resumed.items()} == committed
        assert clients_go_on(cluster, state, unpacked / f"{name}-records", ends, WRITTEN) == []
        cluster.stop()
    assert b"tx-1" in last_values(nodes, TRANSACTED)
    for place in WRITTEN:  # a record that was taken for a repeated one would be acknowledged, and not be there
        assert f"written to {place}".encode() in last_values(nodes, place)


def test_a_backup_of_three_nodes_becomes_a_cluster_of_one_and_topics_of_an_older_cluster_move_into_it(
    unpacked: Path, tmp_path: Path
) -> None:
    _jars("4.3.0")
    new_id = "dGVzdCBjbHVzdGVyIGlkIQ"
    disks = disks_without_metadata(unpacked / "three", tmp_path / "disks")
    metadata = unpacked / "three/b1/d1"
    result = kafkalog.cluster_rebuild(disks, tmp_path / "out", node=7, cluster_id=new_id, metadata=[metadata])
    nodes = nodes_of(result)
    with running_cluster(nodes, tmp_path / "run") as cluster:
        state = cluster.check(tmp_path / "check", len(result.partitions))
        assert _compared(unpacked, "three", state, tmp_path / "check", merged_into=7) == []
        assert state["clusterId"] == new_id
        admin = packed.admin(unpacked / "three")
        assert state["scram"] == sorted(admin["scram"])
        assert (state["acls"], state["quotas"]) == (len(admin["acls"]), len(admin["quotas"]))
        wanted: dict[str, dict[str, str]] = {}
        for each in admin["configs"]:
            if each["resourceType"] == "TOPIC":
                wanted.setdefault(each["resourceName"], {})[each["name"]] = each["value"]
        assert state["configs"] == wanted
        cluster.stop()
    log_dirs = [log_dir for node in nodes for log_dir in node.log_dirs]
    moved = kafkalog.cluster_move(packed.log_directories(unpacked / "single39"), log_dirs, list(MOVED), names=MOVED)
    with running_cluster(nodes, tmp_path / "again") as cluster:
        state = cluster.check(tmp_path / "moved", len(result.partitions) + len(moved.partitions))
        assert moved_differences(state, tmp_path / "moved", unpacked, "single39", "three", MOVED) == []
        assert strays(nodes) == []
        # With less, which brokers of 3.9 had, a broker of 4.0 or later does not start.
        assert state["configs"]["weird"]["segment.bytes"] == "1048576"
        # One node is enough for producers, whatever min.insync.replicas says: a broker asks for no more replicas than there are.
        assert wanted["orders"]["min.insync.replicas"] == "2"
        assert use_moved(cluster, state, MOVED) == []
        cluster.stop()
    for place in ("orders-0", "orders.moved-0"):
        assert f"written to {place}".encode() in last_values(nodes, place)
