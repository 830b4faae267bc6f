"""Where a run of the pipeline ends before the log does, and sources and targets that it refuses."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import StorageError, UsageError
from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark import ingest
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import task_writing as writing
from kafkalog.spark.ingestion.target import is_within
from tests.builders.small_logs import LEFT_BY_COMPACTION, made_batch, write_half_swapped, write_segment
from tests.spark.ingested import data_files, read_logs, read_table, take, write_orders


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_orders(tmp_path / "logs")


def test_an_end_that_was_reached_already_starts_no_spark_and_leaves_no_commit(logs: Path, target: Path) -> None:
    options = {"subscribe": "orders", "endingOffsets": '{"orders":{"0":37,"1":-1}}'}
    assert take(logs, target, options=options).commit == 1
    assert take(logs, target, options=options, master="no such master").commit is None


def test_up_to_the_high_watermark_takes_what_all_replicas_have(logs: Path, target: Path) -> None:
    options = {"assign": '{"orders":[0]}', "upTo": "highWatermark"}

    def take_up_to(offset: int) -> int:
        (logs / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")
        return take(logs, target, options=options).records

    assert [take_up_to(offset) for offset in (40, 43, 43)] == [40, 3, 0]
    (logs / "orders-0" / f"{100:020}.log").write_bytes(b"")  # truncated after it, as a follower truncates: nothing is lost
    assert [take_up_to(offset) for offset in (95, 110)] == [52, 5]
    (logs / "orders-0" / f"{100:020}.log").write_bytes(made_batch(100))
    assert take_up_to(110) == 10
    assert [row for row in read_logs(logs) if row[:2] == ("orders", 0)] == read_table(target)


def test_a_completed_swap_segment_is_ingested_once(tmp_path: Path, target: Path) -> None:
    folder = write_half_swapped(tmp_path / "logs" / "orders-0")
    assert take(tmp_path / "logs", target).records == len(LEFT_BY_COMPACTION)
    for segment in (0, 20):
        (folder / f"{segment:020}.log").unlink(missing_ok=True)
    (folder / f"{0:020}.log.swap").rename(folder / f"{0:020}.log")  # a broker's start
    assert take(tmp_path / "logs", target).commit is None
    assert read_logs(tmp_path / "logs") == read_table(target)


@pytest.mark.parametrize("spelling", ["file://{}/tables", "file:{}/tables", "file://{}/a/../tables"])
def test_a_target_inside_the_source_is_refused_in_any_spelling(logs: Path, spelling: str) -> None:
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_OPTION: option target=.* it is inside"):
        take(logs, spelling.format(logs))
    assert not (logs / "tables").exists()


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("s3a://bucket/logs/out", "s3://bucket/logs", True),
        ("s3://key:secret@bucket/logs/out?region=x", "s3://bucket/logs/?region=x", True),
        ("s3://bucket/logs-out", "s3://bucket/logs", False),
        ("/a", "/", True),
        ("/data/out", "s3://bucket", False),
    ],
)
def test_places_are_compared_however_they_are_spelled(path: str, folder: str, expected: bool) -> None:
    assert is_within(path, folder) is expected


def test_a_target_as_uri_has_spaces_as_a_source_has_them(logs: Path, tmp_path: Path) -> None:
    take(logs, f"file://{tmp_path}/my%20tables")
    assert read_table(tmp_path / "my tables") == read_logs(logs)
    again = take(f"file:{logs}", f"file:{tmp_path}/my%20tables")
    assert (again.target, again.commit) == (str(tmp_path / "my tables"), None)


def test_a_run_that_fails_leaves_no_files_behind(logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise StorageError("no space left on device")

    monkeypatch.setattr(writing.RecordWriter, "close", full)
    with pytest.raises(SparkSourceError, match="no space left"):
        take(logs, target)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["lock"]


def test_tables_that_lost_their_commits_are_not_doubled(logs: Path, target: Path) -> None:
    take(logs, target)
    shutil.rmtree(target / "_kafkalog")
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_TARGET: .*/tables: topic=orders exists, but no commit"):
        take(logs, target)
    assert read_table(target) == read_logs(logs)


def test_an_empty_target_is_not_the_working_folder(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_OPTION: option target='': allowed is a folder"):
        take(logs, "")
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


@pytest.mark.parametrize("master", ["none[0]", "none[x]", "none:2"])
def test_a_mistyped_none_does_not_start_spark(logs: Path, target: Path, master: str) -> None:
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_OPTION: option master='none.*allowed are none, none\[2\]"):
        take(logs, target, master=master)


@pytest.mark.parametrize("choice", [{"schema": "id bigint"}, {"keep_raw": True}, {"registry_prefix": True}])
def test_choices_for_values_that_are_not_decoded_are_refused(logs: Path, target: Path, choice: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="need value='json' or value='avro'"):
        take(logs, target, **choice)


def test_files_end_at_the_size_that_was_asked_for(tmp_path: Path, target: Path) -> None:
    noise = random.Random(1)
    batches = [encode_batch([Record(offset, 0, None, noise.randbytes(400_000))]) for offset in range(100)]
    write_segment(tmp_path / "logs" / "orders-0", 0, *batches)
    take(tmp_path / "logs", target, file_bytes=8 << 20)
    sizes = [path.stat().st_size for path in data_files(target)]
    assert len(sizes) >= 3
    assert max(sizes) < 20 << 20
    assert read_table(target) == read_logs(tmp_path / "logs")


def test_a_partition_given_as_several_files_is_refused(logs: Path, target: Path) -> None:
    for paths in ([f"{0:020}.log", f"{100:020}.log"], ["", f"{0:020}.log"]):
        with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_OPTION: option paths: orders-0 is at "):
            ingest([logs / "orders-0" / path for path in paths], target, master="none")
    assert not data_files(target)
