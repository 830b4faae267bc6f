"""The examples of docs/spark.md and examples/pipeline run as they are written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkalog.spark import java_home
from tests.builders.small_logs import made_batch, write_segment
from tests.conftest import require
from tests.spark.pages import blocks
from tests.spark.versions import require_spark
from tests.tidy.source import ROOT

SECONDS = 240


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0), made_batch(10))
    write_segment(tmp_path / "logs" / "orders-1", 0, made_batch(0))
    return tmp_path / "logs"


def test_foreach_batch_writes_a_repeated_micro_batch_once(spark: Any, logs: Path, tmp_path: Path) -> None:
    (block,) = blocks("Into any sink", "python")
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    names = {"spark": spark, "path": str(logs), "target": str(target), "checkpoint": str(checkpoint)}

    def run() -> list[int]:
        exec(block, names)
        return sorted(pq.read_table(target, columns=["offset"])["offset"].to_pylist())

    expected = sorted([*range(20), *range(10)])
    assert run() == expected
    (checkpoint / "commits" / "0").unlink()  # as if Spark had died after the sink and before its own note
    (checkpoint / "commits" / ".0.crc").unlink()
    assert run() == expected


@pytest.mark.slow
def test_a_declarative_pipeline_makes_its_tables_of_the_logs(logs: Path, tmp_path: Path) -> None:
    require_spark("pipelines")
    require("pyspark", "yaml", "grpc", "grpc_status", "google.protobuf", "zstandard", "pandas")
    project = tmp_path / "pipeline"
    shutil.copytree(ROOT / "examples" / "pipeline", project)
    spec = project / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8").replace("file:///lake/orders/pipeline", (tmp_path / "storage").as_uri())
    spec.write_text(text.replace("/var/lib/kafka/data", str(logs)), encoding="utf-8")
    (block,) = blocks("Declarative pipelines", "sh")
    home = java_home(tmp_path / "java")
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    environment |= {"JAVA_HOME": home} if home else {}
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", block.replace("/lake/orders", str(tmp_path)).replace("examples/pipeline", str(project))],
        cwd=tmp_path,
        env=environment | {"SPARK_LOCAL_DIRS": str(tmp_path / "spark")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    tables = tmp_path / "warehouse"
    assert sorted(pq.read_table(tables / "orders", columns=["offset"])["offset"].to_pylist()) == sorted([*range(20), *range(10)])
    found = pq.read_table(tables / "orders_by_partition").sort_by("partition").to_pylist()
    assert found == [
        {"partition": 0, "records": 20, "last_offset": 19},
        {"partition": 1, "records": 10, "last_offset": 9},
    ]
