"""The index of aborted transactions: the order of its entries, their bytes, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.engine.transaction_index import AbortedTransaction, TransactionIndex
from kafkalog.errors import InvalidArgument
from kafkalog.storage.fs import LocalFs

FOUR = [
    AbortedTransaction(0, 0, 10, 2),
    AbortedTransaction(1, 5, 15, 16),
    AbortedTransaction(2, 18, 35, 25),
    AbortedTransaction(3, 32, 50, 40),
]


def make_index(folder: Path, start: int = 0) -> TransactionIndex:
    return TransactionIndex(start, LocalFs(), str(folder / "0.txnindex"))


def filled(folder: Path) -> TransactionIndex:
    index = make_index(folder)
    for aborted in FOUR:
        index.append(aborted)
    return index


@pytest.mark.parametrize("last_offset", [50, 49])
def test_the_ends_of_transactions_rise(tmp_path: Path, last_offset: int) -> None:
    with pytest.raises(InvalidArgument):
        filled(tmp_path).append(AbortedTransaction(1, 45, last_offset, 50))


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
