"""The index of aborted transactions: when its file exists, its answers, and damaged files."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from kafkalog.engine.producer_state import CompletedTransaction
from kafkalog.engine.transaction_index import AbortedTransaction, TransactionIndex
from kafkalog.errors import CorruptIndex, InvalidArgument, LogRefusal
from kafkalog.storage.fs import LocalFs

ABORTED = [
    AbortedTransaction(1, 0, 10, 11),
    AbortedTransaction(2, 3, 18, 13),
    AbortedTransaction(3, 18, 29, 25),
    AbortedTransaction(4, 32, 50, 40),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.txnindex"


@pytest.fixture
def index(path: Path) -> TransactionIndex:
    index = TransactionIndex(0, LocalFs(), str(path))
    for aborted in ABORTED:
        index.append(aborted)
    return index


def test_the_file_is_made_with_the_first_entry(path: Path) -> None:
    index = TransactionIndex(0, LocalFs(), str(path))
    index.flush()
    index.reset()
    assert index.is_empty
    assert index.collect_aborted(0, 100) == ([], False)
    assert not path.exists()
    index.append(AbortedTransaction.of(CompletedTransaction(1, 0, 5, is_aborted=True), 2))
    assert path.read_bytes().hex() == "0000" + "0000000000000001" + "0000000000000000" + "0000000000000005" + "0000000000000002"


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "expected", "is_complete"),
    [
        (0, 100, [0, 1, 2, 3], False),
        (0, 32, [0, 1, 2], True),
        (0, 35, [0, 1, 2, 3], True),
        (10, 35, [0, 1, 2, 3], True),
        (11, 35, [1, 2, 3], True),
        (20, 41, [2, 3], False),
        (19, 20, [2], True),
        (51, 60, [], False),
    ],
)
def test_a_fetch_gets_the_transactions_that_it_meets(
    index: TransactionIndex, fetch_offset: int, upper_bound: int, expected: list[int], is_complete: bool
) -> None:
    assert index.collect_aborted(fetch_offset, upper_bound) == ([ABORTED[row] for row in expected], is_complete)


def test_truncation_drops_what_ended_at_the_offset_or_later(index: TransactionIndex, path: Path) -> None:
    index.truncate_to(51)
    assert index.all_aborted() == ABORTED
    index.truncate_to(29)
    assert index.all_aborted() == ABORTED[:2]
    index.append(AbortedTransaction(9, 20, 21, 21))
    assert path.stat().st_size == 3 * 34
    index.reset()
    assert (index.all_aborted(), path.stat().st_size) == ([], 0)


def test_markers_come_in_the_order_of_their_offsets(index: TransactionIndex) -> None:
    with pytest.raises(InvalidArgument):
        index.append(AbortedTransaction(5, 40, 50, 50))


def test_an_index_that_is_opened_again_continues_where_it_ended(index: TransactionIndex, path: Path) -> None:
    index.close()
    assert index.all_aborted() == []
    again = TransactionIndex(0, LocalFs(), str(path))
    again.append(AbortedTransaction(9, 60, 61, 61))
    assert again.all_aborted() == [*ABORTED, (9, 60, 61, 61)]


def test_a_torn_entry_is_passed_over_and_the_next_one_is_written_after_it(index: TransactionIndex, path: Path) -> None:
    index.close()
    path.write_bytes(path.read_bytes()[:-5])
    again = TransactionIndex(0, LocalFs(), str(path))
    assert again.all_aborted() == ABORTED[:3]
    again.append(AbortedTransaction(9, 60, 61, 61))
    assert path.stat().st_size == 5 * 34 - 5


def test_an_entry_that_ended_before_the_segment_is_corrupt(index: TransactionIndex, path: Path) -> None:
    index.sanity_check()
    with pytest.raises(CorruptIndex):
        TransactionIndex(11, LocalFs(), str(path)).sanity_check()


def test_entries_of_a_newer_version_cannot_be_read(index: TransactionIndex, path: Path) -> None:
    index.close()
    data = bytearray(path.read_bytes())
    data[34] = 1
    path.write_bytes(data)
    with pytest.raises(LogRefusal):
        TransactionIndex(0, LocalFs(), str(path)).all_aborted()


def test_a_renamed_index_continues_in_its_file(index: TransactionIndex, path: Path) -> None:
    index.rename_to(str(path) + ".deleted")
    assert not path.exists()
    assert index.all_aborted() == ABORTED
    assert index.delete_if_exists()
    assert not index.delete_if_exists()


def test_an_index_without_a_file_is_renamed_all_the_same(path: Path) -> None:
    index = TransactionIndex(0, LocalFs(), str(path))
    index.rename_to(str(path) + ".swap")
    index.append(ABORTED[0])
    assert Path(str(path) + ".swap").stat().st_size == 34


def test_a_large_sparse_file_is_not_read_into_memory_at_once(path: Path) -> None:
    path.touch()
    os.truncate(path, 4_000_000)
    index = TransactionIndex(0, LocalFs(), str(path))
    tracemalloc.start()
    try:
        index.sanity_check()
        assert index.collect_aborted(1, 2) == ([], False)
        index.truncate_to(1)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_entries_after_the_first_piece_are_found_and_cut_off(path: Path) -> None:
    count = 10_000
    index = TransactionIndex(0, LocalFs(), str(path))
    for number in range(count):
        index.append(AbortedTransaction(1, number, number, number))
    index.close()
    index = TransactionIndex(0, LocalFs(), str(path))
    assert [aborted.last_offset for aborted in index.all_aborted()] == list(range(count))
    index.truncate_to(count - 1)
    assert path.stat().st_size == (count - 1) * 34
