"""The readers next to the broker: threads whose workers run ingests, micro-batches and verifies, kill some, and judge each."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaigns.living_broker.cluster import Cluster, first_offset
from tests.campaigns.living_broker.judge import FALSE, Book, Faults, Place
from tests.campaigns.living_broker.ledger import Gate, Ledger
from tests.campaigns.living_broker.targets import Target, losses
from tests.campaigns.living_broker.worker import Failed, Killed, Row, Worker

LOSS = re.compile(r"KAFKALOG_DATA_LOSS: (\S+?)-(\d+)\b")
# A plan and a task each say where the log begins by then: a broker may delete more in between.
BEGINS = re.compile(r"(\S+?)-(\d+) (?:now starts at offset|now has the offsets) (\d+)\b")
KILL_SHARE = 0.06
VIEW_SHARE = 0.7


class Budget:
    """A number of runs that several threads share, spread over a time."""

    def __init__(self, total: int, seconds: float) -> None:
        self.total = total
        self.done = 0
        self._seconds = seconds
        self._begin = time.monotonic()
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        return self.done >= self.total

    def count(self) -> None:
        with self._lock:
            self.done += 1

    def wait(self, ended: threading.Event) -> None:
        """Until the next run is due."""
        due = self._begin + self._seconds * self.done / max(self.total, 1)
        ended.wait(max(due - time.monotonic(), 0.005))


@dataclass
class Scene:
    """State that all drivers share."""

    cluster: Cluster
    ledger: Ledger
    faults: Faults
    runs: Gate = field(default_factory=Gate)
    tally: Counter[str] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def log_directory(self) -> Path:
        return self.cluster.log_directory

    def first_offset(self, topic: str, partition: int) -> int:
        return first_offset(self.log_directory, topic, partition)

    def is_real_loss(self, book: Book, text: str, place: Place | None) -> bool:
        """Whether an error that names a loss is true; the real losses are counted by kind."""
        named = LOSS.search(text)
        if named is None or place is None:
            return False
        life = self.ledger.now(place[0]).number
        found = losses(book, place, life, self.first_offset(place[0], place[2]))
        self.tally.update(f"real losses named: {each}" for each in found)
        return bool(found)


class Driver(threading.Thread):
    """A thread that drives a worker of its own until its budget is spent."""

    def __init__(self, scene: Scene, budget: Budget, seed: str) -> None:
        super().__init__(name=seed, daemon=True)
        self.scene = scene
        self.budget = budget
        self.random = random.Random(seed)
        self.worker = Worker(random.Random(f"{seed} kills"))
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.budget.is_spent and not self.scene.ended.is_set():
                self.step()
                self.budget.wait(self.scene.ended)
        except BaseException as error:
            self.error = error
        finally:
            self.worker.kill()

    def step(self) -> None:
        raise NotImplementedError


# -- ingest --------------------------------------------------------------------------------------------------------------------


class Ingests(Driver):
    """Runs ingests on targets that several of these share."""

    def __init__(self, scene: Scene, budget: Budget, seed: str, targets: Sequence[tuple[Target, threading.Lock]]) -> None:
        super().__init__(scene, budget, seed)
        self.targets = targets

    def step(self) -> None:
        target, lock = self.random.choice(self.targets)
        if lock.acquire(blocking=False):
            try:
                kill = self.random.random() < KILL_SHARE
                run_target(self.scene, self.budget, self.worker, target, kill=kill)
                if self.random.random() < VIEW_SHARE:
                    check_view(self.scene, target)
            finally:
                lock.release()


def run_target(scene: Scene, budget: Budget, worker: Worker, target: Target, *, kill: bool = False, accept: bool = False) -> bool:
    """One run, judged; where it names a real loss, a second one that continues. Whether a run ended well."""
    text = ""
    with scene.runs.inside():
        budget.count()
        request = ("ingest", str(scene.log_directory), str(target.folder), target.arguments(accept=accept))
        try:
            worker.ask(*request, kill=kill)
        except Killed:
            scene.tally["ingests killed"] += 1
        except Failed as failure:
            text = failure.args[0]
        target.absorb(scene.first_offset)
        if not text and not kill and target.has_superseded:
            target.compare()
        is_real = bool(text) and scene.is_real_loss(target.book, text, _named_place(target, text))
    if not text:
        return not kill
    if is_real and not accept:
        return run_target(scene, budget, worker, target, accept=True)
    scene.faults.add(FALSE, target.book.name, text)
    return False


def _named_place(target: Target, text: str) -> Place | None:
    named = LOSS.search(text)
    return None if named is None else target.place(named[1], int(named[2]))


def check_view(scene: Scene, target: Target) -> None:
    """Compare what a consumer gets of compacted topics now with what the target ingested."""
    for topic, lives in list(scene.ledger.lives.items()):
        life = lives[-1]
        if life.is_compacted and re.fullmatch(target.topics, topic) and scene.cluster.is_up:
            view: dict[int, list[Any]] = {}
            session = scene.cluster.session
            try:
                for partition, *row in scene.cluster.consume(topic, len(life.partitions), target.book.isolation):
                    view.setdefault(partition, []).append(tuple(row))
            except Exception:
                if scene.cluster.is_up and scene.cluster.session == session:
                    raise
                continue  # the broker was killed meanwhile
            for partition, rows in view.items():
                target.book.require_view((topic, life.number, partition), rows)
            scene.tally["consumers' views compared"] += 1


# -- streams -------------------------------------------------------------------------------------------------------------------


@dataclass
class Stream:
    """A stream, with its checkpoint as Spark would have it: the end of its last micro-batch, and of the next one."""

    name: str
    options: dict[str, str]
    book: Book
    start: Any = None
    end: Any = None
    is_open: bool = False

    def reached(self, topic: str, partition: int) -> int:
        """How far the stream is, with a micro-batch that was planned, but may have to be repeated."""
        return max((offsets_of(each).get((topic, partition), 0) for each in (self.start, self.end) if each), default=0)


def offsets_of(value: Any) -> dict[tuple[str, int], int]:
    """The offsets of Spark's JSON."""
    return {
        (topic, int(number)): offset
        for topic, numbers in value.items()
        if isinstance(numbers, dict)
        for number, offset in numbers.items()
        if number.isdigit() and isinstance(offset, int)
    }


