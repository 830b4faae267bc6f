"""Compaction of transactions: aborted records, markers and their horizons, empty batches of producers."""

from __future__ import annotations

from .cleaning import COMPACTED, clean, key, put
from .payloads import batch, empty, in_transaction, keyed, marker
from .script import HOUR_MS, Script, scenario


class Transactional:
    """A producer that writes keys in transactions."""

    def __init__(self, log: Script, producer_id: int) -> None:
        self.log, self.producer_id, self.sequence = log, producer_id, 0

    def put(self, *numbers: int) -> None:
        content = keyed(*((key(number), b"value") for number in numbers))
        self.log.transactional(in_transaction(content, self.producer_id, 0, self.sequence))
        self.sequence += len(numbers)

    def end(self, *, commit: bool) -> None:
        self.log.end_transaction(self.producer_id, 0, commit=commit)


@scenario
def open_transactions_and_what_follows_cannot_be_cleaned(log: Script) -> None:
    log.open(COMPACTED)
    put(log, 1)
    put(log, 1)
    log.roll()
    log.transactional(in_transaction(keyed((key(1), b"open")), 5, 0, 0))
    log.roll()
    put(log, 1)
    clean(log, 4, gives={"firstUncleanable": 2})
    log.end_transaction(5, 0)
    clean(log, 5, gives={"firstUncleanable": 5})


@scenario
def a_last_sequence_stays_even_if_its_transaction_was_aborted(log: Script) -> None:
    log.open(COMPACTED)
    producer = Transactional(log, 1)
    producer.put(1)
    producer.put(2, 3)
    producer.end(commit=False)
    clean(log, 4)
    producer.put(1, 5)
    producer.end(commit=True)
    clean(log, 7)


@scenario
def aborted_records_go_and_committed_ones_stay(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 2048})
    first, second = Transactional(log, 1), Transactional(log, 2)
    first.put(1, 2)
    second.put(2, 3)
    first.put(3, 4)
    first.end(commit=False)
    second.end(commit=True)
    first.put(2)
    first.end(commit=True)
    clean(log, 10)
    log.read(0, "committed", gives={"aborted": [[1, 0]]})


@scenario
def transactions_over_segments_are_cleaned_with_their_markers(log: Script) -> None:
    log.open(COMPACTED)
    first, second, third = (Transactional(log, number) for number in (1, 2, 3))
    first.put(1, 2)
    third.put(2, 3)
    second.put(3, 4)
    log.roll()
    second.put(5, 6)
    third.put(6, 7)
    first.put(7, 8)
    second.end(commit=False)
    third.put(8, 9)
    third.end(commit=True)
    first.put(9, 10)
    first.end(commit=False)
    clean(log, 19)
    second.put(11)
    first.put(12)
    first.end(commit=True)
    second.end(commit=True)
    clean(log, 23)


@scenario
def several_passes_over_aborted_transactions(log: Script) -> None:
    log.open({**COMPACTED, "delete.retention.ms": 50_000, "segment.bytes": 4096})
    first, second = Transactional(log, 1), Transactional(log, 2)
    first.put(1, 2)
    second.put(2, 3)
    first.put(3, 4)
    first.end(commit=True)
    second.end(commit=True)
    first.put(2, 3)
    first.end(commit=False)
    second.put(4, 5)
    first.put(5, 6)
    first.end(commit=True)
    second.end(commit=False)
    second.put(6, 7)
    second.end(commit=True)
    for _ in range(4):
        clean(log, 20, dedupe_bytes=120)
        log.advance(50_001)
    put(log, 77)
    clean(log, 21)


@scenario
def a_commit_marker_goes_when_its_records_are_gone_and_its_time_came(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 256})
    producer = Transactional(log, 1)
    producer.put(1)
    producer.put(2, 3)
    producer.end(commit=True)
    producer.put(2)
    producer.end(commit=True)
    clean(log, 6)
    producer.put(1, 3)
    producer.end(commit=True)
    clean(log, 9)
    log.advance(2 * HOUR_MS)
    put(log, 50)
    clean(log, 10)
    put(log, 51)
    clean(log, 11)


@scenario
def an_abort_marker_goes_when_its_records_are_gone_and_its_time_came(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 256})
    producer = Transactional(log, 1)
    producer.put(1)
    producer.put(2, 3)
    producer.end(commit=False)
    producer.put(3)
    producer.end(commit=True)
    clean(log, 6)
    put(log, 50)
    clean(log, 7)
    log.advance(2 * HOUR_MS)
    put(log, 51)
    clean(log, 8)
    log.read(0, "committed")


