"""The same query through Spark's own Kafka source on a live broker and through kafkalog on that broker's files: equal rows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.microbatch import LINEAGE
from tests.conftest import require, unavailable
from tests.interop.live.broker import ROOT, resolve_jars, running_broker
from tests.spark import topics
from tests.spark.kafka_source import Sources, add_connector, resolve_connector, sorted_rows
from tests.spark.topics import FIRST_TIME
from tests.spark.versions import has

WAIT_SECONDS = 120
STREAM_SECONDS = 120

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sources(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    require("java", "mvn", "kafka")
    for problem in (resolve_jars(), resolve_connector()):
        if problem is not None:
            unavailable(problem)
    add_connector(spark)
    with running_broker(tmp_path_factory.mktemp("same-rows"), topics.BROKER_SETTINGS) as broker:
        found = Sources(spark, broker)
        subprocess.run([sys.executable, "-m", "tests.spark.topics", broker.bootstrap], cwd=ROOT, check=True, timeout=WAIT_SECONDS)
        _wait_for_the_broker(found)
        yield found


def _wait_for_the_broker(sources: Sources) -> None:
    """Until all but the active segment is compacted and the log start offset is on disk."""
    data = sources.broker.log_directory
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        active = max(int(path.stem) for path in (data / "compacted-0").glob("*.log"))
        cleaned = _checkpoint(sources, "cleaner-offset-checkpoint").get("compacted 0")
        deleted = _checkpoint(sources, "log-start-offset-checkpoint").get("deleted 0")
        if active > 0 and cleaned == active and deleted == topics.DELETED_BEFORE:
            return
        time.sleep(0.1)
    raise AssertionError(f"not compacted or not deleted after {WAIT_SECONDS} seconds")


def _checkpoint(sources: Sources, name: str) -> dict[str, int]:
    path = sources.broker.log_directory / name
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {partition: int(offset) for partition, _, offset in (line.rpartition(" ") for line in lines)}


def at(topic: str, *numbers: int) -> str:
    """The value of an option for each partition of a topic."""
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


COMMITTED = {"kafka.isolation.level": "read_committed"}
QUERIES: dict[str, dict[str, object]] = {
    "every topic": {"subscribePattern": ".*"},
    "headers": {"subscribePattern": ".*", "includeHeaders": "true"},
    "two topics": {"subscribe": "codecs,appended"},
    "a partition of each": {"assign": json.dumps({"codecs": [2], "payments": [1]})},
    "no records": {"subscribe": "empty"},
    "committed": {"subscribePattern": ".*", "includeHeaders": "true", **COMMITTED},
    "from a log start offset": {"subscribe": "deleted", "startingOffsets": "earliest", "endingOffsets": "latest"},
    "offsets": {"subscribe": "codecs", "startingOffsets": at("codecs", 7, -2, 250), "endingOffsets": at("codecs", 300, 11, -1)},
    "offsets of segments": {
        "subscribe": "segments",
        "startingOffsets": at("segments", 1999),
        "endingOffsets": at("segments", 5001),
    },
    "no offsets": {"subscribe": "segments", "startingOffsets": at("segments", 50), "endingOffsets": at("segments", 50)},
    "offsets that compaction removed": {
        "subscribe": "compacted",
        "startingOffsets": at("compacted", 5),
        "endingOffsets": at("compacted", 905),
    },
    "offsets inside transactions, committed": {
        "subscribe": "payments",
        "startingOffsets": at("payments", 15, 18),
        "endingOffsets": at("payments", 70, 55),
        **COMMITTED,
    },
    "offsets that are gone": {"subscribe": "deleted", "startingOffsets": at("deleted", 3), "failOnDataLoss": "false"},
    "from a time to a time": {
        "subscribe": "segments",
        "startingTimestamp": FIRST_TIME + 12_345,
        "endingTimestamp": FIRST_TIME + 47_005,
    },
    "a time in a log out of order": {
        "subscribe": "codecs",
        "startingTimestamp": FIRST_TIME + 1_200,
        "endingTimestamp": FIRST_TIME + 1_450,
    },
    "a time after the end": {"subscribe": "segments", "endingTimestamp": FIRST_TIME + 10**10},
    "from a time after the end": {
        "subscribe": "segments",
        "startingTimestamp": FIRST_TIME + 10**10,
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "times by partition": {
        "subscribe": "codecs",
        "startingOffsetsByTimestamp": at("codecs", FIRST_TIME + 700, FIRST_TIME, FIRST_TIME + 1_400),
        "endingOffsetsByTimestamp": at("codecs", FIRST_TIME + 1_400, FIRST_TIME + 1_490, FIRST_TIME + 1_499),
    },
    "a time before an offset": {
        "subscribe": "segments",
        "startingTimestamp": FIRST_TIME + 30_000,
        "startingOffsets": at("segments", 1),
        "endingOffsets": at("segments", 3100),
    },
    "a log start offset and a time": {"subscribe": "deleted", "startingTimestamp": FIRST_TIME + 5},
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_the_rows_of_sparks_own_kafka_source(sources: Sources, name: str) -> None:
    expected, found = sources.kafka(**QUERIES[name]), sources.kafkalog(**QUERIES[name])
    assert found.schema == expected.schema
    assert sorted_rows(found).equals(sorted_rows(expected))


def test_the_topics_hold_what_the_comparison_is_about(sources: Sources) -> None:
    rows = sorted_rows(sources.kafkalog(subscribePattern=".*"))
    counts = {each["values"]: each["counts"] for each in rows.column("topic").value_counts().to_pylist()}
    assert (counts["codecs"], counts["segments"], counts["deleted"]) == (1200, 6000, 400 - topics.DELETED_BEFORE)
    assert counts["compacted"] < 300 * topics.COMPACTED_ROUNDS * 0.7
    committed = sources.kafkalog(subscribe="payments", **COMMITTED)
    assert committed.count() < counts["payments"]
    assert len(list((sources.broker.log_directory / "segments-0").glob("*.log"))) > 2
    batches = sources.kafkalog(table="batches", subscribe="codecs").select("codec").distinct().collect()
    assert {row.codec for row in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_an_appended_time_selects_the_same_rows(sources: Sources) -> None:
    rows = sources.kafka(subscribe="appended").selectExpr("unix_millis(timestamp) AS at").collect()
    times = sorted({row.at for row in rows})
    options = {"subscribe": "appended", "startingTimestamp": times[1], "endingTimestamp": times[-1]}
    expected = sorted_rows(sources.kafka(**options))
    assert len(times) >= topics.APPENDED_ROUNDS
    assert 0 < expected.num_rows < len(rows)
    assert sorted_rows(sources.kafkalog(**options)).equals(expected)


@pytest.mark.parametrize("division", [{"minPartitions": 7}, {"maxRecordsPerPartition": 450}])
def test_rows_are_the_same_however_they_are_divided(sources: Sources, division: dict[str, int]) -> None:
    expected = sources.kafka(subscribe="segments,codecs", **division)
    found = sources.kafkalog(subscribe="segments,codecs", **division)
    assert sorted_rows(found).equals(sorted_rows(expected))
    assert found.rdd.getNumPartitions() >= 7
    if "minPartitions" in division:
        assert abs(found.rdd.getNumPartitions() - expected.rdd.getNumPartitions()) <= 2


def test_records_of_a_partition_come_in_the_order_of_the_log(sources: Sources) -> None:
    rows = sources.kafkalog(subscribePattern=".*", minPartitions=30).select("topic", "partition", "offset").collect()
    places: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        places.setdefault((row.topic, row.partition), []).append(row.offset)
    assert all(offsets == sorted(offsets) for offsets in places.values())


def test_sql_over_both_gives_the_same_answer(sources: Sources) -> None:
    sources.kafka(subscribePattern=".*", includeHeaders="true").createOrReplaceTempView("kafka_rows")
    sources.kafkalog(subscribePattern=".*", includeHeaders="true").createOrReplaceTempView("kafkalog_rows")
    query = """
        SELECT topic, partition, count(*), count(key), sum(length(value)), min(timestamp), max(timestamp), sum(size(headers))
        FROM {view} WHERE value IS NOT NULL AND offset % 3 <> 1 GROUP BY ALL ORDER BY topic, partition"""
    assert (
        sources.spark.sql(query.format(view="kafkalog_rows")).collect()
        == sources.spark.sql(query.format(view="kafka_rows")).collect()
    )


REFUSED: list[dict[str, object]] = [
    {"subscribe": "codecs", "startingOffsets": "latest"},
    {"subscribe": "codecs", "endingOffsets": "earliest"},
    {"subscribe": "codecs", "startingOffsets": at("codecs", 1, 2)},
    {"subscribe": "codecs", "startingOffsets": at("codecs", 9, 9, 9), "endingOffsets": at("codecs", 9, 9, 8)},
    {"subscribe": "segments", "startingTimestamp": FIRST_TIME + 10**10},
    {"subscribe": "deleted", "startingOffsets": at("deleted", 3)},
    {"subscribe": "codecs", "subscribePattern": "c.*"},
    {"subscribe": "codecs", "kafka.auto.offset.reset": "earliest"},
    {"subscribe": "codecs", "minPartitions": "0"},
    {"subscribe": "gone"},
]


@pytest.mark.parametrize("options", REFUSED, ids=json.dumps)
def test_what_sparks_own_source_refuses_is_refused(sources: Sources, options: dict[str, object]) -> None:
    with pytest.raises(Exception, match=r"."):
        sources.kafka(**options).collect()
    with pytest.raises(Exception, match="KAFKALOG_"):
        sources.kafkalog(**options).collect()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_stream_gives_the_rows_and_offsets_of_sparks_own_kafka_source(sources: Sources, isolation: str, tmp_path: Path) -> None:
    options = {"subscribePattern": ".*", "startingOffsets": "earliest", "includeHeaders": "true"}
    options |= {"kafka.isolation.level": isolation, "maxOffsetsPerTrigger": "4000"}
    rows, ends = {}, {}
    for name in ("kafka", "kafkalog"):
        checkpoint, target = tmp_path / name, str(tmp_path / f"{name}-rows")
        writer = sources.stream(name, **options).writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(target)
        assert query.awaitTermination(STREAM_SECONDS)
        assert query.exception() is None
        rows[name] = sorted_rows(sources.spark.read.parquet(target))
        batches = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        assert len(batches) > 1 or (name == "kafkalog" and not has("limits"))
        ends[name] = json.loads(batches[-1].read_text().splitlines()[-1])
    assert rows["kafkalog"].equals(rows["kafka"])
    assert ends["kafkalog"].pop(LINEAGE)
    assert ends["kafkalog"] == ends["kafka"]
