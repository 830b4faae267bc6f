"""`verify` next to a live broker that rolls small segments, aborts transactions, compacts and deletes: no finding."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import kafkalog
from kafkalog.log.checks.finding import Finding
from tests.conftest import require, unavailable
from tests.interop.live.broker import ROOT, Broker, resolve_jars, running_broker

pytestmark = pytest.mark.slow

# How long the broker is kept at work; a campaign sets more.
SECONDS = float(os.environ.get("KAFKALOG_LIVE_SECONDS", "15"))
START_SECONDS = 120
# Everything that a broker does in the background, all the time.
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
# Brokers from 4.0 on take no smaller segments than of a mebibyte, but roll them as soon as they are asked to.
ROLLING = {"segment.ms": "300", "index.interval.bytes": "200"}
TOPICS = {
    "kept": ROLLING,
    "compacted": {**ROLLING, "cleanup.policy": "compact"},
    "retained": {**ROLLING, "retention.bytes": "20000"},
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    require("java", "mvn", "kafka")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
    with running_broker(tmp_path_factory.mktemp("live"), SETTINGS) as found:
        kafkalog.verify(found.log_directory)  # what compiles on first use does so before anything is written
        yield found


def _client(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.interop.live.clients", *arguments], cwd=ROOT)


@contextlib.contextmanager
def _churning(broker: Broker) -> Iterator[list[subprocess.Popen[bytes]]]:
    for topic, settings in TOPICS.items():
        assert _client("create", broker.bootstrap, topic, json.dumps(settings)).wait(START_SECONDS) == 0
    writers = [_client("churn", broker.bootstrap, topic, str(SECONDS)) for topic in TOPICS]
    try:
        yield writers
        assert [writer.wait(START_SECONDS) for writer in writers] == [0] * len(writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def test_verify_beside_a_broker_that_rolls_aborts_compacts_and_deletes_finds_nothing(broker: Broker) -> None:
    wrong: list[Finding] = []
    runs, first_segments = 0, set()
    with _churning(broker) as writers:
        while any(writer.poll() is None for writer in writers):
            found = kafkalog.verify(broker.log_directory)
            wrong += found.at_least("warning")
            first_segments.add(min((broker.log_directory / "retained-0").glob("*.log"), default=None))
            runs += 1
            time.sleep(0.05)
    assert not wrong, wrong
    assert runs >= 3
    assert len(list((broker.log_directory / "kept-0").glob("*.log"))) > 2  # it did roll
    assert len(first_segments) > 1  # and delete
    sys.stdout.write(f"{runs} runs of verify, 0 findings\n")
