"""`python -m tests.campaigns.lake_sessions`: ingests into Iceberg and Delta tables on Spark sessions, parts of which are killed.

Each session is a Spark of its own with two cores. While it ingests, SIGKILL takes its driver (Python), its JVM, one of its Python
workers, or all of them: at a random moment (a worker in the middle of a file), or when the driver is before or after its commit
to a table. Some sessions try a task again that failed, others do not. A following run begins at once, next to whatever survived;
once that has ended as well, and after one more run, every record of the logs is in the tables once and no file is left over.
Readers look all the time.

After that come ingests on a cluster with speculative execution: a Python worker is stopped in the middle of a file, so that its
task runs a second time elsewhere, and continues when the run has ended or is about to.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.campaigns.ingest_kills import Child, Logs, session_members
from tests.campaigns.lake_kills import DAYS, LEDGER, Campaign
from tests.campaigns.lake_runs import DONE, STOPPED, Stop, places
from tests.spark.cluster import Cluster, started_cluster
from tests.tidy.source import ROOT

DRIVER, JVM, WORKER, ALL = "the driver", "the JVM", "a worker", "all of it"
VICTIMS: Final = (DRIVER, JVM, WORKER, ALL)
# Without and with further attempts of a task.
TOLD_EVERY: Final = 5
MASTERS: Final = ("local[2]", "local[2,4]")
QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "512m"}
SPECULATING: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.3",
    "spark.executor.memory": "512m",
}
STOPS: Final = [
    *places([f"{LEDGER}commit_once"], 2),
    Stop(f"{LEDGER}LakeLedger._record", True),
    Stop("kafkalog.spark.ingestion.run:check_ends"),
]
# A run whose Spark was killed under it.
FAILED: Final = ("KAFKALOG_SPARK_FAILED", "KAFKALOG_STORAGE")
SURVIVAL_SECONDS: Final = 20
HOSTS: Final = "127.0.0.1,127.0.0.2"  # Spark runs no second attempt on the host of the first
CHILD = """
import json, sys, tempfile
from kafkalog.spark import ingest, session
from kafkalog.spark.errors import SparkSourceError
from tests.campaigns.lake_runs import DONE, Stop, _stop_at
class Pipe:
    def send(self, text):
        sys.stdout.write(text.replace("\\n", " ") + "\\n"); sys.stdout.flush()
    def recv(self):
        return sys.stdin.readline()
pipe = Pipe()
master, conf, warm, task_bytes = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
spark = session(master, "kills", **conf)
with tempfile.TemporaryDirectory(prefix="kafkalog-warm-") as scratch:  # all is loaded and compiled when the clock starts
    ingest(warm, scratch, spark=spark, task_bytes=task_bytes)
pipe.send("ready")
for line in sys.stdin:
    order = json.loads(line)
    if order["stop"]:
        _stop_at(Stop(**order["stop"]), pipe)
    try:
        ingest(order["source"], order["target"], spark=spark, **order["choices"])
        pipe.send(DONE)
    except SparkSourceError as error:
        pipe.send(str(error))
    except Exception as error:  # no user should see it
        import traceback
        pipe.send(repr(traceback.format_exc()))
