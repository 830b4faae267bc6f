"""How many cores a read is cut for: the option, the environment, the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.options import parse_options
from kafkalog.spark.session import CORES_VARIABLE, planned_cores, session_cores
from tests.builders.small_logs import write_segment
from tests.conftest import require
from tests.spark.versions import has

MEBIBYTE = 1 << 20
SESSION = import_module("kafkalog.spark.session")  # the package has a function of that name


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 MiB: two splits for two cores, six for six."""
    folder = tmp_path_factory.mktemp("large")
    batches = [encode_batch([Record(offset, 1, b"k", bytes(MEBIBYTE))]) for offset in range(24)]
    write_segment(folder / "orders-0", 0, *batches, indexed=range(1, 24))
    return folder


def test_the_option_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORES_VARIABLE, raising=False)
    assert planned_cores(parse_options({"path": "/a"})) is None
    monkeypatch.setenv(CORES_VARIABLE, "64")
    assert planned_cores(parse_options({"path": "/a"})) == 64
    assert planned_cores(parse_options({"path": "/a", "cores": "8"})) == 8


@pytest.mark.parametrize("text", ["", "0", "many", "-4", "1e3", "9" * 40])
def test_an_environment_that_makes_no_sense_changes_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(CORES_VARIABLE, text)
    assert planned_cores(parse_options({"path": "/a"})) is None


class Cluster:
    """The part of a session and its context that gives the cores: executors arrive during a wait."""

    def __init__(self, master: str, coming: list[int], **conf: str) -> None:
        self.master = master
        self.coming = coming
        self.conf = {name.replace("_", "."): value for name, value in conf.items()}
        self.sparkContext = self._jsc = self

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        return int(self.conf.get("spark.default.parallelism", max(2, 8 * self.coming[0])))

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return self.conf

    def sc(self) -> Cluster:
        return self

    def getExecutorMemoryStatus(self) -> Cluster:  # noqa: N802
        return self

    def size(self) -> int:
        if len(self.coming) > 1:
            self.coming.pop(0)
        return 1 + self.coming[0]


DYNAMIC = {"spark_dynamicAllocation_enabled": "true"}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (Cluster("local[3]", [0]), 2),
        (Cluster("spark://host:1", [0, 0, 1, 3, 3]), 24),
        (Cluster("spark://host:1", [0], spark_default_parallelism="40"), 40),
        (Cluster("spark://host:1", [0]), max(2, os.cpu_count() or 1)),
        (Cluster("yarn", [0], **DYNAMIC, spark_dynamicAllocation_maxExecutors="10", spark_executor_cores="4"), 40),
        (Cluster("yarn", [2], **DYNAMIC), 16),
    ],
)
def test_the_cores_of_a_cluster_are_those_of_the_executors_that_come(
    monkeypatch: pytest.MonkeyPatch, cluster: Any, expected: int
) -> None:
    monkeypatch.setattr(SESSION, "STEADY_SECONDS", 0.2)
    monkeypatch.setattr(SESSION, "POLL_SECONDS", 0.01)
    assert session_cores(cluster, 0.5) == expected


def test_splits_are_sized_by_the_cores_that_the_option_names(large: Path, load: Callable[..., Any]) -> None:
    counts = [load(large, "offset long", cores=count).rdd.getNumPartitions() for count in (2, 6)]
    assert counts == [2, 6]


def test_a_session_sizes_splits_of_batches_and_streams_by_its_own_cores(large: Path, tmp_path: Path) -> None:
    require("pyspark", "java")
    program = """
import json, sys
from kafkalog.spark import read_fast, session
path, checkpoint = sys.argv[1:]
spark = session("local[6]", **{"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"})
found = [spark.read.format("kafkalog").schema("offset long").load(path).rdd.getNumPartitions()]
found.append(read_fast(path, spark=spark, schema="offset long").rdd.getNumPartitions())
stream = spark.readStream.format("kafkalog").schema("offset long").option("startingOffsets", "earliest").load(path)
take = lambda rows, number: found.append(rows.rdd.getNumPartitions())
writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination(90)
print(json.dumps(found))
"""
    command = [sys.executable, "-c", program, str(large), str(tmp_path / "checkpoint")]
    child = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stderr[-3000:]
    batch, fast, streamed = json.loads(child.stdout.splitlines()[-1])
    assert fast == 6
    if has("replaces"):
        assert (batch, streamed) == (6, 6)
    else:
        assert "not for the 6 of the session: option cores=6" in child.stderr
