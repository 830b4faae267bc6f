"""Targets begun by a version before lineages and generations: the first run of this one continues, and so does the second."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkalog.spark.errors import SparkSourceError
from tests.living.changing import rows_of, superseded_rows, table_rows, truncate, write_log, write_on
from tests.living.test_compacted_to_the_same_size import compact
from tests.spark.ingested import data_files, take

NEWER_OF_A_COMMIT = ("rewritten", "superseded", "replaced")
NEWER_OF_A_PARTITION = ("last_entry", "epochs", "truncations")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def log(logs: Path) -> Path:
    return write_log(logs / "orders-0", 100)


@pytest.fixture
def target(tmp_path: Path, logs: Path, log: Path) -> Path:
    """Offsets 0 to 99, with the commit and the columns that they had then."""
    target = tmp_path / "tables"
    take(logs, target)
    for path in data_files(target):
        rows = pq.ParquetFile(path).read().drop_columns(["generation"])
        pq.write_table(rows, path)
    path = target / "_kafkalog" / "commits" / f"{1:020}.json"
    commit = json.loads(path.read_text())
    del commit["settings"]["generation"]
    partition = commit["partitions"]["orders"]["0"]
    partition["cursor"] = [partition["cursor"]["segment"], partition["cursor"]["position"]]
    for name in NEWER_OF_A_COMMIT:
        del commit[name]
    for name in NEWER_OF_A_PARTITION:
        del partition[name]
    path.write_text(json.dumps(commit))
    return target


def test_run_after_run_continues(logs: Path, log: Path, target: Path) -> None:
    for stop in (110, 120, 130):
        write_on(log, range(stop - 10, stop), "first", 0)
        assert take(logs, target).records == 10
    assert table_rows(target) == rows_of(range(130))


@pytest.mark.parametrize("goes_on_first", [False, True], ids=["at once", "after a run of this version"])
def test_a_truncation_is_named_and_its_rows_are_set_aside(logs: Path, log: Path, target: Path, goes_on_first: bool) -> None:
    if goes_on_first:
        write_on(log, range(100, 110), "first", 0)
        take(logs, target)
    truncate(log, 80)
    write_on(log, range(80, 120), "other", 1)
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-0 .*truncated to 80 "):
        take(logs, target)
    take(logs, target, on_data_loss="continue")
    assert table_rows(target) == rows_of(range(80)) + rows_of(range(80, 120), "other")
    assert superseded_rows(target) == rows_of(range(80, 110 if goes_on_first else 100))


def test_a_cleaned_segment_of_the_same_size_is_taken(logs: Path, log: Path, target: Path) -> None:
    compact(log.parent)
    take(logs, target)
    assert table_rows(target) == rows_of(range(300))


def test_the_rows_of_a_topic_created_again_are_not_mixed_without_a_column_for_it(logs: Path, log: Path, target: Path) -> None:
    shutil.rmtree(log.parent)
    write_log(log.parent, 140, topic_id="AAAAAAAAAAAAAAAAAAAAAg", word="other")
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-0 .*continue its rows .* moved to _superseded"):
        take(logs, target)
    take(logs, target, on_data_loss="continue")
    assert table_rows(target) == rows_of(range(140), "other")
    assert superseded_rows(target) == rows_of(range(100))
