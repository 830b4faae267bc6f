"""A standalone cluster of Spark on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaigns.ingest_kills import session_members
from tests.conftest import require
from tests.ports import LOOPBACK, reserve_port

WORKER_CORES = 3  # of one worker or of both this is not the 2 that Spark guesses before an executor has come


@dataclass
class Cluster:
    """A master and its workers, each in a session of its own, so that one can be killed with its executors."""

    folder: Path
    environment: dict[str, str]
    workers: int = 2
    hosts: Sequence[str] = (LOOPBACK,)
    of_workers: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=reserve_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._launch("org.apache.spark.deploy.master.Master", "--port", str(self.port), *_place(LOOPBACK))
        for number in range(1, self.workers + 1):
            place = _place(self.hosts[number % len(self.hosts)])
            work = self.folder / f"worker{number}"
            size = ["--cores", str(WORKER_CORES), "--memory", "1g", "--work-dir", str(work)]
            self._launch("org.apache.spark.deploy.worker.Worker", *size, *place, self.master)

    def _launch(self, name: str, *arguments: str) -> None:
        import pyspark

        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self.processes.append(
            subprocess.Popen(
                [str(launcher), name, *arguments],
                env={**self.environment, **self.of_workers},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def stop(self) -> None:
        for process in self.processes:
            kill_session(process)


def _place(host: str) -> list[str]:
    return ["--host", host, "--webui-port", "0"]


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and all in it."""
    for member in session_members(process.pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    process.wait()


@contextmanager
def started_cluster(folder: Path, workers: int = 2, hosts: str = LOOPBACK, **of_workers: str) -> Iterator[Cluster]:
    """A cluster, and the environment of its drivers; `of_workers` is added to that of workers and executors.

    `hosts`, joined by commas, are those of the workers in turn.
    """
    require("pyspark", "java")
    import pyspark

    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    started = Cluster(folder, environment, workers, hosts.split(","), of_workers)
    started.start()
    try:
        yield started
    finally:
        started.stop()
