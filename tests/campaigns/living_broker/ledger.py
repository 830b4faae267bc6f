"""The records written to the topics of the campaign, noted by their writers: the oracle of everything that is read.

Every value is written once only. A topic has a `Life` from its creation to its deletion; where offsets were cut off and written
again, the earlier records are kept as superseded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

TopicPartition = tuple[str, int]
WAIT_SECONDS = 20


@dataclass
class Transaction:
    """Several records that are committed or aborted together; None while it is open."""

    is_committed: bool | None = None


class Written(NamedTuple):
    """A record as its writer knows it."""

    key: bytes | None
    value: bytes | None
    transaction: Transaction | None = None

    def is_visible(self, isolation: str) -> bool | None:
        """Whether a consumer of this isolation gets it; None while that is open."""
        if isolation == "read_uncommitted" or self.transaction is None:
            return True
        return self.transaction.is_committed


class Cut(NamedTuple):
    """The log of a partition lost its end: from `offset` on it was cut off, up to `end`."""

    offset: int
    end: int


@dataclass
class History:
    """The records of one partition in one life of its topic."""

    records: dict[int, Written] = field(default_factory=dict)
    superseded: dict[int, list[Written]] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    of_key: dict[bytes, list[int]] = field(default_factory=dict)

    def add(self, offset: int, record: Written) -> None:
        self.records[offset] = record
        if record.key is not None:
            self.of_key.setdefault(record.key, []).append(offset)

    def cut(self, offset: int) -> int:
        """Everything from `offset` on is no part of the log any more; the number of these records."""
        gone = [each for each in self.records if each >= offset]
        for each in gone:
            self.superseded.setdefault(each, []).append(self.records.pop(each))
        self.cuts.append(Cut(offset, max(gone, default=offset - 1) + 1))
        return len(gone)

    def is_overwritten(self, offset: int) -> bool:
        """Whether compaction may remove the record: a later one has its key, it is a tombstone, or it was aborted."""
        record = self.records[offset]
        if record.key is None:
            return False
        if record.value is None or record.is_visible("read_committed") is False:
            return True
        later = [each for each in self.of_key[record.key] if each > offset]
        return any(self.records[each].is_visible("read_committed") is not False for each in later)


@dataclass
class Life:
    """A topic between its creation and its deletion."""

    topic: str
    number: int
    topic_id: str
    is_compacted: bool = False
    is_retained: bool = False
    partitions: dict[int, History] = field(default_factory=dict)
    is_deleted: bool = False

    def history(self, partition: int) -> History:
        return self.partitions.setdefault(partition, History())


class Ledger:
    """All topics of the campaign."""

    def __init__(self) -> None:
        self.lives: dict[str, list[Life]] = {}
        self._by_id: dict[str, Life] = {}
        self._sent: set[tuple[str, bytes]] = set()
        self._counter = 0
        self._lock = threading.Lock()

    def begin(self, topic: str, topic_id: str, *, is_compacted: bool = False, is_retained: bool = False) -> Life:
        with self._lock:
            lives = self.lives.setdefault(topic, [])
            life = Life(topic, len(lives), topic_id, is_compacted, is_retained)
            lives.append(life)
            self._by_id[topic_id] = life
        return life

    def now(self, topic: str) -> Life:
        return self.lives[topic][-1]

    def of_id(self, topic_id: str) -> Life:
        """The life with this id; one that was created a moment ago may not be noted yet."""
        deadline = time.monotonic() + WAIT_SECONDS
        while topic_id not in self._by_id and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._by_id[topic_id]

    def new_value(self, topic: str, size: int) -> bytes:
        """A value that nobody has written before, of at least this size."""
        with self._lock:
            self._counter += 1
            value = b"%s %09d " % (topic.encode(), self._counter)
            value += b"." * (size - len(value))
            self._sent.add((topic, value))
        return value

    def was_sent(self, topic: str, value: bytes | None) -> bool:
        """Whether somebody sent it, acknowledged or not."""
        return value is not None and (topic, value) in self._sent

    def record_count(self) -> int:
        return sum(
            len(history.records) + sum(map(len, history.superseded.values()))
            for lives in self.lives.values()
            for life in lives
            for history in life.partitions.values()
        )


class Gate:
    """A readers-writer lock: many may be inside at once; `alone` waits until all are out, and keeps others from entering."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._closed)
            self._closed = True
            self._condition.wait_for(lambda: self._inside == 0)
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()
