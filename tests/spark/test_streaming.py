"""Streams in a Spark session: triggers, checkpoints, limits, new and lost data while they run, replays."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark import lag
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.options import for_stream, parse_options
from tests.builders.small_logs import made_batch, marker, transactional_batch, write_segment
from tests.conftest import require
from tests.golden.expected import read_eras
from tests.spark.compare import as_expected
from tests.spark.test_source import KAFKA_SCHEMA, raised
from tests.spark.versions import has, require_spark

SECONDS = 60


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 with the offsets 0 to 99 in two segments, orders-1 with 0 to 9."""
    folder = tmp_path / "logs"
    write_segment(folder / "orders-0", 0, *(made_batch(offset) for offset in range(0, 60, 10)), indexed=[2, 4])
    write_segment(folder / "orders-0", 60, *(made_batch(offset) for offset in range(60, 100, 10)))
    write_segment(folder / "orders-1", 0, made_batch(0))
    return folder


def append(logs: Path, *entries: bytes) -> None:
    with (logs / "orders-0" / "00000000000000000060.log").open("ab") as stream:
        stream.write(b"".join(entries))


def plain_cells(row: Any) -> tuple[Any, ...]:
    return tuple(cell for cell in row if isinstance(cell, int | str))


class Streams:
    """Queries over `logs` with one checkpoint, and what each of their micro-batches held."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.batches: list[list[Any]] = []
        self.fail_at: int | None = None

    def frame(self, path: Path, schema: str | None = None, **options: Any) -> Any:
        given = {"startingOffsets": "earliest", **{name: str(value) for name, value in options.items()}}
        reader = self.spark.readStream.format("kafkalog").options(**given)
        return (reader.schema(schema) if schema else reader).load(str(path))

    def start(self, path: Path, schema: str | None = None, *, available_now: bool = True, **options: Any) -> Any:
        def take(rows: Any, batch_id: int) -> None:
            if batch_id == self.fail_at:
                raise RuntimeError("the sink fails")
            self.batches.append(sorted(rows.collect(), key=plain_cells))

        writer = self.frame(path, schema, **options).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="50 milliseconds")).start()

    def run(self, path: Path, schema: str | None = "partition int, offset long", **options: Any) -> list[list[Any]]:
        """The micro-batches with rows of a query with Trigger.AvailableNow."""
        self.batches = []
        query = self.start(path, schema, **options)
        assert query.awaitTermination(SECONDS)
        return [[tuple(row) for row in batch] for batch in self.batches if batch]

    def offsets(self, batch_id: int) -> Any:
        """The end of a micro-batch in Spark's checkpoint."""
        return json.loads((self.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1])


