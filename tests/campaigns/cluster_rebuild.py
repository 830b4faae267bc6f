"""Rebuilt clusters under real brokers, in every way in which a cluster may be left behind.

    python -m tests.campaigns.cluster_rebuild [--minutes 5] [SCENARIO...]

Each scenario takes the disks of a real cluster without its metadata, does more harm to them, rebuilds, starts brokers on the
output and compares what they say with what the cluster said before. `clients` lets those go on that were at work before,
`move` puts topics of one cluster into another. The suite runs `plain`, `single`, a merged backup and a move into it
(tests/interop/test_cluster_rebuild.py); here are all of them. It needs Java and Maven.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog.tasks.cluster_move import MoveResult
from kafkalog.tasks.cluster_rebuild import RebuildResult
from tests.clusters import packed
from tests.golden import sets
from tests.interop.live.broker import NEWEST, resolve_jars
from tests.interop.live.cluster import Node, RunningCluster, format_standalone, running_cluster
from tests.interop.live.cluster_clients import GROUPS, TRANSACTED, TRANSACTIONAL_ID, clients_go_on
from tests.interop.live.cluster_differences import differences
from tests.interop.live.moved_topics import moved_differences, topic_differences, use_moved

METADATA = "__cluster_metadata-0"
LOG = f"{0:020d}.log"
MOVED = {"orders": "orders.moved", "txn": "txn-moved", "weird.name_-1": "weird"}
OLD = "3.9.1"
THREE, SINGLE = "three", "single39"


@dataclass
class Work:
    """The folder of one scenario, and what it found."""

    unpacked: Path
    folder: Path
    minutes: float
    wrong: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)  # what the brokers said last

    def disks(self, name: str = THREE) -> list[Path]:
        """A copy of the disks of a set, on none of which the metadata is left."""
        target = self.folder / "disks"
        shutil.copytree(self.unpacked / name, target, ignore=shutil.ignore_patterns(METADATA, "expected"))
        return packed.log_directories(target)

    def compared(self, name: str, state: dict[str, Any], check: Path, **choices: Any) -> int:
        """The number of differences, which are kept."""
        admin = packed.admin(self.unpacked / name)
        found = differences(state, check, admin, self.unpacked / f"{name}-records", **choices)
        self.wrong += found
        return len(found)

    def serve(self, name: str, result: RebuildResult, release: str = NEWEST, **choices: Any) -> str:
        """Start brokers on the output and compare; what to report."""
        with self.running(nodes_of(result), release) as cluster:
            report = self.checked(name, cluster, len(result.partitions), **choices)
            cluster.stop()
        return report

    def checked(self, name: str, cluster: RunningCluster, partitions: int, **choices: Any) -> str:
        check = self.folder / f"check-{time.monotonic_ns()}"
        state = self.state = cluster.check(check, partitions)
        led = sum(each["leader"] >= 0 for each in state["topics"])
        isr = sum(sorted(each["isr"]) == sorted(each["replicas"]) for each in state["topics"])
        found = self.compared(name, state, check, **choices)
        reads = sum(len(file.read_text().splitlines()) for file in check.glob("*.jsonl"))
        strays = sum(_strays(log_dir) for node in cluster.nodes for log_dir in node.log_dirs)
        self.wrong += [f"{strays} stray folders"] if strays else []
        leaders = f"{led} of {partitions} partitions have leaders after {state['milliseconds']} ms, {isr} a full isr"
        return f"{leaders}, {reads} reads, {len(state['groupOffsets'])} committed offsets, {strays} stray, {found} differences"

    @contextmanager
    def running(
        self, nodes: Sequence[Node], release: str = NEWEST, settings: Mapping[str, str] | None = None
    ) -> Iterator[RunningCluster]:
        with running_cluster(nodes, self.folder / f"run-{time.monotonic_ns()}", release, settings) as cluster:
            yield cluster


def nodes_of(result: RebuildResult, roles: Callable[[int], str] = lambda node: "broker,controller") -> list[Node]:
    folders = {node: [Path(each.folder) for each in result.directories if each.node == node] for node in result.nodes}
    return [Node(node, log_dirs, roles(node)) for node, log_dirs in folders.items()]


def _strays(log_dir: Path) -> int:
    """The stray folders of data; a metadata log that a rebuild in place has put aside is none."""
    return sum(not each.name.startswith(METADATA) for each in log_dir.glob("*-stray"))


def plain(work: Work) -> str:
    return work.serve(THREE, kafkalog.cluster_rebuild(work.disks(), work.folder / "out"))


def single(work: Work) -> str:
    return work.serve(SINGLE, kafkalog.cluster_rebuild(work.disks(SINGLE), work.folder / "out"), OLD)


def one_lost(work: Work) -> str:
    """The disks of broker 3 are gone; its controller too."""
    disks = [disk for disk in work.disks() if disk.parent.name != "b3"]
    result = kafkalog.cluster_rebuild(disks, work.folder / "out")
    return work.serve(THREE, result, places=False)


def cut_short(work: Work) -> str:
    """The last batch of every copy of broker 2 is gone, where another broker has a copy."""
    disks = work.disks()
    cut = 0
    for folder in sorted(folder for disk in disks if disk.parent.name == "b2" for folder in disk.iterdir() if folder.is_dir()):
        if any((disk / folder.name).exists() for disk in disks if disk.parent.name != "b2"):
            cut += _cut_last_batch(folder)
    result = kafkalog.cluster_rebuild(disks, work.folder / "out")
    stale = sum(len(each.isr) < len(each.replicas) for each in result.partitions)
    return f"{cut} copies cut, {stale} partitions with a copy that is not in sync: {work.serve(THREE, result)}"


def _cut_last_batch(folder: Path) -> int:
    logs = [log for log in sorted(folder.glob("*.log")) if log.stat().st_size]
    if not logs:
        return 0
    batches = kafkalog.open(logs[-1]).read("batches", ["position"]).read_all().column("position").to_pylist()
    with logs[-1].open("r+b") as file:
        file.truncate(batches[-1])
    return 1


def after_kill(work: Work) -> str:
    """The brokers were killed: no disk has a clean-shutdown file."""
    disks = work.disks()
    for disk in disks:
        (disk / ".kafka_cleanshutdown").unlink()
    return work.serve(THREE, kafkalog.cluster_rebuild(disks, work.folder / "out"))


def killed_again(work: Work) -> str:
    """The rebuilt cluster runs, is killed, loses its metadata again, and is rebuilt again from its own output."""
    result = kafkalog.cluster_rebuild(work.disks(), work.folder / "out")
    with work.running(nodes_of(result)) as cluster:
        cluster.check(work.folder / "first", len(result.partitions))
        cluster.kill()
    for log in (work.folder / "out").rglob(METADATA):
        shutil.rmtree(log)
    again = kafkalog.cluster_rebuild(sorted((work.folder / "out").glob("node-*/*")), work.folder / "again")
    return work.serve(THREE, again)


def controller_apart(work: Work) -> str:
    """The nodes are brokers only; the controller's disk is gone, so it gets a new one."""
    result = kafkalog.cluster_rebuild(work.disks(), work.folder / "out", controllers=[100])
    nodes = nodes_of(result, lambda node: "controller" if node == 100 else "broker")
    with work.running(sorted(nodes, key=lambda node: -node.number)) as cluster:
        report = work.checked(THREE, cluster, len(result.partitions))
        cluster.stop()
    return report


