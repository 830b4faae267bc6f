"""`python -m tests.campaigns.living_broker.run`: ingests, streams and verifies next to a broker at work, some of them killed.

A real broker writes, compacts, deletes, aborts, adds partitions, creates topics again, is killed and loses the ends of logs.
Next to it ingests, micro-batches and verifies run without a pause. Their rows are compared with what was written: every record
that a consumer would have got is there once, and nothing else; whatever was really lost is named; no error comes without a loss.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaigns.living_broker.cluster import Cluster, cut_log
from tests.campaigns.living_broker.drivers import (
    Budget,
    Driver,
    Ingests,
    MicroBatches,
    Scene,
    Stream,
    Verifies,
    check_view,
    run_target,
)
from tests.campaigns.living_broker.judge import LOST, Book, Faults, show
from tests.campaigns.living_broker.ledger import Gate, Ledger
from tests.campaigns.living_broker.sparks import Query, Sparks
from tests.campaigns.living_broker.targets import Target
from tests.campaigns.living_broker.topics import WRITERS, Writer
from tests.campaigns.living_broker.worker import Worker
from tests.interop.live.broker import resolve_jars

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
SETTLE_SECONDS = 10
LAST_RUNS = 4
REPORT_SECONDS = 30
EVERYTHING = ".*"
LOG_END = {"upTo": "logEnd"}


@dataclass(frozen=True)
class Reader:
    """A target or a stream: which topics it reads, and how."""

    name: str
    topics: str
    isolation: str = UNCOMMITTED
    accepts_losses: bool = False
    options: dict[str, str] = field(default_factory=dict)


TARGETS = (
    Reader("append", "append"),
    Reader("append up to the end", "append", options=LOG_END),
    Reader("same size", "same-size", options=LOG_END),
    Reader("same size, later", "same-size"),
    Reader("same size, continue", "same-size", accepts_losses=True, options=LOG_END),
    Reader("overwrites", "overwrites", options=LOG_END),
    Reader("overwrites committed", "overwrites", COMMITTED),
    Reader("retained", "retained", options=LOG_END),
    Reader("retained, continue", "retained", accepts_losses=True),
    Reader("payments", "payments"),
    Reader("payments committed", "payments", COMMITTED, options=LOG_END),
    Reader("growing", "growing", options=LOG_END),
    Reader("reborn", "reborn", options=LOG_END),
    Reader("reborn, continue", "reborn", accepts_losses=True),
    Reader("cut", "cut", options=LOG_END),
    Reader("cut, continue", "cut", accepts_losses=True),
    Reader("everything", EVERYTHING, accepts_losses=True),
)
ON_SPARK = Reader("append and growing, on Spark", "append|growing")
IN_SPARK = Reader("query in Spark", "append|growing|same-size|payments", COMMITTED)
STREAMS = (
    Reader("stream of appends", "append|growing"),
    Reader("stream of compacted", "same-size|overwrites", options=LOG_END),
    Reader("stream of payments", "payments", COMMITTED, options=LOG_END),
    Reader("stream of retained", "retained"),
    Reader("stream of cut", "cut", options=LOG_END),
)


@dataclass(frozen=True)
class Sizes:
    """How much a campaign does, and over how much time it is spread."""

    ingests: int = 2000
    batches: int = 500
    verifies: int = 500
    seconds: float = 900
    crashes: int = 20
    spark_kills: int | None = 3  # None: no Spark at all
    topics: tuple[str, ...] = tuple(kind.topic for kind in WRITERS)

    def of(self, readers: Sequence[Reader]) -> list[Reader]:
        """Those of the readers that read these topics only."""
        return [each for each in readers if each.topics == EVERYTHING or set(each.topics.split("|")) <= set(self.topics)]


class Campaign:
    """One broker with its writers, and all that runs next to it."""

    def __init__(self, folder: Path, seed: int, sizes: Sizes, report: Callable[[str], None]) -> None:
        self.folder = folder
        self.sizes = sizes
        self.seed = seed
        self.report = report
        self.random = random.Random(seed)
        self.writing = Gate()
        self.ledger = Ledger()
        self.faults = Faults()
        folder.mkdir(parents=True, exist_ok=True)
        self.scene = Scene(Cluster(folder), self.ledger, self.faults)
        self.targets = [self._target(reader) for reader in sizes.of(TARGETS)]
        self.streams = [self._stream(reader) for reader in sizes.of(STREAMS)]
        self.budgets = [Budget(total, sizes.seconds) for total in (sizes.ingests, sizes.batches, sizes.verifies)]
        self.writers: list[Writer] = []
        self.drivers: list[Driver] = []
        self.sparks = self._sparks(sizes.spark_kills) if sizes.spark_kills is not None else None

    def _kinds(self) -> list[type[Writer]]:
        return [kind for kind in WRITERS if kind.topic in self.sizes.topics]

    def _book(self, reader: Reader) -> Book:
        return Book(reader.name, reader.isolation, self.ledger, self.faults)

    def _target(self, reader: Reader) -> Target:
        choices: dict[str, Any] = {"isolation": reader.isolation, "options": reader.options}
        folder = self.folder / "tables" / reader.name.replace(" ", "-").replace(",", "")
        return Target(folder, reader.topics, self._book(reader), self.ledger, choices, reader.accepts_losses)

    def _stream(self, reader: Reader) -> Stream:
        return Stream(reader.name, _options(reader), self._book(reader))

    def _sparks(self, kills: int) -> Sparks:
        query = Query(self.folder / "query", IN_SPARK.topics, _options(IN_SPARK), self._book(IN_SPARK))
        ingests, batches, _ = self.budgets
        self.targets.append(self._target(ON_SPARK))
        return Sparks(self.scene, batches, f"{self.seed} Spark", query, self.targets[-1], ingests, kills)

    # -- the run -----------------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Whether nothing was lost, doubled, wrong or reported without a reason."""
        try:
            self.writers = [kind(self.scene.cluster, self.ledger, self.writing, self.seed) for kind in self._kinds()]
            self._start()
            self._beside()
            self._end()
        finally:
            self.scene.ended.set()
            for writer in self.writers:
                writer.ended.set()
            for driver in self.drivers:
                driver.worker.kill()
            self.scene.cluster.stop()
        return not self.faults.total

    def _start(self) -> None:
        ingests, batches, verifies = self.budgets
        targets = [(target, threading.Lock()) for target in self.targets if target.book.name != ON_SPARK.name]
        self.drivers = [
            Ingests(self.scene, ingests, f"{self.seed} ingests 1", targets),
            Ingests(self.scene, ingests, f"{self.seed} ingests 2", targets),
            *([MicroBatches(self.scene, batches, f"{self.seed} micro-batches", self.streams)] if self.streams else []),
            Verifies(self.scene, verifies, f"{self.seed} verifies"),
            *([self.sparks] if self.sparks else []),
        ]
        for thread in (*self.writers, *self.drivers):
            thread.start()

    def _beside(self) -> None:
        """Crash the broker now and then until all runs are done."""
        begin = reported = time.monotonic()
        crashes = 0
        while any(driver.is_alive() for driver in self.drivers):
            time.sleep(0.2)
            self._require_alive()
            passed = time.monotonic() - begin
            if crashes < self.sizes.crashes and passed > self.sizes.seconds * (crashes + 0.5) / self.sizes.crashes:
                crashes += 1
                self._crash()
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                self.report(f"{passed:5.0f} s: {self.counts()}: {self.faults}")

    def _require_alive(self) -> None:
        threads: list[Writer | Driver] = [*self.writers, *self.drivers]
        for thread in threads:
            if thread.error is not None:
                raise RuntimeError(f"{thread.name} ended with an error of its own") from thread.error

    def _crash(self) -> None:
        """Kill the broker, cut off the ends of logs, and start it again: it continues with a new leader epoch."""
        scene = self.scene
        with self.writing.alone():
            scene.cluster.kill()
            time.sleep(self.random.uniform(0, 0.5))
            if self.random.random() < 0.8 and "cut" in self.ledger.lives:
                with scene.runs.alone():
                    for partition in range(2):
                        if self.random.random() < 0.7:
                            self._cut(partition)
            time.sleep(self.random.uniform(0, 1))
            scene.cluster.start()
            scene.tally["broker killed and started again"] += 1
            time.sleep(self.random.choice((0, 0, 2)))

    def _cut(self, partition: int) -> None:
        life = self.ledger.now("cut")
        history = life.history(partition)
        if len(history.records) < 50:
            return
        first_cut = max(history.records) + 1 - self.random.choice((1, 20, 120, 400))
        offset = cut_log(self.scene.log_directory / f"cut-{partition}", max(first_cut, 1))
        self.scene.tally["logs cut"] += 1
        self.scene.tally["records cut off"] += history.cut(offset)
        place = ("cut", life.number, partition)
        for target in self.targets:
            target.book.cut(place, offset)
        for stream in self.streams:
            stream.book.cut(place, offset, stream.reached("cut", partition))

    # -- the end -----------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Nobody writes any more: read everything, and judge all of it again."""
        for writer in self.writers:
            writer.ended.set()
        for writer in self.writers:
            writer.join()
        self._require_alive()
        self._settle()
        self._last_ingests()
        self._last_batches()
        if self.sparks is not None:
            self.sparks.finish()
            self.sparks.query.judge()
            self._require_all(self.sparks.query.book)

    def _settle(self) -> None:
        """Wait until the coordinator has aborted abandoned transactions, and the high watermarks are checkpointed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        for topic, lives in self.ledger.lives.items():
            count = len(lives[-1].partitions)
            while time.monotonic() < deadline:
                stable = self.scene.cluster.offsets(topic, count, isolation=COMMITTED)
                if stable == self.scene.cluster.offsets(topic, count):
                    break
                time.sleep(0.5)
        time.sleep(1)

    def _last_ingests(self) -> None:
        budget, worker = self.budgets[0], Worker(random.Random())
        try:
            for target in self.targets:
                for _ in range(LAST_RUNS):
                    before = target.commits
                    if run_target(self.scene, budget, worker, target) and target.commits == before:
                        break
                self._require_all(target.book)
                target.compare()
                target.book.settle_unknown()
                check_view(self.scene, target)
        finally:
            worker.kill()

    def _last_batches(self) -> None:
        driver = MicroBatches(self.scene, self.budgets[1], f"{self.seed} last", self.streams)
        try:
            for stream in self.streams:
                stream.is_open = False
            for _ in range(LAST_RUNS):
                for stream in self.streams:
                    driver.advance(stream)
                time.sleep(1.05)  # a listing is kept for a second
            for stream in self.streams:
                self._require_all(stream.book)
        finally:
            driver.worker.kill()

    def _require_all(self, book: Book) -> None:
        if not book.next:
            self.faults.add(LOST, book.name, "nothing was taken at all")
        book.require_everything()
        for place, stop in book.next.items():
            if place[1] != self.ledger.now(place[0]).number:
                continue
            life = self.ledger.now(place[0])
            # Where a transaction stays open, a consumer waits as well.
            ends = self.scene.cluster.offsets(place[0], len(life.partitions), isolation=book.isolation)
            records = life.history(place[2]).records.items()
            seen = [each for each, record in records if record.is_visible(book.isolation) and each < ends[place[2]][1]]
            last = max(seen, default=-1)
            if last >= stop:
                self.faults.add(LOST, book.name, f"{show(place)} was taken up to {stop} only, and ends at {last + 1}")

    # -- the report ----------------------------------------------------------------------------------------------------------

    def counts(self) -> str:
        ingests, batches, verifies = (budget.done for budget in self.budgets)
        return f"{ingests} ingests, {batches} micro-batches, {verifies} verifies"

    def summary(self) -> Sequence[str]:
        """One line for each kind of thing that happened, and the last one with the figures."""
        events = dict(self.scene.tally)
        for writer in self.writers:
            for event, count in writer.events.items():
                events[f"{writer.topic}: {event}"] = count
        books = [*(each.book for each in self.targets), *(each.book for each in self.streams)]
        books += [self.sparks.query.book] if self.sparks else []
        rows = sum(book.rows for book in books)
        lines = [f"{count:8,} {event}" for event, count in sorted(events.items())]
        lines += [f"{self.ledger.record_count():8,} records written", f"{rows:8,} rows judged"]
        lines += self.faults.examples
        lines += [f"{count:8,} {kind}: {reader}" for (kind, reader), count in sorted(self.faults.counts.items())]
        return [*lines, f"{self.counts()}: {self.faults}"]


def _options(reader: Reader) -> dict[str, str]:
    chosen = {"subscribePattern": f"^({reader.topics})$", "startingOffsets": "earliest", "isolation": reader.isolation}
    return {**chosen, **reader.options}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    whole = Sizes()
    parser.add_argument("--ingests", type=int, default=whole.ingests)
    parser.add_argument("--batches", type=int, default=whole.batches, help="micro-batches")
    parser.add_argument("--verifies", type=int, default=whole.verifies)
    parser.add_argument("--seconds", type=float, default=whole.seconds, help="over which they are spread")
    parser.add_argument("--crashes", type=int, default=whole.crashes, help="of the broker")
    parser.add_argument("--spark-kills", type=int, default=whole.spark_kills, help="of a Spark with all its processes")
    parser.add_argument("--topics", nargs="*", default=whole.topics, help=f"of {', '.join(whole.topics)}")
    parser.add_argument("--folder", help="below which logs and tables are, instead of the system's for temporary files")
    parser.add_argument("--without-spark", action="store_true", help="only what takes no JVM but the broker's")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    problem = resolve_jars()
    if problem is not None:
        parser.exit(2, f"{problem}\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that broker and workers are stopped
    faulthandler.register(signal.SIGUSR1)
    print(f"seed {given.seed}", flush=True)
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kafkalog-living-", dir=given.folder))
    kills = None if given.without_spark else given.spark_kills
    sizes = Sizes(given.ingests, given.batches, given.verifies, given.seconds, given.crashes, kills, tuple(given.topics))
    campaign = Campaign(folder, given.seed, sizes, lambda line: print(line, flush=True))
    is_well = campaign.run()
    print(*campaign.summary(), sep="\n")
    print(f"in {time.monotonic() - begin:.0f} s")
    if is_well:
        shutil.rmtree(folder)
        return 0
    print(f"logs and tables are kept in {folder}; --seed {given.seed} begins the same way")
    return 1


if __name__ == "__main__":
    sys.exit(main())
