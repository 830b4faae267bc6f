"""The writers of the campaign's topics, each on a thread of its own; they note in the ledger what the broker acknowledged."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tests.campaigns.living_broker.cluster import CLIENT_SECONDS, Cluster
from tests.campaigns.living_broker.ledger import Gate, Ledger, Life, Transaction, Written

KEEP = {"retention.ms": "-1"}
# Kafka's own tests roll with this one; `segment.bytes` may not be less than a MiB.
SEGMENT_BYTES = "internal.segment.bytes"
COMPACT = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "300",
    "segment.ms": "400",
    **KEEP,
}


class Writer(threading.Thread):
    """Writes to a topic of its own, step by step, until it is asked to stop. No step leaves anything unacknowledged."""

    topic: ClassVar[str]
    settings: ClassVar[Mapping[str, str]] = KEEP
    partitions = 1
    is_compacted = False
    is_retained = False
    pause_seconds = (0.05, 0.4)

    def __init__(self, cluster: Cluster, ledger: Ledger, gate: Gate, seed: int) -> None:
        super().__init__(name=f"writer of {self.topic}", daemon=True)
        self.cluster = cluster
        self.ledger = ledger
        self.gate = gate
        self.random = random.Random(f"{seed} {self.topic}")
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self.steps = 0
        self.events: dict[str, int] = {}
        self.life = self.create()

    def create(self) -> Life:
        topic_id = self.cluster.create(self.topic, self.partitions, self.settings)
        return self.ledger.begin(self.topic, topic_id, is_compacted=self.is_compacted, is_retained=self.is_retained)

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                with self.gate.inside():
                    self.step()
                self.steps += 1
                self.ended.wait(self.pause())
        except BaseException as error:
            self.error = error

    def step(self) -> None:
        raise NotImplementedError

    def pause(self) -> float:
        """Seconds until the next step."""
        return self.random.uniform(*self.pause_seconds)

    def note(self, event: str, count: int = 1) -> None:
        self.events[event] = self.events.get(event, 0) + count

    # -- sending -----------------------------------------------------------------------------------------------------------

    def send(
        self,
        count: int,
        *,
        partition: int | None = None,
        key: Callable[[int], bytes | None] = lambda number: b"%d" % number,
        size: int = 0,
        transaction: Transaction | None = None,
        producer: Any = None,
        is_tombstone: Callable[[int], bool] = lambda number: False,
    ) -> None:
        """Send that many records and wait until all are acknowledged; without a given partition, to all of them in turn."""
        producer = producer or self.cluster.producer("plain")
        waiting = []
        for number in range(count):
            value = None if is_tombstone(number) else self.ledger.new_value(self.topic, size)
            record = Written(key(number), value, transaction)
            place = partition if partition is not None else self.random.randrange(self.partitions)
            waiting.append((producer.send(self.topic, key=record.key, value=value, partition=place), record))
        producer.flush(CLIENT_SECONDS)
        for future, record in waiting:
            found = future.get(CLIENT_SECONDS)
            self.life.history(found.partition).add(found.offset, record)


class Appends(Writer):
    """Nothing but appends."""

    topic = "append"
    settings: ClassVar = {**KEEP, SEGMENT_BYTES: "60000"}
    partitions = 2
    pause_seconds = (0.01, 0.25)

    def step(self) -> None:
        self.send(self.random.choice((1, 5, 40)), size=self.random.choice((0, 100, 900)))


class SameSize(Writer):
    """A compacted topic whose cleaned segments keep their size: all records are of one size.

    Sets of 100 keys are overwritten three times each. Two sets fill a segment, so every other set begins with a segment that the
    cleaner writes again under its name: with the records of the second time in the place of the first. Readers have time to take
    the first time, and come again when the second and the third were written and the cleaner has been there.
    """

    topic = "same-size"
    settings: ClassVar = {**COMPACT, "segment.ms": "100", SEGMENT_BYTES: "9000"}
    is_compacted = True
    sets = 8
    pauses = ((0.5, 1.5), (0.12, 0.2), (0.8, 2.0))

    def step(self) -> None:
        first = self.steps // 3 % self.sets * 100
        self.send(100, key=lambda number: b"key-%05d" % (first + number))
        self.note("rounds")

    def pause(self) -> float:
        return self.random.uniform(*self.pauses[(self.steps - 1) % 3])


class Overwrites(Writer):
    """A compacted topic with keys and values of all sizes, tombstones and aborted transactions."""

    topic = "overwrites"
    settings: ClassVar = {**COMPACT, SEGMENT_BYTES: "12000"}
    is_compacted = True
    partitions = 2
    pause_seconds = (0.1, 0.6)

    def step(self) -> None:
        keys = [self.random.randrange(60) for _ in range(25)]
        gone = {number for number in range(25) if self.random.random() < 0.1}
        transaction, producer = None, None
        if self.random.random() < 0.4:
            transaction = Transaction()
            producer = open_transaction(self.cluster, self.topic)
        self.send(
            25,
            key=lambda number: b"%d" % keys[number],
            size=self.random.choice((0, 50, 300)),
            is_tombstone=gone.__contains__,
            transaction=transaction,
            producer=producer,
        )
        self.note("tombstones", len(gone))
        if transaction is not None:
            end_transaction(self, producer, transaction, commit=self.random.random() < 0.5)


class Retained(Writer):
    """Old segments are deleted by size, and records by request."""

    topic = "retained"
    settings: ClassVar = {"retention.bytes": "60000", "retention.ms": "-1", SEGMENT_BYTES: "15000"}
    is_retained = True
    partitions = 2
    pause_seconds = (0.05, 0.5)

    def step(self) -> None:
        self.send(self.random.choice((5, 30)), size=300)
        if self.random.random() < 0.05:
            self._delete_records()

    def _delete_records(self) -> None:
        from kafka import TopicPartition

        partition = self.random.randrange(self.partitions)
        first, end = self.cluster.offsets(self.topic, self.partitions)[partition]
        if end > first:
            self.cluster.admin.delete_records({TopicPartition(self.topic, partition): self.random.randint(first, end)})
            self.note("DeleteRecords")


class Payments(Writer):
    """Transactions that are committed, aborted or abandoned, with plain records between."""

    topic = "payments"
    settings: ClassVar = {**KEEP, SEGMENT_BYTES: "40000"}
    partitions = 2
    pause_seconds = (0.1, 0.6)

    def step(self) -> None:
        if self.random.random() < 0.04:
            self._abandon()
            return
        transaction = Transaction()
        producer = open_transaction(self.cluster, self.topic)
        for _ in range(self.random.randint(1, 3)):
            self.send(self.random.randint(1, 20), transaction=transaction, producer=producer)
            self.send(self.random.randint(0, 3))
        end_transaction(self, producer, transaction, commit=self.random.random() < 0.6)

    def _abandon(self) -> None:
        """A transaction that the coordinator aborts when its time is over."""
        name = f"{self.topic}-abandoned-{self.steps}"
        transaction = Transaction()
        producer = open_transaction(self.cluster, name, timeout_ms=1500)
        self.send(self.random.randint(1, 10), transaction=transaction, producer=producer)
        transaction.is_committed = False
        self.cluster.abandon(f"producer {name}")
        self.note("abandoned transactions")


def open_transaction(cluster: Cluster, name: str, timeout_ms: int = 30_000) -> Any:
    """A producer in a transaction of its own."""
    settings = {"transactional_id": f"{name}-{cluster.session}", "transaction_timeout_ms": timeout_ms}
    producer = cluster.producer(name, **settings)
    if not getattr(producer, "is_ready", False):
        producer.init_transactions()
        producer.is_ready = True
    producer.begin_transaction()
    return producer


def end_transaction(writer: Writer, producer: Any, transaction: Transaction, *, commit: bool) -> None:
    # Noted before it is done: a reader of the table looks at it at once.
    transaction.is_committed = commit
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    writer.note("committed transactions" if commit else "aborted transactions")


class Growing(Writer):
    """A topic that gets more partitions."""

    topic = "growing"
    settings: ClassVar = {**KEEP, SEGMENT_BYTES: "30000"}
    pause_seconds = (0.05, 0.5)
    most = 8

    def step(self) -> None:
        if self.partitions < self.most and self.random.random() < 0.03:
            self.cluster.admin.create_partitions({self.topic: self.partitions + 1})
            self.cluster.forget("producer plain")
            self.partitions += 1
            self.note("added partitions")
        self.send(self.random.choice((2, 20)))


class Reborn(Writer):
    """A topic that is deleted and created again, with more or fewer records than it had."""

    topic = "reborn"
    pause_seconds = (0.1, 0.6)

    def step(self) -> None:
        if self.random.random() < 0.04:
            self.life.is_deleted = True
            self.cluster.admin.delete_topics([self.topic])
            self.cluster.forget("producer plain")
            time.sleep(self.random.choice((0, 0.3, 1)))
            self.life = self.create()
            self.note("created again")
        self.send(self.random.choice((1, 10, 60)), size=50)


class Cut(Writer):
    """Plain appends; the campaign cuts off its end."""

    topic = "cut"
    settings: ClassVar = {**KEEP, SEGMENT_BYTES: "30000"}
    partitions = 2
    pause_seconds = (0.05, 0.4)

    def step(self) -> None:
        self.send(self.random.choice((1, 10, 30)), size=60)


WRITERS: tuple[type[Writer], ...] = (Appends, SameSize, Overwrites, Retained, Payments, Growing, Reborn, Cut)
