"""The pipeline without a cluster: the rows it ingests, those it leaves to the next run, and how it fails."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from kafkalog.format.checkpoint import PartitionMetadata, encode_partition_metadata
from kafkalog.format.reference import Record, encode_batch, encode_message
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import manifest
from kafkalog.spark.ingestion import task_writing as writing
from kafkalog.spark.ingestion.layout import escaped, folder_of, split_by_time
from kafkalog.spark.ingestion.lease import LEASE
from tests.builders.small_logs import made_batch, marker, transactional_batch, write_segment
from tests.spark.ingested import check_manifest, commits, damaged_rows, data_files, read_logs, read_table, take, write_orders
from tests.storage import test_object_store as server

bucket = server.bucket
DAY = 24 * 3600 * 1000


def append(folder: Path, base_offset: int, *entries: bytes) -> None:
    with (folder / f"{base_offset:020}.log").open("ab") as file:
        file.write(b"".join(entries))


def other_batch(first_offset: int, count: int) -> bytes:
    """A batch for the same offsets as `made_batch`, with other values."""
    offsets = range(first_offset, first_offset + count)
    return encode_batch([Record(offset, 1_700_000_000_000, b"key", b"other") for offset in offsets])


def offsets(target: Path) -> list[int]:
    return sorted(row[0] for row in read_table(target, ["offset"]))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 in two segments, orders-1 and payments-0."""
    folder = write_orders(tmp_path / "logs")
    write_segment(folder / "payments-0", 0, made_batch(0))
    return folder


# -- rows --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["0.8.2.2", "1.1.1", "4.3.0"])
def test_real_logs_become_the_same_rows(era: str, golden: Any, target: Path) -> None:
    source = golden(era) / era
    summary = take(source, target, headers=True, options={"includeInternalTopics": "true"})
    assert summary.records > 1000
    assert read_table(target, ["topic", "offset", "key", "value", "timestamp"]) == read_logs(
        source, ["topic", "offset", "key", "value", "timestamp"]
    )
    check_manifest(target)


def test_tasks_of_any_size_give_the_same_rows(golden: Any, tmp_path: Path) -> None:
    source = golden("4.3.0") / "4.3.0"
    whole = take(source, tmp_path / "whole")
    parts = take(source, tmp_path / "parts", task_bytes=3000, file_bytes=2000)
    assert parts.tasks > 10 * whole.tasks
    assert read_table(tmp_path / "parts") == read_table(tmp_path / "whole")


def test_read_committed_takes_what_a_committed_consumer_sees(golden: Any, target: Path) -> None:
    source = golden("4.3.0") / "4.3.0"
    take(source, target, isolation="read_committed")
    assert read_table(target) == [row for row in read_logs(source, isolation="read_committed") if not row[0].startswith("__")]


def test_spark_reads_seven_columns_and_the_day(logs: Path, target: Path, spark: Any) -> None:
    take(logs, target, headers=True, metadata=True)
    frame = spark.read.parquet(str(target))
    assert frame.count() == 130
    assert {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "day"} < set(frame.columns)
    row = frame.where("topic = 'orders' AND partition = 0 AND offset = 42").collect()[0]
    assert (bytes(row.value), row.day, row.base_offset) == (b"value-42", date(2023, 11, 14), 40)


def test_records_of_several_days_and_without_a_time_lie_in_their_folders(tmp_path: Path, target: Path, spark: Any) -> None:
    times = [DAY * 3, DAY * 2 + 1, DAY * 3 + 1, -1, DAY * 2]
    records = [Record(number, time, None, b"v") for number, time in enumerate(times)]
    old = encode_message(Record(5, -1, None, b"old"), magic=0)
    write_segment(tmp_path / "a=b", 0, encode_batch(records[:3]), encode_batch(records[3:]), old)
    take(tmp_path / "a=b", target)
    folders = {path.parent.relative_to(target).as_posix() for path in data_files(target)}
    assert folders == {f"topic=a%3Db/day={day}" for day in ("1970-01-03", "1970-01-04", "__HIVE_DEFAULT_PARTITION__")}
    rows = {row.offset: (row.topic, str(row.day)) for row in spark.read.parquet(str(target)).collect()}
    days = ["1970-01-04", "1970-01-03", "1970-01-04", "None", "1970-01-03", "None"]
    assert rows == {offset: ("a=b", day) for offset, day in enumerate(days)}


