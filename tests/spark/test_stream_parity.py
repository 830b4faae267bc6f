"""Scenarios of the suites of Spark's own Kafka source, over files: streams (`tests/parity/data/spark.toml`)."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.format.reference import Record, encode_batch
from tests.builders.small_logs import FIRST_TIME, compress, made_batch, marker, transactional_batch, write_segment
from tests.spark.test_source import raised
from tests.spark.versions import require_spark

SECONDS = 60
SEGMENT = f"{0:020}.log"


class Stream:
    """Queries with one checkpoint over the logs in `folder`, and the offsets that each micro-batch gave."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.logs = folder / "logs"
        self.checkpoint = folder / "checkpoint"
        self.batches: list[list[tuple[str, int, int]]] = []
        self.partition_counts: list[int] = []
        self.after_batch: Callable[[], object] = lambda: None

    def append(self, name: str, first_offset: int, count: int, **fields: Any) -> None:
        """Records with the offsets as values, added to the only segment of a partition folder."""
        self.write(name, made_batch(first_offset, count, **fields))

    def write(self, name: str, *entries: bytes) -> None:
        path = self.logs / name / SEGMENT
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            stream.write(b"".join(entries))

    def frame(self, **options: Any) -> Any:
        starts = any(name.lower().startswith("starting") for name in options)
        given = {**({} if starts else {"startingOffsets": "earliest"}), **{name: str(value) for name, value in options.items()}}
        return self.spark.readStream.format("kafkalog").options(**given).load(str(self.logs))

    def start(self, trigger: dict[str, Any] | None = None, **options: Any) -> Any:
        def take(rows: Any, batch_id: int) -> None:
            self.partition_counts.append(rows.rdd.getNumPartitions())
            found = rows.select("topic", "partition", "offset").collect()
            self.batches.append(sorted((row.topic, row.partition, row.offset) for row in found))
            self.after_batch()

        writer = self.frame(**options).writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, **options: Any) -> list[list[tuple[str, int, int]]]:
        """The micro-batches with rows until everything that was there is read."""
        self.batches, self.partition_counts = [], []
        assert self.start(**options).awaitTermination(SECONDS)
        return [batch for batch in self.batches if batch]

    def failure(self, **options: Any) -> str:
        query = self.start(**options)
        return raised(lambda: query.awaitTermination(SECONDS))

    def live(self, **options: Any) -> Any:
        return self.start({"processingTime": "50 milliseconds"}, **options)

    def wait(self, query: Any, count: int) -> None:
        """Until the running query has given so many rows."""
        deadline = time.monotonic() + SECONDS
        while sum(map(len, self.batches)) < count:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, f"{self.batches} after {SECONDS} seconds"
            time.sleep(0.05)

    def written_offsets(self) -> list[Any]:
        """The end of each micro-batch, as the checkpoint has it."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[-1]) for path in files]


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Iterator[Stream]:
    yield Stream(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()


def rows(partition: int, *offsets: int, topic: str = "t") -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for offset in offsets]


def sizes(batches: list[list[tuple[str, int, int]]]) -> list[int]:
    return [len(batch) for batch in batches]


# -- where a stream begins ---------------------------------------------------------------------------------------------------

CHOICES = {
    "assign": {"assign": '{"t":[0,1,2]}'},
    "subscribe": {"subscribe": "t"},
    "subscribePattern": {"subscribePattern": "^t$"},
}
LATER = FIRST_TIME + 2
BEGINNINGS: dict[str, tuple[dict[str, object], list[tuple[str, int, int]]]] = {
    "earliest": ({"startingOffsets": "earliest"}, [*rows(0, 0, 1, 2), *rows(1, 0, 1, 2), *rows(2, 0, 1, 2)]),
    "latest": ({"startingOffsets": "latest"}, []),
    "offsets": ({"startingOffsets": '{"t":{"0":-2,"1":-1,"2":1}}'}, [*rows(0, 0, 1, 2), *rows(2, 1, 2)]),
    "timestamps": (
        {"startingOffsetsByTimestamp": f'{{"t":{{"0":{FIRST_TIME},"1":{FIRST_TIME + 1},"2":{LATER}}}}}'},
        [*rows(0, 0, 1, 2), *rows(1, 1, 2), *rows(2, 2)],
    ),
    "one timestamp": ({"startingTimestamp": LATER}, [*rows(0, 2), *rows(1, 2), *rows(2, 2)]),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_stream_begins_where_the_options_say_and_a_restart_continues(stream: Stream, choice: str, beginning: str) -> None:
    for partition in range(3):
        stream.append(f"t-{partition}", 0, 3)
    stream.append("other-0", 0, 3)
    options, expected = BEGINNINGS[beginning]
    fail = {"failOnDataLoss": beginning != "offsets"}
    assert sorted(row for batch in stream.run(**CHOICES[choice], **options, **fail) for row in batch) == expected
    for partition in range(3):
        stream.append(f"t-{partition}", 3, 1)
    added = []
    if choice != "assign":
        stream.append("t-3", 0, 2)
        added = rows(3, 0, 1)
    found = stream.run(**CHOICES[choice], **options, **fail)
    assert sorted(row for batch in found for row in batch) == [*rows(0, 3), *rows(1, 3), *rows(2, 3), *added]


@pytest.mark.parametrize("choice", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_time_that_no_record_has_fails_or_means_the_end(stream: Stream, choice: str, option: str) -> None:
    stream.append("t-0", 0, 3)
    stream.append("t-1", 0, 2)
    time_of_last = FIRST_TIME + 2
    value = time_of_last if option == "startingTimestamp" else f'{{"t":{{"0":{time_of_last},"1":{time_of_last}}}}}'
    options = {**CHOICES[choice], option: value}
    assert "KAFKALOG_" in stream.failure(**options)
    shutil.rmtree(stream.checkpoint)
    assert "KAFKALOG_" in stream.failure(**options, startingOffsetsByTimestampStrategy="error")
    shutil.rmtree(stream.checkpoint)
    options["startingOffsetsByTimestampStrategy"] = "latest"
    assert stream.run(**options) == [rows(0, 2)]
    stream.append("t-1", 2, 2)
    assert stream.run(**options) == [rows(1, 2, 3)]


# -- limits ------------------------------------------------------------------------------------------------------------------


def test_available_now_takes_what_is_there_in_limited_steps(stream: Stream) -> None:
    require_spark("limits")
    stream.append("t-0", 0, 15)
    for partition in range(1, 5):
        write_segment(stream.logs / f"t-{partition}", 0)
    stream.after_batch = lambda: stream.append("t-0", 15 + 5 * len(stream.batches) - 5, 5)
    found = stream.run(subscribe="t", maxOffsetsPerTrigger=5)
    assert found == [rows(0, *range(first, first + 5)) for first in (0, 5, 10)]


def test_a_limit_is_shared_by_size_and_no_partition_starves(stream: Stream) -> None:
    require_spark("limits")
    for partition, count in enumerate((100, 10, 1)):
        stream.append(f"t-{partition}", 0, count)
    first, *later = stream.run(maxOffsetsPerTrigger=10)
    assert first == [*rows(0, *range(9)), *rows(1, 0), *rows(2, 0)]
    assert sum(sizes(later)) == 100
    assert max(sizes(later)) <= 11


def test_a_limit_of_the_largest_number_does_not_overflow(stream: Stream) -> None:
    stream.append("t-0", 0, 10)
    stream.append("t-1", 0, 10)
    assert sizes(stream.run(maxOffsetsPerTrigger=(1 << 63) - 1)) == [20]


def test_fewer_than_the_least_number_wait_until_there_are_enough(stream: Stream) -> None:
    require_spark("limits")
    stream.append("t-0", 0, 4)
    query = stream.live(minOffsetsPerTrigger=8, maxTriggerDelay="10m")
    stream.wait(query, 4)  # the first micro-batch never waits
    stream.append("t-0", 4, 4)
    time.sleep(2.5)  # longer than a listing is kept
    assert sum(sizes(stream.batches)) == 4
    stream.append("t-0", 8, 4)
    stream.wait(query, 12)
    assert [batch for batch in stream.batches if batch][1:] == [rows(0, *range(4, 12))]


def test_the_least_number_gives_way_when_the_delay_is_over(stream: Stream) -> None:
    stream.append("t-0", 0, 4)
    query = stream.live(minOffsetsPerTrigger=1000, maxTriggerDelay="2s")
    stream.wait(query, 4)
    stream.append("t-0", 4, 1)
    stream.wait(query, 5)


def test_the_least_and_the_largest_number_work_together(stream: Stream) -> None:
    require_spark("limits")
    stream.append("t-0", 0, 30)
    assert sizes(stream.run(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=12)) == [12, 12, 6]


def test_two_sources_in_a_query_continue_when_one_has_nothing_new(spark: Any, stream: Stream, tmp_path: Path) -> None:
    require_spark("limits")
    stream.append("small-0", 0, 10)
    stream.append("large-0", 0, 25)
    small, large = (stream.frame(subscribe=topic, maxOffsetsPerTrigger=5) for topic in ("small", "large"))
    taken: list[int] = []
    query = (
        small.union(large)
        .writeStream.foreachBatch(lambda frame, _: taken.append(frame.count()))
        .option("checkpointLocation", str(tmp_path / "union"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS)
    assert taken == [10, 10, 5, 5, 5]


def test_at_least_so_many_tasks_read_a_micro_batch(stream: Stream) -> None:
    for partition in range(2):
        stream.append(f"t-{partition}", 0, 20)
    assert sizes(stream.run(minPartitions=6)) == [40]
    assert max(stream.partition_counts) >= 6


# -- topics come and go ------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_deleted_and_one_that_is_new_under_a_pattern(stream: Stream) -> None:
    stream.append("x-seems-0", 0, 3)
    query = stream.live(subscribePattern="^x-", failOnDataLoss=False)
    stream.wait(query, 3)
    shutil.rmtree(stream.logs / "x-seems-0")
    stream.append("x-bad-0", 0, 3)
    stream.wait(query, 6)
    assert [row for batch in stream.batches for row in batch][3:] == rows(0, 0, 1, 2, topic="x-bad")


def test_the_checkpoint_never_forgets_all_partitions(stream: Stream) -> None:
    stream.append("t-0", 0, 3)
    write_segment(stream.logs / "other-0", 0)
    query = stream.live(subscribePattern="^t$", failOnDataLoss=False)
    stream.wait(query, 3)
    shutil.rmtree(stream.logs / "t-0")
    time.sleep(2.5)
    assert query.isActive
    query.stop()
    assert {} not in stream.written_offsets()


def test_a_topic_created_again_with_fewer_records_is_lost_data(stream: Stream) -> None:
    stream.append("t-0", 0, 4)
    stream.append("t-1", 0, 2)
    stream.run()
    shutil.rmtree(stream.logs / "t-0")
    stream.append("t-0", 0, 1)
    message = stream.failure()
    assert "KAFKALOG_DATA_LOSS" in message
    assert "t-0" in message


def test_a_topic_deleted_under_a_running_query_does_not_fail_it_where_loss_may_be(stream: Stream) -> None:
    for partition in range(2):
        stream.append(f"t-{partition}", 0, 10)
    query = stream.live(failOnDataLoss=False)
    stream.wait(query, 20)
    shutil.rmtree(stream.logs / "t-0")
    time.sleep(1.5)
    stream.append("t-1", 10, 5)
    stream.wait(query, 25)


def lose_partition(stream: Stream) -> None:
    shutil.rmtree(stream.logs / "t-1")


def lose_offsets(stream: Stream) -> None:
    (stream.logs / "t-0" / SEGMENT).write_bytes(made_batch(0, 8))


@pytest.mark.parametrize("lose", [lose_partition, lose_offsets])
def test_available_now_fails_when_what_it_was_to_read_goes_away(stream: Stream, lose: Callable[[Stream], None]) -> None:
    require_spark("limits")
    for first in range(0, 15, 5):
        stream.append("t-0", first, 5)
    stream.append("t-1", 0, 1)

    def once() -> None:
        if len(stream.batches) == 1:
            lose(stream)
            time.sleep(1.5)  # longer than a listing is kept

    stream.after_batch = once
    assert "KAFKALOG_" in stream.failure(maxOffsetsPerTrigger=5)


def test_a_failed_micro_batch_is_read_again_with_a_partition_more(stream: Stream) -> None:
    stream.append("t-0", 0, 7)

    def fail() -> None:
        raise RuntimeError("the sink fails")

    stream.after_batch = fail
    for _ in range(2):
        query = stream.start()
        with pytest.raises(Exception, match="the sink fails"):
            query.awaitTermination(SECONDS)
        write_segment(stream.logs / "t-1", 0)
    assert stream.batches == [rows(0, *range(7))] * 2
    stream.after_batch = lambda: None
    assert stream.run() == [rows(0, *range(7))]


def test_records_that_retention_removed_come_at_most_once(stream: Stream) -> None:
    for base in range(0, 50, 10):
        write_segment(stream.logs / "t-0", base, made_batch(base))
    for base in (0, 10):
        (stream.logs / "t-0" / f"{base:020}.log").unlink()
    options = {"startingOffsets": '{"t":{"0":0}}', "failOnDataLoss": False}
    assert [row for batch in stream.run(**options) for row in batch] == rows(0, *range(20, 50))


def test_topics_that_come_and_go_all_the_time_do_not_fail_a_stream_where_loss_may_be(stream: Stream) -> None:
    source = random.Random(4)
    stream.append("t-0", 0, 1)
    query = stream.live(failOnDataLoss=False)
    stream.wait(query, 1)
    ends = {"t-0": 1}
    for turn in range(40):
        if turn % 8 == 7:
            name = source.choice(sorted(ends))
            shutil.rmtree(stream.logs / name)
            del ends[name]
        # A deleted topic comes back under another name: a file that was replaced under a task fails it, whatever the options.
        name = source.choice([*sorted(ends), f"t-{turn + 1}"])
        count = source.randrange(1, 9)
        stream.append(name, ends.get(name, 0), count)
        ends[name] = ends.get(name, 0) + count
        time.sleep(0.05)
        assert query.isActive, (turn, query.exception())


def test_records_of_many_topics_and_partitions_arrive_once_through_restarts(stream: Stream) -> None:
    source = random.Random(5)
    ends: dict[str, int] = {}
    taken: list[tuple[str, int, int]] = []
    for _ in range(4):
        for _ in range(8):
            name = f"{source.choice('abc')}-{source.randrange(4)}"
            count = source.randrange(1, 30)
            stream.append(name, ends.get(name, 0), count)
            ends[name] = ends.get(name, 0) + count
        taken += [row for batch in stream.run(maxOffsetsPerTrigger=60) for row in batch]
    expected = [(name[0], int(name[2:]), offset) for name, end in ends.items() for offset in range(end)]
    assert sorted(taken) == sorted(expected)


def test_a_stream_stops_when_asked_to(stream: Stream) -> None:
    stream.append("t-0", 0, 10)
    query = stream.live()
    stream.wait(query, 10)
    query.stop()
    assert not query.isActive
    assert query.exception() is None


# -- transactions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_are_streamed_as_a_consumer_sees_them(stream: Stream, isolation: str) -> None:
    options = {"kafka.isolation.level": isolation, "maxOffsetsPerTrigger": 3}
    stream.write("t-0", transactional_batch(0, 5, 1))
    everything = isolation == "read_uncommitted"
    taken = [row for batch in stream.run(**options) for row in batch]
    assert taken == (rows(0, *range(5)) if everything else [])
    stream.write("t-0", marker(5, 1, commit=True), transactional_batch(6, 5, 2), marker(11, 2, commit=False))
    stream.write("t-0", transactional_batch(12, 2, 1, 5), marker(14, 1, commit=True), made_batch(15, 2))
    taken += [row for batch in stream.run(**options) for row in batch]
    committed = [*range(5), 12, 13, 15, 16]
    assert taken == rows(0, *([*range(5), *range(6, 11), 12, 13, 15, 16] if everything else committed))
    assert stream.written_offsets()[-1] == {"t": {"0": 17}}


# -- queries -----------------------------------------------------------------------------------------------------------------


def finished(writer: Any, checkpoint: Path) -> Any:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS)
    return query


def test_the_columns_and_their_types_are_those_of_sparks_kafka_source(spark: Any, stream: Stream, tmp_path: Path) -> None:
    cells = [(b"k", b"v"), (None, b"w"), (b"l", None), (b"", b"")]
    records = [Record(offset, FIRST_TIME + offset, *pair, ((b"h", b"1"),)) for offset, pair in enumerate(cells)]
    stream.write("t-0", encode_batch(records, compress=compress))
    frame = stream.frame(includeHeaders=True)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    columns = ["key", "value", "topic", "partition", "offset", "unix_millis(timestamp) AS at", "timestampType", "headers"]
    finished(frame.selectExpr(*columns).writeStream.format("memory").queryName("columns"), tmp_path / "columns")
    found = spark.table("columns").orderBy("offset").collect()
    assert [tuple(None if cell is None else bytes(cell) for cell in row[:2]) for row in found] == cells
    assert [tuple(row[2:7]) for row in found] == [("t", 0, offset, FIRST_TIME + offset, 0) for offset in range(4)]
    assert [(header.key, bytes(header.value)) for header in found[0].headers] == [("h", b"1")]


def test_progress_counts_the_rows(stream: Stream) -> None:
    stream.append("t-0", 0, 10)
    query = stream.start()
    assert query.awaitTermination(SECONDS)
    (source,) = json.loads(query.lastProgress.json)["sources"]
    assert sum(progress["numInputRows"] for progress in query.recentProgress) >= 10
    assert source["endOffset"] == {"t": {"0": 10}}


def test_windows_with_a_watermark_count_by_the_timestamp(spark: Any, stream: Stream, tmp_path: Path) -> None:
    stream.append("t-0", 0, 10)
    frame = stream.frame().withWatermark("timestamp", "10 seconds").selectExpr("window(timestamp, '5 seconds') AS at")
    counts = frame.groupBy("at").count().selectExpr("unix_millis(at.start) AS start", "count")
    finished(counts.writeStream.format("memory").queryName("windows").outputMode("complete"), tmp_path / "windows")
    assert [tuple(row) for row in spark.table("windows").collect()] == [(FIRST_TIME // 5000 * 5000, 10)]


def test_a_stream_joined_with_itself_reads_the_same_rows_on_both_sides(spark: Any, stream: Stream, tmp_path: Path) -> None:
    stream.append("t-0", 0, 20)
    left = stream.frame().selectExpr("offset AS number", "offset * 2 AS twice")
    right = stream.frame().selectExpr("offset AS number", "offset * 3 AS thrice")
    finished(left.join(right, "number").writeStream.format("memory").queryName("joined"), tmp_path / "joined")
    found = sorted(tuple(row) for row in spark.table("joined").collect())
    assert found == [(number, number * 2, number * 3) for number in range(20)]


def test_a_timestamp_that_spark_cannot_hold_fails_the_stream(stream: Stream) -> None:
    stream.write("t-0", encode_batch([Record(0, 1_712_345_678_123_456_789, None, b"", ())], compress=compress))
    assert "KAFKALOG_BAD_TIMESTAMP: topic t, partition 0, offset 0" in stream.failure()


# -- offsets in the checkpoint -----------------------------------------------------------------------------------------------


def test_offsets_are_written_as_sparks_kafka_source_writes_them(stream: Stream) -> None:
    stream.append("t-1", 0, 3)
    stream.append("t-0", 0, 4)
    stream.append("T-0", 0, 1)
    stream.run()
    written = (stream.checkpoint / "offsets" / "0").read_text().splitlines()[-1]
    assert written.replace(" ", "") == '{"T":{"0":1},"t":{"0":4,"1":3}}'


# -- options -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"endingOffsets": "latest"},
        {"endingOffsetsByTimestamp": '{"t":{"0":1000}}'},
        {"endingTimestamp": "1000"},
        {"subscribe": "t", "subscribePattern": "t.*"},
        {"subscribe": "t", "assign": '{"t":[0]}'},
        {"assign": ""},
        {"subscribe": ""},
        {"subscribePattern": ""},
        {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
        {"kafka.auto.offset.reset": "latest"},
        {"kafka.enable.auto.commit": "true"},
    ],
)
def test_options_that_a_stream_cannot_honour_are_refused_by_name(stream: Stream, options: dict[str, Any]) -> None:
    stream.append("t-0", 0, 1)
    message = raised(lambda: stream.start(**options).awaitTermination(SECONDS))
    assert "KAFKALOG_BAD_OPTION" in message
    assert any(option.lower() in message.lower() for option in options)


def test_options_of_a_stream_are_found_whatever_their_case(stream: Stream) -> None:
    require_spark("limits")
    stream.append("t-0", 0, 6)
    assert sizes(stream.run(STARTINGOFFSETS="EARLIEST", maxoffsetspertrigger=3)) == [3, 3]
