"""The pipeline on a real standalone cluster of two workers, one of which dies on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.every_format import make_large_segment
from tests.spark.cluster import WORKER_CORES, Cluster, started_cluster
from tests.spark.ingested import check_manifest, commits, read_arrow, take

TASK_BYTES = 4 << 20
SECONDS = 120


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with started_cluster(tmp_path) as started:
        yield started


def staged_files(target: Path) -> int:
    return len(list(target.glob("_kafkalog/staging/*/*/*.parquet")))


@pytest.mark.slow
def test_a_worker_killed_on_the_way_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    source, target = tmp_path / "logs", tmp_path / "tables"
    source.mkdir()
    records = make_large_segment(source / "orders-0")
    program = (
        "import sys, json; from kafkalog.spark import ingest; from kafkalog.spark.ingestion.executors import make_executor\n"
        "conf = {'spark.ui.enabled': 'false', 'spark.ui.showConsoleProgress': 'false', 'spark.executor.memory': '512m'}\n"
        "executor = make_executor(None, sys.argv[3], conf)\n"
        "cores = executor.cores\n"
        "done = ingest(sys.argv[1], sys.argv[2], spark=executor.spark, task_bytes=int(sys.argv[4]))\n"
        "sys.stdout.write(json.dumps({**done.as_dict(), 'cores': cores}))"
    )
    command = [sys.executable, "-c", program, str(source), str(target), cluster.master, str(TASK_BYTES)]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as driver:
        deadline = time.monotonic() + SECONDS
        while staged_files(target) < 3:
            assert driver.poll() is None, (driver.stderr.read() if driver.stderr else b"").decode()[-3000:]
            assert time.monotonic() < deadline, "no task has ended"
            time.sleep(0.02)
        cluster.kill(cluster.processes[2])
        assert commits(target) == []
        out, errors = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, errors.decode()[-3000:]
    summary = json.loads(out)
    assert (summary["records"], summary["commit"]) == (records, 1)
    assert summary["tasks"] > 20
    # On a busy machine the second executor may come seconds after the first.
    assert summary["cores"] in (WORKER_CORES, 2 * WORKER_CORES)
    take(source, tmp_path / "alone")
    assert read_arrow(target).equals(read_arrow(tmp_path / "alone"))
    check_manifest(target)
