"""A broker cleans segments between the planning of a read and its tasks: each part finds its offsets again, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.ingestion import task_writing as writing
from tests.builders.small_logs import write_segment
from tests.conftest import require
from tests.living.changing import Row, StreamReader, batch_of, rows_of, table_rows, write_log
from tests.spark.ingested import take


def write_three_segments(folder: Path) -> None:
    write_log(folder, 100)
    for base in (100, 200):
        write_segment(folder, base, *(batch_of(range(first, first + 10)) for first in range(base, base + 100, 10)))


def clean(folder: Path) -> None:
    """The first two segments become one, in which 50 to 99 are left of the first; the old files go."""
    cleaned = [batch_of(range(first, first + 10)) for first in range(50, 200, 10)]
    write_segment(folder, 0, *cleaned).with_suffix(".index").unlink()
    (folder / f"{100:020}.log").unlink()


def planned_rows(reader: Any, parts: list[Any]) -> list[Row]:
    found = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return [(row["offset"], row["value"]) for row in found]


def test_a_micro_batch_whose_segments_were_cleaned_after_planning_reads_each_offset_once(tmp_path: Path) -> None:
    require("pyspark")
    write_three_segments(tmp_path / "orders-0")
    stream = StreamReader(tmp_path, minPartitions="3")
    start, end = stream.offset, {"orders": {"0": 300}}
    parts = stream.reader.partitions(start, end)
    assert len(parts) >= 3
    clean(tmp_path / "orders-0")
    assert sorted(planned_rows(stream.reader, parts)) == rows_of(range(50, 300))


def test_records_that_retention_removed_after_planning_are_named(tmp_path: Path) -> None:
    require("pyspark")
    write_three_segments(tmp_path / "orders-0")
    stream = StreamReader(tmp_path)
    parts = stream.reader.partitions(stream.offset, {"orders": {"0": 300}})
    (tmp_path / "orders-0" / f"{0:020}.log").unlink()
    with pytest.raises(Exception, match=r"DATA_LOSS: orders-0 now has the offsets 100 to 299, but 0 to 299 were to be read"):
        planned_rows(stream.reader, parts)
    going_on = StreamReader(tmp_path, failOnDataLoss="false")
    assert sorted(planned_rows(going_on.reader, parts)) == rows_of(range(100, 300))


def test_an_ingest_whose_segments_are_cleaned_while_it_reads_plans_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    write_three_segments(folder)
    write_task = writing.write_task
    runs: list[Any] = []

    def clean_first(task: Any) -> Any:
        if not runs:
            clean(folder)
        runs.append(task)
        return write_task(task)

    monkeypatch.setattr("kafkalog.spark.ingestion.executors.write_task", clean_first)
    assert take(tmp_path / "logs", target).records == 250
    assert len(runs) == 2


def test_an_ingest_whose_last_segment_was_cleaned_once_it_was_read_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment that rolled and was cleaned has other bytes where the last entry was; the records that were taken still count."""
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    write_three_segments(folder)
    write_task = writing.write_task
    runs: list[Any] = []

    def clean_after(task: Any) -> Any:
        runs.append(task)
        result = write_task(task)
        cleaned = [batch_of(range(first, first + 10)) for first in range(250, 300, 10)]
        write_segment(folder / "cleaned", 200, *cleaned).replace(folder / f"{200:020}.log")
        write_segment(folder, 300, batch_of(range(300, 310)))
        return result

    monkeypatch.setattr("kafkalog.spark.ingestion.executors.write_task", clean_after)
    assert take(tmp_path / "logs", target, master="none[1]").records == 300
    assert len(runs) == 1
    assert table_rows(target) == rows_of(range(300))
    monkeypatch.undo()
    assert take(tmp_path / "logs", target).records == 10
    assert table_rows(target) == rows_of(range(310))
