"""A Spark next to the broker: a streaming query into Parquet files, and ingests; its processes are killed now and then."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.campaigns.living_broker.drivers import Budget, Driver, Scene, offsets_of, run_target
from tests.campaigns.living_broker.judge import FALSE, Book
from tests.campaigns.living_broker.targets import Target
from tests.campaigns.living_broker.worker import Failed, Killed

LOOK_SECONDS = 1.5
INGEST_SHARE = 0.15
CATCH_UP_SECONDS = 240
LEAST_BATCHES = 3
PLANNED = "offsets"
DONE = "commits"


class Sparks(Driver):
    """One Spark with one query, started again after every kill. Its micro-batches count with the others."""

    def __init__(
        self, scene: Scene, budget: Budget, seed: str, query: Query, target: Target, ingests: Budget, kills: int
    ) -> None:
        super().__init__(scene, budget, seed)
        self.query = query
        self.target = target
        self.ingests = ingests
        self.kills = kills
        self.is_running = False
        self.least = 0  # micro-batches of the query before it may be killed again

    def step(self) -> None:
        killed = self.scene.tally["Sparks killed"]
        is_due = killed < self.kills and self.budget.done > self.budget.total * (killed + 0.5) / (self.kills + 1)
        self.look(kill=is_due and self.is_running and self.query.counted >= self.least)
        if self.random.random() < INGEST_SHARE and not self.ingests.is_spent:
            run_target(self.scene, self.ingests, self.worker, self.target)
            self.scene.tally["ingests on Spark"] += 1
        time.sleep(LOOK_SECONDS)

    def look(self, *, kill: bool = False) -> None:
        """See that the query runs, and how many micro-batches it has done."""
        try:
            if not self.is_running:
                self.worker.ask("spark")
                self.is_running = True
                self.least = self.query.counted + LEAST_BATCHES
            options = {**self.query.options, "path": str(self.scene.log_directory)}
            problem, _ = self.worker.ask("query", options, str(self.query.sink), str(self.query.checkpoint), kill=kill)
            if problem:
                self.scene.faults.add(FALSE, self.query.book.name, problem)
        except Killed:
            self.is_running = False
            self.scene.tally["Sparks killed"] += 1
        except Failed as failure:
            self.is_running = False
            self.worker.kill()
            self.scene.faults.add(FALSE, self.query.book.name, failure.args[0])
        for _ in range(self.query.new_batches()):
            self.budget.count()
            self.scene.tally["micro-batches in Spark"] += 1

    def finish(self) -> None:
        """Let the query catch up with logs that nobody writes to any more."""
        self.is_running = False  # the worker ended with the budget
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < deadline and self.query.is_behind():
            self.look()
            time.sleep(LOOK_SECONDS)
        self.worker.kill()


class Query:
    """A streaming query into a file sink, judged by its checkpoint and sink log."""

    def __init__(self, folder: Path, topics: str, options: dict[str, str], book: Book) -> None:
        self.topics = topics
        self.sink = folder / "rows"
        self.checkpoint = folder / "checkpoint"
        self.options = options
        self.book = book
        self.counted = 0

    def new_batches(self) -> int:
        """Micro-batches done since the last time."""
        before = self.counted
        self.counted = max(before, len(_numbers(self.checkpoint / DONE)))
        return self.counted - before

    def judge(self) -> None:
        """All rows of the sink, and how far the last micro-batch went."""
        lives = self.book.ledger.lives
        for path in self._files():
            columns = ("topic", "partition", "offset", "key", "value")
            table = pq.ParquetFile(path).read(list(columns)).to_pydict()
            for topic, partition, *row in zip(*(table[name] for name in columns), strict=True):
                place = (topic, lives[topic][-1].number, partition)
                self.book.take(place, [(row[0], row[1], row[2])])
        for (topic, partition), offset in self._reached().items():
            self.book.advance((topic, lives[topic][-1].number, partition), offset)

    def is_behind(self) -> bool:
        """Whether records are there that no micro-batch has taken."""
        reached = self._reached()
        for topic, lives in self.book.ledger.lives.items():
            if re.fullmatch(self.topics, topic):
                for partition, history in lives[-1].partitions.items():
                    visible = [each for each, record in history.records.items() if record.is_visible(self.book.isolation)]
                    if max(visible, default=-1) >= reached.get((topic, partition), 0):
                        return True
        return False

    def _reached(self) -> dict[tuple[str, int], int]:
        """The end offsets of the last completed micro-batch."""
        done = _numbers(self.checkpoint / DONE)
        if not done:
            return {}
        return offsets_of(json.loads((self.checkpoint / PLANNED / str(done[-1])).read_text().splitlines()[2]))

    def _files(self) -> Iterator[Path]:
        """The files that count, by the log of the sink: those of an attempt that was killed do not."""
        folder = self.sink / "_spark_metadata"
        actions: dict[str, str] = {}
        compacted = [int(path.name.split(".")[0]) for path in folder.glob("*.compact")]
        for number in range(max(compacted, default=0), max(_numbers(folder) + compacted, default=-1) + 1):
            for path in (folder / f"{number}.compact", folder / str(number)):
                if path.exists():
                    for line in path.read_text().splitlines()[1:]:
                        entry: dict[str, Any] = json.loads(line)
                        actions[entry["path"]] = entry["action"]
                    break
        for name, action in actions.items():
            if action == "add":
                yield Path(name.removeprefix("file://"))


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())
