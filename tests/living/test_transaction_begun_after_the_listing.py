"""read_committed next to a broker: a transaction that begins after the log was listed says nothing about what was listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.small_logs import made_batch, marker, transactional_batch, write_segment
from tests.conftest import require
from tests.living.changing import StreamReader, append_when_opened
from tests.spark.ingested import read_table, take

GROWN = made_batch(10, 5) + transactional_batch(15, 5, 1)


def test_records_before_a_transaction_begun_after_the_listing_are_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "tables"
    log = write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    has_appended = append_when_opened(monkeypatch, log, GROWN)
    take(tmp_path / "logs", target, isolation="read_committed")
    assert has_appended()
    with log.open("ab") as file:
        file.write(marker(20, 1, commit=True))
    take(tmp_path / "logs", target, isolation="read_committed")
    assert sorted(row[0] for row in read_table(target, ["offset"])) == list(range(20))


def test_a_stream_passes_over_nothing_before_a_transaction_begun_after_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("pyspark")
    log = write_segment(tmp_path / "orders-0", 0, made_batch(0))
    has_appended = append_when_opened(monkeypatch, log, GROWN)
    stream = StreamReader(tmp_path, isolation="read_committed")
    rows = stream.micro_batch()
    assert has_appended()
    with log.open("ab") as file:
        file.write(marker(20, 1, commit=True))
    stream.restart()
    rows += stream.micro_batch()
    assert [row[0] for row in rows] == list(range(20))
