"""The comparison itself: a reader that is wrong in one cell, or in one row, is found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import CorruptBatch
from tests.golden import compare, expected

ERA = "4.3.0-recovered"
INDEX_SUFFIX = {"offset": ".index", "position": ".index", "timestamp_ms": ".timeindex", "version": ".txnindex"}
INDEX_SUFFIX |= dict.fromkeys(("producer_id", "first_offset", "last_offset", "last_stable_offset"), ".txnindex")
PRODUCER_COLUMNS = sorted(set(expected.INDEX_FIELDS[".snapshot"].values()))
CELLS = [("records", column) for column in ("offset", "key", "value", "headers", "timestamp", "timestampType", "leader_epoch")]
CELLS += [("batches", column) for column in compare.BATCH_COLUMNS.values()]
CELLS += [("index_entries", column) for column in INDEX_SUFFIX]
CELLS += [("producers", column) for column in PRODUCER_COLUMNS]
CELLS += [("segments", column) for column in ("base_offset", "size", "valid_size", "batch_count", "file", "state")]
CELLS += [("epochs", "leader_epoch"), ("epochs", "start_offset")]

Rows = list[dict[str, Any]]
Reader = Callable[..., Rows]


def differences_of(era: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[str, Rows], Rows]) -> int:
    read_rows: Reader = compare.read_rows
    monkeypatch.setattr(compare, "read_rows", lambda logs, table, **options: spoil(table, read_rows(logs, table, **options)))
    whole = expected.read_era(era)
    partition = next(partition for partition in whole.partitions if partition.topic == "open-txn")
    view = compare.View(era, name=whole.name, damaged=False)
    return compare.compare_partition(view, partition, columns=compare.RECORD_COLUMNS).differences.count


@pytest.fixture
def era(golden: Callable[[str], Path]) -> Path:
    return golden(ERA) / ERA


def other(value: Any) -> Any:
    """A value of the same kind that is not the same."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case bytes():
            return value + b"x"
        case str():
            return value + "x"
        case None | []:
            return [{"key": "x", "value": None}]
        case _:
            return None


def applies(table: str, column: str, row: dict[str, Any]) -> bool:
    if row["topic"] != "open-txn" or column not in row:
        return False
    if table == "index_entries":
        return str(row["file"]).endswith(INDEX_SUFFIX[column])
    return row.get("source") != "replay" and (table != "epochs" or row["start_offset"] is not None)


def test_nothing_differs_as_it_is(era: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences_of(era, monkeypatch, lambda table, rows: rows) == 0


@pytest.mark.parametrize(("table", "column"), CELLS)
def test_one_wrong_cell_is_a_difference(table: str, column: str, era: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(name: str, rows: Rows) -> Rows:
        row = next((row for row in rows if applies(table, column, row)), None) if name == table else None
        if row is not None:
            row[column] = other(row[column])
        return rows

    assert differences_of(era, monkeypatch, spoil) > 0


@pytest.mark.parametrize("table", ["records", "batches", "index_entries", "producers", "epochs", "segments"])
@pytest.mark.parametrize("change", ["lost", "doubled"])
def test_one_row_too_few_or_too_many_is_a_difference(table: str, change: str, era: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(name: str, rows: Rows) -> Rows:
        if name != table:
            return rows
        last = [number for number, row in enumerate(rows) if row["topic"] == "open-txn" and row.get("source") != "replay"][-1]
        return rows[:last] + rows[last + 1 :] if change == "lost" else [*rows[:last], rows[last], *rows[last:]]

    assert differences_of(era, monkeypatch, spoil) > 0


def test_an_error_of_the_reader_is_a_difference_and_no_crash(era: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(name: str, rows: Rows) -> Rows:
        raise CorruptBatch("crc", file=name)

    assert differences_of(era, monkeypatch, spoil) == 1
