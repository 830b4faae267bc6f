"""`diff` of the replicas of real brokers: they differ in nothing but what compaction explains, and faults are found."""

from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path

import pytest

import kafkalog
from tests.clusters.disks import log_directories, unpack_three


@pytest.fixture(scope="module")
def three(golden_folder: Path) -> Path:
    return unpack_three(golden_folder.parent / "clusters")


def test_replicas_of_three_brokers_differ_in_nothing_but_compaction(three: Path) -> None:
    compared, batches, reasons = 0, 0, set()
    for a, b in combinations(log_directories(three), 2):
        if a.parent == b.parent:
            continue
        found = kafkalog.diff(a, b, threads=1)
        assert found.is_explained, list(found.unexplained)
        compared += len(found.partitions)
        batches += sum(each.equal_batches for each in found.partitions)
        reasons |= {row.reason for row in found}
    assert (compared, batches) == (68, 1543)
    assert reasons == {"elsewhere", "rewritten"}


def test_a_lost_batch_of_a_compacted_replica_is_found(three: Path, tmp_path: Path) -> None:
    left, copied = three / "b1" / "d1", tmp_path / "d1"
    shutil.copytree(left, copied)
    (log,) = [path for path in (copied / "audit-0").glob("*.log") if path.stat().st_size > 4000 or path.stem.endswith("0" * 20)][
        :1
    ]
    data = log.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    log.write_bytes(data[size:])
    found = kafkalog.diff(left, copied, topics="audit", threads=1)
    assert not found.is_explained
    assert {row.reason for row in found.unexplained} == {"key-lost"}
