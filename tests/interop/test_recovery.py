"""Index, snapshot and checkpoint files rebuilt by Kafka's recovery and by ours: the same bytes for every golden partition."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kafkalog.errors import Limits
from kafkalog.format.names import LEADER_EPOCH_CHECKPOINT
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.rebuild import Files, RebuildOptions, rebuild
from kafkalog.log.report import ReadReport
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES
from kafkalog.storage import open_store
from kafkalog.tasks.partitions import find_index_interval
from kafkalog.tasks.salvage import salvage_partitions
from tests.builders.small_logs import made_batch, marker, transactional_batch, write_segment
from tests.conftest import require, unavailable
from tests.golden.sets import eras
from tests.interop.live.broker import resolve_jars
from tests.interop.live.recovery import recover

pytestmark = pytest.mark.slow

# Recovery of a folder without index files continues after damage; with them, as in tests/golden/test_recovered.py, it does not.
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


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    require("java", "mvn")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)


def made_log(folder: Path) -> None:
    """Producers enough for Java's hash tables to grow and to collide, transactions over segments, gaps, epochs, no timestamps."""
    random = Random(1)
    producers = [random.randrange(1 << random.choice((4, 8, 33, 62))) for _ in range(120)]
    offset = 0
    for segment in range(6):
        offset += 3 * segment
        entries, base = [], offset
        for _ in range(80):
            producer_id = random.choice(producers[: 20 * (segment + 1)])
            kind = random.randrange(10)
            count = random.randrange(1, 40)
            if kind == 0:
                entries.append(marker(offset, producer_id, commit=random.random() < 0.3))
                count = 1
            elif kind < 4:
                entries.append(transactional_batch(offset, count, producer_id))
            else:
                times = {"leader_epoch": segment, "producer_id": producer_id + (1 << 62), "producer_epoch": 0, "base_sequence": 7}
                entries.append(made_batch(offset, count, **times))
            offset += count
        write_segment(folder, base, *entries)


def test_a_log_of_many_producers_is_rebuilt_as_kafka_rebuilds_it(tmp_path: Path) -> None:
    folder = tmp_path / "many-0"
    made_log(folder)
    (partition,) = find_partitions(*open_store(folder))
    ours = rebuilt(partition, 500)
    assert recover([(folder, 500, 0)]) == ["ok"]
    theirs = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".log"}
    assert {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)} == set()
    assert len([name for name in theirs if name.endswith(".txnindex")]) > 3
    assert max(len(content) for name, content in theirs.items() if name.endswith(".snapshot")) > 100 * 46


def test_recovery_changes_nothing_in_a_salvaged_partition(golden: Callable[[str], Path], tmp_path: Path) -> None:
    """A log with damage in every segment: the salvaged log is what a broker would have written."""
    made_log(tmp_path / "source" / "many-0")
    for log in sorted((tmp_path / "source" / "many-0").glob("*.log")):
        content = bytearray(log.read_bytes())
        content[len(content) // 3] ^= 1
        content[len(content) // 2 : len(content) // 2 + 700] = bytes(700)
        log.write_bytes(content)
    results = list(salvage_partitions([golden(DAMAGED) / DAMAGED, tmp_path / "source"], tmp_path / "out"))
    results = [result for result in results if result.topic != "__cluster_metadata"]
    folders = [Path(result.folder) for result in results]
    before = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    intervals = [find_index_interval(find_partitions(*open_store(folder))[0], Limits()) for folder in folders]
    assert set(recover([(folder, interval, 0) for folder, interval in zip(folders, intervals, strict=True)])) == {"ok"}
    assert [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders] == before
    assert len(results[-1].report.dropped) >= 6


def test_every_golden_partition_is_rebuilt_as_kafka_rebuilds_it(golden: Callable[[str], Path], tmp_path: Path) -> None:
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