"""


class Sessions(Campaign):
    """Kills of parts of sessions, on logs and targets as those of `Campaign`."""

    def __init__(self, folder: Path, seed: int, cycles_per_log: int = 6) -> None:
        self.place = folder
        Logs(folder / "warm", random.Random(seed), DAYS).grow()
        self.waiting: deque[tuple[str, Child]] = deque()
        super().__init__(folder / "cycles", seed, cycles_per_log)
        self.seconds = 2.0

    def kill(self, count: int) -> None:
        """Kill parts of that many sessions; another one gets ready meanwhile."""
        for number in range(count):
            self._prepare(ahead=number + 1 < count)
            with self._cycle():
                self._kill()
                self._take()  # next to what survived
                self._outlive()
                self.logs.grow()

    def close(self) -> None:
        for _, child in self.waiting:
            child.kill()
        super().close()

    def _prepare(self, ahead: bool) -> None:
        while len(self.waiting) < 1 + ahead:
            master = self.random.choice(MASTERS)
            self.waiting.append((master, self._child(master, QUIET)))

    def _child(self, master: str, conf: dict[str, str]) -> Child:
        warm = str(self.place / "warm")
        return Child([sys.executable, "-c", CHILD, master, json.dumps(conf), warm, str(self.choices["task_bytes"])])

    def _begin(self, child: Child, stop: Stop | None = None) -> None:
        order = {"source": str(self.logs.folder), "target": str(self.target), "choices": self.choices}
        child.begin(json.dumps({**order, "stop": None if stop is None else asdict(stop)}))

    def _kill(self) -> None:
        master, self.child = self.waiting.popleft()
        self.child.ready()
        before = self._numbers()
        victim = VICTIMS[self.tally["kills"] % len(VICTIMS)]
        stop = self.random.choice(STOPS) if victim != WORKER and self.random.random() < 0.5 else None
        workers = members(self.child.process.pid, WORKER)
        self._begin(self.child, stop)
        writer = None
        if victim == WORKER:
            writer = self._stopped_writer(workers)
            self.tally[f"kills of a worker {'in the middle of a file' if writer else 'that nobody saw writing'}"] += 1
        elif stop is None:
            self.tally["kills at a random moment"] += 1
            time.sleep(self.random.uniform(0, self.seconds))
        else:
            said = self.child.line()
            assert said in (STOPPED, DONE), said
            self.tally[f"kills aimed: {stop if said == STOPPED else 'the run does not come there'}"] += 1
        found = members(self.child.process.pid, victim) if writer is None else [writer]
        for process in self.random.sample(found, 1) if found and victim != ALL else found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if victim in (DRIVER, ALL):
            self.child.process.wait()  # a lock is held as long as its process
        self.tally["kills"] += 1
        self.tally[f"kills of {victim if found else f'{victim}, which had ended'}"] += 1
        if victim in (JVM, WORKER):
            said = said if stop is not None and said == DONE else self._said(stop)
            code = said.partition(":")[0]
            assert code in (DONE, *FAILED), said or "nothing: the driver died"
            self.tally[f"{victim} of {master} killed: {code}"] += 1
        after = self._numbers()
        committed = sum(after.values()) > sum(before.values())
        left = sum(len(each) for each in self._uncounted())
        self.tally[f"kills: {'committed' if committed else 'not committed'}, {'files left' if left else 'nothing left'}"] += 1
        if stop is None:
            self.seconds = min(max(self.seconds * (0.8 if committed else 1.15), 0.3), 20)

    def _said(self, stop: Stop | None) -> str:
        """What a driver says after it lost a part of its Spark; one that stands at a place continues."""
        if stop is not None:
            self.child.begin()
        return self.child.line()

    def _outlive(self) -> None:
        """Wait until what was not killed has ended by itself; a driver that waits for orders does not."""
        deadline = time.monotonic() + SURVIVAL_SECONDS
        if self.child.process.poll() is None and self.child.process.stdin is not None:
            with suppress(OSError):
                self.child.process.stdin.close()
        while others := [each for each in session_members(self.child.process.pid) if self._is_alive(each)]:
            if time.monotonic() > deadline:
                self.tally["sessions of which something stayed until it was killed"] += 1
                break
            time.sleep(0.1)
        self.child.kill()
        self.tally["sessions of which nothing stayed"] += not others

    def _is_alive(self, process: int) -> bool:
        with suppress(OSError):
            return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    # -- speculation ---------------------------------------------------------------------------------------------------------

    def speculate(self, count: int, cluster: Cluster) -> None:
        """That many ingests, of each of which a worker stands still for a while."""
        child = self._child(cluster.master, {**QUIET, **SPECULATING, "spark.executorEnv.PYTHONPATH": str(ROOT / "src")})
        try:
            child.ready()
            for _ in range(count):
                with self._cycle():
                    self._speculate(child, [process.pid for process in cluster.processes[1:]])
                    self.logs.grow()
        finally:
            child.kill()

    def _stopped_writer(self, workers: Sequence[int]) -> int | None:
        """A worker that stands still in the middle of a file; None if none was seen to write."""
        deadline = time.monotonic() + SURVIVAL_SECONDS
        while time.monotonic() < deadline:
            for process in workers:
                if writes(process, self.target):
                    os.kill(process, signal.SIGSTOP)
                    if writes(process, self.target):
                        return process
                    os.kill(process, signal.SIGCONT)
        return None

    def _speculate(self, child: Child, workers: Sequence[int]) -> None:
        found = [process for worker in workers for process in members(worker, WORKER)]
        self.random.shuffle(found)
        self._begin(child)
        stopped = self._stopped_writer(found)
        assert stopped is not None
        said = child.line()
        assert said == DONE, said
        left = sum(len(each) for each in self._uncounted())
        time.sleep(self.random.uniform(0, 3))
        with suppress(ProcessLookupError):  # Spark has killed it
            os.kill(stopped, signal.SIGCONT)
        time.sleep(0.5)
        late = sum(len(each) for each in self._uncounted())
        self.tally["runs with a worker that stood still in the middle of a file"] += 1
        self.tally[f"of these, with {'files' if late > left else 'no files'} of attempts that came after the commit"] += 1


def writes(process: int, target: Path) -> bool:
    """Whether a process has a data file of the target open."""
    with suppress(OSError):
        opened = [os.readlink(each) for each in (Path("/proc") / str(process) / "fd").iterdir()]
        return any(each.startswith(str(target)) and each.endswith(".parquet") for each in opened)
    return False


def members(session: int, kind: str) -> list[int]:
    """The processes of a Spark of one kind."""
    if kind == DRIVER:
        return [session]
    found = session_members(session)
    if kind == ALL:
        return found
    return [each for each in found if ("java" if kind == JVM else "pyspark.daemon") in _command(each)]


def _command(process: int) -> str:
    with suppress(OSError):
        return (Path("/proc") / str(process) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--speculations", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    begin = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkalog-sessions-") as folder:
        campaign = Sessions(Path(folder) / "campaign", given.seed)
        for done in range(0, given.kills, TOLD_EVERY):
            campaign.kill(min(TOLD_EVERY, given.kills - done))
            print(f"{campaign.tally['kills']} kills, {time.monotonic() - begin:.0f} s", flush=True)
        if given.speculations:
            with started_cluster(Path(folder) / "cluster", hosts=HOSTS) as cluster:
                campaign.speculate(given.speculations, cluster)
        campaign.close()
    for what, number in sorted(campaign.tally.items()):
        print(f"{number:6} {what}")
    print(f"{campaign.looks:6} looks of readers at {campaign.snapshots} snapshots, 0 of a part of a run")
    print(f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, 0 files left over, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