def started_again(work: Work) -> str:
    """The rebuilt cluster is stopped and started a second time."""
    result = kafkalog.cluster_rebuild(work.disks(), work.folder / "out")
    first = work.serve(THREE, result)
    return f"first {first}; second {work.serve(THREE, result)}"


def old_records(work: Work) -> str:
    """Records older than a week are still there when retention has run."""
    result = kafkalog.cluster_rebuild(work.disks(), work.folder / "out")
    coordinator = [each.name for each in result.partitions if each.topic == "__consumer_offsets"]  # members of groups time out
    with work.running(nodes_of(result), settings={"log.retention.check.interval.ms": "10000"}) as cluster:
        work.checked(THREE, cluster, len(result.partitions))
        time.sleep(work.minutes * 60)
        report = work.checked(THREE, cluster, len(result.partitions), without=coordinator)
        cluster.stop()
    return f"{work.minutes:g} minutes later: {report}"


def in_place(work: Work) -> str:
    """The same on the disks themselves, on which brokers have made every folder stray."""
    disks, alone = _made_stray(work)
    result = kafkalog.cluster_rebuild(disks, in_place=True)
    return f"{alone}; in place: {work.serve(THREE, result)}"


def metadata_left(work: Work) -> str:
    """One node's copy of the metadata is left: settings, ACLs and credentials come back too; on the disks themselves."""
    target = work.folder / "disks"
    shutil.copytree(work.unpacked / THREE, target, ignore=shutil.ignore_patterns("expected"))
    disks = packed.log_directories(target)
    for disk in disks:
        if disk.parent.name != "b2":
            shutil.rmtree(disk / METADATA, ignore_errors=True)
    report = work.serve(THREE, kafkalog.cluster_rebuild(disks, in_place=True))
    admin = packed.admin(work.unpacked / THREE)
    wanted: dict[str, dict[str, str]] = {}
    for each in admin["configs"]:
        if each["resourceType"] == "TOPIC":
            wanted.setdefault(each["resourceName"], {})[each["name"]] = each["value"]
    state = work.state
    found = state["configs"] == wanted, state["scram"] == sorted(admin["scram"]), state["acls"] == len(admin["acls"])
    work.wrong += [] if all(found) else [f"configs, SCRAM users, ACLs equal: {found}"]
    count = sum(map(len, wanted.values()))
    return f"{report}; {count} topic configs, {len(state['scram'])} SCRAM users, {state['acls']} ACLs, {state['quotas']} quotas"


