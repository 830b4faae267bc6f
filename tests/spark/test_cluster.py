"""A real standalone cluster of two workers: how kafkalog gets onto it, and the pipeline while one of them dies."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders.every_format import make_large_segment
from tests.builders.small_logs import made_batch, write_segment
from tests.conftest import require
from tests.ports import reserve_port
from tests.spark.cluster import WORKER_CORES, Cluster, kill_session, started_cluster
from tests.spark.ingested import check_manifest, commits, read_arrow, take
from tests.spark.pages import blocks
from tests.tidy.source import ROOT

TASK_BYTES = 4 << 20
SECONDS = 240
SMALL = "--conf spark.ui.enabled=false --conf spark.executor.memory=512m --conf spark.cores.max=1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One whose nodes know nothing of this checkout."""
    with started_cluster(tmp_path_factory.mktemp("cluster"), PYTHONPATH="") as started:
        yield started


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    (found,) = folder.glob("*.whl")
    return found


# Where the executors have the package from; the page has no use for that.
WHERE = """
import kafkalog
print("FROM", {each for each in spark.sparkContext.range(0, 8, 1, 8).map(lambda _: kafkalog.__file__).collect()})
"""


def on_the_cluster(cluster: Cluster, folder: Path, command: str, logs: Path) -> tuple[list[str], dict[str, str]]:
    """A command of the page and its environment, in a folder with the wheel and the program; only kafkalog is packed."""
    pip = f"{sys.executable} -m pip install --disable-pip-version-check --no-deps --no-index"
    command = command.replace("pip install", pip).replace("spark://master:7077", cluster.master)
    command = command.replace("/var/lib/kafka/data", str(logs)).replace("spark-submit ", f"spark-submit {SMALL} ")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    without = {name: value for name, value in cluster.environment.items() if name != "PYTHONPATH"}
    return ["bash", "-euc", command], {**without, "PATH": path}


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS)
def test_what_the_page_says_of_a_cluster_brings_kafkalog_onto_it(cluster: Cluster, wheel: Path, tmp_path: Path) -> None:
    require("pip")
    (program,), (packed, as_zip, server) = blocks("On a cluster", "python"), blocks("On a cluster", "sh")
    logs = tmp_path / "logs"
    write_segment(logs / "orders-0", 0, made_batch(0), made_batch(10))
    shutil.copy(wheel, tmp_path)
    (tmp_path / "count.py").write_text(program + WHERE, encoding="utf-8")
    for block, place in ((packed, "/packed/kafkalog/__init__.py"), (as_zip, "/kafkalog.zip/kafkalog/__init__.py")):
        command, environment = on_the_cluster(cluster, tmp_path, block, logs)
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "|orders|   20|" in done.stdout
        (origin,) = [line for line in done.stdout.splitlines() if line.startswith("FROM ")]
        assert origin.count("'") == 2 * origin.count(place), origin
    assert counted_through_connect(*on_the_cluster(cluster, tmp_path, server, logs), tmp_path, logs) == 20


CONNECTED = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.read.format("kafkalog").load(sys.argv[2]).count())
"""


def counted_through_connect(command: list[str], environment: dict[str, str], folder: Path, logs: Path) -> int:
    """The records that a client counts whose server was started by this command."""
    require("grpc", "grpc_status", "google.protobuf", "zstandard", "pandas")
    port = reserve_port()
    command[-1] = command[-1].replace("spark-submit ", f"spark-submit --conf spark.connect.grpc.binding.port={port} ")
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + SECONDS
        while not listens(port):
            assert server.poll() is None, (folder / "server.log").read_text(encoding="utf-8")[-3000:]
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.2)
        client = [sys.executable, "-c", CONNECTED, f"sc://127.0.0.1:{port}", str(logs)]
        done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return int(done.stdout.splitlines()[-1])
    finally:
        kill_session(server)


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


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
        "conf['spark.executorEnv.PYTHONPATH'] = sys.argv[5]\n"
        "executor = make_executor(None, sys.argv[3], conf)\n"
        "cores = executor.cores\n"
        "done = ingest(sys.argv[1], sys.argv[2], spark=executor.spark, task_bytes=int(sys.argv[4]))\n"
        "sys.stdout.write(json.dumps({**done.as_dict(), 'cores': cores}))"
    )
    command = [sys.executable, "-c", program, str(source), str(target), cluster.master, str(TASK_BYTES), str(ROOT / "src")]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as driver:
        deadline = time.monotonic() + SECONDS
        while staged_files(target) < 3:
            assert driver.poll() is None, (driver.stderr.read() if driver.stderr else b"").decode()[-3000:]
            assert time.monotonic() < deadline, "no task has ended"
            time.sleep(0.02)
        kill_session(cluster.processes[2])
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
