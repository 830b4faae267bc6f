"""Scenarios of the suites of Spark's own Kafka source, over files: batch reads (`tests/parity/data/spark.toml`)."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import plan_splits
from tests.builders.small_logs import FIRST_TIME, compress, made_batch, write_segment

Ranges = dict[str, tuple[int, int]]


def offsets_json(offsets: dict[str, int]) -> str:
    return json.dumps({topic: {"0": offset} for topic, offset in offsets.items()})


def divided(folder: Path, ranges: Ranges, **options: int) -> list[tuple[str, int, int]]:
    """The ranges of offsets that tasks read, of topics that have one partition each."""
    for topic, (_, stop) in ranges.items():
        records = [Record(offset, FIRST_TIME, None, b"", ()) for offset in sorted({0, max(stop - 1, 0)})]
        write_segment(folder / f"{topic}-0", 0, encode_batch(records, compress=compress))
    given = {
        "path": str(folder),
        "startingOffsets": offsets_json({topic: start for topic, (start, _) in ranges.items()}),
        "endingOffsets": offsets_json({topic: stop for topic, (_, stop) in ranges.items()}),
        **{name: str(value) for name, value in options.items()},
    }
    parts = [part for split in plan_splits(parse_options(given), 1) for part in split.parts]
    return [(part.topic, part.start_offset, part.stop_offset) for part in parts]


def ranges_of(topic: str, *edges: int) -> list[tuple[str, int, int]]:
    return [(topic, start, stop) for start, stop in itertools.pairwise(edges)]


DIVISIONS: dict[str, tuple[Ranges, dict[str, int], list[tuple[str, int, int]]]] = {
    "nothing asked": ({"a": (1, 2)}, {}, ranges_of("a", 1, 2)),
    "nothing asked, an empty range": ({"a": (1, 2), "b": (1, 1)}, {}, ranges_of("a", 1, 2)),
    "as many as there are": (
        {"a": (1, 2), "b": (1, 2), "c": (1, 2)},
        {"minPartitions": 3},
        [("a", 1, 2), ("b", 1, 2), ("c", 1, 2)],
    ),
    "one into four": ({"a": (1, 5)}, {"minPartitions": 4}, ranges_of("a", 1, 2, 3, 4, 5)),
    "a small and a large one": (
        {"a": (1, 5), "b": (1, 21)},
        {"minPartitions": 4},
        [("a", 1, 5), *ranges_of("b", 1, 7, 14, 21)],
    ),
    "an empty and a large one": (
        {"a": (1, 1), "b": (1, 21)},
        {"minPartitions": 4},
        ranges_of("b", 1, 6, 11, 16, 21),
    ),
    "a tiny and a huge one": (
        {"a": (1, 2), "b": (1, 1001)},
        {"minPartitions": 4},
        [("a", 1, 2), *ranges_of("b", 1, 334, 667, 1001)],
    ),
    "fewer than there are": ({"a": (1, 5), "b": (1, 21)}, {"minPartitions": 1}, [("a", 1, 5), ("b", 1, 21)]),
    "no exact multiple": ({"a": (1, 11)}, {"minPartitions": 3}, ranges_of("a", 1, 4, 7, 11)),
    "two sizes and an empty one": (
        {"a": (1, 5), "b": (1, 21), "c": (1, 1)},
        {"minPartitions": 4},
        [("a", 1, 5), *ranges_of("b", 1, 7, 14, 21)],
    ),
    "no offset is dropped": (
        {"a": (0, 10), "b": (0, 10), "c": (0, 1)},
        {"minPartitions": 6},
        [*ranges_of("a", 0, 3, 6, 10), *ranges_of("b", 0, 3, 6, 10), ("c", 0, 1)],
    ),
    "three large ones": (
        {"a": (0, 10000), "b": (0, 15000), "c": (0, 20000)},
        {"minPartitions": 9},
        [
            *ranges_of("a", 0, 5000, 10000),
            *ranges_of("b", 0, 5000, 10000, 15000),
            *ranges_of("c", 0, 5000, 10000, 15000, 20000),
        ],
    ),
    "one small and two large ones": (
        {"a": (0, 500), "b": (0, 12000), "c": (0, 15001)},
        {"minPartitions": 6},
        [("a", 0, 500), *ranges_of("b", 0, 6000, 12000), *ranges_of("c", 0, 5000, 10000, 15001)],
    ),
    "two small and a large one": (
        {"a": (0, 1), "b": (0, 1), "c": (0, 10000)},
        {"minPartitions": 6},
        [("a", 0, 1), ("b", 0, 1), *ranges_of("c", 0, 2500, 5000, 7500, 10000)],
    ),
    "at most four, four there": ({"a": (1, 5)}, {"maxRecordsPerPartition": 4}, ranges_of("a", 1, 5)),
    "at most four, five there": ({"a": (1, 6)}, {"maxRecordsPerPartition": 4}, ranges_of("a", 1, 3, 6)),
    "at most twenty of each": (
        {"a": (1, 40), "b": (1, 50), "c": (1, 60)},
        {"maxRecordsPerPartition": 20},
        [*ranges_of("a", 1, 20, 40), *ranges_of("b", 1, 17, 33, 50), *ranges_of("c", 1, 20, 40, 60)],
    ),
    "at most twenty, at least one task": (
        {"a": (1, 40)},
        {"minPartitions": 1, "maxRecordsPerPartition": 20},
        ranges_of("a", 1, 20, 40),
    ),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_offsets_are_divided_as_by_sparks_own_calculator(tmp_path: Path, name: str) -> None:
    ranges, options, expected = DIVISIONS[name]
    assert divided(tmp_path, ranges, **options) == expected


def test_at_most_twenty_and_at_least_four_tasks_keeps_both_promises(tmp_path: Path) -> None:
    found = divided(tmp_path, {"a": (1, 40)}, minPartitions=4, maxRecordsPerPartition=20)
    assert len(found) >= 4
    assert (found[0][1], found[-1][2]) == (1, 40)
    assert all(before[2] == after[1] for before, after in itertools.pairwise(found))
    assert max(stop - start for _, start, stop in found) <= 20


def test_earliest_and_latest_are_divided_by_the_offsets_that_are_there(tmp_path: Path) -> None:
    write_segment(tmp_path / "a-0", 0, made_batch(0, 4))
    splits = plan_splits(parse_options({"path": str(tmp_path), "minPartitions": "3"}), 1)
    parts = [part for split in splits for part in split.parts]
    assert len(parts) == 3
    assert [part.start_offset for part in parts] == [0, 1, 2]


# -- options -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", [str.lower, str.upper, str.title])
def test_options_are_found_whatever_their_case(spelled: Callable[[str], str]) -> None:
    parsed = parse_options({"Path": "/a", spelled("startingOffsets"): '{"t":{"0":23}}', spelled("includeHeaders"): "TRUE"})
    assert (parsed.starting.at, parsed.include_headers) == ({("t", 0): 23}, True)


def test_earliest_and_latest_are_understood_whatever_their_case() -> None:
    parsed = parse_options({"path": "/a", "startingOffsets": "earLiEst", "endingOffsets": "laTest"})
    assert (parsed.starting.kind, parsed.ending.kind) == ("earliest", "latest")


def test_the_name_of_a_topic_keeps_its_case() -> None:
    assert parse_options({"path": "/a", "startingOffsets": '{"topic-A":{"0":23}}'}).starting.at == {("topic-A", 0): 23}


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "read_uncommitted"), ("read_uncommitted", "read_uncommitted"), ("read_committed", "read_committed")],
)
def test_the_isolation_level_is_that_of_a_consumer(given: str | None, expected: str) -> None:
    options = {} if given is None else {"kafka.isolation.level": given}
    assert parse_options({"path": "/a", **options}).isolation == expected


def refusal(path: Path | str, **options: Any) -> str:
    with pytest.raises(SparkSourceError) as caught:
        plan_splits(parse_options({"path": str(path), **{name: str(value) for name, value in options.items()}}), 1)
    return str(caught.value)


def test_an_unknown_isolation_level_is_refused() -> None:
    assert "kafka.isolation.level='dirty'" in refusal("/a", **{"kafka.isolation.level": "dirty"})


@pytest.mark.parametrize(
    "option",
    ["auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer"],
)
def test_settings_of_a_consumer_that_sparks_own_source_sets_itself_are_refused(option: str) -> None:
    assert f"option kafka.{option}='x': not allowed" in refusal("/a", **{f"kafka.{option}": "x"})


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern", "assign"])
def test_an_empty_choice_of_topics_is_refused(option: str) -> None:
    assert f"option {option}=''" in refusal("/a", **{option: ""})


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A topic of three partitions, two records in each."""
    for partition in range(3):
        write_segment(tmp_path / f"t-{partition}", 0, made_batch(0, 2))
    return tmp_path