def clients(work: Work) -> str:
    """Consumers of groups of both protocols and old transactional ids go on, without a record lost or read twice."""
    reports = []
    for name, release in ((THREE, NEWEST), (SINGLE, OLD)):
        result = kafkalog.cluster_rebuild(work.disks(name), work.folder / f"out-{name}")
        shutil.rmtree(work.folder / "disks")
        with work.running(nodes_of(result), release) as cluster:
            state = cluster.check(work.folder / f"check-{name}", len(result.partitions))
            ends = {place: found["latest"] for place, found in state["partitionOffsets"].items()}
            wrong = clients_go_on(cluster, state, work.unpacked / f"{name}-records", ends)
            again = cluster.check(work.folder / f"again-{name}", len(result.partitions))
            work.wrong += [*wrong, *_lags(again), *_other_ids(state, again)]
            cluster.stop()
        kinds = ", ".join(f"{group} ({state['groups'][group]})" for group in GROUPS)
        reports.append(f"{release}: {kinds} read to the end, {TRANSACTIONAL_ID} committed, {len(wrong)} differences")
    return "; ".join(reports)


def _lags(state: Mapping[str, Any]) -> list[str]:
    """The commits of the groups that are not at the end of their partition, except for what was written since."""
    found = []
    for each in state["groupOffsets"]:
        place = f"{each['topic']}-{each['partition']}"
        end = state["partitionOffsets"][place]["latest"] if place in state["partitionOffsets"] else each["offset"]
        if each["groupId"] in GROUPS and each["offset"] != end and place != TRANSACTED:
            found.append(f"{each['groupId']} committed {each['offset']} of {place}, which ends at {end}")
    return found