@pytest.fixture
def streams(spark: Any, tmp_path: Path) -> Iterator[Streams]:
    yield Streams(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()


def wait_for(condition: Callable[[], bool], query: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def progress(query: Any, name: str) -> dict[str, int]:
    """Offsets of `orders`, as reported when a micro-batch was done."""
    found: dict[str, int] = json.loads(query.lastProgress.json)["sources"][0][name]["orders"]
    return found


def both(first: range, second: range = range(0)) -> list[tuple[int, int]]:
    return [*((0, offset) for offset in first), *((1, offset) for offset in second)]


def test_available_now_reads_all_and_a_restart_only_what_is_new(logs: Path, streams: Streams) -> None:
    assert streams.run(logs) == [both(range(100), range(10))]
    assert streams.offsets(0) == {"orders": {"0": 100, "1": 10}}
    assert streams.run(logs) == []
    append(logs, made_batch(100))
    write_segment(logs / "orders-0", 110, made_batch(110))
    write_segment(logs / "payments-0", 0, made_batch(0))
    assert streams.run(logs, "topic string, offset long") == [
        [*(("orders", offset) for offset in range(100, 120)), *(("payments", offset) for offset in range(10))]
    ]


def test_the_columns_are_those_of_a_batch_read(logs: Path, streams: Streams) -> None:
    assert streams.frame(logs).schema.simpleString() == KAFKA_SCHEMA
    streams.run(logs, None, includeHeaders=True, includeMetadata=True, assign='{"orders":[1]}')
    (rows,) = streams.batches
    assert (bytes(rows[0].key), bytes(rows[0].value), rows[0].headers) == (b"key-0", b"value-0", None)
    assert rows[0]._metadata.file_name == "00000000000000000000.log"


def test_limits_make_several_micro_batches(logs: Path, streams: Streams) -> None:
    require_spark("limits")
    found = streams.run(logs, maxOffsetsPerTrigger=44, minPartitions=3)
    assert [len(batch) for batch in found] == [44, 44, 22]
    assert sorted(row for batch in found for row in batch) == both(range(100), range(10))
    assert streams.offsets(0) == {"orders": {"0": 40, "1": 4}}


def test_a_micro_batch_that_failed_is_repeated_with_the_same_rows(logs: Path, streams: Streams) -> None:
    require_spark("limits")
    streams.fail_at = 1
    query = streams.start(logs, "partition int, offset long", maxOffsetsPerTrigger=55)
    with pytest.raises(Exception, match="the sink fails"):
        query.awaitTermination(SECONDS)
    assert [tuple(row) for row in streams.batches[0]] == both(range(50), range(5))
    streams.fail_at = None
    append(logs, made_batch(100))
    found = streams.run(logs, maxOffsetsPerTrigger=1000)
    assert found == [both(range(50, 100), range(5, 10)), both(range(100, 110))]


@pytest.mark.parametrize("written", ['{"logOffset":5}', "5", '{"orders":{"zero":5}}', '{"orders":{"0":null}}', "[]"])
def test_the_checkpoint_of_another_kind_of_source_is_refused(logs: Path, written: str) -> None:
    require("pyspark")
    from pyspark.sql.types import LongType, StructField, StructType

    from kafkalog.spark.streaming import KafkaLogStreamReader

    reader = KafkaLogStreamReader(for_stream(parse_options({"path": str(logs)})), StructType([StructField("offset", LongType())]))
    message = r"^KAFKALOG_BAD_OPTION: option checkpointLocation: it holds .* not offsets of topics"
    with pytest.raises(SparkSourceError, match=message):
        reader.latestOffset(json.loads(written), reader.getDefaultReadLimit())
    with pytest.raises(SparkSourceError, match=message):
        reader.partitions(json.loads(written), json.loads(written))


# -- a Spark that passes neither start nor limit (before 4.2) ----------------------------------------------------------------


def reader_of(logs: Path, **options: str) -> Any:
    require("pyspark")
    from pyspark.sql.types import LongType, StructField, StructType

    from kafkalog.spark.streaming import KafkaLogStreamReader

    given = for_stream(parse_options({"path": str(logs), "startingOffsets": "earliest", **options}))
    return KafkaLogStreamReader(given, StructType([StructField("offset", LongType())]))


def test_without_a_start_micro_batches_follow_each_other_and_a_restart_continues(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.spark.live_listing.LISTING_SECONDS", 0)
    reader = reader_of(logs)
    first = reader.latestOffset()  # Spark asks for the initial offset afterwards
    assert reader.initialOffset() == {"orders": {"0": 0, "1": 0}}
    assert first["orders"] == {"0": 100, "1": 10}
    assert len(reader.partitions(reader.initialOffset(), first)) > 0
    assert reader.latestOffset() == first
    append(logs, made_batch(100))
    second = reader.latestOffset()
    assert second["orders"] == {"0": 110, "1": 10}
    restarted = reader_of(logs)
    assert restarted.partitions(second, second) == []  # as Spark does it with the last offset of the checkpoint
    assert restarted.latestOffset() == second


def test_without_a_start_a_restart_finds_what_was_lost(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = reader_of(logs).latestOffset()
    shutil.rmtree(logs / "orders-1")
    for restarted in (reader_of(logs), reader_of(logs, failOnDataLoss="false")):
        restarted.partitions(before, before)
        if restarted.options.fail_on_data_loss:
            with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-1 was read up to offset 10, but no longer"):
                restarted.latestOffset()
        else:
            assert restarted.latestOffset() == before
    assert "orders-1 was read up to offset 10, but no longer exists" in caplog.text


def test_without_a_limit_from_spark_the_options_say_that_they_have_no_effect(
    logs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = reader_of(logs, maxOffsetsPerTrigger="7", maxBytesPerTrigger="70")
    assert [reader.latestOffset()["orders"] for _ in range(2)] == [{"0": 100, "1": 10}] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "maxOffsetsPerTrigger and maxBytesPerTrigger without effect: this Spark (before 4.2) cannot limit the micro-batches of "
        "a Python source, so each one reads all that is there"
    ]


def test_without_a_start_a_stream_from_latest_begins_empty(logs: Path) -> None:
    reader = reader_of(logs, startingOffsets="latest")
    first = reader.latestOffset()
    append(logs, made_batch(100))
    assert reader.initialOffset() == first
    assert reader.partitions(reader.initialOffset(), first) == []


def test_without_a_start_only_partitions_at_latest_begin_empty(logs: Path) -> None:
    """The first micro-batch may be the last, so it reads the others; repeated after a crash it has the same rows."""
    options = {"startingOffsets": '{"orders":{"0":-1,"1":4}}'}
    first = reader_of(logs, **options).latestOffset()
    assert first["orders"] == {"0": 100, "1": 10}
    append(logs, made_batch(100))
    repeated = reader_of(logs, **options)
    assert repeated.partitions(first, first) == []
    start = repeated.initialOffset()
    assert start["orders"] == {"0": 110, "1": 4}
    (part,) = [part for each in repeated.partitions(start, first) for part in each.split.parts]
    assert (part.partition, part.start_offset, part.stop_offset) == (1, 4, 10)
    assert repeated.latestOffset()["orders"] == {"0": 110, "1": 10}


def test_without_a_start_damage_fails_even_where_there_are_records_before_it(logs: Path) -> None:
    broken = bytearray(made_batch(100))
    broken[16] = 7  # magic
    append(logs, bytes(broken), made_batch(110))
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_CORRUPT_BATCH: file=.*reason=magic"):
        reader_of(logs).latestOffset()


def test_a_stream_of_repeated_and_new_micro_batches_has_each_row_once_in_its_last_attempt(logs: Path, streams: Streams) -> None:
    """Whatever Spark makes of Trigger.AvailableNow: the failed micro-batch comes again, then what is new, then nothing."""
    streams.fail_at = 0
    query = streams.start(logs, "partition int, offset long")
    with pytest.raises(Exception, match="the sink fails"):
        query.awaitTermination(SECONDS)
    streams.fail_at = None
    append(logs, made_batch(100))
    runs = [streams.run(logs) for _ in range(3)]
    assert runs[0][0] == both(range(100), range(10))
    assert [row for run in runs for batch in run for row in batch] == [*both(range(100), range(10)), *both(range(100, 110))]
    assert runs[2] == []


def test_the_lag_of_each_micro_batch_follows_from_its_progress(logs: Path, streams: Streams) -> None:
    require_spark("limits")
    query = streams.start(logs, "offset long", maxOffsetsPerTrigger=55)
    assert query.awaitTermination(SECONDS)
    lags = [lag(each)[0] for each in query.recentProgress if each["numInputRows"]]
    assert [each.total for each in lags] == [55, 0]
    assert lags[0].metrics == {
        "minOffsetsBehindLatest": "5",
        "maxOffsetsBehindLatest": "50",
        "avgOffsetsBehindLatest": "27.5",
    }
    assert lag(query.lastProgress)[0].offsets_behind == {("orders", 0): 0, ("orders", 1): 0}


def test_a_new_stream_from_latest_gives_only_what_comes(logs: Path, streams: Streams) -> None:
    query = streams.start(logs, "offset long", available_now=False, startingOffsets="latest")
    wait_for(lambda: query.lastProgress is not None, query)
    append(logs, made_batch(100))
    # Committed, or it would come again.
    wait_for(lambda: any(streams.batches) and progress(query, "endOffset")["0"] == 110, query)
    query.stop()
    assert [row.offset for batch in streams.batches for row in batch] == list(range(100, 110))
    append(logs, made_batch(110))
    assert streams.run(logs, "offset long", startingOffsets="latest") == [[(offset,) for offset in range(110, 120)]]


def test_a_growing_segment_a_new_segment_and_a_new_partition_arrive_while_the_stream_runs(logs: Path, streams: Streams) -> None:
    query = streams.start(logs, "partition int, offset long", available_now=False)

    def rows() -> list[tuple[int, int]]:
        return sorted(tuple(row) for batch in streams.batches for row in batch)

    wait_for(lambda: len(rows()) == 110, query)
    append(logs, made_batch(100), made_batch(110)[:70])
    wait_for(lambda: len(rows()) == 120, query)
    append(logs, made_batch(110)[70:])
    write_segment(logs / "orders-0", 120, made_batch(120))
    write_segment(logs / "orders-2", 0, made_batch(0))
    wait_for(lambda: len(rows()) == 150, query)
    assert rows() == [*both(range(130), range(10)), *((2, offset) for offset in range(10))]
    wait_for(lambda: progress(query, "latestOffset").get("2") == 10, query)


def test_read_committed_streams_what_is_decided(tmp_path: Path, streams: Streams) -> None:
    folder = tmp_path / "logs" / "orders-0"
    aborted = [transactional_batch(10, 5, 1), made_batch(15, 5), marker(20, 1, commit=False)]
    write_segment(folder, 0, made_batch(0), *aborted, transactional_batch(21, 4, 2), made_batch(25))
    options: dict[str, Any] = {"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": 12}
    found = streams.run(folder, "offset long", **options)
    assert [row for batch in found for row in batch] == [(offset,) for offset in [*range(10), *range(15, 20)]]
    assert streams.offsets(1 if has("limits") else 0) == {"orders": {"0": 21}}


def failure(streams: Streams, logs: Path, **options: Any) -> str:
    query = streams.start(logs, "offset long", **options)
    return raised(lambda: query.awaitTermination(SECONDS))


def test_lost_data_fails_the_query_unless_it_may_continue(logs: Path, streams: Streams) -> None:
    streams.run(logs, maxOffsetsPerTrigger=1000)
    for path in (logs / "orders-1").iterdir():
        path.unlink()
    (logs / "orders-1").rmdir()
    append(logs, made_batch(100))
    message = failure(streams, logs)
    assert "KAFKALOG_DATA_LOSS: orders-1 was read up to offset 10, but no longer exists" in message
    assert streams.run(logs, failOnDataLoss=False) == [both(range(100, 110))]


def test_damage_fails_the_query_or_becomes_one_row(logs: Path, streams: Streams) -> None:
    broken = bytearray(made_batch(100))
    broken[80] ^= 1
    append(logs, bytes(broken), made_batch(110))
    corrupt = "_corrupt_record struct<file_path:string,position:bigint,length:bigint,reason:string,bytes:binary>"
    found = streams.run(logs, f"offset long, {corrupt}", mode="PERMISSIVE", maxOffsetsPerTrigger=7, assign='{"orders":[0]}')
    rows = [row for batch in found for row in batch]
    assert sorted(row[0] for row in rows if row[1] is None) == [*range(100), *range(110, 120)]
    assert [row[1].reason for row in rows if row[1] is not None] == ["crc"]


def test_damage_in_failfast_names_the_file(logs: Path, streams: Streams) -> None:
    """What is before it is read, unless this micro-batch may be the last: then the damage would not be noticed."""
    broken = bytearray(made_batch(100))
    broken[16] = 7  # magic
    append(logs, bytes(broken), made_batch(110))
    message = failure(streams, logs)
    assert "KAFKALOG_CORRUPT_BATCH: file=" in message
    assert "reason=magic" in message
    assert sum(len(batch) for batch in streams.batches) == (110 if has("limits") else 0)


def test_a_bad_option_fails_before_anything_is_read(logs: Path, streams: Streams) -> None:
    message = raised(lambda: streams.frame(logs, maxOffsetsPerTrigger="many"))
    assert "KAFKALOG_BAD_OPTION: option maxOffsetsPerTrigger='many': allowed is a whole number above 0" in message
    message = failure(streams, logs, endingOffsets="latest")
    assert "KAFKALOG_BAD_OPTION: option endingOffsets='latest': not allowed in a stream" in message


def test_nothing_to_read_is_no_failure(logs: Path, streams: Streams) -> None:
    assert streams.run(logs, subscribePattern="nothing") == []


GOLDEN_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp_ms bigint, timestampType int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)


def test_real_logs_streamed_equal_what_consumers_returned(golden: Any, streams: Streams) -> None:
    folder = golden("4.3.0")
    streams.run(folder / "4.3.0", GOLDEN_SCHEMA, maxBytesPerTrigger=200_000)
    assert len(streams.batches) > 2 or not has("limits")
    found: dict[tuple[str, int], list[Any]] = {}
    for row in (row for batch in streams.batches for row in batch):
        found.setdefault((row.topic, row.partition), []).append(row)
    (era,) = [each for each in read_eras(folder) if each.name == "4.3.0"]
    expected = [each for each in era.partitions if not each.topic.startswith("__") and each.records]
    assert len(expected) > 5
    for partition in expected:
        rows, records = found[partition.topic, partition.partition], partition.records or []
        assert len(rows) == len(records), partition.name
        for row, record in zip(rows, records, strict=True):
            values = as_expected(row, record)
            assert values == {name: record[name] for name in values}
