"""Planning without Spark: partitions, ranges and splits; every record is in exactly one split."""

from __future__ import annotations

import itertools
import json
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.options import for_batch, for_stream, parse_options
from kafkalog.spark.read_plan import find_offset_at, plan_splits
from kafkalog.spark.splits import Part, Split, as_segment, even_bytes
from kafkalog.storage import open_store
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table
from tests.builders.small_logs import (
    FIRST_TIME,
    LEFT_BY_COMPACTION,
    made_batch,
    marker,
    read_offsets,
    transactional_batch,
    write_half_swapped,
    write_segment,
)


def plan(path: Path | str, **options: Any) -> list[Split]:
    """The splits for one core."""
    return plan_splits(parse_options({"path": str(path), **{name: str(value) for name, value in options.items()}}), 1)


def read_part(part: Part, on_damage: str = "strict", **choices: Any) -> list[int]:
    store, _ = open_store(part.root)
    segments = tuple(as_segment(piece) for piece in part.slices)
    partition = Partition(
        store, part.folder, part.topic, part.partition, segments=segments, log_start_offset=part.log_start_offset
    )
    options = ReadOptions(
        frozenset({"offset"}),
        RecordRange(part.start_offset, part.stop_offset),
        on_damage=on_damage,
        threads=1,
        committed=part.committed,
        **choices,
    )
    batches = record_batches([partition], find_table("records").schema(["offset"]), options, ReadReport())
    return [offset for found in batches for offset in found.column(0).to_pylist()]


