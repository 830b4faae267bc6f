"""Offsets that were taken, then truncated and written again under a new leader epoch: the table has what the log has."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion.manifest import CommitLog
from kafkalog.spark.ingestion.target import open_target
from tests.conftest import require
from tests.living.changing import StreamReader, rows_of, superseded_rows, table_rows, truncate, write_log, write_on
from tests.spark.ingested import commits, take

# Of 0 to 99 the last 20 were lost with a leader; the next one reused their offsets.
LEFT, NEW_END = 80, 120
NAMED = r"KAFKALOG_DATA_LOSS: orders-0 (?=.*\b80\b)(?=.*\b100\b)"


def change(log: Path, end: int = NEW_END) -> None:
    truncate(log, LEFT)
    write_on(log, range(LEFT, end), "other", 1)


@pytest.mark.parametrize("end", [NEW_END, 100, 90], ids=["longer", "of the same size", "shorter"])
def test_rewritten_offsets_are_a_loss_that_names_the_range(tmp_path: Path, end: int) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    change(log, end)
    with pytest.raises(SparkSourceError, match=NAMED):
        take(tmp_path / "logs", target)
    assert table_rows(target) == rows_of(range(100)), "a failed run changes nothing"


@pytest.mark.parametrize("end", [NEW_END, 100, 90], ids=["longer", "of the same size", "shorter"])
def test_with_continue_superseded_rows_are_set_aside_and_the_log_is_taken_from_there(tmp_path: Path, end: int) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    change(log, end)
    summary = take(tmp_path / "logs", target, on_data_loss="continue")
    expected = rows_of(range(LEFT)) + rows_of(range(LEFT, end), "other")
    assert table_rows(target) == expected
    assert superseded_rows(target) == rows_of(range(LEFT, 100))
    assert [(gap.start_offset, gap.stop_offset) for gap in summary.gaps] == [(LEFT, 100)]
    assert commits(target)[-1]["gaps"][0]["reason"] != "removed"
    take(tmp_path / "logs", target, on_data_loss="continue")
    assert table_rows(target) == expected


def test_rows_taken_again_stay_though_the_file_of_the_superseded_ones_began_at_the_same_offset(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", LEFT)
    take(tmp_path / "logs", target)
    for number, word in enumerate(["second", "third", "fourth"]):
        truncate(log, LEFT)
        write_on(log, range(LEFT, NEW_END), word, number + 1)
        take(tmp_path / "logs", target, on_data_loss="continue")
        assert table_rows(target) == rows_of(range(LEFT)) + rows_of(range(LEFT, NEW_END), word)
    assert superseded_rows(target) == sorted(rows_of(range(LEFT, NEW_END), "second") + rows_of(range(LEFT, NEW_END), "third"))


def test_a_run_that_was_stopped_while_it_moved_files_deletes_none_of_a_later_run(tmp_path: Path) -> None:
    target, logs = tmp_path / "tables", tmp_path / "logs"
    log = write_log(logs / "orders-0", LEFT)
    take(logs, target)
    write_on(log, range(LEFT, 100), "second", 1)
    take(logs, target)
    truncate(log, 60)
    write_on(log, range(60, LEFT), "third", 2)
    take(logs, target, on_data_loss="continue")  # this one sets the file aside that began at LEFT
    write_on(log, range(LEFT, NEW_END), "third", 2)
    take(logs, target)
    commit_log = CommitLog(open_target(str(target)))
    commit_log.complete(commit_log.read(f"{3:020}.json"))
    assert table_rows(target) == rows_of(range(60)) + rows_of(range(60, NEW_END), "third")


def test_rewritten_offsets_without_a_checkpoint_are_known_by_the_epochs_of_the_batches(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    change(log)
    (log.parent / "leader-epoch-checkpoint").unlink()
    with pytest.raises(SparkSourceError, match=NAMED):
        take(tmp_path / "logs", target)


def test_a_new_leader_epoch_at_the_end_of_the_log_is_no_loss(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    write_on(log, range(100, 120), "other", 1)
    assert take(tmp_path / "logs", target).gaps == ()
    assert table_rows(target) == rows_of(range(100)) + rows_of(range(100, 120), "other")


@pytest.mark.parametrize("end", [NEW_END, 100, 90], ids=["longer", "of the same size", "shorter"])
def test_rewritten_offsets_stop_a_stream(tmp_path: Path, end: int) -> None:
    require("pyspark")
    log = write_log(tmp_path / "orders-0", 100)
    stream = StreamReader(tmp_path)
    assert stream.micro_batch() == rows_of(range(100))
    change(log, end)
    stream.restart()
    with pytest.raises(Exception, match=NAMED):
        stream.micro_batch()


@pytest.mark.parametrize("end", [NEW_END, 100, 90], ids=["longer", "of the same size", "shorter"])
def test_a_stream_that_continues_reads_from_the_divergence_and_says_so(
    tmp_path: Path, end: int, caplog: pytest.LogCaptureFixture
) -> None:
    require("pyspark")
    log = write_log(tmp_path / "orders-0", 100)
    stream = StreamReader(tmp_path, failOnDataLoss="false")
    assert stream.micro_batch() == rows_of(range(100))
    change(log, end)
    stream.restart()
    with caplog.at_level(logging.WARNING):
        rows = stream.micro_batch()
        rows += stream.micro_batch()
    assert rows == rows_of(range(LEFT, end), "other")
    assert any("80" in text and "100" in text for text in map(logging.LogRecord.getMessage, caplog.records))
