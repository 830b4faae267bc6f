"""`python -m tests.campaigns.ingest_kills`: ingests killed at random moments, and the result of the next run.

Each cycle appends to the logs, starts an ingest in a process of its own, kills it with all its children at a random moment of
its work (SIGKILL: nothing can be tidied up), sometimes kills the run after it as well, and lets the next one end. Then the tables
must equal those of an undisturbed ingest: no row lost, none twice, no damage twice, every file in the manifest.
Most runs use the executor of threads, whose processes start in a second; some a Spark of their own, JVM and workers killed too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Self

from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch
from tests.spark.ingested import check_manifest, damaged_rows, read_logs, read_table, take

PARTITIONS = 6
DAY_MS = 24 * 3600 * 1000
CYCLES_PER_LOG = 8
TASK_BYTES = "20000"
TOLD_EVERY = 20
CHILD = """
import sys, tempfile
from kafkalog.spark import ingest, session
source, target, master, task_bytes = sys.argv[1:]
spark = None
if master.startswith("local"):
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    spark = session(master, "kills", **quiet)
with tempfile.TemporaryDirectory(prefix="kafkalog-warm-") as scratch:  # all is loaded and compiled when the clock starts
    ingest(source, scratch, master=master, spark=spark, task_bytes=int(task_bytes))
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
ingest(source, target, master=master, spark=spark, task_bytes=int(task_bytes))
sys.stdout.write("done\\n"); sys.stdout.flush(); sys.stdin.readline()
"""


class Logs:
    """A log directory that grows: many days, several segments, now and then a damaged batch and an incomplete tail."""

    def __init__(self, folder: Path, source: random.Random, days: int = 6) -> None:
        self.folder = folder
        self.days = days
        self.random = source
        self.next_offsets = [0] * PARTITIONS
        self.bases = [0] * PARTITIONS
        self.tails = [b""] * PARTITIONS

    def grow(self) -> None:
        for number in range(PARTITIONS):
            folder = self.folder / f"topic{number // 3}-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            if self.random.random() < 0.3 and not self.tails[number]:
                self.bases[number] = self.next_offsets[number]
            with (folder / segment_file_name(self.bases[number])).open("ab") as file:
                file.write(self.tails[number])
                for _ in range(self.random.randint(1, 12)):
                    file.write(self._batch(number))
                tail = self._batch(number) if self.random.random() < 0.3 else b""
                cut = len(tail) // 2
                file.write(tail[:cut])
                self.tails[number] = tail[cut:]

    def _batch(self, number: int) -> bytes:
        first = self.next_offsets[number]
        offsets = range(first, first + self.random.randint(1, 60))
        self.next_offsets[number] = offsets.stop
        days = [self.random.randrange(self.days) for _ in offsets]
        records = [
            Record(offset, day * DAY_MS + offset, b"%d" % offset, self.random.randbytes(40))
            for offset, day in zip(offsets, days, strict=True)
        ]
        batch = bytearray(encode_batch(records))
        if self.random.random() < 0.05:
            batch[self.random.randrange(61, len(batch))] ^= 1
        return bytes(batch)


class Child:
    """An ingest in a session of its own, waiting for the order to begin."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )

    def ready(self) -> Self:
        assert self.line() == "ready"
        return self

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self, word: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def end(self) -> float:
        """Seconds until it is done."""
        begin = time.monotonic()
        self.begin()
        assert self.line() == "done"
        seconds = time.monotonic() - begin
        self.kill()
        return seconds

    def signal(self, number: signal.Signals) -> None:
        """To the process and to everything that it started: Spark's workers leave its group, but not its session."""
        for member in session_members(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(member, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def session_members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    found.append(int(entry.name))
    return found


def damaged_places(target: Path) -> dict[str, list[tuple[int, int]]]:
    """The bytes set aside of each file; ranges that touch are one, since a run may end between two of them. None overlaps.

    Those that reach the end of a file do not count: of several damaged batches there, a run that saw the first one alone has
    reported it, and one that sees them together waits for what follows.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for row in damaged_rows(target):
        ranges = found.setdefault(row["file"], [])
        start, stop = row["position"], row["position"] + row["length"]
        assert not ranges or ranges[-1][1] <= start, "damage was reported twice"
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, stop))
    inner = {file: [each for each in ranges if each[1] < Path(file).stat().st_size] for file, ranges in found.items()}
    return {file: ranges for file, ranges in inner.items() if ranges}


class Campaign:
    """Kills, one after the other, on logs that are recreated every few cycles."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.seconds: dict[str, float] = {}
        self.tally: Counter[str] = Counter()
        self.rows = 0
        self.cycle = 0

    def run(self, kills: int, master: str) -> None:
        """Kill that many runs on a master."""
        wanted = self.tally["kills"] + kills
        while self.tally["kills"] < wanted:
            if self.cycle % CYCLES_PER_LOG == 0:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.logs = Logs(self.folder / "logs", self.random)
                self.target = self.folder / "tables"
            self.cycle += 1
            self.logs.grow()
            if master not in self.seconds:
                scratch = self.folder / "measured"
                self.seconds[master] = self._child(scratch, master).end()
            self._kill(master)
            while self.tally["kills"] < wanted and self.random.random() < 0.3:
                self._kill(master)
            self._verify()

    def _child(self, target: Path, master: str) -> Child:
        return Child([sys.executable, "-c", CHILD, str(self.logs.folder), str(target), master, TASK_BYTES]).ready()

    def _kill(self, master: str) -> None:
        child = self._child(self.target, master)
        before = self._commit_count()
        child.begin()
        time.sleep(self.random.uniform(0, self.seconds[master]))
        child.kill()
        self.tally["kills"] += 1
        published = self._commit_count() > before
        staging = self.target / "_kafkalog" / "staging"
        staged = staging.exists() and any(staging.iterdir())
        self.tally[f"{'published' if published else 'not published'}, {'files left' if staged else 'nothing left'}"] += 1
        if not staged:  # too late or too early: most moments should be in the middle of the work
            self.seconds[master] *= 0.8 if published else 1.25

    def _commit_count(self) -> int:
        return len(list((self.target / "_kafkalog" / "commits").glob("*.json")))

    def _verify(self) -> None:
        """Compare the next run with an undisturbed one and with the logs themselves."""
        undisturbed = self.folder / "undisturbed"
        shutil.rmtree(undisturbed, ignore_errors=True)
        take(self.logs.folder, self.target)
        take(self.logs.folder, undisturbed)
        rows = read_table(self.target)
        assert rows == read_table(undisturbed) == read_logs(self.logs.folder, on_damage="salvage")
        assert damaged_places(self.target) == damaged_places(undisturbed)
        check_manifest(self.target)
        self.rows += len(rows)
        self.tally["re-runs equal to an undisturbed run"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=190, help="kills of runs on threads")
    parser.add_argument("--spark-kills", type=int, default=10, help="kills of runs on a Spark of their own")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    begin = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkalog-kills-") as folder:
        campaign = Campaign(Path(folder) / "campaign", given.seed)
        for master, kills in (("none[2]", given.kills), ("local[2]", given.spark_kills)):
            for done in range(0, kills, TOLD_EVERY):
                campaign.run(min(TOLD_EVERY, kills - done), master)
                print(f"{campaign.tally['kills']} kills, the last ones on {master}", flush=True)
    for what, count in campaign.tally.items():
        print(f"{count:6} {what}")
    print(f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
