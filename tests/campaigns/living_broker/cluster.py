"""The broker of the campaign: it is killed, loses the end of a log, and is started again; and queries about its topics."""

from __future__ import annotations

import base64
import contextlib
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.interop.live.broker import Started, start_broker, stop_process

# Everything that a broker does every few minutes it does several times a second here.
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.io.buffer.size": "65536",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "400",
    "log.initial.task.delay.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "log.index.size.max.bytes": "32768",  # every verify reads preallocated files
    # A killed one may register again at once.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
}
JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BATCH_FRONT = struct.Struct(">qi")
CLIENT_SECONDS = 60
FETCH_MS = 100
IDLE_SECONDS = 1.0
ABANDONED_SECONDS = 15


class Cluster:
    """One broker, which keeps its files over restarts; `session` counts how often it was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = 0
        self.is_up = False
        self._local = threading.local()
        self._abandoned: list[tuple[float, Any]] = []
        self.start()

    @property
    def bootstrap(self) -> str:
        return self._started.broker.bootstrap

    @property
    def log_directory(self) -> Path:
        return self._started.broker.log_directory

    def start(self) -> None:
        output = self.folder / "broker.txt"
        if output.exists():
            output.rename(self.folder / f"broker-{self.session}.txt")
        self._started: Started = start_broker(self.folder, SETTINGS, JAVA)
        self.session += 1
        self.is_up = True

    def kill(self) -> None:
        """SIGKILL: like a power loss, except that the kernel's buffers survive."""
        self.is_up = False
        self._started.process.kill()
        self._started.process.wait()

    def stop(self) -> None:
        self.is_up = False
        stop_process(self._started.process)

    # -- clients of the calling thread -------------------------------------------------------------------------------------

    @property
    def admin(self) -> Any:
        from kafka.admin import KafkaAdminClient

        return self._client("admin", lambda: KafkaAdminClient(bootstrap_servers=self.bootstrap))

    def producer(self, name: str, **settings: Any) -> Any:
        from kafka import KafkaProducer

        fixed = {"bootstrap_servers": self.bootstrap, "linger_ms": 20, "batch_size": 1 << 16, "acks": "all"}
        return self._client(f"producer {name}", lambda: KafkaProducer(**{**fixed, **settings}))

    def consumer(self, isolation: str) -> Any:
        from kafka import KafkaConsumer

        settings = {"bootstrap_servers": self.bootstrap, "isolation_level": isolation, "fetch_max_wait_ms": 50}
        settings["request_timeout_ms"] = 8000
        return self._client(f"consumer {isolation}", lambda: KafkaConsumer(auto_offset_reset="earliest", **settings))

    def _client(self, name: str, make: Any) -> Any:
        """A client that this thread keeps until the broker is started again."""
        clients: dict[str, tuple[int, Any]] = self._local.__dict__.setdefault("clients", {})
        session, client = clients.get(name, (0, None))
        if client is None or session != self.session:
            self.forget(name)
            client = make()
            clients[name] = (self.session, client)
        return client

    def forget(self, name: str) -> None:
        """Close a client that may be of no more use."""
        _, client = self._local.__dict__.setdefault("clients", {}).pop(name, (0, None))
        if client is not None:
            with contextlib.suppress(Exception):
                client.close(0.1) if name.startswith("producer") else client.close()

    def abandon(self, name: str) -> None:
        """Drop a producer as if its process had died: closing it would end its transaction."""
        _, client = self._local.__dict__["clients"].pop(name)
        self._abandoned.append((time.monotonic(), client))
        for since, each in list(self._abandoned):
            if time.monotonic() - since > ABANDONED_SECONDS:
                self._abandoned.remove((since, each))
                with contextlib.suppress(Exception):
                    each.close(0.1)

    # -- topics ------------------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> str:
        """The id of the new topic, as partition.metadata has it."""
        from kafka.admin import NewTopic

        answer = self.admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(settings))])
        return topic_id_text(answer["topics"][0]["topic_id"])

    def offsets(self, topic: str, partitions: int, *, isolation: str = "read_uncommitted") -> list[tuple[int, int]]:
        """The first offset and the end of each partition, as a consumer gets them."""
        from kafka import TopicPartition

        consumer = self.consumer(isolation)
        places = [TopicPartition(topic, number) for number in range(partitions)]
        first, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
        return [(first[place], end[place]) for place in places]

    def consume(self, topic: str, partitions: int, isolation: str) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        """Partition, offset, key and value of the records that a consumer gets now, up to where it would have to wait."""
        from kafka import TopicPartition

        consumer = self.consumer(isolation)
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        deadline = time.monotonic() + IDLE_SECONDS
        # This client does not always report that it is past the markers and aborted records after the last record.
        while any(consumer.position(place) < ends[place] for place in places) and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=FETCH_MS).values():
                yield from ((each.partition, each.offset, each.key, each.value) for each in records)
                deadline = time.monotonic() + IDLE_SECONDS


def topic_id_text(value: object) -> str:
    return base64.urlsafe_b64encode(uuid.UUID(str(value)).bytes).decode().rstrip("=")


def first_offset(log_directory: Path, topic: str, partition: int) -> int:
    """Where the log of a partition begins, by the names of its segments and the broker's note; 0 without a log."""
    names = [path.stem for path in (log_directory / f"{topic}-{partition}").glob("*.log")]
    noted = 0
    with contextlib.suppress(FileNotFoundError):
        for line in (log_directory / "log-start-offset-checkpoint").read_text().splitlines()[2:]:
            name, number, offset = line.rsplit(" ", 2)
            if (name, int(number)) == (topic, partition):
                noted = int(offset)
    return max(min(map(int, names), default=0), noted)


def batch_places(log: Path) -> list[tuple[int, int]]:
    """Position and base offset of each whole batch of a segment file, read without kafkalog."""
    data = log.read_bytes()
    found, position = [], 0
    while position + BATCH_FRONT.size <= len(data):
        base_offset, length = BATCH_FRONT.unpack_from(data, position)
        if length <= 0 or position + BATCH_FRONT.size + length > len(data):
            break
        found.append((position, base_offset))
        position += BATCH_FRONT.size + length
    return found


def cut_log(folder: Path, first_cut: int) -> int:
    """Cut off the end of a partition whose broker is dead, at a batch, from about offset `first_cut` on; the offset of the cut.

    The broker finds no clean shutdown marker and recovers the log: it rebuilds indexes, and drops the epochs after
    the new end.
    """
    logs = sorted(folder.glob("*.log"))
    places = [(log, position, offset) for log in logs for position, offset in batch_places(log)]
    log, position, offset = next((place for place in places if place[2] >= first_cut), places[-1])
    for path in folder.iterdir():
        is_segment = path.suffix in (".log", ".index", ".timeindex", ".txnindex")
        is_later = path.stem > log.stem or (path.stem == log.stem and path != log)
        if (is_segment and is_later) or (path.suffix == ".snapshot" and int(path.stem) > offset):
            path.unlink()
    with log.open("r+b") as file:
        file.truncate(position)
    return offset
