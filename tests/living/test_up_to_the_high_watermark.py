"""How near to the end of a log a run goes: next to a broker only as far as replicas can no longer disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require
from tests.living.changing import StreamReader, rows_of, superseded_rows, table_rows, truncate, write_log, write_on
from tests.spark.ingested import take
from tests.storage.test_broker_at_work import broker_at_work


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A broker wrote offsets 0 to 99; its followers have those up to 79."""
    write_log(tmp_path / "logs" / "orders-0", 100)
    note_high_watermark(tmp_path / "logs", 80)
    return tmp_path / "logs"


def note_high_watermark(logs: Path, offset: int) -> None:
    (logs / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")


def test_beside_a_broker_nothing_is_taken_that_could_still_be_truncated(logs: Path, tmp_path: Path) -> None:
    with broker_at_work(logs):
        take(logs, tmp_path / "tables")
        assert table_rows(tmp_path / "tables") == rows_of(range(80))
        truncate(logs / "orders-0" / f"{0:020}.log", 80)
        write_on(logs / "orders-0" / f"{0:020}.log", range(80, 120), "other", 1)
        note_high_watermark(logs, 120)
        assert take(logs, tmp_path / "tables").gaps == ()
    assert table_rows(tmp_path / "tables") == rows_of(range(80)) + rows_of(range(80, 120), "other")
    assert superseded_rows(tmp_path / "tables") == []


def test_of_a_dead_brokers_disk_everything_is_taken(logs: Path, tmp_path: Path) -> None:
    take(logs, tmp_path / "tables")
    assert table_rows(tmp_path / "tables") == rows_of(range(100))


@pytest.mark.parametrize(("up_to", "end"), [("logEnd", 100), ("highWatermark", 80)])
def test_the_option_takes_precedence_over_the_lock_of_a_broker(logs: Path, tmp_path: Path, up_to: str, end: int) -> None:
    with broker_at_work(logs):
        take(logs, tmp_path / "beside", options={"upTo": up_to})
    take(logs, tmp_path / "alone", options={"upTo": up_to})
    assert table_rows(tmp_path / "beside") == table_rows(tmp_path / "alone") == rows_of(range(end))


def test_a_stream_beside_a_broker_waits_for_the_high_watermark(logs: Path) -> None:
    require("pyspark")
    with broker_at_work(logs):
        stream = StreamReader(logs)
        assert stream.micro_batch() == rows_of(range(80))
        note_high_watermark(logs, 90)
        stream.restart()
        assert stream.micro_batch() == rows_of(range(80, 90))
    stream.restart()
    assert stream.micro_batch() == rows_of(range(90, 100))
