"""A broker appends and indexes a batch between the listing and the opening of the file, exactly where the listed size ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require
from tests.living.changing import StreamReader, append_when_opened, batch_of, rows_of, table_rows, truncate, write_log, write_on
from tests.spark.ingested import take


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_a_batch_indexed_at_the_listed_size_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_data_loss: str
) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    write_on(log, range(100, 110), "first", 0)
    has_appended = append_when_opened(monkeypatch, log, batch_of(range(110, 120)))
    summary = take(tmp_path / "logs", target, on_data_loss=on_data_loss)
    assert has_appended()
    assert summary.gaps == ()
    take(tmp_path / "logs", target, on_data_loss=on_data_loss)
    assert table_rows(target) == rows_of(range(120))


def test_a_batch_indexed_at_the_listed_size_is_no_loss_for_the_first_look_of_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("pyspark")
    log = write_log(tmp_path / "orders-0", 100)
    stream = StreamReader(tmp_path)
    assert stream.micro_batch() == rows_of(range(100))
    write_on(log, range(100, 110), "first", 0)
    has_appended = append_when_opened(monkeypatch, log, batch_of(range(110, 120)))
    stream.restart()
    rows = stream.micro_batch()
    assert has_appended()
    stream.restart()
    assert rows + stream.micro_batch() == rows_of(range(100, 120))


def test_a_log_that_really_became_shorter_is_still_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "orders-0", 100)
    take(tmp_path / "logs", target)
    truncate(log, 80)
    has_appended = append_when_opened(monkeypatch, log, batch_of(range(80, 90)))
    with pytest.raises(Exception, match=r"^KAFKALOG_DATA_LOSS: orders-0 "):
        take(tmp_path / "logs", target)
    assert has_appended()
