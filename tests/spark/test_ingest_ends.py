"""Where a run of the pipeline ends before the log does, and which places it cannot take a log from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.spark import ingest
from kafkalog.spark.errors import SparkSourceError
from tests.spark.ingested import data_files, read_logs, read_table, take
from tests.unit.small_logs import LEFT_BY_COMPACTION, made_batch, write_half_swapped, write_segment


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 in two segments, and orders-1."""
    folder = tmp_path / "logs"
    write_segment(folder / "orders-0", 0, *(made_batch(offset) for offset in range(0, 100, 10)), indexed=[4, 7])
    write_segment(folder / "orders-0", 100, made_batch(100))
    write_segment(folder / "orders-1", 0, made_batch(0))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "tables"


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
    (logs / "orders-0" / f"{100:020}.log").write_bytes(b"")  # truncated behind it, as a follower truncates: nothing is lost
    assert [take_up_to(offset) for offset in (95, 110)] == [52, 5]
    (logs / "orders-0" / f"{100:020}.log").write_bytes(made_batch(100))
    assert take_up_to(110) == 10
    assert [row for row in read_logs(logs) if row[:2] == ("orders", 0)] == read_table(target)


def test_what_waits_in_a_swap_file_is_taken_once(tmp_path: Path, target: Path) -> None:
    folder = write_half_swapped(tmp_path / "logs" / "orders-0")
    assert take(tmp_path / "logs", target).records == len(LEFT_BY_COMPACTION)
    for segment in (0, 20):
        (folder / f"{segment:020}.log").unlink(missing_ok=True)
    (folder / f"{0:020}.log.swap").rename(folder / f"{0:020}.log")  # a broker's start
    assert take(tmp_path / "logs", target).commit is None
    assert read_logs(tmp_path / "logs") == read_table(target)


def test_a_partition_given_as_several_files_is_refused(logs: Path, target: Path) -> None:
    for paths in ([f"{0:020}.log", f"{100:020}.log"], ["", f"{0:020}.log"]):
        with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_OPTION: option paths: orders-0 is at "):
            ingest([logs / "orders-0" / path for path in paths], target, master="none")
    assert not data_files(target)
