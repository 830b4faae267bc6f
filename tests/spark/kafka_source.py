"""Spark's own Kafka source as a peer: its jars by Maven, and the same query through it and through kafkalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.live.broker import ROOT, Broker
from tests.interop.maven import copy_jars
from tests.spark.versions import spark_version

PROJECT = Path(__file__).resolve().parent / "connector"
CONNECTORS = ROOT / "build" / "connector"
ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


def jars_of(release: str) -> Path:
    return CONNECTORS / release / "jars"


def connector_release() -> str:
    """The first release of the Spark that is installed."""
    return "{}.{}.0".format(*spark_version())


def resolve_connector(release: str | None = None) -> str | None:
    """Copy the jars, by default for the Spark that is installed, into build/connector once; the error, None if there was none."""
    release = release or connector_release()
    return copy_jars(PROJECT, jars_of(release), release, "spark")


def connector_jars(release: str | None = None) -> list[Path]:
    return sorted(jars_of(release or connector_release()).glob("*.jar"))


def add_connector(spark: Any) -> None:
    """Give a session that runs already the format `kafka`."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")


@dataclass(frozen=True)
class Sources:
    """One broker, read by both."""

    spark: Any
    broker: Broker

    def kafka(self, **options: object) -> Any:
        """The frame of Spark's own source."""
        return self._reader("kafka", options).load()

    def kafkalog(self, **options: object) -> Any:
        """The frame of the broker's files."""
        return self._reader("kafkalog", options).load(str(self.broker.log_directory))

    def stream(self, name: str, **options: object) -> Any:
        """The streaming frame of either source."""
        reader = self._reader(name, options, self.spark.readStream)
        return reader.load(str(self.broker.log_directory)) if name == "kafkalog" else reader.load()

    def _reader(self, name: str, options: dict[str, object], reader: Any = None) -> Any:
        texts = {option: str(value) for option, value in options.items()}
        # It retries after a refusal, by default each second.
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "fetchOffset.retryIntervalMs": "10", **texts}
        return (reader or self.spark.read).format(name).options(**given)


def sorted_rows(frame: Any) -> Any:
    """All rows of a frame as an Arrow table in the order of the log."""
    return frame.toArrow().sort_by(ORDER).combine_chunks()