def _other_ids(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The transactional ids that got another producer id."""
    ids, now = ({each["transactionalId"]: each["producerId"] for each in state["transactions"]} for state in (before, after))
    return [f"{name} has producer id {now.get(name)}, had {found}" for name, found in ids.items() if now.get(name) != found]


def move(work: Work) -> str:
    """Topics of each cluster are moved into the other one, which has topics of the same names, and both are started twice."""
    reports = []
    for source, into, release in ((THREE, SINGLE, OLD), (SINGLE, THREE, NEWEST)):
        disks = _whole(work, into)
        result = _moved(work, source, disks)
        reports.append(f"{source} into {into} ({release}): {_served_twice(work, source, into, _nodes(disks), result, release)}")
        shutil.rmtree(work.folder / into)
    return "; ".join(reports)


def move_killed(work: Work) -> str:
    """A move is killed before the metadata, and after one controller of three got them; the cluster is started in between."""
    disks = _whole(work, THREE)
    before = {disk: (disk / METADATA / LOG).read_bytes() for disk in disks if (disk / METADATA).exists()}
    result = _moved(work, SINGLE, disks)
    for disk, content in before.items():
        (disk / METADATA / LOG).write_bytes(content)
    with work.running(_nodes(disks)) as cluster:
        cluster.check(work.folder / "between", 1, 20)
        cluster.stop()
    strays = sum(map(_strays, disks))
    for stray in [stray for disk in disks for stray in disk.glob("*-stray")]:
        shutil.rmtree(stray)
    old = {disk: (disk / METADATA / LOG).read_bytes() for disk in before}
    result = _moved(work, SINGLE, disks)
    last = sorted(before)[-1]
    for disk in sorted(before)[:-1]:
        (disk / METADATA / LOG).write_bytes(old[disk])
    state = _moved(work, SINGLE, disks).state
    report = _served_twice(work, SINGLE, THREE, _nodes(disks), result, NEWEST)
    return f"{strays} folders stray in between, again after only {last.parent.name} had it: {state}; {report}"


def move_apart(work: Work) -> str:
    """The controller of the other cluster is a node of its own; brokers have copies of the metadata that only follow."""
    result = kafkalog.cluster_rebuild(work.disks(), work.folder / "out", controllers=[100])
    nodes = nodes_of(result, lambda node: "controller" if node == 100 else "broker")
    nodes.sort(key=lambda node: -node.number)
    with work.running(nodes) as cluster:
        cluster.check(work.folder / "before", len(result.partitions))
        cluster.stop()
    disks = [log_dir for node in nodes for log_dir in node.log_dirs]
    moved = _moved(work, SINGLE, disks)
    return f"{len(moved.metadata)} controller: {_served_twice(work, SINGLE, THREE, nodes, moved, NEWEST)}"


def move_dynamic(work: Work) -> str:
    """The other cluster is a new one with dynamic voters (kraft.version 1), which ran once."""
    node = Node(5, [work.folder / "d1", work.folder / "d2"])
    format_standalone(node, work.folder)
    with work.running([node]) as cluster:
        cluster.stop()
    result = kafkalog.cluster_move(packed.log_directories(work.unpacked / THREE), node.log_dirs, ["orders", "txn"])
    voters = kafkalog.cluster(node.log_dirs).image.voters
    names = {"orders": "orders", "txn": "txn"}
    for turn in (1, 2):
        with work.running([node]) as cluster:
            check = work.folder / f"check-{turn}"
            state = cluster.check(check, len(result.partitions))
            found = topic_differences(state, check, work.unpacked, THREE, names)
            work.wrong += found
            cluster.stop()
    ids = ", ".join(str(voter.directory_id) for voter in voters.values())
    strays = sum(map(_strays, node.log_dirs))
    return f"voter {ids}: {len(result.partitions)} partitions moved, {len(found)} differences, {strays} stray"


def _whole(work: Work, name: str) -> list[Path]:
    target = work.folder / name
    shutil.copytree(work.unpacked / name, target, ignore=shutil.ignore_patterns("expected"))
    return packed.log_directories(target)


def _moved(work: Work, source: str, disks: Sequence[Path]) -> MoveResult:
    return kafkalog.cluster_move(packed.log_directories(work.unpacked / source), disks, list(MOVED), names=MOVED)


def _nodes(disks: Sequence[Path]) -> list[Node]:
    numbers = sorted({int(disk.parent.name[1:]) for disk in disks})
    return [Node(number, [disk for disk in disks if disk.parent.name == f"b{number}"]) for number in numbers]


def _served_twice(work: Work, source: str, into: str, nodes: Sequence[Node], result: MoveResult, release: str) -> str:
    count = len(packed.admin(work.unpacked / into)["topics"]) + len(result.partitions)
    for turn in (1, 2):
        with work.running(nodes, release) as cluster:
            check = work.folder / f"check-{into}-{source}-{turn}"
            state = cluster.check(check, count)
            found = moved_differences(state, check, work.unpacked, source, into, MOVED)
            if turn == 2:
                found += use_moved(cluster, state, MOVED)
            work.wrong += found
            cluster.stop()
    strays = sum(_strays(log_dir) for node in nodes for log_dir in node.log_dirs)
    work.wrong += [f"{strays} stray folders"] if strays else []
    return f"{count} partitions, {len(result.partitions)} of them moved, {len(found)} differences, {strays} stray"


def kafka_alone(work: Work) -> str:
    """What Kafka does without us; then the stray folders are taken back."""
    disks, alone = _made_stray(work)
    result = kafkalog.cluster_rebuild(disks, work.folder / "out", prefer="stray")
    return f"{alone}; rebuilt: {work.serve(THREE, result)}"


def _made_stray(work: Work) -> tuple[list[Path], str]:
    """The disks after brokers ran on them without the metadata; a new metadata log is there, which knows no topic."""
    disks = work.disks()
    nodes = [Node(number, sorted(disk for disk in disks if disk.parent.name == f"b{number}")) for number in (1, 2, 3)]
    with work.running(nodes) as cluster:
        state = cluster.check(work.folder / "alone", 1, 10)
        cluster.stop()
    strays = sum(map(_strays, disks))
    return disks, f"alone: {strays} folders stray, {len(state['topics'])} partitions left"


SCENARIOS: dict[str, Callable[[Work], str]] = {
    "plain": plain,
    "single": single,
    "one-lost": one_lost,
    "cut-short": cut_short,
    "after-kill": after_kill,
    "killed-again": killed_again,
    "controller-apart": controller_apart,
    "started-again": started_again,
    "old-records": old_records,
    "kafka-alone": kafka_alone,
    "in-place": in_place,
    "metadata-left": metadata_left,
    "clients": clients,
    "move": move,
    "move-killed": move_killed,
    "move-apart": move_apart,
    "move-dynamic": move_dynamic,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long old records have to stay")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], metavar="SCENARIO")
    given = parser.parse_args(arguments)
    for release in (NEWEST, OLD):
        if (problem := resolve_jars(release)) is not None:
            sys.exit(problem)
    wrong = 0
    with tempfile.TemporaryDirectory() as base:
        unpacked = packed.unpack(sets.unpack("records", Path(base) / "sets", packed.DATA))
        for name in given.scenarios or SCENARIOS:
            work = Work(unpacked, Path(base) / name, given.minutes)
            work.folder.mkdir()
            report = SCENARIOS[name](work)
            sys.stdout.write(f"{name}: {report}\n" + "".join(f"    {line}\n" for line in work.wrong))
            sys.stdout.flush()
            wrong += len(work.wrong)
            shutil.rmtree(work.folder)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
