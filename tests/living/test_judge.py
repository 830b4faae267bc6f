"""The judge of the campaign sees each kind of fault, and allows what a consumer would have missed too."""

from __future__ import annotations

import pytest

from tests.campaigns.living_broker.judge import DOUBLED, LOST, WRONG, Book, Faults, Found, Place
from tests.campaigns.living_broker.ledger import Ledger, Transaction, Written

PLACE: Place = ("orders", 0, 0)


def make_book(isolation: str = "read_uncommitted", *, is_compacted: bool = False) -> Book:
    """Ten records were written, with five keys."""
    ledger = Ledger()
    life = ledger.begin("orders", "id", is_compacted=is_compacted)
    for offset in range(10):
        life.history(0).add(offset, Written(b"%d" % (offset % 5), b"value %d" % offset))
    return Book("reader", isolation, ledger, Faults())


def rows(*offsets: int, word: str = "value") -> list[Found]:
    return [(offset, b"%d" % (offset % 5), f"{word} {offset}".encode()) for offset in offsets]


def found_by(book: Book) -> dict[str, int]:
    return {kind: book.faults.of(kind) for kind in (LOST, DOUBLED, WRONG) if book.faults.of(kind)}


def test_records_written_once_and_taken_once_are_right() -> None:
    book = make_book()
    book.take(PLACE, rows(*range(10)))
    book.advance(PLACE, 10)
    book.require_everything()
    assert found_by(book) == {}


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (rows(*range(4), *range(5, 10)), {LOST: 1}),
        (rows(*range(10), 3), {DOUBLED: 1}),
        ([*rows(*range(9)), *rows(9, word="other")], {WRONG: 1}),
        (rows(*range(11)), {WRONG: 1}),
    ],
    ids=["a record is missing", "a record is there twice", "a value is another one", "a record that nobody wrote"],
)
def test_each_fault_is_counted(taken: list[Found], expected: dict[str, int]) -> None:
    book = make_book()
    book.take(PLACE, taken)
    book.advance(PLACE, 10)
    book.require_everything()
    assert found_by(book) == expected


def test_a_loss_that_was_named_is_excused_and_no_other() -> None:
    book = make_book()
    book.excuse(PLACE, 2, 4)
    book.take(PLACE, rows(0, 1, *range(5, 10)))
    book.advance(PLACE, 10)
    assert found_by(book) == {LOST: 1}


def test_compaction_excuses_only_what_a_later_record_overwrites_and_no_consumer_gets() -> None:
    book = make_book(is_compacted=True)
    book.take(PLACE, rows(*range(5, 9)))
    book.advance(PLACE, 10)
    assert found_by(book) == {LOST: 1}, "9 is the last of its key"
    book.require_view(PLACE, rows(4, *range(5, 10)))
    assert found_by(book) == {LOST: 2}, "4 was still there"


def test_aborted_records_are_wrong_for_read_committed_only() -> None:
    for isolation, expected in (("read_committed", {WRONG: 1}), ("read_uncommitted", {})):
        book = make_book(isolation)
        book.ledger.now("orders").history(0).add(10, Written(b"0", b"value 10", Transaction(is_committed=False)))
        book.take(PLACE, rows(*range(11)))
        book.advance(PLACE, 11)
        book.require_everything()
        assert found_by(book) == expected


def test_superseded_rows_belong_out_of_the_table_and_set_aside_once() -> None:
    book = make_book()
    book.take(PLACE, rows(*range(10)))
    book.advance(PLACE, 10)
    history = book.ledger.now("orders").history(0)
    history.cut(8)
    history.add(8, Written(b"3", b"other 8"))
    book.cut(PLACE, 8)
    assert book.pending_cuts == {PLACE: 8}
    book.supersede(PLACE, 8)
    book.take(PLACE, rows(8, word="other"))
    book.advance(PLACE, 9)
    now = [*rows(*range(8)), *rows(8, word="other")]
    book.compare_table((PLACE, row) for row in now)
    book.compare_superseded((PLACE, row) for row in rows(8, 9))
    assert found_by(book) == {}
    book.compare_table((PLACE, row) for row in rows(*range(9)))
    assert found_by(book) == {WRONG: 1}
    book.compare_superseded((PLACE, row) for row in rows(8))
    assert found_by(book) == {WRONG: 1, LOST: 1}
