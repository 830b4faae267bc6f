"""The files beside a log, rebuilt by Kafka's own recovery and by ours: the same bytes for every golden partition."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.errors import Limits
from kafkalog.format.names import LEADER_EPOCH_CHECKPOINT
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.rebuild import Files, RebuildOptions, rebuild
from kafkalog.log.report import ReadReport
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES
from kafkalog.storage import open_store
from tests.conftest import require, unavailable
from tests.golden.sets import eras
from tests.interop.live.broker import resolve_jars
from tests.interop.live.recovery import recover

pytestmark = pytest.mark.slow

# Recovery of a folder without index files goes on behind damage; with them, as in tests/golden/test_recovered.py, it does not.
DAMAGED = "4.3.0-damaged"


def partitions_of(era: str, folder: Path) -> list[tuple[Partition, int]]:
    """The partitions of a golden set, with the index interval of their topic; KRaft's own log has a recovery of its own."""
    manifest = json.loads((folder / f"{era}-expected" / "manifest.json").read_text())
    intervals = {case["dir"]: case.get("topicConfig", {}).get("index.interval.bytes") for case in manifest["cases"]}
    store, path = open_store(folder / era)
    found = [each for each in find_partitions(store, path) if each.segments and each.topic != "__cluster_metadata"]
    return [(each, int(intervals.get(str(each)) or DEFAULT_INTERVAL_BYTES)) for each in found]


def copy_logs(partition: Partition, folder: Path) -> Path:
    """A folder with the logs alone, and the leader epochs, which recovery does not take from the logs where they are known."""
    target = folder / str(partition)
    target.mkdir(parents=True)
    for stored in partition.files:
        if not stored.suffix and stored.kind in ("log", LEADER_EPOCH_CHECKPOINT):
            shutil.copy(stored.path, target)
    return target


def rebuilt(partition: Partition, interval: int) -> Files:
    files: Files = {}
    for some in rebuild(partition, RebuildOptions(interval), Limits(), ReadReport()):
        files.update(some)
    return files


def test_every_golden_partition_is_rebuilt_as_kafka_rebuilds_it(golden: Callable[[str], Path], tmp_path: Path) -> None:
    require("java", "mvn")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
    work = [
        (partition, interval, copy_logs(partition, tmp_path / era))
        for era in eras()
        if era != DAMAGED
        for partition, interval in partitions_of(era, golden(era))
    ]
    answers = recover([(folder, interval, partition.log_start_offset or 0) for partition, interval, folder in work])
    assert set(answers) == {"ok"}
    compared = 0
    for partition, interval, folder in work:
        theirs = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".log"}
        ours = rebuilt(partition, interval)
        different = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
        assert different == set(), folder
        compared += len(theirs)
    assert len(work) > 300
    assert compared > 3000
