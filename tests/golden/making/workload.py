"""The workload of a golden set: lines for GoldenClient.java, the same ones for the same release and seed."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Release = tuple[int, ...]
Content = Callable[[], bytes | None]
Headers = list[tuple[str, bytes | None]]

FIRST_WITH_LARGE_SEGMENTS_ONLY = (4, 0)  # from there on segment.bytes is at least 1 MiB; an internal setting goes below
BASE_TIMESTAMP_MS = 1_600_000_000_000
WORDS = ("offset", "batch", "leader epoch", "größe", "ключ", "日本語", "emoji🙂", "kafka", "null", "tombstone", "lorem ipsum")
HEADER_KEYS = ("h", "trace-id", "ключ", "", "日本", "🙂", "dup", "dup", "a" * 70)
LARGE_VALUE = 102_400
# A batch is sent when it is flushed, never before.
PRODUCER = {
    "acks": "all",
    "linger.ms": "60000",
    "batch.size": "700000",
    "max.request.size": "2000000",
    "max.in.flight.requests.per.connection": "1",
}
TRANSACTION_TIMEOUT_MS = 900_000  # the most that a broker allows, so that an open transaction is still open at the end


@dataclass(frozen=True)
class Case:
    """One topic of the set: what it is there for and how it was made."""

    features: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1
    committed: bool = False  # a read_committed consumer is asked as well


class Workload:
    """The operations so far, in phases: between them the broker is started again."""

    def __init__(self, release: Release, seed: int) -> None:
        self.release = release
        self.source = random.Random(f"{release}/{seed}")
        self.phases: list[list[str]] = [[]]
        self.cases: dict[str, Case] = {}
        self._producers = 0

    def add(self, *operation: object) -> None:
        self.phases[-1].append("\t".join(map(str, operation)))

    def restart(self) -> None:
        self.phases.append([])

    # Topics and producers.

    def topic(
        self, name: str, *features: str, settings: Mapping[str, object], partitions: int = 1, committed: bool = False
    ) -> str:
        chosen = {key: str(value) for key, value in settings.items()}
        if self.release >= FIRST_WITH_LARGE_SEGMENTS_ONLY and "segment.bytes" in chosen:
            chosen["internal.segment.bytes"] = chosen.pop("segment.bytes")
        self.add("topic", name, partitions, _joined(chosen))
        self.cases[name] = Case(features, chosen, partitions, committed)
        return name

    def alter(self, name: str, settings: Mapping[str, str]) -> None:
        self.add("settings", name, _joined(settings))

    def producer(self, codec: str = "none", *, idempotent: bool = False, transactional_id: str | None = None) -> str:
        self._producers += 1
        name = f"p{self._producers}"
        settings = {**PRODUCER, "client.id": name, "compression.type": codec, "enable.idempotence": str(idempotent).lower()}
        if transactional_id is not None:
            settings |= {"enable.idempotence": "true", "transactional.id": transactional_id}
            settings["transaction.timeout.ms"] = str(TRANSACTION_TIMEOUT_MS)
        self.add("producer", name, _joined(settings))
        return name

    def send(
        self,
        producer: str,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers | None = None,
        partition: int = 0,
    ) -> None:
        pairs = (
            "-" if headers is None else ",".join(f"{_encoded(name.encode())}:{_encoded(content)}" for name, content in headers)
        )
        self.add("send", producer, topic, partition, timestamp_ms, _encoded(key), _encoded(value), pairs)

    def close(self, *producers: str) -> None:
        for producer in producers:
            self.add("close", producer)

    # Contents.

    def number(self, least: int, most: int) -> int:
        return self.source.randint(least, most)

    def text(self, words: int) -> bytes:
        return " ".join(self.source.choices(WORDS, k=words)).encode()

    def any_key(self) -> bytes | None:
        kind = self.source.random()
        if kind < 0.22:
            return None
        if kind < 0.45:
            return self.source.randbytes(self.number(1, 24)) if kind >= 0.32 else b""
        return f"key-{self.number(0, 40)}-{self.source.choice(WORDS)}".encode()

    def any_value(self) -> bytes | None:
        kind = self.source.random()
        if kind < 0.1:
            return None
        if kind < 0.36:
            return self.source.randbytes(self.number(1, 220)) if kind >= 0.18 else b""
        return self.text(self.number(1, 34))

    def large_value(self) -> bytes:
        """One that compresses, but not to nothing."""
        chunk = self.source.randbytes(90) + self.text(22)
        return b"".join(b"%06d" % number + chunk for number in range(LARGE_VALUE // len(chunk) + 1))[:LARGE_VALUE]

    def few_keys(self) -> bytes:
        return b"ck%d" % self.number(0, 24)

    def short_value(self) -> bytes | None:
        kind = self.source.random()
        return None if kind < 0.15 else self.text(self.number(1, 8)) if kind < 0.7 else b""

    def any_headers(self) -> Headers:
        if self.source.random() < 0.2:
            return []
        values = (None, b"", b"v", self.source.randbytes(9), "wört".encode())
        return [(self.source.choice(HEADER_KEYS), self.source.choice(values)) for _ in range(self.number(1, 6))]

    def timestamps(self, count: int) -> list[int]:
        """A quarter of them the same, then rising, then out of order, then falling."""
        now, found = BASE_TIMESTAMP_MS, []
        for number in range(count):
            quarter = number * 4 // count
            now += self.number(0, 900) if quarter == 1 else 0
            spread = (0, 0, self.number(-400_000, 400_000), 500_000 - number * 3)[quarter]
            found.append(now + spread)
        return found

    # Records.

    def fill(
        self,
        topic: str,
        producer: str,
        count: int,
        *,
        per_batch: tuple[int, int] = (1, 14),
        large: int = 0,
        partitions: int = 1,
        key: Content | None = None,
        value: Content | None = None,
        headers: Callable[[], Headers] | None = None,
    ) -> None:
        """`count` records in batches of random size; `large` of them are large, each in a batch of its own."""
        timestamps = self.timestamps(count)
        large_rows = set(self.source.sample(range(count // 5, count), large))
        row = 0
        while row < count:
            stop = min(count, row + self.number(*per_batch))
            for each in range(row, stop):
                partition = self.source.randrange(partitions)
                if each in large_rows:
                    self.add("flush", producer)
                    self.send(producer, topic, b"large", self.large_value(), timestamps[each], None, partition)
                    self.add("flush", producer)
                    continue
                content = (key or self.any_key)(), (value or self.any_value)()
                self.send(producer, topic, *content, timestamps[each], headers() if headers else None, partition)
            self.add("flush", producer)
            row = stop

    def roll(self, topic: str, producer: str, count: int = 30) -> None:
        """Random bytes, so that the segments before them are closed and can be cleaned."""
        for number in range(count):
            self.send(
                producer, topic, b"roll-%d" % (number % 3), self.source.randbytes(100), BASE_TIMESTAMP_MS + 200_000 + number
            )
            if number % 3 == 2:
                self.add("flush", producer)
        self.add("flush", producer)

    def transactions(
        self,
        topic: str,
        producers: Iterable[str],
        rounds: int,
        *,
        committed_share: float = 0.5,
        key: Content | None = None,
        value: Content | None = None,
    ) -> None:
        """Transactions of several producers at the same time, in one partition; at the end none is open."""
        chosen = list(producers)
        batches: dict[str, int] = {}
        for _ in range(rounds):
            producer = self.source.choice(chosen)
            if producer not in batches:
                self.add("begin", producer)
                batches[producer] = 0
            if batches[producer] and self.source.random() < 0.4:
                self.end(producer, committed_share)
                del batches[producer]
                continue
            for _ in range(self.number(1, 4)):
                content = (key or self.any_key)(), (value or self.any_value)()
                self.send(producer, topic, *content, BASE_TIMESTAMP_MS + self.number(0, 100_000))
            self.add("flush", producer)
            batches[producer] += 1
        for producer in batches:
            self.end(producer, committed_share)

    def end(self, producer: str, committed_share: float) -> None:
        self.add("flush", producer)
        self.add("commit" if self.source.random() < committed_share else "abort", producer)


def _joined(settings: Mapping[str, str]) -> str:
    return ";".join(f"{key}={value}" for key, value in settings.items())


def _encoded(content: bytes | None) -> str:
    return "-" if content is None else base64.b64encode(content).decode()
