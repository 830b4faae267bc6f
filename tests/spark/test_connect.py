"""The source through Spark Connect: batch, stream and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.spark import java_home
from tests.builders.small_logs import made_batch, write_segment
from tests.conftest import require
from tests.tidy.source import ROOT


@pytest.mark.slow
def test_batch_stream_and_errors_come_through_spark_connect(tmp_path: Path) -> None:
    require("pyspark", "grpc", "grpc_status", "google.protobuf", "zstandard", "pandas")
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0), made_batch(10))
    home = java_home(tmp_path / "java")
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment |= {"JAVA_HOME": home} if home else {}
    # Its server runs in another folder.
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    child = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect", str(tmp_path / "logs"), str(tmp_path / "checkpoint")],
        cwd=ROOT,
        env=environment | {"SPARK_LOCAL_DIRS": str(tmp_path / "spark")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-4000:]
    found = json.loads(child.stdout.splitlines()[-1])
    assert (found["batch"], found["fast"], found["stream"]) == (20, 20, 20)
    assert "KAFKALOG_BAD_OPTION: option mode='lenient': allowed are FAILFAST" in found["refused"]