def everywhere(number: int, count: int = 3) -> str:
    return json.dumps({"t": {str(partition): number for partition in range(count)}})


@pytest.mark.parametrize("named", [2, 4])
@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
def test_fewer_or_more_partitions_than_are_read_are_refused(three: Path, option: str, named: int) -> None:
    message = refusal(three, subscribe="t", **{option: everywhere(0 if option == "startingOffsets" else FIRST_TIME, named)})
    assert f"option {option}: it must name exactly the partitions that are read" in message
    assert f"Named: t-0, t-1{', t-2, t-3' if named == 4 else ''}; read: t-0, t-1, t-2" in message


def test_start_and_end_must_name_the_same_partitions(three: Path) -> None:
    message = refusal(three, subscribe="t", startingOffsets=everywhere(1), endingOffsets=everywhere(0, 2))
    assert "option endingOffsets: it must name exactly" in message


def test_a_start_after_the_end_is_refused(three: Path) -> None:
    message = refusal(three, subscribe="t", startingOffsets=everywhere(1), endingOffsets=everywhere(0))
    assert "t-0 would start at 1, after its end at 0" in message


def test_a_start_after_the_end_that_a_timestamp_gives_is_refused(three: Path) -> None:
    message = refusal(three, subscribe="t", startingOffsets=everywhere(2), endingOffsetsByTimestamp=everywhere(FIRST_TIME + 1))
    assert "t-0 would start at 2, after its end at 1" in message


