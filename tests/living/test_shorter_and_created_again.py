"""A log that was truncated is not taken twice; the rows of a topic that was deleted and created again can be distinguished."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.spark.errors import SparkSourceError
from tests.living.changing import rows_of, superseded_rows, table_rows, truncate, write_log, write_on
from tests.spark.ingested import read_table, take


def test_a_truncated_log_is_not_taken_a_second_time(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    truncate(log, 80)
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-0 .*\b80\b"):
        take(tmp_path / "logs", target)
    take(tmp_path / "logs", target, on_data_loss="continue")
    assert table_rows(target) == rows_of(range(80))
    assert superseded_rows(target) == rows_of(range(80, 100))
    write_on(log, range(80, 110), "other", 1)
    take(tmp_path / "logs", target, on_data_loss="continue")
    assert table_rows(target) == rows_of(range(80)) + rows_of(range(80, 110), "other")


@pytest.mark.parametrize("stop", [60, 100, 140], ids=["shorter", "of the same size", "longer"])
def test_the_rows_of_a_topic_created_again_have_another_generation(tmp_path: Path, stop: int) -> None:
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    write_log(folder, 100)
    take(tmp_path / "logs", target)
    shutil.rmtree(folder)
    write_log(folder, stop, topic_id="AAAAAAAAAAAAAAAAAAAAAg", word="other")
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-0 "):
        take(tmp_path / "logs", target)
    take(tmp_path / "logs", target, on_data_loss="continue")
    first = [(0, *row) for row in rows_of(range(100))]
    second = [(1, *row) for row in rows_of(range(stop), "other")]
    assert sorted(read_table(target, ["generation", "offset", "value"])) == first + second
    assert superseded_rows(target) == []


def test_a_truncated_log_without_a_topic_id_is_known_by_its_records(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100, topic_id=None)
    take(tmp_path / "logs", target)
    truncate(log, 80)
    take(tmp_path / "logs", target, on_data_loss="continue")
    assert table_rows(target) == rows_of(range(80))
    assert superseded_rows(target) == rows_of(range(80, 100))


def test_a_topic_that_was_never_created_again_is_of_generation_0(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    write_log(tmp_path / "logs" / "orders-0", 20)
    take(tmp_path / "logs", target)
    assert {row[0] for row in read_table(target, ["generation"])} == {0}
