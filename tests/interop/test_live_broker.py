"""Reading next to a live Kafka 4.3.0 broker: nothing fails, nothing is seen twice or goes away, and all of it arrives."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from tests.conftest import require, unavailable
from tests.interop.live import clients
from tests.interop.live.broker import ROOT, Broker, resolve_jars, running_broker
from tests.spark import conftest as spark_tests

Row = tuple[int, bytes]
SECONDS = 180  # for what comes within seconds, on a slow machine too

pytestmark = pytest.mark.slow
spark = spark_tests.spark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    require("java", "mvn", "kafka")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
    with running_broker(tmp_path_factory.mktemp("live")) as found:
        # Whatever compiles on first use does so before anything is written.
        kafkalog.open(found.log_directory).read("records", isolation="read_committed").read_all()
        yield found


def _client(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.interop.live.clients", *arguments], cwd=ROOT, stdout=subprocess.PIPE)


@contextlib.contextmanager
def _writing(broker: Broker, command: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """A client that writes while the block runs, with its first segment there; it must have done well at the end."""
    with _client(command, broker.bootstrap, topic) as writer:
        try:
            deadline = time.monotonic() + SECONDS
            while not list((broker.log_directory / f"{topic}-0").glob("*.log")):
                assert writer.poll() in (None, 0), "the writer failed"
                assert time.monotonic() < deadline, f"{topic}-0 never came"
                time.sleep(0.01)
            yield writer
            assert writer.wait(SECONDS) == 0
        finally:
            writer.kill()


class Follower(threading.Thread):
    """Follows a partition on a thread, until `finish` asks for its rows."""

    def __init__(self, folder: Path, **choices: Any) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.rows: list[Row] = []
        self.error: BaseException | None = None
        logs = kafkalog.open(folder)
        self.batches = logs.follow(["offset", "value"], poll_seconds=0.01, stop=self.done.is_set, **choices)
        self.start()

    def run(self) -> None:
        try:
            for batch in self.batches:
                self.rows += _rows(batch)
        except BaseException as error:
            self.error = error

    def finish(self) -> list[Row]:
        self.done.set()
        self.join(SECONDS)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.rows


def _rows(table: Any) -> list[Row]:
    return list(zip(table.column("offset").to_pylist(), table.column("value").to_pylist(), strict=True))


def _read(folder: Path, isolation: str) -> list[Row]:
    return _rows(kafkalog.open(folder).read("records", ["offset", "value"], isolation=isolation).read_all())


def test_an_active_segment_is_read_and_followed_while_a_producer_writes_to_it(broker: Broker) -> None:
    folder = broker.log_directory / "live-0"
    seen = reads = 0
    with _writing(broker, "produce", "live") as writer:
        follower = Follower(folder)
        while writer.poll() is None:
            logs = kafkalog.open(folder)
            found = logs.read("records", ["offset"], neighbours=True).read_all().column("offset").to_pylist()
            assert found == list(range(len(found)))
            assert len(found) >= seen, "records went away"
            assert logs.report.is_clean
            seen, reads = len(found), reads + 1
    assert reads > 5
    expected = [(number, clients.value_of(number)) for number in range(clients.RECORDS)]
    assert follower.finish() == expected
    table = kafkalog.open(folder).read("records", ["offset", "value", "key", "headers"], neighbours=True).read_all()
    assert _rows(table) == expected
    numbers = [b"%d" % number for number in range(clients.RECORDS)]
    assert table.column("key").to_pylist() == numbers
    assert [headers[0]["value"] for headers in table.column("headers").to_pylist()] == numbers
    assert kafkalog.open(folder).read("segments").read_all().num_rows > 1, "the log has rolled"


def _consumed(broker: Broker, topic: str, isolation: str) -> list[Row]:
    """The records that a real consumer gets, from the beginning to where it has to wait."""
    with _client("consume", broker.bootstrap, topic, isolation) as consumer:
        output, _ = consumer.communicate(timeout=SECONDS)
    assert consumer.returncode == 0
    return [(offset, value.encode()) for offset, value in json.loads(output)]


def test_transactions_read_as_a_real_consumer_reads_them_while_they_come_and_after(broker: Broker) -> None:
    folder = broker.log_directory / "payments-0"
    before: list[Row] = []
    with _writing(broker, "transactions", "payments") as writer:
        follower = Follower(folder, isolation="read_committed")
        while writer.poll() is None:
            found = _read(folder, "read_committed")
            assert found[: len(before)] == before, "committed records stay committed"
            before = found
    committed = _consumed(broker, "payments", "read_committed")
    assert len(committed) > 200
    assert _read(folder, "read_committed") == committed
    assert follower.finish() == committed
    everything = _consumed(broker, "payments", "read_uncommitted")
    assert _read(folder, "read_uncommitted") == everything
    assert len(everything) > len(committed)
    states = kafkalog.open(folder).read("transactions", ["state"]).read_all().column("state").to_pylist()
    aborted = sum(clients.is_aborted(turn) for turn in range(clients.TRANSACTIONS - 1))
    assert (states.count("open"), states.count("aborted")) == (1, aborted)
    _read_everything(broker)


def test_spark_streams_active_segments_while_producers_write_to_them(broker: Broker, spark: Any, tmp_path: Path) -> None:
    found: dict[str, list[Row]] = {"streamed": [], "ledger": []}
    sizes: list[int] = []

    def take(batch: Any, _: int) -> None:
        rows = batch.collect()
        sizes.append(len(rows))
        for row in rows:
            found[row.topic].append((row.offset, bytes(row.value)))

    options = {"subscribePattern": "streamed|ledger", "startingOffsets": "earliest", "isolation": "read_committed"}
    frame = spark.readStream.format("kafkalog").options(**options).schema("topic string, offset long, value binary")
    writer = frame.load(str(broker.log_directory)).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="20 milliseconds").start()
    while not sizes and query.isActive:  # it runs before there is anything to read
        time.sleep(0.05)
    with _writing(broker, "produce", "streamed"), _writing(broker, "transactions", "ledger"):
        pass
    expected = {
        "streamed": [(number, clients.value_of(number)) for number in range(clients.RECORDS)],
        "ledger": _consumed(broker, "ledger", "read_committed"),
    }
    deadline = time.monotonic() + SECONDS
    while query.isActive and sum(map(len, found.values())) < sum(map(len, expected.values())) and time.monotonic() < deadline:
        time.sleep(0.1)
    query.stop()
    assert query.exception() is None
    assert {topic: sorted(rows) for topic, rows in found.items()} == expected
    assert len(sizes) > 2


def _read_everything(broker: Broker) -> None:
    """Every table of every partition, the broker's own topics too, while it runs."""
    logs = kafkalog.open(broker.log_directory)
    assert {"payments", "__cluster_metadata", "__transaction_state"} <= {found.topic for found in logs.partitions}
    for table in ("records", "batches", "segments", "index_entries", "transactions", "producers", "epochs"):
        assert logs.read(table, include_control=True).read_all().num_rows > 0
