"""Micro-batches without Spark: offsets, limits, new partitions, lost data, and that a repeated one is the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptBatch
from kafkalog.format.names import segment_file_name
from kafkalog.spark.admission import limit_offsets
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.live_listing import LISTING_SECONDS, OBJECT_LISTING_SECONDS
from kafkalog.spark.microbatch import MicroBatches, Offsets, from_json, to_json
from kafkalog.spark.options import for_stream, parse_options
from kafkalog.storage.local import LocalStore
from tests.builders.small_logs import (
    FIRST_TIME,
    LEFT_BY_COMPACTION,
    made_batch,
    marker,
    transactional_batch,
    write_half_swapped,
    write_segment,
)
from tests.log.test_follow import _complete_swap as complete_swap
from tests.log.test_follow import _locked_by_a_broker as locked_by_a_broker
from tests.spark.test_plan import read_part, read_splits
from tests.storage import test_object_store as server

ONE, TWO = ("orders", 0), ("orders", 1)
bucket = server.bucket


class Clock:
    """Time that passes only by `tick`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float = LISTING_SECONDS) -> None:
        self.now += seconds


class Stream:
    """A stream from `earliest` on, unless the options say otherwise, and the clock it lives by."""

    def __init__(self, path: Path | str, **options: Any) -> None:
        given = {"path": str(path), "startingOffsets": "earliest", **{name: str(value) for name, value in options.items()}}
        self.clock = Clock()
        self.batches = MicroBatches(for_stream(parse_options(given)), self.clock)
        self.at = self.batches.initial_offsets()

    def advance(self) -> Offsets:
        """The end of the next micro-batch, a second later."""
        self.clock.tick()
        self.at = self.batches.latest_offsets(self.at)
        return self.at

    def read(self, start: Offsets, end: Offsets) -> list[int]:
        return read_splits(self.batches.plan(start, end, 1))