def test_a_start_after_the_end_of_the_log_is_refused(three: Path) -> None:
    assert "KAFKALOG_DATA_LOSS: option startingOffsets: t-0 has the offsets 0 to 2, not 3" in refusal(
        three, subscribe="t", startingOffsets=everywhere(3)
    )


# -- data loss ---------------------------------------------------------------------------------------------------------------


def removed_by_retention(folder: Path) -> Path:
    """Offsets 0 to 49 in five segments; retention removed the first two."""
    for base in range(0, 50, 10):
        write_segment(folder / "t-0", base, made_batch(base))
    for base in (0, 10):
        (folder / "t-0" / f"{base:020}.log").unlink()
    return folder


def test_a_read_of_records_that_retention_removed_fails(tmp_path: Path) -> None:
    message = refusal(removed_by_retention(tmp_path), startingOffsets=everywhere(0, 1))
    assert re.search(r"^KAFKALOG_DATA_LOSS: .* t-0 has the offsets 20 to 50, not 0", message)


# -- in a session ------------------------------------------------------------------------------------------------------------


def values(frame: Any) -> list[str]:
    return [row[0] for row in frame.selectExpr("CAST(value AS STRING)").collect()]


def test_without_data_loss_as_a_failure_what_is_left_comes_once(tmp_path: Path, load: Any) -> None:
    folder = removed_by_retention(tmp_path)
    frame = load(folder, startingOffsets=everywhere(0, 1), failOnDataLoss=False, minPartitions=4)
    assert values(frame) == [f"value-{offset}" for offset in range(20, 50)]


def test_a_frame_can_be_used_twice_in_a_query(three: Path, load: Any) -> None:
    frame = load(three, subscribe="t", startingOffsets="earliest", endingOffsets="latest")
    assert sorted(values(frame.union(frame))) == sorted(["value-0", "value-1"] * 6)


def test_a_new_load_starts_where_the_log_starts_by_then(tmp_path: Path, load: Any) -> None:
    write_segment(tmp_path / "t-0", 0, made_batch(0))
    assert values(load(tmp_path)) == [f"value-{offset}" for offset in range(10)]
    (tmp_path / "t-0" / f"{0:020}.log").unlink()
    write_segment(tmp_path / "t-0", 10, made_batch(10))
    assert values(load(tmp_path)) == [f"value-{offset}" for offset in range(10, 20)]


def test_a_topic_that_was_deleted_is_gone_with_the_next_load(three: Path, load: Any) -> None:
    assert load(three, subscribePattern="t").count() == 6
    shutil.rmtree(three / "t-1")
    assert load(three, subscribePattern="t").count() == 4


def test_null_keys_and_values_are_null_and_empty_ones_empty(tmp_path: Path, load: Any) -> None:
    cells = [(None, b"v"), (b"k", None), (None, None), (b"", b"")]
    records = [Record(offset, FIRST_TIME, key, value, ()) for offset, (key, value) in enumerate(cells)]
    write_segment(tmp_path / "t-0", 0, encode_batch(records, compress=compress))
    rows = load(tmp_path).select("key", "value").collect()
    assert [tuple(None if cell is None else bytes(cell) for cell in row) for row in rows] == cells


def test_a_timestamp_that_spark_cannot_hold_is_named_with_its_record(tmp_path: Path, load: Any) -> None:
    nanoseconds = 1_712_345_678_123_456_789
    records = [Record(0, FIRST_TIME, None, b"", ()), Record(1, nanoseconds, None, b"", ())]
    write_segment(tmp_path / "t-0", 0, encode_batch(records, compress=compress))
    with pytest.raises(Exception, match="KAFKALOG_BAD_TIMESTAMP") as caught:
        load(tmp_path).collect()
    assert "topic t, partition 0, offset 1: its timestamp is out of range for Spark" in str(caught.value)
    assert [row.timestamp is None for row in load(tmp_path, mode="PERMISSIVE").collect()] == [False, True]
    rows = load(tmp_path, "timestamp bigint, offset bigint").collect()
    assert [tuple(row) for row in rows] == [(FIRST_TIME, 0), (nanoseconds, 1)]
