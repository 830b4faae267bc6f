"""The index of aborted transactions: order, what a read has to know, truncation, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.errors import CorruptIndex, InvalidArgument
from kafkalog.log.engine.transaction_index import AbortedTransaction, TransactionIndex
from kafkalog.storage.fs import LocalFs

FOUR = [
    AbortedTransaction(0, 0, 10, 2),
    AbortedTransaction(1, 5, 15, 16),
    AbortedTransaction(2, 18, 35, 25),
    AbortedTransaction(3, 32, 50, 40),
]
ENTRY_BYTES = 34


def make_index(folder: Path, start: int = 0) -> TransactionIndex:
    return TransactionIndex(start, LocalFs(), str(folder / "0.txnindex"))


def filled(folder: Path) -> TransactionIndex:
    index = make_index(folder)
    for aborted in FOUR:
        index.append(aborted)
    return index


def test_an_opened_index_goes_on_behind_its_entries(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.close()
    again = make_index(tmp_path)
    assert again.all_aborted() == FOUR
    more = AbortedTransaction(3, 51, 60, 51)
    again.append(more)
    assert again.all_aborted() == [*FOUR, more]
    assert Path(again.path).stat().st_size == 5 * ENTRY_BYTES


def test_entries_of_an_earlier_segment_are_not_sane(tmp_path: Path) -> None:
    filled(tmp_path).close()
    make_index(tmp_path, start=10).sanity_check()
    with pytest.raises(CorruptIndex):
        make_index(tmp_path, start=100).sanity_check()


@pytest.mark.parametrize("last_offset", [15, 13])
def test_the_ends_of_transactions_rise(tmp_path: Path, last_offset: int) -> None:
    index = make_index(tmp_path)
    index.append(AbortedTransaction(0, 0, 15, 11))
    with pytest.raises(InvalidArgument):
        index.append(AbortedTransaction(1, 5, last_offset, 16))


@pytest.mark.parametrize(
    ("fetch", "upper", "rows", "is_complete"),
    [
        (0, 100, [0, 1, 2, 3], False),
        (0, 32, [0, 1, 2], True),
        (0, 35, [0, 1, 2, 3], True),
        (10, 35, [0, 1, 2, 3], True),
        (11, 35, [1, 2, 3], True),
        (20, 41, [2, 3], False),
    ],
)
def test_what_a_read_has_to_know(tmp_path: Path, fetch: int, upper: int, rows: list[int], is_complete: bool) -> None:
    assert filled(tmp_path).collect_aborted(fetch, upper) == ([FOUR[row] for row in rows], is_complete)


@pytest.mark.parametrize(("offset", "left"), [(51, 4), (50, 3), (36, 3), (35, 2), (15, 1), (10, 0), (0, 0)])
def test_truncation_keeps_what_ended_before(tmp_path: Path, offset: int, left: int) -> None:
    index = filled(tmp_path)
    index.truncate_to(offset)
    assert index.all_aborted() == FOUR[:left]
    index.append(AbortedTransaction(9, 52, 60, 60))
    assert len(index.all_aborted()) == left + 1


def test_a_reset_index_is_empty_and_can_be_filled_again(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.reset()
    assert index.all_aborted() == []
    assert index.is_empty
    index.append(FOUR[0])
    assert index.all_aborted() == FOUR[:1]


def test_bytes_of_an_entry(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.append(AbortedTransaction(983493, 137, 299, 200))
    fields = (983493, 137, 299, 200)
    assert Path(index.path).read_bytes() == b"\0\0" + b"".join(field.to_bytes(8, "big") for field in fields)
    assert index.all_aborted() == [AbortedTransaction(*fields)]


def test_a_renamed_index_goes_on(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.append(FOUR[0])
    index.rename_to(str(tmp_path / "0.txnindex.deleted"))
    index.append(FOUR[1])
    assert index.all_aborted() == FOUR[:2]
    assert [path.name for path in tmp_path.iterdir()] == ["0.txnindex.deleted"]


def test_an_index_follows_its_folder(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.update_parent_folder(str(tmp_path / "other-0"))
    assert index.path == str(tmp_path / "other-0" / "0.txnindex")


def test_a_flushed_index_can_be_read_by_others(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.flush()
    assert make_index(tmp_path).all_aborted() == FOUR


def test_the_file_comes_with_the_first_entry_and_goes_when_asked(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not index.delete_if_exists()
    index.append(FOUR[0])
    assert index.delete_if_exists()
    assert list(tmp_path.iterdir()) == []
