"""A run that accepts a loss continues, once: what it knew of the log before counts only as far as the log still has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.small_logs import write_segment
from tests.living.changing import batch_of, rows_of, superseded_rows, table_rows, truncate, write_log, write_on
from tests.spark.ingested import take

pytestmark = pytest.mark.timeout(120)


def test_a_log_that_was_cut_before_an_epoch_that_was_taken_is_taken_from_the_cut_on(tmp_path: Path) -> None:
    target = tmp_path / "tables"
    log = write_log(tmp_path / "logs" / "cut-0", 60)
    write_on(log, range(60, 100), "second", 2)
    take(tmp_path / "logs", target)
    truncate(log, 40)
    write_on(log, range(40, 80), "other", 4)
    summary = take(tmp_path / "logs", target, on_data_loss="continue")
    assert [(gap.start_offset, gap.stop_offset) for gap in summary.gaps] == [(40, 100)]
    assert table_rows(target) == rows_of(range(40)) + rows_of(range(40, 80), "other")
    assert superseded_rows(target) == rows_of(range(40, 60)) + rows_of(range(60, 100), "second")
    assert take(tmp_path / "logs", target, on_data_loss="continue").gaps == ()


@pytest.mark.parametrize("end", [100, 120], ids=["all of them", "some of them"])
@pytest.mark.parametrize("is_by_request", [pytest.param(False, id="retention"), pytest.param(True, id="DeleteRecords")])
def test_records_of_a_new_epoch_that_were_removed_before_they_were_taken_are_no_truncation(
    tmp_path: Path, end: int, is_by_request: bool
) -> None:
    folder, target = tmp_path / "logs" / "retained-0", tmp_path / "tables"
    log = write_log(folder, 60)
    take(tmp_path / "logs", target)
    # A new leader writes 60 to 99, and everything before 100 is removed: with its segment, or only by a note of the broker.
    if is_by_request:
        write_on(log, range(60, end), "other", 2)
        (tmp_path / "logs" / "log-start-offset-checkpoint").write_text("0\n1\nretained 0 100\n")
    else:
        log.unlink()
        log.with_suffix(".index").unlink()
        write_segment(folder, 100, *(batch_of(range(first, first + 10), "other", 2) for first in range(100, end, 10)))
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 60\n")
    summary = take(tmp_path / "logs", target, on_data_loss="continue")
    assert [(gap.start_offset, gap.stop_offset, gap.reason) for gap in summary.gaps] == [(60, 100, "removed")]
    assert table_rows(target) == rows_of(range(60)) + rows_of(range(100, end), "other")
    assert take(tmp_path / "logs", target).gaps == ()
    assert superseded_rows(target) == []