class MicroBatches(Driver):
    """Runs the micro-batches of several streams in one worker, as Spark would, and repeats those whose worker was killed."""

    def __init__(self, scene: Scene, budget: Budget, seed: str, streams: Sequence[Stream]) -> None:
        super().__init__(scene, budget, seed)
        self.streams = streams

    def step(self) -> None:
        self.advance(self.random.choice(self.streams), kill=self.random.random() < KILL_SHARE)

    def advance(self, stream: Stream, *, kill: bool = False) -> bool:
        """One micro-batch, if there is anything new; whether it went well."""
        with self.scene.runs.inside():
            try:
                self._advance(stream, kill=kill)
                return True
            except Killed:
                self.scene.tally["micro-batches killed"] += 1
                for each in self.streams:
                    each.is_open = False
            except Failed as failure:
                stream.is_open = False
                self._judge(stream, failure.args[0])
        return False

    def _advance(self, stream: Stream, *, kill: bool, accept: bool = False) -> None:
        if not stream.is_open:
            options = {**stream.options, "path": str(self.scene.log_directory), "failOnDataLoss": str(not accept).lower()}
            initial, _ = self.worker.ask("open", stream.name, options)
            stream.start = stream.start or initial
            stream.is_open = not accept
        moment = self.random.random() if kill else 2.0
        warnings: list[str] = []
        if stream.end is None:
            stream.end, warnings = self.worker.ask("latest", stream.name, stream.start, kill=moment < 0.3)
        if stream.end == stream.start:
            stream.end = None
            return
        rows, more = self.worker.ask("rows", stream.name, stream.start, stream.end, kill=moment <= 1)
        self.budget.count()
        self._take(stream, rows, warnings + more)
        stream.start, stream.end = stream.end, None

    def _take(self, stream: Stream, rows: Sequence[Row], warnings: Sequence[str]) -> None:
        book = stream.book
        start, end = offsets_of(stream.start), offsets_of(stream.end)
        for topic, number in end:
            place = (topic, self.scene.ledger.now(topic).number, number)
            if place in book.pending_cuts and any(text.startswith(f"{topic}-{number} ") for text in warnings):
                book.supersede(place, book.pending_cuts[place])
        for text in warnings:
            if begins := BEGINS.search(text):
                place = (begins[1], 0, int(begins[2]))
                book.excuse(place, start.get((begins[1], int(begins[2])), 0), int(begins[3]))
        found: dict[Place, list[Any]] = {}
        for topic, partition, *row in rows:
            found.setdefault((topic, self.scene.ledger.now(topic).number, partition), []).append(tuple(row))
        for place, taken in found.items():
            book.take(place, taken)
        for (topic, number), offset in end.items():
            place = (topic, self.scene.ledger.now(topic).number, number)
            if place not in book.next and self.scene.ledger.now(topic).is_retained:
                book.begin_at(place, self.scene.first_offset(topic, number))
            if offset != book.next.get(place):
                book.advance(place, offset)

    def _judge(self, stream: Stream, text: str) -> None:
        named = LOSS.search(text)
        place = None if named is None else (named[1], self.scene.ledger.now(named[1]).number, int(named[2]))
        if not self.scene.is_real_loss(stream.book, text, place):
            self.scene.faults.add(FALSE, stream.name, text)
            return
        try:
            self._advance(stream, kill=False, accept=True)
        except Failed as failure:
            self.scene.faults.add(FALSE, stream.name, f"with the loss accepted: {failure.args[0]}")


# -- verify --------------------------------------------------------------------------------------------------------------------


class Verifies(Driver):
    """Verifies the whole log directory. A healthy broker gives no finding, however much it does meanwhile."""

    def step(self) -> None:
        kill = self.random.random() < KILL_SHARE / 3
        cluster = self.scene.cluster
        before = cluster.session, cluster.is_up
        with self.scene.runs.inside():
            self.budget.count()
            try:
                findings, _ = self.worker.ask("verify", str(self.scene.log_directory), kill=kill)
            except Killed:
                self.scene.tally["verifies killed"] += 1
                return
            except Failed as failure:
                self.scene.faults.add(FALSE, "verify", failure.args[0])
                return
        if before != (cluster.session, True) or not cluster.is_up:
            return  # a log without its end and its indexes is not healthy before the broker has recovered it
        for severity, reason, text in findings:
            self.scene.faults.add(FALSE, f"verify, {severity} {reason}", text)