def read_splits(splits: list[Split], **choices: Any) -> list[int]:
    return [offset for split in splits for part in split.parts for offset in read_part(part, **choices)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of 40 batches each, with index entries for every third batch."""
    folder = tmp_path_factory.mktemp("logs") / "orders-0"
    for base in (0, 400, 800):
        batches = [made_batch(offset) for offset in range(base, base + 400, 10)]
        write_segment(folder, base, *batches, indexed=range(3, 40, 3))
    return folder


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=st.integers(200, 30_000),
    start=st.integers(0, 1200),
    length=st.integers(0, 1200),
    least=st.none() | st.integers(1, 40),
    most=st.none() | st.integers(5, 500),
)
def test_splits_cover_every_record_of_the_range_exactly_once(
    folder: Path, target: int, start: int, length: int, least: int | None, most: int | None
) -> None:
    stop = min(start + length, 1200)
    options: dict[str, Any] = {
        "maxPartitionBytes": target,
        "startingOffsets": json.dumps({"orders": {"0": start}}),
        "endingOffsets": json.dumps({"orders": {"0": stop}}),
    }
    options |= {"minPartitions": least} if least else {}
    options |= {"maxRecordsPerPartition": most} if most else {}
    splits = plan(folder, **options)
    assert read_splits(splits) == list(range(start, stop))
    if least is not None and stop - start >= 3 * least:
        assert len(splits) >= least * 0.8
    if most is not None:
        assert max((len(read_splits([split])) for split in splits), default=0) <= most


def test_one_segment_is_cut_for_every_core(folder: Path) -> None:
    splits = plan(folder, maxPartitionBytes=4000)
    assert len(splits) > 8
    slices = [piece for split in splits for part in split.parts for piece in part.slices]
    for before, after in itertools.pairwise(slices):
        assert (after.path != before.path and after.start == 0) or after.start == before.stop
    assert sum(piece.bytes for piece in slices) == sum(path.stat().st_size for path in folder.glob("*.log"))


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([100, 100, 100], 6),  # three whole ones would leave a core idle for a third of the time
        ([83, 84, 82, 83], 4),  # the largest is not cut for being a little larger
        ([1024], 8),
        ([1, 1], 1),
    ],
)
def test_the_last_round_of_tasks_is_shared_by_all_cores(sizes: list[int], tasks: int) -> None:
    target = even_bytes(sum(sizes), 2, least=4, most=128)
    counts = [-(-size // target) for size in sizes]
    assert (sum(counts) if sum(sizes) > target else 1) == tasks


def test_small_segments_share_a_split(folder: Path) -> None:
    assert len(plan(folder)) == 1
    assert [len(part.slices) for part in plan(folder)[0].parts] == [3]


@pytest.mark.parametrize("damage", ["missing", "shifted", "garbage", "another segment's"])
def test_a_wrong_index_never_changes_what_the_splits_hold(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "orders-0"
    batches = [made_batch(offset) for offset in range(0, 400, 10)]
    log = write_segment(folder, 0, *batches, indexed=range(2, 40, 2))
    index = log.with_suffix(".index")
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    if damage == "missing":
        index.unlink()
    elif damage == "shifted":
        index.write_bytes(b"".join(struct.pack(">ii", offset, position + 7) for offset, position in entries))
    elif damage == "garbage":
        index.write_bytes(random.Random(1).randbytes(80))
    else:
        index.write_bytes(b"".join(struct.pack(">ii", offset, position // 2 + 61) for offset, position in entries))
    splits = plan(folder, maxPartitionBytes=500)
    assert read_splits(splits) == list(range(400))
    assert (len(splits) > 5) == (damage == "missing")


def test_a_corrupt_length_costs_no_split_but_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    batches = [made_batch(offset) for offset in range(0, 400, 10)]
    log = write_segment(folder, 0, *batches, indexed=range(2, 40, 2))
    content = bytearray(log.read_bytes())
    position = sum(map(len, batches[:7]))
    content[position + 8 : position + 12] = struct.pack(">i", 1 << 20)
    log.write_bytes(content)
    splits = plan(folder, maxPartitionBytes=1000)
    assert read_splits(splits, on_damage="salvage") == [*range(70), *range(80, 400)]
    with pytest.raises(kafkalog.SegmentError):
        read_splits(splits)


def test_a_length_beyond_a_cut_is_damage_and_no_tail_of_the_newest_segment(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    batches = [made_batch(offset) for offset in range(0, 100, 10)]
    log = write_segment(folder, 0, *batches, indexed=[5])
    content = bytearray(log.read_bytes())
    position = sum(map(len, batches[:4]))
    content[position + 8 : position + 12] = struct.pack(">i", 10_000)
    log.write_bytes(content)
    first = plan(folder, maxPartitionBytes=len(content) // 2 + 1)[0]
    with pytest.raises(kafkalog.SegmentError):
        read_splits([first])


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_transactions_that_cross_splits_are_judged_as_a_whole(tmp_path: Path, isolation: str) -> None:
    folder = tmp_path / "orders-0"
    first = [transactional_batch(0, 10, 1), transactional_batch(10, 10, 2), transactional_batch(20, 10, 1, 10)]
    second = [marker(30, 1, commit=False), marker(31, 2, commit=True), transactional_batch(32, 8, 3), made_batch(40)]
    write_segment(folder, 0, *first)
    write_segment(folder, 30, *second)
    splits = plan(folder, isolation=isolation, maxPartitionBytes=200)
    assert len(splits) > 3
    assert read_splits(splits, isolation=isolation) == read_offsets(folder, isolation=isolation)


@pytest.mark.parametrize("era", ["0.8.2.2", "0.10.0.1", "2.8.2", "4.3.0"])
def test_splits_of_real_logs_hold_what_a_whole_read_gives(golden: Any, era: str) -> None:
    path = golden(era) / era
    for found in kafkalog.open(path).partitions:
        if found.state or not found.size:
            continue
        expected = read_offsets(found.folder)
        for target in (700, 5_000):
            splits = plan(found.folder, maxPartitionBytes=target)
            assert read_splits(splits) == expected, (str(found), target)


def test_offsets_by_timestamp_are_those_of_a_search_through_all_records(golden: Any) -> None:
    path = golden("4.3.0") / "4.3.0"
    for name in ("upgraded-mixed-0", "none-0", "txn-0", "delete-records-0"):
        logs = kafkalog.open(path / name)
        rows = logs.read("records", ["offset", "timestamp_ms"], include_control=True).read_all().to_pylist()
        times = sorted({row["timestamp_ms"] for row in rows})
        for time in [*times[:: max(len(times) // 10, 1)], times[-1] + 1]:
            expected = next((row["offset"] for row in rows if row["timestamp_ms"] >= time), None)
            assert find_offset_at(logs.partitions[0], time) == expected, (name, time)


def two_topics(folder: Path) -> Path:
    write_segment(folder / "orders-0", 20, made_batch(20), made_batch(30))
    write_segment(folder / "orders-1", 0, made_batch(0))
    write_segment(folder / "payments-0", 0, made_batch(0))
    write_segment(folder / "__consumer_offsets-0", 0, made_batch(0))
    return folder


def chosen(splits: list[Split]) -> set[str]:
    return {f"{part.topic}-{part.partition}" for split in splits for part in split.parts}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"orders-0", "orders-1", "payments-0"}),
        ({"subscribe": " orders ,,"}, {"orders-0", "orders-1"}),
        ({"subscribePattern": "rder"}, {"orders-0", "orders-1"}),
        ({"subscribePattern": "none"}, set()),
        ({"assign": '{"orders":[1,7],"gone":[0]}'}, {"orders-1"}),
        ({"assign": '{"__consumer_offsets":[0]}'}, set()),
        ({"includeInternalTopics": "true", "subscribe": "__consumer_offsets"}, {"__consumer_offsets-0"}),
    ],
)
def test_topics_are_chosen_as_by_sparks_kafka_source(tmp_path: Path, options: dict[str, str], expected: set[str]) -> None:
    assert chosen(plan(two_topics(tmp_path), **options)) == expected


def test_an_internal_topic_given_by_its_own_folder_is_read(tmp_path: Path) -> None:
    assert chosen(plan(two_topics(tmp_path) / "__consumer_offsets-0")) == {"__consumer_offsets-0"}


def test_replicas_are_read_once_from_the_copy_with_the_newest_end(tmp_path: Path) -> None:
    folders = [two_topics(tmp_path / name) for name in ("a", "b", "c")]
    last = sorted((folders[1] / "orders-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes() + made_batch(1000))
    splits = plan_splits(parse_options({"paths": json.dumps(list(map(str, folders)))}))
    parts = [part for split in splits for part in split.parts]
    assert {part.root for part in parts if (part.topic, part.partition) == ("orders", 0)} == {str(folders[1])}
    once = plan_splits(parse_options({"path": str(folders[1])}))
    assert sorted(read_splits(splits)) == sorted(read_splits(once))


def test_two_topics_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [two_topics(tmp_path / name) for name in ("a", "b")]
    for folder, topic_id in zip(folders, ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"), strict=True):
        (folder / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    paths = {"paths": json.dumps(list(map(str, folders)))}
    with pytest.raises(SparkSourceError, match=r"orders: 2 topics have this name.*; give only paths of one of them$"):
        plan_splits(parse_options({"subscribe": "orders", **paths}))
    plan_splits(parse_options({"subscribe": "payments", **paths}))


@pytest.mark.parametrize("beside", ["", f"{20:020}.log"])
def test_a_segment_file_beside_its_folder_or_itself_is_refused(tmp_path: Path, beside: str) -> None:
    folder = two_topics(tmp_path) / "orders-0"
    paths = [str(folder / beside), str(folder / f"{20:020}.log")]
    with pytest.raises(SparkSourceError, match=r"option paths: orders-0 is at .* its rows would come twice$"):
        plan_splits(parse_options({"paths": json.dumps(paths)}))


def test_splits_hold_a_completed_swap_segment_whose_place_is_free(tmp_path: Path) -> None:
    assert read_splits(plan(write_half_swapped(tmp_path / "orders-0"))) == LEFT_BY_COMPACTION


ONE = {"assign": '{"orders":[0]}'}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"orders":{"0":-2}}'}, range(20, 40)),
        ({"startingOffsets": '{"orders":{"0":33}}'}, range(33, 40)),
        ({"startingOffsets": '{"orders":{"0":40}}'}, range(0)),
        ({"endingOffsets": '{"orders":{"0":25}}'}, range(20, 25)),
        ({"endingOffsets": '{"orders":{"0":-1}}'}, range(20, 40)),
        ({"startingTimestamp": FIRST_TIME + 35}, range(35, 40)),
        ({"startingTimestamp": FIRST_TIME + 35, "startingOffsets": "nonsense"}, range(35, 40)),
        ({"startingTimestamp": FIRST_TIME + 90, "startingOffsetsByTimestampStrategy": "latest"}, range(0)),
        ({"endingTimestamp": FIRST_TIME + 22}, range(20, 22)),
        ({"endingTimestamp": FIRST_TIME + 90}, range(20, 40)),
        ({"startingOffsetsByTimestamp": f'{{"orders":{{"0":{FIRST_TIME + 31}}}}}', "startingOffsets": "x"}, range(31, 40)),
        ({"endingOffsetsByTimestamp": f'{{"orders":{{"0":{FIRST_TIME + 31}}}}}'}, range(20, 31)),
        ({"startingOffsets": '{"orders":{"0":3}}', "failOnDataLoss": "false"}, range(20, 40)),
        ({"endingOffsets": '{"orders":{"0":99}}', "failOnDataLoss": "false"}, range(20, 40)),
    ],
)
def test_ranges_mean_what_they_mean_to_sparks_kafka_source(tmp_path: Path, options: dict[str, Any], expected: range) -> None:
    assert read_splits(plan(two_topics(tmp_path), **ONE, **options)) == list(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"orders":{"0":3}}'}, "KAFKALOG_DATA_LOSS: option startingOffsets: orders-0 has the offsets 20 to"),
        ({"endingOffsets": '{"orders":{"0":41}}'}, "KAFKALOG_DATA_LOSS: option endingOffsets"),
        ({"startingOffsets": '{"orders":{"0":25,"1":0}}'}, "KAFKALOG_BAD_OPTION: option startingOffsets: it must name exactly"),
        (
            {"startingOffsets": '{"orders":{"0":33}}', "endingOffsets": '{"orders":{"0":25}}'},
            "KAFKALOG_BAD_OPTION: option startingOffsets: orders-0 would start at 33, after its end at 25",
        ),
        ({"startingTimestamp": FIRST_TIME + 90}, f"KAFKALOG_BAD_OPTION: option startingTimestamp={FIRST_TIME + 90}"),
    ],
)
def test_ranges_that_the_log_does_not_have_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SparkSourceError, match="^" + re.escape(message)):
        plan(two_topics(tmp_path), **ONE, **options)


def test_up_to_the_high_watermark_leaves_out_what_replicas_may_not_have(tmp_path: Path) -> None:
    two_topics(tmp_path)
    with pytest.raises(SparkSourceError, match=r"option upTo='highWatermark': .*replication-offset-checkpoint"):
        plan(tmp_path, **ONE, upTo="highWatermark")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\norders 0 33\npayments 0 5\n")
    assert read_splits(plan(tmp_path, **ONE, upTo="highWatermark")) == list(range(20, 33))
    assert read_splits(plan(tmp_path, assign='{"orders":[1]}', upTo="highWatermark")) == []


def test_a_topic_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(SparkSourceError, match=r"subscribe='orders,gone': no topic 'gone' here; there are: orders, payments$"):
        plan(two_topics(tmp_path), subscribe="orders,gone")


def test_a_mistyped_topic_among_many_is_answered_with_the_nearest_and_a_short_list(tmp_path: Path) -> None:
    for number in range(30):
        write_segment(tmp_path / f"topic{number:02}-0", 0, made_batch(0))
    with pytest.raises(SparkSourceError) as caught:
        plan(tmp_path, subscribe="topic_07")
    assert "no topic 'topic_07' here; did you mean topic07? there are: topic00, topic01, " in str(caught.value)
    assert str(caught.value).endswith("topic19 and 10 more")


BAD: list[tuple[dict[str, str], str]] = [
    ({}, "option path is missing"),
    ({"path": "/a", "paths": '["/b"]'}, "option paths="),
    ({"paths": "/b"}, "option paths='/b': allowed is a JSON list"),
    ({"path": "/a", "table": "lines"}, "option table='lines': allowed are records, batches"),
    ({"path": "/a", "mode": "strict"}, "option mode='strict': allowed are FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ({"path": "/a", "isolation": "dirty"}, "option isolation='dirty': allowed are read_uncommitted, read_committed"),
    ({"path": "/a", "isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "contradicts"),
    ({"path": "/a", "includeHeaders": "yes"}, "option includeHeaders='yes': allowed are true, false"),
    ({"path": "/a", "minPartitions": "0"}, "option minPartitions='0': allowed is a whole number above 0"),
    ({"path": "/a", "maxRecordsPerPartition": "-1"}, "option maxRecordsPerPartition='-1'"),
    ({"path": "/a", "subscribe": " , "}, "option subscribe=' , '"),
    ({"path": "/a", "subscribe": "x", "assign": "{}"}, "option assign='{}': not allowed with subscribe"),
    ({"path": "/a", "subscribePattern": "("}, "option subscribePattern='(': not a regular expression"),
    ({"path": "/a", "assign": "orders"}, "option assign='orders'"),
    ({"path": "/a", "assign": '{"orders":0}'}, "option assign="),
    ({"path": "/a", "startingOffsets": "latest"}, "option startingOffsets='latest': not allowed in a batch read"),
    ({"path": "/a", "startingOffsets": '{"t":{"0":-1}}'}, "-1 (latest) is not allowed here"),
    ({"path": "/a", "endingOffsets": "earliest"}, "option endingOffsets='earliest': not allowed; allowed are 'latest' and JSON"),
    ({"path": "/a", "endingOffsets": '{"t":{"0":-2}}'}, "-2 (earliest) is not allowed here"),
    ({"path": "/a", "endingOffsets": '{"t":{"0":-3}}'}, "option endingOffsets="),
    ({"path": "/a", "startingTimestamp": "today"}, "option startingTimestamp='today': allowed are milliseconds"),
    ({"path": "/a", "startingOffsetsByTimestampStrategy": "fail"}, "allowed are error, latest"),
    ({"path": "/a", "table": "segments", "startingOffsets": "earliest"}, "not allowed with table='segments'"),
    ({"path": "/a", "kafka.auto.offset.reset": "latest"}, "option kafka.auto.offset.reset='latest': not allowed"),
    ({"path": "/a", "startingOffset": "5"}, "did you mean startingOffsets?"),
    ({"path": "/a", "checkCrcs": "false"}, "option checkCrcs='false': records are always checked; allowed with table=batches"),
    (
        {"path": "/a", "table": "batches", "checkCrcs": "false", "mode": "PERMISSIVE"},
        "option checkCrcs='false': not allowed with mode='PERMISSIVE', which finds damage by checksums",
    ),
    ({"path": "/a", "table": "batches", "checkCrcs": "false", "kafka.check.crcs": "true"}, "contradicts kafka.check.crcs='true'"),
    ({"path": "file://other/a"}, "option path='file://other/a': file://other/a: a file on another machine"),
]

SLIPS: list[tuple[dict[str, str], str]] = [
    (
        {"startingOffsets": "earlest"},
        "option startingOffsets='earlest': did you mean earliest? Allowed are earliest, latest and JSON such as {",
    ),
    ({"startingOffsets": "beginning"}, "option startingOffsets='beginning': allowed are earliest, latest and JSON such as {"),
    ({"endingOffsets": "lastest"}, "option endingOffsets='lastest': did you mean latest? Allowed are latest and JSON such as {"),
    ({"startingOffsets": '{"orders": 5}'}, "allowed are earliest, latest and JSON such as"),
    ({"startingOffsetsByTimestamp": "latest"}, "option startingOffsetsByTimestamp='latest': allowed is JSON such as {"),
    ({"mode": "failfest"}, "option mode='failfest': did you mean FAILFAST? Allowed are FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ({"isolation": "commited"}, "option isolation='commited': did you mean read_committed? Allowed are read_uncommitted, "),
    ({"isolation": "read-committed"}, "did you mean read_committed?"),
    ({"table": "record"}, "option table='record': did you mean records? Allowed are records, batches"),
    ({"upTo": "highwatermarks"}, "option upTo='highwatermarks': did you mean highWatermark? Allowed are logEnd, highWatermark"),
    ({"includeHeaders": "ture"}, "option includeHeaders='ture': did you mean true? Allowed are true, false"),
    ({"assign": "orders"}, 'allowed is JSON such as {"orders": [0, 1]}; subscribe takes names of topics'),
    ({"paths": "/b"}, 'option paths=\'/b\': allowed is a JSON list of paths such as ["/a", "/b"]; path takes a single one'),
    (
        {"startingTimestamp": "2026-01-01"},
        "option startingTimestamp='2026-01-01': allowed are milliseconds since 1970; in UTC that is 1767225600000",
    ),
    ({"endingTimestamp": "2026-01-01T12:00:00+01:00"}, "milliseconds since 1970; that is 1767265200000"),
]


@pytest.mark.parametrize(("options", "message"), SLIPS)
def test_a_misspelt_option_is_answered_with_the_allowed_words_and_the_nearest(options: dict[str, str], message: str) -> None:
    path = {} if "paths" in options else {"path": "/a"}
    with pytest.raises(SparkSourceError, match="^KAFKALOG_BAD_OPTION: .*" + re.escape(message)):
        parse_options({**path, **options})


@pytest.mark.parametrize("scheme", ["file:", "file://", "FILE://localhost"])
def test_a_file_uri_is_a_path_like_any_other(folder: Path, scheme: str) -> None:
    parsed = parse_options({"path": f"{scheme}{folder}"})
    assert parsed.paths == (str(folder),)
    assert plan_splits(parsed, 1) == plan(folder)


@pytest.mark.parametrize(("options", "message"), BAD)
def test_a_bad_option_is_named_with_its_value_and_what_is_allowed(options: dict[str, str], message: str) -> None:
    with pytest.raises(SparkSourceError, match="^KAFKALOG_BAD_OPTION: .*" + re.escape(message)):
        for_batch(parse_options(options))


BAD_IN_STREAMS: list[tuple[dict[str, str], str]] = [
    ({"endingOffsets": "latest"}, "option endingOffsets='latest': not allowed in a stream"),
    ({"endingTimestamp": "5"}, "option endingTimestamp='5': not allowed in a stream"),
    ({"endingOffsetsByTimestamp": '{"t":{"0":5}}'}, "option endingOffsetsByTimestamp="),
    ({"table": "batches"}, "option table='batches': not allowed in a stream; allowed is records"),
    ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger='0': allowed is a whole number above 0"),
    ({"maxBytesPerTrigger": "1k"}, "option maxBytesPerTrigger='1k'"),
    ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "option minOffsetsPerTrigger=6: not allowed above maxOffsets"),
    ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay='soon': allowed is a time such as 30s"),
    ({"upTo": "now"}, "option upTo='now': allowed are logEnd, highWatermark"),
]


@pytest.mark.parametrize(("options", "message"), BAD_IN_STREAMS)
def test_a_bad_option_of_a_stream_is_named_with_its_value_and_what_is_allowed(options: dict[str, str], message: str) -> None:
    with pytest.raises(SparkSourceError, match="^KAFKALOG_BAD_OPTION: .*" + re.escape(message)):
        for_stream(parse_options({"path": "/a", **options}))


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("10S", 10), ("250", 0.25), ("250ms", 0.25), ("2h", 7200)])
def test_the_trigger_delay_is_a_time_as_spark_writes_it(text: str, seconds: float) -> None:
    assert parse_options({"path": "/a", "maxTriggerDelay": text}).admission.max_delay_seconds == seconds


def test_options_of_brokers_and_streams_are_accepted(caplog: pytest.LogCaptureFixture) -> None:
    options = {"path": "/a", "kafka.bootstrap.servers": "x:9092", "groupIdPrefix": "g", "maxOffsetsPerTrigger": "5"}
    for_batch(parse_options(options))
    assert "maxOffsetsPerTrigger has no effect on a batch read" in caplog.text


def heavy_after(program: str) -> Iterator[str]:
    program += "\nimport sys\nsys.stdout.write(' '.join(sys.modules))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    loaded = {name.partition(".")[0] for name in child.stdout.split()}
    return iter(sorted(loaded & {"numba", "pyarrow", "pyspark", "pandas"}))


def test_planning_and_the_shim_load_neither_numba_nor_arrow_nor_spark(folder: Path) -> None:
    program = f"""
import kafkalog.spark, pyspark_kafkalog
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import plan_splits
assert len(plan_splits(parse_options({{"path": {str(folder)!r}, "maxPartitionBytes": "4000"}}))) > 8
"""
    assert list(heavy_after(program)) == []