@scenario
def batches_that_are_deleted_are_not_read_for_messages(log: Script) -> None:
    log.open({**COMPACTED, "max.message.bytes": 100, "segment.bytes": 1000})
    producer = Transactional(log, 1)
    producer.put(1)
    producer.end(commit=False)
    producer.put(2)
    producer.put(2)
    producer.end(commit=True)
    clean(log, 5, io_buffer=100)
    log.advance(2 * HOUR_MS)
    put(log, 50)
    clean(log, 6, io_buffer=100)


@scenario
def a_marker_stays_beside_an_empty_batch(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 256})
    first, second = Transactional(log, 1), Transactional(log, 2)
    first.put(2, 3)
    log.roll()
    second.put(2, 3)
    second.end(commit=True)
    log.roll()
    put(log, 2)
    put(log, 3)
    first.end(commit=True)
    clean(log, 8)
    second.put(1)
    second.end(commit=True)
    clean(log, 10)
    log.advance(2 * HOUR_MS)
    put(log, 9)
    clean(log, 11)
    log.advance(2 * HOUR_MS)
    put(log, 10)
    clean(log, 12)


@scenario
def an_abort_marker_stays_beside_an_empty_batch(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 256})
    producer = Transactional(log, 1)
    producer.put(2, 3)
    producer.end(commit=False)
    clean(log, 3)
    log.read(0, "committed", gives={"aborted": [[1, 0]]})
    for number in range(3):
        log.advance(2 * HOUR_MS)
        put(log, 20 + number)
        clean(log, 4 + number)
    producer.put(1)
    producer.end(commit=True)
    clean(log, 9)
    for number in range(3):
        log.advance(2 * HOUR_MS)
        put(log, 30 + number)
        clean(log, 10 + number)
    log.read(0, "committed")


@scenario
def a_marker_without_a_transaction_becomes_an_empty_batch(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 256})
    log.end_transaction(1, 0)
    put(log, 2)
    put(log, 3)
    clean(log, 3)
    for number in range(3):
        log.advance(2 * HOUR_MS)
        put(log, 20 + number)
        clean(log, 4 + number)


@scenario
def a_transaction_whose_marker_is_in_the_next_segment(log: Script) -> None:
    for commit in (True, False):
        if commit:
            log.open({**COMPACTED, "segment.bytes": 256})
        else:
            log.truncate_fully(offset=0)
        log.transactional(in_transaction(keyed((key(1), b"v")), 1, 0, 0))
        log.roll()
        log.end_transaction(1, 0, commit=commit)
        clean(log, 2)
        for number in range(2):
            log.advance(2 * HOUR_MS)
            put(log, 20 + number)
            clean(log, 3 + number)


@scenario
def empty_batches_go_when_their_sequence_is_used_again(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 2048})
    for number in (1, 2):
        log.append(in_transaction(keyed((key(number), b"v")), 1, 0, 0), origin="coordinator", verify="start")
        log.end_transaction(1, 0)
    put(log, 1)
    put(log, 2)
    clean(log, 6)
    for number in range(2):
        log.advance(2 * HOUR_MS)
        put(log, 20 + number)
        clean(log, 7 + number)


@scenario
def keys_like_those_of_markers_are_keys(log: Script) -> None:
    log.open(COMPACTED)
    log.transactional(in_transaction(keyed((key(1), b"v")), 1, 0, 0), leader_epoch=5)
    log.end_transaction(1, 0, leader_epoch=5)
    log.transactional(in_transaction(keyed((b"\0\0\0\1", b"foo")), 2, 0, 0), leader_epoch=5)
    log.end_transaction(2, 0, leader_epoch=5)
    clean(log, 4)
    log.read(0, gives={"batches": [[0, 0], [1, 1], [2, 2], [3, 3]]})


@scenario
def empty_batches_of_the_leader_are_kept_for_their_producer(log: Script) -> None:
    log.open(COMPACTED)
    log.follow(empty(0, 3, producer_id=9, producer_epoch=0, base_sequence=0))
    log.follow(batch(keyed((key(1), b"v"), first=4), leader_epoch=0))
    log.follow(empty(5, 5, transactional=True, control=True, producer_id=8, producer_epoch=0))
    log.follow(marker(7, 0, commit=True, offset=6))
    clean(log, 7)
    put(log, 3)
    clean(log, 8)