def append(log: Path, *entries: bytes) -> None:
    with log.open("ab") as stream:
        stream.write(b"".join(entries))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 with the offsets 0 to 99 in two segments, orders-1 with 0 to 9."""
    write_segment(tmp_path / "orders-0", 0, *(made_batch(offset) for offset in range(0, 60, 10)), indexed=range(1, 6))
    write_segment(tmp_path / "orders-0", 60, *(made_batch(offset) for offset in range(60, 100, 10)), indexed=range(1, 4))
    write_segment(tmp_path / "orders-1", 0, made_batch(0))
    return tmp_path


def active(logs: Path) -> Path:
    return logs / "orders-0" / "00000000000000000060.log"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "(the default of a stream)"),
        ({"startingOffsets": "latest"}, "(startingOffsets=latest)"),
        ({"startingOffsets": "earliest"}, ""),
        ({"startingOffsets": '{"orders":{"0":-1,"1":-1}}'}, ""),
    ],
)
def test_a_new_query_at_the_end_of_the_logs_says_once_why_it_shows_nothing(
    logs: Path, caplog: pytest.LogCaptureFixture, given: dict[str, str], says: str
) -> None:
    batches = MicroBatches(for_stream(parse_options({"path": str(logs), **given})), Clock())
    at = batches.initial_offsets()
    for _ in range(3):
        at = batches.latest_offsets(at)
    notices = [record.getMessage() for record in caplog.records if "startingOffsets" in record.getMessage()]
    assert len(notices) == bool(says)
    assert all(says in notice and "the 110 offsets that are there" in notice for notice in notices)


def test_a_new_query_over_empty_logs_needs_no_explanation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_segment(tmp_path / "orders-0", 0)
    batches = MicroBatches(for_stream(parse_options({"path": str(tmp_path)})), Clock())
    batches.latest_offsets(batches.initial_offsets())
    assert caplog.records == []


# -- topics that are asked for ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("available_now", [False, True])
def test_a_restarted_stream_whose_topic_was_deleted_has_lost_data_and_continues_where_that_is_no_failure(
    logs: Path, available_now: bool
) -> None:
    write_segment(logs / "payments-0", 0, made_batch(0))
    start = {ONE: 100, TWO: 10, ("payments", 0): 5}
    for partition in (0, 1):
        shutil.rmtree(logs / f"orders-{partition}")

    def restarted(**options: Any) -> MicroBatches:
        given = {"path": str(logs), "subscribe": "orders,payments", **options}
        found = MicroBatches(for_stream(parse_options(given)))
        if available_now:
            found.freeze()
        return found

    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-[01] was read up to offset"):
        restarted().latest_offsets(start)
    assert restarted(failOnDataLoss="false").latest_offsets(start) == {**start, ("payments", 0): 10}


@pytest.mark.parametrize("available_now", [False, True])
def test_a_mistyped_topic_is_refused_when_a_stream_begins_and_when_it_is_restarted(logs: Path, available_now: bool) -> None:
    for start in (None, {ONE: 100, TWO: 10}):
        batches = MicroBatches(for_stream(parse_options({"path": str(logs), "subscribe": "orders,oders"})))
        if available_now:
            batches.freeze()
        with pytest.raises(SparkSourceError, match=r"no topic 'oders' here; did you mean orders\? there are: orders$"):
            batches.initial_offsets() if start is None else batches.latest_offsets(start)


# -- segments that a compaction finished ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_finished_swap_file_on_a_dead_disk_is_read_and_not_again_when_it_gets_its_name(tmp_path: Path, isolation: str) -> None:
    folder = write_half_swapped(tmp_path / "orders-0")
    (tmp_path / ".lock").touch()  # a dead broker leaves it
    stream = Stream(tmp_path, isolation=isolation)
    start = stream.at
    first = stream.advance()
    assert stream.read(start, first) == LEFT_BY_COMPACTION
    complete_swap(folder)
    append(folder / segment_file_name(40), made_batch(60))
    second = stream.advance()
    assert (first, second) == ({ONE: 60}, {ONE: 70})
    assert stream.read(first, second) == list(range(60, 70))
    assert Stream(tmp_path, isolation=isolation).read(start, second) == [*LEFT_BY_COMPACTION, *range(60, 70)]


def test_beside_a_live_broker_a_stream_waits_until_a_swap_file_has_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    write_segment(folder, 0, made_batch(0))
    stream = Stream(tmp_path)
    start, first = stream.at, stream.advance()
    shutil.rmtree(folder)
    write_half_swapped(folder)
    with locked_by_a_broker(tmp_path):
        assert stream.advance() == first
        complete_swap(folder)
        assert stream.read(first, stream.advance()) == LEFT_BY_COMPACTION
        assert Stream(tmp_path).at == start


# -- offsets -----------------------------------------------------------------------------------------------------------------


def test_offsets_are_in_the_order_of_sparks_kafka_source() -> None:
    offsets = {("b", 0): 5, ("a", 10): 1, ("a", 9): 2}
    assert json.dumps(to_json(offsets)) == '{"a": {"9": 2, "10": 1}, "b": {"0": 5}}'
    assert from_json(to_json(offsets)) == offsets


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {ONE: 0, TWO: 0}),
        ({"startingOffsets": "latest"}, {ONE: 100, TWO: 10}),
        ({"startingOffsets": '{"orders":{"0":-1,"1":-2}}'}, {ONE: 100, TWO: 0}),
        ({"startingOffsets": '{"orders":{"0":33,"1":10}}'}, {ONE: 33, TWO: 10}),
        ({"startingTimestamp": FIRST_TIME + 5}, {ONE: 5, TWO: 5}),
        ({"startingTimestamp": FIRST_TIME + 50, "startingOffsetsByTimestampStrategy": "latest"}, {ONE: 50, TWO: 10}),
        ({"startingOffsetsByTimestamp": f'{{"orders":{{"0":{FIRST_TIME + 7},"1":{FIRST_TIME}}}}}'}, {ONE: 7, TWO: 0}),
    ],
)
def test_a_stream_begins_where_the_options_say(logs: Path, options: dict[str, Any], expected: Offsets) -> None:
    assert Stream(logs, **options).at == expected


def test_the_default_start_of_a_stream_is_latest(logs: Path) -> None:
    stream = MicroBatches(for_stream(parse_options({"path": str(logs)})))
    assert stream.initial_offsets() == {ONE: 100, TWO: 10}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"orders":{"0":3}}'}, "KAFKALOG_BAD_OPTION: option startingOffsets: it must name exactly"),
        ({"startingOffsets": '{"orders":{"0":101,"1":0}}'}, "KAFKALOG_DATA_LOSS: option startingOffsets: orders-0 has the"),
        ({"startingTimestamp": FIRST_TIME + 50}, "KAFKALOG_BAD_OPTION: option startingTimestamp"),
        ({"subscribe": "gone"}, "KAFKALOG_BAD_OPTION: option subscribe='gone'"),
        ({"upTo": "highWatermark"}, "KAFKALOG_BAD_OPTION: option upTo='highWatermark': not allowed without"),
    ],
)
def test_a_start_that_the_log_does_not_have_is_refused(logs: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SparkSourceError, match="^" + message):
        Stream(logs, **options)


def test_a_stream_of_replicas_is_refused(logs: Path, tmp_path: Path) -> None:
    other = shutil.copytree(logs, tmp_path / "replica")
    stream = MicroBatches(for_stream(parse_options({"paths": json.dumps([str(logs), str(other)])})))
    with pytest.raises(SparkSourceError, match=r"orders-0 is at .* and at .*; give only the one to be followed$"):
        stream.initial_offsets()


def test_a_stream_of_a_partition_given_as_several_files_is_refused(logs: Path) -> None:
    paths = json.dumps([str(path) for path in sorted((logs / "orders-0").glob("*.log"))])
    stream = MicroBatches(for_stream(parse_options({"paths": paths})))
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_OPTION: option paths: orders-0 is at .* give its folder instead$"):
        stream.initial_offsets()


def test_the_first_micro_batch_from_latest_is_empty_so_that_a_repeated_one_loses_nothing(logs: Path) -> None:
    stream = Stream(logs, startingOffsets="latest")
    append(active(logs), made_batch(100))
    first = stream.advance()
    assert first == {ONE: 100, TWO: 10}
    assert stream.read(first, first) == []
    # The same after a crash: only the end of the first micro-batch was written down.
    again = Stream(logs, startingOffsets="latest")
    assert again.at == {ONE: 110, TWO: 10}
    assert again.read(again.at, first) == []
    again.at = first
    assert again.read(first, again.advance()) == list(range(100, 110))


# -- limits ------------------------------------------------------------------------------------------------------------------


def test_a_limit_of_offsets_is_shared_out_by_size_and_starves_nobody(logs: Path) -> None:
    stream = Stream(logs, maxOffsetsPerTrigger=11)
    assert stream.advance() == {ONE: 10, TWO: 1}
    seen = [dict(stream.at)]
    while len(seen) < 2 or seen[-1] != seen[-2]:
        seen.append(dict(stream.advance()))
    assert seen[-1] == {ONE: 100, TWO: 10}
    assert sorted(stream.read({ONE: 0, TWO: 0}, seen[0])) == [0, *range(10)]


offset_counts = st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(0, 1 << 40), min_size=1)


@given(sizes=offset_counts, most=st.integers(1, 1 << 41))
def test_shares_stay_within_the_limit_except_for_one_offset_for_each_small_partition(sizes: Offsets, most: int) -> None:
    start = dict.fromkeys(sizes, 7)
    end = {key: 7 + size for key, size in sizes.items()}
    limited = limit_offsets(most, start, end)
    taken = {key: limited[key] - 7 for key in sizes}
    assert all((taken[key] > 0) == (sizes[key] > 0) and taken[key] <= sizes[key] for key in sizes)
    assert sum(taken.values()) <= most + len(sizes)


def test_a_limit_of_bytes_takes_whole_entries_and_at_least_one(logs: Path) -> None:
    seven = sum(len(made_batch(offset)) for offset in range(0, 70, 10))
    stream = Stream(logs, maxBytesPerTrigger=1)
    assert stream.advance() == {ONE: 10, TWO: 10}
    assert stream.advance() == {ONE: 20, TWO: 10}
    stream = Stream(logs, maxBytesPerTrigger=seven + 20, assign='{"orders":[0]}')
    assert stream.advance() == {ONE: 70}
    assert stream.advance() == {ONE: 100}
    both = Stream(logs, maxBytesPerTrigger=seven, maxOffsetsPerTrigger=25, assign='{"orders":[0]}')
    assert [both.advance()[ONE] for _ in range(3)] == [25, 50, 75]


def test_a_limit_of_bytes_continues_from_the_middle_of_an_entry(logs: Path) -> None:
    stream = Stream(logs, maxBytesPerTrigger=1, startingOffsets='{"orders":{"0":55,"1":10}}')
    assert [stream.advance()[ONE] for _ in range(3)] == [60, 70, 80]


def test_a_minimum_of_offsets_waits_for_them_or_for_the_delay(logs: Path) -> None:
    stream = Stream(logs, minOffsetsPerTrigger=15, maxTriggerDelay="30s")
    assert stream.advance() == {ONE: 100, TWO: 10}
    append(active(logs), made_batch(100))
    assert stream.advance()[ONE] == 100
    append(active(logs), made_batch(110))
    assert stream.advance()[ONE] == 120
    append(active(logs), made_batch(120))
    assert stream.advance()[ONE] == 120
    stream.clock.tick(30)
    assert stream.advance()[ONE] == 130


def test_the_minimum_and_the_maximum_work_together(logs: Path) -> None:
    stream = Stream(logs, minOffsetsPerTrigger=15, maxOffsetsPerTrigger=20, assign='{"orders":[0]}')
    assert [stream.advance()[ONE] for _ in range(6)] == [20, 40, 60, 80, 100, 100]


def test_limits_do_not_count_where_everything_is_asked_for(logs: Path) -> None:
    stream = Stream(logs, maxOffsetsPerTrigger=1)
    assert stream.batches.latest_offsets(stream.at, limited=False) == {ONE: 100, TWO: 10}


# -- new data ----------------------------------------------------------------------------------------------------------------


def test_growth_new_segments_and_new_partitions_are_picked_up(logs: Path) -> None:
    stream = Stream(logs)
    before = stream.advance()
    append(active(logs), made_batch(100), made_batch(110)[:33])
    write_segment(logs / "orders-2", 0, made_batch(0))
    (logs / "orders-3").mkdir()
    after = stream.advance()
    assert after == {ONE: 110, TWO: 10, ("orders", 2): 10}
    assert stream.read(before, after) == [*range(100, 110), *range(10)]
    append(active(logs), made_batch(110)[33:])
    write_segment(logs / "orders-0", 120, made_batch(120))
    assert stream.read(after, stream.advance()) == list(range(110, 130))


def test_a_listing_is_kept_for_a_second_and_then_only_names_are_looked_at(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(logs)
    stream.advance()
    calls: list[str] = []

    def noted(name: str, method: Any) -> Any:
        def call(*given: Any) -> Any:
            calls.append(name)
            return method(*given)

        return call

    for name in ("list", "open", "read_small", "stat"):
        monkeypatch.setattr(LocalStore, name, noted(name, getattr(LocalStore, name)))
    stream.clock.tick(LISTING_SECONDS / 2)
    stream.batches.latest_offsets(stream.at)
    assert calls == []
    stream.clock.tick()
    stream.batches.latest_offsets(stream.at)
    assert set(calls) == {"list", "stat"}


def test_a_repeated_micro_batch_reads_the_same_however_much_came_since(logs: Path) -> None:
    stream = Stream(logs, maxOffsetsPerTrigger=50)
    start = stream.at
    end = stream.advance()
    rows = stream.read(start, end)
    append(active(logs), made_batch(100))
    write_segment(logs / "orders-0", 110, made_batch(110))
    assert Stream(logs).read(start, end) == rows


@pytest.mark.parametrize("division", [{"minPartitions": 7}, {"maxRecordsPerPartition": 9}, {"maxPartitionBytes": 300}])
def test_a_micro_batch_is_divided_among_tasks_as_a_batch_read_is(logs: Path, division: dict[str, int]) -> None:
    splits = Stream(logs, **division).batches.plan({ONE: 15, TWO: 2}, {ONE: 95, TWO: 8}, 1)
    assert len(splits) >= 7
    assert read_splits(splits) == [*range(15, 95), *range(2, 8)]


def test_a_stream_follows_an_object_store(bucket: server.Bucket) -> None:
    bucket.put("stream/orders-0/00000000000000000000.log", made_batch(0))
    host = bucket.endpoint.removeprefix("http://").replace(":", "%3A")
    uri = f"s3://test:test@logs/stream?scheme=http&endpoint_override={host}&region=us-east-1"
    stream = Stream(uri)
    first = stream.advance()
    bucket.put("stream/orders-0/00000000000000000000.log", made_batch(0) + made_batch(10))
    bucket.put("stream/orders-0/00000000000000000020.log", made_batch(20))
    assert stream.advance() == first == {ONE: 10}
    stream.clock.tick(OBJECT_LISTING_SECONDS)
    assert stream.read(first, stream.advance()) == list(range(10, 30))


def test_a_small_micro_batch_of_a_large_segment_reads_only_its_neighbourhood(tmp_path: Path) -> None:
    entries = [made_batch(offset, 100) for offset in range(0, 40_000, 100)]
    write_segment(tmp_path / "orders-0", 0, *entries, indexed=range(1, 400))
    stream = Stream(tmp_path)
    (split,) = stream.batches.plan({ONE: 30_050}, {ONE: 30_250}, 1)
    (part,) = split.parts
    assert read_part(part) == list(range(30_050, 30_250))
    assert part.bytes <= 4 * max(map(len, entries))


def test_available_now_ends_where_the_log_ended_at_the_start(logs: Path) -> None:
    given = {"path": str(logs), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "60", "minOffsetsPerTrigger": "60"}
    clock = Clock()
    stream = MicroBatches(for_stream(parse_options(given)), clock)
    stream.freeze()
    at = stream.initial_offsets()
    append(active(logs), made_batch(100))
    write_segment(logs / "orders-2", 0, made_batch(0))
    for _ in range(4):
        clock.tick()
        at = stream.latest_offsets(at)
    assert at == {ONE: 100, TWO: 10}
    shutil.rmtree(logs / "orders-1")
    clock.tick()
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-1 no longer exists"):
        stream.latest_offsets(at)


def test_read_committed_waits_at_an_open_transaction_and_leaves_out_an_aborted_one(tmp_path: Path) -> None:
    log = write_segment(tmp_path / "orders-0", 0, made_batch(0), transactional_batch(10, 5, 1), made_batch(15, 5))
    stream = Stream(tmp_path, isolation="read_committed")
    first = stream.advance()
    assert first == {ONE: 10}
    append(log, marker(20, 1, commit=False), transactional_batch(21, 4, 2))
    second = stream.advance()
    assert second == {ONE: 21}
    rows = read_splits(stream.batches.plan(first, second, 1), isolation="read_committed")
    assert rows == list(range(15, 20))
    stream.batches.commit(second)
    append(log, marker(25, 2, commit=True))
    third = stream.advance()
    again = Stream(tmp_path, isolation="read_committed")
    for batches in (stream.batches, again.batches):
        assert read_splits(batches.plan(second, third, 1), isolation="read_committed") == list(range(21, 25))
    assert read_splits(again.batches.plan(first, second, 1), isolation="read_committed") == rows


def test_up_to_the_high_watermark_waits_for_the_checkpoint_of_the_broker(logs: Path) -> None:
    checkpoint = logs / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 80\n")
    stream = Stream(logs, upTo="highWatermark")
    assert stream.advance() == {ONE: 80, TWO: 0}
    checkpoint.write_text("0\n2\norders 0 70\norders 1 10\n")
    assert stream.advance() == {ONE: 80, TWO: 10}


# -- lost data ---------------------------------------------------------------------------------------------------------------


def gone(logs: Path) -> None:
    shutil.rmtree(logs / "orders-1")


def retained(logs: Path) -> None:
    for path in (logs / "orders-0").glob("00000000000000000000.*"):
        path.unlink()


def truncated(logs: Path) -> None:
    active(logs).write_bytes(made_batch(60))


def added(logs: Path) -> None:
    write_segment(logs / "orders-2", 30, made_batch(30))


LOSSES = [
    (gone, 0, "orders-1 was read up to offset 10, but no longer exists"),
    (retained, 30, "orders-0 now starts at offset 60, but was read only up to 30"),
    (truncated, 0, "orders-0 was read up to offset 100, but now ends at 70"),
    (added, 0, "orders-2 was added and starts at offset 30 instead of 0"),
]


@pytest.mark.parametrize(("lose", "limit", "message"), LOSSES)
def test_lost_data_fails_the_stream_with_partition_and_offsets(logs: Path, lose: Any, limit: int, message: str) -> None:
    stream = Stream(logs, **({"startingOffsets": '{"orders":{"0":30,"1":10}}'} if limit else {}))
    if not limit:
        stream.advance()
    lose(logs)
    with pytest.raises(SparkSourceError, match=f"^KAFKALOG_DATA_LOSS: {message}; with failOnDataLoss=false"):
        stream.advance()


@pytest.mark.parametrize(
    ("lose", "limit", "end", "rows"),
    [
        (gone, 0, {ONE: 110, TWO: 10}, range(100, 110)),
        (retained, 30, {ONE: 110, TWO: 10}, range(60, 110)),
        (added, 0, {ONE: 110, TWO: 10, ("orders", 2): 40}, [*range(100, 110), *range(30, 40)]),
    ],
)
def test_with_fail_on_data_loss_false_the_stream_continues_and_says_so_once(
    logs: Path, lose: Any, limit: int, end: Offsets, rows: Any, caplog: pytest.LogCaptureFixture
) -> None:
    starting = '{"orders":{"0":30,"1":10}}' if limit else "earliest"
    stream = Stream(logs, failOnDataLoss=False, startingOffsets=starting)
    start = stream.at if limit else stream.advance()
    append(active(logs), made_batch(100))
    lose(logs)
    assert stream.advance() == end
    assert stream.read(start, end) == list(rows)
    stream.advance()
    assert len({record.getMessage() for record in caplog.records}) == len(caplog.records) >= 1


def test_a_log_that_went_back_is_read_on_from_its_new_end(logs: Path) -> None:
    stream = Stream(logs, failOnDataLoss=False)
    before = stream.advance()
    truncated(logs)
    after = stream.advance()
    assert after[ONE] == 70
    assert stream.read(before, after) == []
    append(active(logs), made_batch(70))
    assert stream.read(after, stream.advance()) == list(range(70, 80))


@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (gone, "orders-1 no longer exists, but offsets 5 to 10 were to be read"),
        (retained, "orders-0 now starts at offset 60, but 20 to 90 were to be read"),
        (truncated, "orders-0 now ends at offset 70, but 20 to 90 were to be read"),
    ],
)
def test_a_repeated_micro_batch_whose_data_is_gone_fails(logs: Path, lose: Any, message: str) -> None:
    start, end = {ONE: 20, TWO: 5}, {ONE: 90, TWO: 10}
    lose(logs)
    with pytest.raises(SparkSourceError, match=f"^KAFKALOG_DATA_LOSS: {message}"):
        Stream(logs).read(start, end)
    rows = Stream(logs, failOnDataLoss=False).read(start, end)
    assert set(rows) < {*range(20, 90), *range(5, 10)}


# -- damage ------------------------------------------------------------------------------------------------------------------


def test_damage_in_the_active_segment_fails_after_what_lies_before_it_or_is_passed(logs: Path) -> None:
    broken = bytearray(made_batch(100))
    broken[8:12] = b"\0\0\0\1"  # length
    append(active(logs), bytes(broken), made_batch(110))
    strict = Stream(logs)
    assert strict.advance() == {ONE: 100, TWO: 10}
    with pytest.raises(CorruptBatch):
        strict.advance()
    passing = Stream(logs, mode="DROPMALFORMED")
    start, end = passing.at, passing.advance()
    assert end == {ONE: 120, TWO: 10}
    rows = read_splits(passing.batches.plan(start, end, 1), on_damage="salvage")
    assert rows == [*range(100), *range(110, 120), *range(10)]