def test_hours_are_folders_below_days(logs: Path, target: Path) -> None:
    take(logs, target, by="hour")
    assert {path.parent.relative_to(target / "topic=payments").as_posix() for path in data_files(target / "topic=payments")} == {
        "day=2023-11-14/hour=22"
    }


def test_times_beyond_every_calendar_have_no_day() -> None:
    import pyarrow as pa

    times = pa.array([253402300800000, -62135596800001, None, 0], pa.timestamp("ms", tz="UTC"))
    batch = pa.record_batch([times], ["timestamp"])
    found = {folder_of(bucket, "day"): rows.num_rows for bucket, rows in split_by_time(batch, "day")}
    assert found == {"day=__HIVE_DEFAULT_PARTITION__": 3, "day=1970-01-01": 1}


def test_small_partitions_of_a_topic_share_a_file(tmp_path: Path, target: Path) -> None:
    for number in range(20):
        write_segment(tmp_path / "logs" / f"orders-{number}", 0, made_batch(0))
    summary = take(tmp_path / "logs", target)
    assert (summary.files, summary.records) == (1, 200)
    assert commits(target)[0]["files"][0]["offsets"]["19"] == [0, 9]


def test_many_days_at_once_hold_few_files_open(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OPEN_FILES", 3)
    records = [Record(offset, (offset * 7 % 30) * DAY, None, b"%d" % offset) for offset in range(300)]
    write_segment(tmp_path / "logs" / "a-0", 0, *(encode_batch(records[at : at + 10]) for at in range(0, 300, 10)))
    take(tmp_path / "logs", target)
    assert offsets(target) == list(range(300))
    check_manifest(target)


def test_topics_are_escaped_as_spark_unescapes_them() -> None:
    assert escaped("a/b:c%d é") == "a%2Fb%3Ac%25d é"


def test_topics_with_an_underscore_in_front_are_not_hidden_from_readers(tmp_path: Path, target: Path, spark: Any) -> None:
    write_segment(tmp_path / "logs" / "_own-0", 0, made_batch(0))
    take(tmp_path / "logs", target)
    assert spark.read.parquet(str(target)).where("topic = '_own'").count() == 10


# -- new records -------------------------------------------------------------------------------------------------------------


def test_a_second_run_takes_only_what_is_new(logs: Path, target: Path) -> None:
    assert take(logs, target).records == 130
    assert take(logs, target).commit is None
    append(logs / "orders-0", 100, made_batch(110), made_batch(120))
    write_segment(logs / "orders-0", 130, made_batch(130))
    write_segment(logs / "new-0", 0, made_batch(0))
    summary = take(logs, target)
    assert {(part.topic, part.partition): (part.start_offset, part.stop_offset) for part in summary.partitions} == {
        ("orders", 0): (110, 140),
        ("new", 0): (0, 10),
    }
    assert (summary.commit, summary.records) == (2, 40)
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


def test_a_run_with_nothing_new_starts_no_spark_and_reads_no_log(
    logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(logs, target)
    monkeypatch.setattr("kafkalog.log.partition.Partition.open_log", None)
    assert take(logs, target, master="spark://nowhere:1").commit is None


def test_a_torn_tail_is_taken_when_it_is_whole(logs: Path, target: Path) -> None:
    batch = made_batch(110)
    append(logs / "orders-0", 100, batch[:50])
    assert take(logs, target).damaged_ranges == 0
    append(logs / "orders-0", 100, batch[50:])
    assert take(logs, target).records == 10
    assert damaged_rows(target) == []
    assert read_table(target) == read_logs(logs)


def test_an_end_inside_a_batch_is_where_the_next_run_continues(logs: Path, target: Path) -> None:
    for stop in (37, 37, 41, 105):
        ending = json.dumps({"orders": {"0": stop, "1": -1}})
        take(logs, target, options={"subscribe": "orders", "endingOffsets": ending}, task_bytes=500)
        assert max(row[1] for row in read_table(target, ["partition", "offset"]) if row[0] == 0) == stop - 1
    take(logs, target)
    assert read_table(target) == read_logs(logs)


def test_starting_offsets_count_for_new_partitions_only(logs: Path, target: Path) -> None:
    first = {"subscribe": "orders", "startingOffsets": '{"orders":{"0":95,"1":-2}}'}
    assert take(logs, target, options=first).records == 25
    append(logs / "orders-0", 100, made_batch(110))
    assert take(logs, target, options=first).records == 10


def test_an_open_transaction_holds_back_what_follows_until_it_ends(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "logs" / "txn-0"
    write_segment(folder, 0, made_batch(0), transactional_batch(10, 5, producer_id=7), made_batch(15))
    assert take(tmp_path / "logs", target, isolation="read_committed").records == 10
    assert take(tmp_path / "logs", target, isolation="read_committed").commit is None
    append(folder, 0, marker(25, 7, commit=True))
    assert take(tmp_path / "logs", target, isolation="read_committed").records == 15
    assert take(tmp_path / "logs", target, isolation="read_committed").commit is None
    assert offsets(target) == list(range(25))


def test_retention_that_takes_only_a_marker_away_is_no_loss(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "logs" / "txn-0"
    write_segment(folder, 0, transactional_batch(0, 5, producer_id=7), marker(5, 7, commit=True))
    take(tmp_path / "logs", target)
    (folder / f"{0:020}.log").unlink()
    write_segment(folder, 6, made_batch(6))
    assert take(tmp_path / "logs", target).gaps == ()
    assert offsets(target) == [*range(5), *range(6, 16)]


# -- loss --------------------------------------------------------------------------------------------------------------------


def test_offsets_that_retention_removed_are_an_error_or_a_recorded_gap(logs: Path, target: Path) -> None:
    ending = {"subscribe": "orders", "endingOffsets": '{"orders":{"0":50,"1":-1}}'}
    take(logs, target, options=ending)
    (logs / "orders-0" / f"{0:020}.log").unlink()
    with pytest.raises(SparkSourceError, match="KAFKALOG_DATA_LOSS: orders-0 was ingested up to offset 50, but the log now"):
        take(logs, target)
    summary = take(logs, target, on_data_loss="continue")
    assert [(gap.start_offset, gap.stop_offset, gap.reason) for gap in summary.gaps] == [(50, 100, "removed")]
    assert commits(target)[-1]["gaps"][0]["stop_offset"] == 100
    taken = sorted(row[1] for row in read_table(target, ["partition", "offset", "topic"]) if row[::2] == (0, "orders"))
    assert taken == [*range(50), *range(100, 110)]
    assert take(logs, target).commit is None


def test_a_topic_created_again_by_an_old_broker_is_another_generation(logs: Path, target: Path) -> None:
    """Before 2.8 no topic id says so; the existing records show it."""
    take(logs, target)
    shutil.rmtree(logs / "orders-0")
    write_segment(logs / "orders-0", 0, other_batch(0, 5))
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_DATA_LOSS: orders-0 .* deleted and created again"):
        take(logs, target)
    before = len(data_files(target))
    assert take(logs, target, on_data_loss="continue").records == 5
    assert len(data_files(target)) == before + 1
    again = [row for row in read_table(target, ["partition", "generation", "offset", "value"]) if row[1] == 1]
    assert again == [(0, 1, offset, b"other") for offset in range(5)]
    check_manifest(target)


def test_a_topic_with_another_id_is_another_topic(logs: Path, target: Path) -> None:
    def identify(letter: str) -> None:
        content = encode_partition_metadata(PartitionMetadata(0, letter * 21 + "A"))
        (logs / "orders-0" / "partition.metadata").write_bytes(content)

    identify("a")
    take(logs, target)
    identify("b")
    append(logs / "orders-0", 100, made_batch(110))
    with pytest.raises(SparkSourceError, match="the topic was deleted and created again"):
        take(logs, target)


def test_a_segment_that_cannot_be_had_now_is_not_passed_over(logs: Path, target: Path) -> None:
    """A link may lead nowhere."""
    path = logs / "orders-0" / f"{0:020}.log"
    path.rename(logs / "elsewhere")
    path.symlink_to("nowhere")
    left = take(logs, target)
    assert [str(path) in text for text in left.unreadable] == [True]
    path.unlink()
    (logs / "elsewhere").rename(path)
    assert left.records + take(logs, target).records == 130


# -- damage ------------------------------------------------------------------------------------------------------------------


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("position", [9, 80], ids=["a length", "a value"])
@pytest.mark.parametrize("task_bytes", [None, 300])
def test_a_damaged_batch_is_set_aside_once_and_the_rest_is_taken(
    logs: Path, target: Path, position: int, task_bytes: int | None
) -> None:
    batch = len(made_batch(30))
    start = sum(len(made_batch(offset)) for offset in (0, 10, 20))
    flip(logs / "orders-0" / f"{0:020}.log", start + position)
    summary = take(logs, target, task_bytes=task_bytes)
    assert (summary.records, summary.damaged_ranges, summary.damaged_bytes) == (120, 1, batch)
    append(logs / "orders-0", 100, made_batch(110))
    take(logs, target, task_bytes=task_bytes)
    (row,) = damaged_rows(target)
    assert (row["topic"], row["partition"], row["position"], row["length"]) == ("orders", 0, start, batch)
    assert len(row["bytes"]) == batch
    assert read_table(target) == read_logs(logs, on_damage="salvage")


def test_damage_in_the_newest_segment_is_reported_once_however_far_each_run_goes(logs: Path, target: Path) -> None:
    for base in range(110, 200, 10):
        append(logs / "orders-0", 100, made_batch(base))
    path = logs / "orders-0" / f"{100:020}.log"
    flip(path, len(made_batch(100)) * 2 + 9)  # a length: a walk over the headers ends here
    for stop in (112, 117, 150, 200):
        ending = json.dumps({"orders": {"0": min(stop, 120), "1": -1}}) if stop < 150 else ""
        choices = {"options": {"subscribe": "orders", "endingOffsets": ending}} if ending else {}
        take(logs, target, **choices)
    append(logs / "orders-0", 100, made_batch(200))
    take(logs, target)
    assert len(damaged_rows(target)) == 1
    assert read_table(target) == read_logs(logs, on_damage="salvage")


def test_a_lying_header_at_the_end_does_not_hide_what_comes_later(logs: Path, target: Path) -> None:
    path = logs / "orders-0" / f"{100:020}.log"
    append(logs / "orders-0", 100, made_batch(110))
    flip(path, len(made_batch(100)) + 23)  # its last offset: far beyond
    assert take(logs, target).damaged_ranges == 1
    append(logs / "orders-0", 100, made_batch(120))
    assert take(logs, target).records == 10
    assert read_table(target) == read_logs(logs, on_damage="salvage")


def test_damage_before_a_torn_tail_is_reported_when_the_tail_is_settled(logs: Path, target: Path) -> None:
    """Until then nobody can say where it ends; the tail must not be set aside with it."""
    path = logs / "orders-0" / f"{100:020}.log"
    batch = made_batch(120)
    append(logs / "orders-0", 100, made_batch(110), batch[:50])
    flip(path, len(made_batch(100)) + 80)
    assert take(logs, target).damaged_ranges == 0
    append(logs / "orders-0", 100, batch[50:])
    assert take(logs, target).damaged_ranges == 1
    (row,) = damaged_rows(target)
    assert (row["position"], row["length"]) == (len(made_batch(100)), len(made_batch(110)))
    assert read_table(target) == read_logs(logs, on_damage="salvage")


def test_damage_that_continues_where_the_last_run_ended_is_reported_from_there(logs: Path, target: Path) -> None:
    path = logs / "orders-0" / f"{100:020}.log"
    batch = len(made_batch(110))
    append(logs / "orders-0", 100, made_batch(110))
    flip(path, len(made_batch(100)) + 80)
    assert take(logs, target).damaged_bytes == batch
    append(logs / "orders-0", 100, made_batch(120), made_batch(130))
    flip(path, len(made_batch(100)) + batch + 80)
    assert take(logs, target).damaged_bytes == batch
    rows = damaged_rows(target)
    assert [row["position"] for row in rows] == [len(made_batch(100)), len(made_batch(100)) + batch]
    assert read_table(target) == read_logs(logs, on_damage="salvage")


def test_damage_before_a_cut_between_tasks_is_reported(tmp_path: Path, target: Path) -> None:
    batches = [made_batch(offset) for offset in range(0, 200, 10)]
    path = write_segment(tmp_path / "logs" / "orders-0", 0, *batches, indexed=range(1, 20))
    for number in range(1, 18, 2):
        flip(path, sum(map(len, batches[:number])) + 11)
    summary = take(tmp_path / "logs", target, task_bytes=300)
    assert summary.tasks > 5
    assert summary.damaged_bytes == sum(len(batches[number]) for number in range(1, 18, 2))
    assert read_table(target) == read_logs(tmp_path / "logs", on_damage="salvage")


def test_strict_takes_nothing_from_a_damaged_log(logs: Path, target: Path) -> None:
    flip(logs / "orders-0" / f"{0:020}.log", 80)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_CORRUPT_BATCH: .*orders-0.* reason=crc"):
        take(logs, target, on_damage="fail")
    assert data_files(target) == []
    assert commits(target) == []


# -- values ------------------------------------------------------------------------------------------------------------------


def write_values(folder: Path, base_offset: int, *values: bytes | None) -> None:
    records = [Record(base_offset + number, DAY, None, value) for number, value in enumerate(values)]
    write_segment(folder, base_offset, encode_batch(records))


def test_json_values_become_a_struct_and_what_does_not_decode_is_kept(tmp_path: Path, target: Path, spark: Any) -> None:
    write_values(tmp_path / "logs" / "a-0", 0, b'{"id":1,"name":"x"}', b"broken", None)
    summary = take(tmp_path / "logs", target, value="json")
    assert (summary.records, summary.undecoded) == (3, 1)
    assert commits(target)[0]["settings"]["value"]["schema"] == "id bigint, name string"
    # The schema of the first run stays: it lacks a new field, so the value is kept whole.
    write_values(tmp_path / "logs" / "a-0", 3, b'{"id":2}', b'{"id":3,"more":true}')
    assert take(tmp_path / "logs", target, value="json").undecoded == 1
    rows = {row.offset: row for row in spark.read.parquet(str(target)).collect()}
    assert [rows[offset].value and rows[offset].value.id for offset in range(5)] == [1, None, None, 2, None]
    assert [rows[offset].value_raw for offset in (0, 1, 2, 4)] == [None, b"broken", None, b'{"id":3,"more":true}']
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*earlier runs had value="):
        take(tmp_path / "logs", target)


def test_a_given_schema_holds_and_raw_values_are_kept_on_request(tmp_path: Path, target: Path) -> None:
    write_values(tmp_path / "logs" / "a-0", 0, b'{"id":1,"name":"x"}')
    take(tmp_path / "logs", target, value="json", schema="id long", keep_raw=True)
    assert read_table(target, ["value", "value_raw"]) == [({"id": 1}, b'{"id":1,"name":"x"}')]
    assert take(tmp_path / "logs", target, value="json", schema="`id` bigint", keep_raw=True).commit is None


# -- the protocol ------------------------------------------------------------------------------------------------------------


class Died(BaseException):
    """Stands for a kill: nothing catches it, and nothing is cleaned up after it."""


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_published_run_is_completed_by_the_next(logs: Path, target: Path, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename
    done: list[str] = []

    def die_at(count: int) -> None:
        if len(done) == count:
            raise Died

    def rename(before: str, after: str, **folders: int) -> None:
        die_at(moved)
        done.append(after)
        real(before, after, **folders)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(shutil, "rmtree", lambda name, dir_fd: die_at(2))
    with pytest.raises(Died):
        take(logs, target)
    monkeypatch.undo()
    assert len(data_files(target)) == moved
    assert take(logs, target).commit is None
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


def test_a_run_that_published_nothing_is_undone_by_the_next(logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*arguments: object) -> None:
        raise Died

    monkeypatch.setattr(manifest.CommitLog, "publish", die)
    with pytest.raises(Died):
        take(logs, target)
    monkeypatch.undo()
    assert list((target / "_kafkalog" / "staging").iterdir())
    assert data_files(target) == []
    assert take(logs, target).commit == 1
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


def test_files_of_a_lost_attempt_are_never_published(logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a retried or speculative task: two attempts write, the result of one counts."""
    from kafkalog.spark.ingestion import executors

    real = writing.write_task
    monkeypatch.setattr(executors, "write_task", lambda task: [real(task) for _ in range(3)][1])
    take(logs, target)
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


def test_a_second_ingest_at_the_same_time_is_refused(logs: Path, target: Path) -> None:
    (target / "_kafkalog").mkdir(parents=True)
    with (target / "_kafkalog" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*another ingest is at work"):
            take(logs, target)
    assert take(logs, target).records == 130


def test_of_two_runs_that_pass_the_lock_one_publishes(logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = manifest.CommitLog.publish

    def after_another(log: manifest.CommitLog, commit: manifest.Commit) -> None:
        (target / manifest.COMMITS).mkdir()
        (target / manifest.commit_path(commit.number)).write_bytes(b"{}")
        real(log, commit)

    monkeypatch.setattr(manifest.CommitLog, "publish", after_another)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*has published"):
        take(logs, target)
    assert data_files(target) == []


@pytest.mark.parametrize("changed", [{"by": "hour"}, {"headers": True}, {"metadata": True}, {"isolation": "read_committed"}])
def test_a_later_run_cannot_change_the_shape_of_the_tables(logs: Path, target: Path, changed: dict[str, Any]) -> None:
    take(logs, target)
    with pytest.raises(SparkSourceError, match=f"KAFKALOG_BAD_TARGET: .*earlier runs had {next(iter(changed))}="):
        take(logs, target, **changed)
    take(logs, target, codec="snappy", file_bytes=1 << 20)


def test_a_higher_level_makes_smaller_files_of_the_same_rows(golden: Any, tmp_path: Path) -> None:
    source = golden("4.3.0") / "4.3.0"
    fast = take(source, tmp_path / "fast")
    small = take(source, tmp_path / "small", level=9)
    assert small.parquet_bytes < fast.parquet_bytes
    assert read_table(tmp_path / "small") == read_table(tmp_path / "fast")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"by": "week"}, "option by='week': allowed are day, hour"),
        ({"codec": "brotli"}, "option codec='brotli': allowed are zstd"),
        ({"level": 23}, "option level=23: allowed for zstd are -100 to 22"),
        ({"codec": "lz4", "level": 1}, "option level=1: lz4 has no levels; zstd and gzip have"),
        ({"file_bytes": 0}, "option file_bytes=0: allowed is a whole number above 0"),
        ({"options": {"mode": "FAILFAST"}}, "option mode='FAILFAST': not an option here; instead there is on_damage"),
        ({"options": {"subscribe": "nope"}}, "no topic 'nope' here"),
    ],
)
def test_a_bad_choice_is_refused_with_what_is_allowed(logs: Path, target: Path, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(SparkSourceError, match="KAFKALOG_BAD_OPTION") as caught:
        take(logs, target, **choices)
    assert message in str(caught.value)


def test_only_spark_s_own_processes_are_spared_the_collection_after_each_task(logs: Path, target: Path, spark: Any) -> None:
    take(logs, target, spark=spark)
    frozen = spark.sparkContext.parallelize(range(8), 8).map(lambda _: gc.get_freeze_count()).collect()
    assert max(frozen) > 10_000
    assert gc.get_freeze_count() == 0


def test_a_target_inside_the_source_is_refused(logs: Path) -> None:
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_OPTION: option target=.* it is inside"):
        take(logs, logs / "tables")


def test_a_commit_that_cannot_be_read_is_named(logs: Path, target: Path) -> None:
    take(logs, target)
    (target / manifest.commit_path(2)).write_text("{}")
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*00002.json: not a commit"):
        take(logs, target)


def test_a_dry_run_writes_nothing(logs: Path, target: Path) -> None:
    summary = take(logs, target, dry_run=True)
    assert summary.dry_run
    assert {(part.topic, part.partition): part.stop_offset for part in summary.partitions}["orders", 0] == 110
    assert not target.exists()


# -- places ------------------------------------------------------------------------------------------------------------------


def test_logs_and_tables_in_an_object_store(logs: Path, bucket: server.Bucket, tmp_path: Path) -> None:
    for path in logs.rglob("*.log"):
        bucket.put(f"ingest/{path.relative_to(logs)}", path.read_bytes())
    assert take("s3://logs/ingest", "s3://logs/tables").records == 130
    assert take("s3://logs/ingest", "s3://logs/tables").commit is None
    take(logs, tmp_path / "local")
    listed = bucket.client.list_objects_v2(Bucket="logs", Prefix="tables/")["Contents"]
    keys = [found["Key"].removeprefix("tables/") for found in listed if found["Size"]]
    expected = [path.relative_to(tmp_path / "local").as_posix() for path in data_files(tmp_path / "local")]
    assert sorted(keys) == sorted([*expected, manifest.commit_path(1), LEASE])


def test_a_spark_session_runs_the_tasks(logs: Path, target: Path, spark: Any) -> None:
    done: list[tuple[int, int]] = []
    summary = take(logs, target, spark=spark, task_bytes=600, on_progress=lambda *counts: done.append(counts))
    assert summary.tasks > 3
    assert done[-1] == (summary.tasks, summary.tasks)
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


def test_the_jobs_of_the_caller_keep_their_group_and_their_description(logs: Path, target: Path, spark: Any) -> None:
    context = spark.sparkContext
    names = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    for given in (("mine", "my jobs", "false"), (None, None, None)):
        for name, value in zip(names, given, strict=True):
            context.setLocalProperty(name, value)
        take(logs, target / str(given[0]), spark=spark)
        assert tuple(map(context.getLocalProperty, names)) == given


def test_an_error_in_a_task_comes_out_of_spark_as_it_is(logs: Path, target: Path, spark: Any) -> None:
    flip(logs / "orders-0" / f"{0:020}.log", 80)
    with pytest.raises(SparkSourceError) as caught:
        take(logs, target, spark=spark, on_damage="fail")
    assert caught.value.code == "KAFKALOG_CORRUPT_BATCH"
    assert "\n" not in str(caught.value)
