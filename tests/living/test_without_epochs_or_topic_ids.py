"""Logs that say little of themselves (v0, v1, no leader epoch, no topic id): their records are compared with the rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.format.reference import Record, encode_batch, encode_message, encode_wrapper
from kafkalog.spark.errors import SparkSourceError
from tests.builders.small_logs import FIRST_TIME, compress, write_segment
from tests.living.changing import rows_of, superseded_rows, table_rows, value_of
from tests.spark.ingested import read_table, take

Entries = Callable[[range, str], list[bytes]]
GZIP = 1


def records_of(offsets: range, word: str) -> list[Record]:
    return [Record(each, FIRST_TIME + each, b"key-%d" % each, value_of(each, word)) for each in offsets]


def messages(magic: int) -> Entries:
    return lambda offsets, word: [encode_message(each, magic=magic) for each in records_of(offsets, word)]


def sets(magic: int) -> Entries:
    def compressed(offsets: range, word: str) -> list[bytes]:
        found = [records_of(offsets[first : first + 5], word) for first in range(0, len(offsets), 5)]
        return [encode_wrapper(each, magic=magic, codec=GZIP, compress=compress) for each in found]

    return compressed


def batches(leader_epoch: int, count: int = 10) -> Entries:
    def batched(offsets: range, word: str) -> list[bytes]:
        found = [records_of(offsets[first : first + count], word) for first in range(0, len(offsets), count)]
        return [encode_batch(each, leader_epoch=leader_epoch) for each in found]

    return batched


FORMATS = pytest.mark.parametrize(
    "entries",
    [messages(0), messages(1), sets(0), sets(1), batches(-1)],
    ids=["v0", "v1", "v0 in sets", "v1 in sets", "v2 without a leader epoch"],
)


@FORMATS
@pytest.mark.parametrize("end", [90, 100, 120], ids=["shorter", "of the same size", "longer"])
def test_a_log_without_epochs_that_was_truncated_and_written_again(tmp_path: Path, entries: Entries, end: int) -> None:
    logs, target = tmp_path / "logs", tmp_path / "tables"
    write_segment(logs / "orders-0", 0, *entries(range(100), "first"))
    take(logs, target)
    write_segment(logs / "orders-0", 0, *entries(range(80), "first"), *entries(range(80, end), "other"))
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-0 .*truncated to 80 .*offsets 80 to 99"):
        take(logs, target)
    take(logs, target, on_data_loss="continue")
    assert table_rows(target) == rows_of(range(80)) + rows_of(range(80, end), "other")
    assert superseded_rows(target) == rows_of(range(80, 100))
    assert take(logs, target).gaps == ()


@FORMATS
def test_a_log_without_epochs_that_only_grew_or_was_cleaned_is_the_same(tmp_path: Path, entries: Entries) -> None:
    logs, target = tmp_path / "logs", tmp_path / "tables"
    write_segment(logs / "orders-0", 0, *entries(range(100), "first"))
    take(logs, target)
    write_segment(logs / "orders-0", 0, *entries(range(120), "first"))
    take(logs, target)
    write_segment(logs / "orders-0", 0, *entries(range(40, 110), "first"), *entries(range(130, 140), "first"))
    take(logs, target)
    assert table_rows(target) == rows_of(range(120)) + rows_of(range(130, 140))


@pytest.mark.parametrize("stop", [100, 150], ids=["of the same size", "longer"])
def test_a_topic_created_again_in_other_batches_is_known_without_an_id(tmp_path: Path, stop: int) -> None:
    logs, target = tmp_path / "logs", tmp_path / "tables"
    write_segment(logs / "orders-0", 0, *batches(0)(range(100), "first"))
    take(logs, target)
    shutil.rmtree(logs / "orders-0")
    write_segment(logs / "orders-0", 0, *batches(0, count=25)(range(stop), "other"))
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_DATA_LOSS: orders-0 .*created again"):
        take(logs, target)
    take(logs, target, on_data_loss="continue")
    first = [(0, *row) for row in rows_of(range(100))]
    second = [(1, *row) for row in rows_of(range(stop), "other")]
    assert sorted(read_table(target, ["generation", "offset", "value"])) == first + second


def test_a_truncation_far_before_the_end_is_found_where_it_was(tmp_path: Path) -> None:
    logs, target = tmp_path / "logs", tmp_path / "tables"
    write_segment(logs / "orders-0", 0, *batches(-1, count=500)(range(10_000), "first"))
    take(logs, target)
    entries = [*batches(-1, count=500)(range(2500), "first"), *batches(-1, count=500)(range(2500, 12_000), "other")]
    write_segment(logs / "orders-0", 0, *entries)
    summary = take(logs, target, on_data_loss="continue")
    assert [(gap.start_offset, gap.stop_offset) for gap in summary.gaps] == [(2500, 10_000)]
    assert table_rows(target) == rows_of(range(2500)) + rows_of(range(2500, 12_000), "other")
