"""Log directories for the Spark benchmarks: segments that Kafka's own writer made once, linked into as many folders as wanted."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import SEGMENT_NAME, Segment
from benchmarks.measure import RunFailed
from kafkalog.format.names import segment_file_name
from tests.interop.live.broker import Broker, resolve_jars, running_broker
from tests.spark.kafka_source import resolve_connector

BROKER_SETTINGS = {"log.retention.ms": "-1", "log.segment.bytes": str(1 << 30)}
BROKER_JAVA = ("-Xmx1g", "-Xms1g", "-XX:+UseG1GC")


@dataclass(frozen=True)
class Topic:
    """A topic whose partitions are all the same segment."""

    name: str
    segment: Segment
    partitions: int

    @property
    def records(self) -> int:
        return self.segment.records * self.partitions


@contextlib.contextmanager
def serving_broker(folder: Path, topics: Sequence[Topic]) -> Iterator[Broker]:
    """A broker that opens the segments of the topics as its own."""
    for problem in (resolve_jars(), resolve_connector()):
        if problem is not None:
            raise RunFailed(problem)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with running_broker(folder, BROKER_SETTINGS) as broker:
        _create_topics(broker, topics)
    for topic in topics:
        for number in range(topic.partitions):
            link_partition(broker.log_directory / f"{topic.name}-{number}", topic.segment)
    with running_broker(folder, BROKER_SETTINGS, BROKER_JAVA) as broker:
        yield broker


def _create_topics(broker: Broker, topics: Sequence[Topic]) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic.name: {"num_partitions": topic.partitions} for topic in topics}, wait_for_metadata=True)
    admin.close()


def link_partition(folder: Path, segment: Segment) -> None:
    """The segment as the only one of a partition, without an index: a broker that opens the folder makes one."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name.startswith("0"):
            path.unlink()
    os.link(segment.path, folder / SEGMENT_NAME)


def topic_folder(broker: Broker, topic: Topic, folder: Path) -> Path:
    """A folder with the partitions of one topic only, as links to those of the broker with the indexes that it made."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in broker.log_directory.glob(f"{topic.name}-*"):
        target = folder / source.name
        target.mkdir(parents=True)
        for path in source.iterdir():
            if path.suffix in (".log", ".index", ".timeindex"):
                os.link(path, target / path.name)
    return folder


def link_partitions(folder: Path, source: Path, count: int) -> Path:
    """`count` partitions, each with the files of the folder `source`."""
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(count):
        target = folder / f"bench-{number}"
        target.mkdir(parents=True)
        for path in source.iterdir():
            os.link(path, target / path.name)
    return folder


def many_segments(folder: Path, segment: Segment, count: int) -> Path:
    """A partition of `count` segments, all the same small file under different names: enough for planning, which reads names."""
    shutil.rmtree(folder, ignore_errors=True)
    target = folder / "bench-0"
    target.mkdir(parents=True)
    for number in range(count):
        os.link(segment.path, target / segment_file_name(number * segment.records))
    return folder


def parquet_files(folder: Path) -> list[Path]:
    """The files of a table, without those that readers ignore."""
    found = folder.rglob("*.parquet")
    return [path for path in found if not any(part.startswith("_") for part in path.relative_to(folder).parts)]


def parquet_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in parquet_files(folder))
