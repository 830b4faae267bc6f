"""The pipeline on a real standalone cluster of two workers, one of which dies on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafkalog.cli.demo import make_large_segment
from tests.campaigns.ingest_kills import session_members
from tests.conftest import require
from tests.ports import reserve_port
from tests.spark.ingested import check_manifest, commits, read_arrow, take

TASK_BYTES = 4 << 20
WORKER_CORES = 3  # of one worker or of both this is not the 2 that Spark guesses before an executor has come
SECONDS = 120


@dataclass
class Cluster:
    """A master and two workers, each in a session of its own, so that one can be killed with its executors."""

    folder: Path
    environment: dict[str, str]
    port: int = field(default_factory=reserve_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._launch("org.apache.spark.deploy.master.Master", "--port", str(self.port), *place)
        for number in (1, 2):
            work = self.folder / f"worker{number}"
            size = ["--cores", str(WORKER_CORES), "--memory", "1g", "--work-dir", str(work)]
            self._launch("org.apache.spark.deploy.worker.Worker", *size, *place, self.master)

    def _launch(self, name: str, *arguments: str) -> None:
        import pyspark

        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self.processes.append(
            subprocess.Popen(
                [str(launcher), name, *arguments],
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        for member in session_members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.processes:
            self.kill(process)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    require("pyspark", "java")
    import pyspark

    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "spark"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    started = Cluster(tmp_path, environment)
    started.start()
    yield started
    started.stop()


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
