"""A broker that replaces the files of one partition all the time: the others are taken, and that one when it rests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.cli.render.ingest_summary import printable_summary
from kafkalog.spark.ingestion import ingest_plan as plan
from kafkalog.spark.ingestion import run
from kafkalog.spark.ingestion import task_writing as writing
from kafkalog.storage.local import LocalStore
from kafkalog.storage.store import ByteSource
from tests.builders.small_logs import write_segment
from tests.conftest import require
from tests.living.changing import StreamReader, batch_of, rows_of, table_rows, value_of, write_log, write_on
from tests.spark.ingested import take


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """orders-0, and orders-1 that is cleaned all the time."""
    for module in (plan, run):
        monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    write_log(tmp_path / "logs" / "orders-0", 100)
    write_log(tmp_path / "logs" / "orders-1", 50, word="other")
    return tmp_path / "logs"


def keep_replacing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each segment of a partition be gone when it is opened after the listing."""
    open_file = LocalStore.open

    def open_replaced(store: LocalStore, asked: str) -> ByteSource:
        is_gone = asked.startswith(f"{folder}/") and asked.endswith(".log")
        return open_file(store, f"{asked}.gone" if is_gone else asked)

    monkeypatch.setattr(LocalStore, "open", open_replaced)


def test_a_partition_that_changes_whenever_it_is_planned_does_not_end_the_run(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as restless:
        keep_replacing(logs / "orders-1", restless)
        summary = take(logs, tmp_path / "tables")
    assert (summary.postponed, summary.records) == (("orders-1",), 100)
    assert table_rows(tmp_path / "tables") == rows_of(range(100))
    assert take(logs, tmp_path / "tables").records == 50
    assert take(logs, tmp_path / "tables").commit is None


def test_a_partition_that_changes_whenever_a_task_reads_it_does_not_end_the_run(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task = writing.write_task

    def write_beside_a_cleaner(task: writing.IngestTask) -> writing.TaskResult:
        with monkeypatch.context() as restless:
            keep_replacing(logs / "orders-1", restless)
            return write_task(task)

    with monkeypatch.context() as beside:
        beside.setattr("kafkalog.spark.ingestion.executors.write_task", write_beside_a_cleaner)
        summary = take(logs, tmp_path / "tables", master="none[1]")
    assert (summary.postponed, summary.records) == (("orders-1",), 100)
    assert take(logs, tmp_path / "tables").records == 50


def test_partitions_left_to_the_next_run_are_named(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_replacing(logs / "orders-1", monkeypatch)
    why = "  orders-1: left to the next run: the broker kept replacing its files while they were read"
    assert why in printable_summary(take(logs, tmp_path / "tables")).splitlines()
    again = printable_summary(take(logs, tmp_path / "tables")).splitlines()
    assert again == [f"nothing new for {tmp_path / 'tables'}", why]


def test_a_partition_deleted_while_it_is_planned_is_not_there(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file = LocalStore.open

    def open_or_delete(store: LocalStore, asked: str) -> ByteSource:
        if (logs / "orders-1").exists():
            (logs / "orders-1").rename(logs / "orders-1.0123456789abcdef0123456789abcdef-delete")
        return open_file(store, asked)

    monkeypatch.setattr(LocalStore, "open", open_or_delete)
    summary = take(logs, tmp_path / "tables")
    assert (summary.postponed, summary.records) == ((), 100)


def test_a_stream_continues_while_a_partition_changes_at_every_look(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("pyspark")
    monkeypatch.setattr("kafkalog.spark.live_listing.TRY_SECONDS", 0)
    monkeypatch.setattr("kafkalog.spark.live_listing.LISTING_SECONDS", 0)
    stream = StreamReader(logs)
    assert len(stream.micro_batch()) == 150
    write_on(logs / "orders-0" / f"{0:020}.log", range(100, 110), "first", 0)
    write_on(logs / "orders-1" / f"{0:020}.log", range(50, 60), "other", 0)
    with monkeypatch.context() as restless:
        keep_replacing(logs / "orders-1", restless)
        assert stream.micro_batch() == rows_of(range(100, 110))
    assert stream.micro_batch() == [(each, value_of(each, "other")) for each in range(50, 60)]


def test_a_stream_does_not_take_a_partition_that_cannot_be_looked_at_again_for_an_empty_one(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rewritten segment is read again from its beginning; what was known of the log stays known until that is done."""
    require("pyspark")
    monkeypatch.setattr("kafkalog.spark.live_listing.TRY_SECONDS", 0)
    monkeypatch.setattr("kafkalog.spark.live_listing.LISTING_SECONDS", 0)
    stream = StreamReader(logs)
    stream.micro_batch()
    log = logs / "orders-1" / f"{0:020}.log"
    cleaned = [batch_of(range(first, first + 10), "other") for first in range(20, 60, 10)]
    write_segment(logs / "cleaned", 0, *cleaned).replace(log)
    with monkeypatch.context() as restless:
        keep_replacing(logs / "orders-1", restless)
        assert stream.micro_batch() == []
    assert stream.micro_batch() == [(each, value_of(each, "other")) for each in range(50, 60)]
