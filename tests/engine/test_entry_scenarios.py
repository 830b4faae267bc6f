"""Entries in memory: counts, checksums, setters, control batches, wrappers of old messages, the size of what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from kafkalog import codecs
from kafkalog.engine.entries import Batch, Entry, Message, entry_size, iter_entries
from kafkalog.engine.entry_records import iter_glances
from kafkalog.errors import CorruptRecord, InvalidRecord, InvalidState, LogRefusal
from kafkalog.format.batch import CREATE_TIME, LOG_APPEND_TIME_TYPE
from kafkalog.format.control import EndTxnMarker, decode_end_txn_marker
from kafkalog.format.reference import Record, encode_message
from tests.engine.scenarios.payloads import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    altered,
    batch,
    in_transaction,
    marker,
    messages,
    produced,
    records,
)
from tests.engine.scenarios.script import START_MS

CODECS = (0, GZIP, SNAPPY, LZ4, ZSTD)


def only(data: bytes) -> Entry:
    (entry,) = iter_entries(bytearray(data))
    return entry


def test_fields_of_a_plain_batch() -> None:
    entry = only(batch(3, first=1234567, leader_epoch=7))
    assert isinstance(entry, Batch)
    assert (entry.base_offset, entry.last_offset, entry.next_offset, entry.records_count) == (1234567, 1234569, 1234570, 3)
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.last_sequence) == (-1, -1, -1, -1)
    assert (entry.partition_leader_epoch, entry.is_transactional, entry.is_control_batch, entry.magic) == (7, False, False, 2)
    assert [record.offset for record in entry] == [1234567, 1234568, 1234569]


def test_fields_of_a_producers_batch() -> None:
    entry = only(in_transaction(3, 23423, 145, 983, first=1234567))
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.last_sequence) == (23423, 145, 983, 985)
    assert entry.is_transactional
    assert entry.has_producer_id


def test_a_sequence_wraps_within_a_batch() -> None:
    entry = only(produced(3, 23423, 145, (1 << 31) - 2))
    assert (entry.base_sequence, entry.last_sequence) == ((1 << 31) - 2, 0)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_says_its_size(codec: int) -> None:
    stored = batch(5, codec=codec)
    assert only(stored).size == len(stored)
    assert entry_size(stored, 0, len(stored)) == len(stored)


def test_a_size_that_cuts_the_batch_makes_it_invalid() -> None:
    stored = bytearray(batch(3))
    stored[8:12] = (20).to_bytes(4, "big")
    entry = Batch(stored)
    assert not entry.is_valid
    with pytest.raises(CorruptRecord):
        entry.ensure_valid()


def test_any_changed_byte_under_the_checksum_makes_a_batch_invalid() -> None:
    stored = batch(3)
    assert only(stored).is_valid
    for position in (17, 21, 23, 57, 61, len(stored) - 1):
        damaged = bytearray(stored)
        damaged[position] ^= 1
        entry = Batch(damaged)
        assert not entry.is_valid
        with pytest.raises(CorruptRecord):
            entry.ensure_valid()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [5, 2])
def test_a_count_that_is_wrong_is_found_by_reading(codec: int, count: int) -> None:
    entry = only(altered(batch(3, codec=codec), records_count=count))
    assert entry.is_valid
    with pytest.raises(InvalidRecord):
        list(entry)
    assert isinstance(entry, Batch)
    with pytest.raises(InvalidRecord):
        list(iter_glances(entry))


def test_a_batch_can_be_moved_without_a_new_checksum() -> None:
    entry = only(batch(3))
    crc = entry.crc
    entry.set_last_offset(500)
    again = only(bytes(entry.raw))
    assert (again.base_offset, again.last_offset, again.crc, again.is_valid) == (498, 500, crc, True)
    assert [record.offset for record in again] == [498, 499, 500]


def test_a_leader_epoch_is_set_without_a_new_checksum() -> None:
    entry = only(batch(3))
    entry.set_partition_leader_epoch(500)
    again = only(bytes(entry.raw))
    assert (again.partition_leader_epoch, again.is_valid) == (500, True)


def test_log_append_time_is_set_for_all_records() -> None:
    entry = only(batch(3))
    entry.set_max_timestamp(LOG_APPEND_TIME_TYPE, START_MS + 15)
    again = only(bytes(entry.raw))
    assert (again.timestamp_type, again.max_timestamp, again.is_valid) == (LOG_APPEND_TIME_TYPE, START_MS + 15, True)
    assert {record.timestamp for record in again} == {START_MS + 15}


def test_control_records_survive_a_round_trip() -> None:
    entry = only(marker(5, 3, commit=True, offset=9, coordinator_epoch=29, leader_epoch=2))
    assert entry.is_control_batch
    (record,) = entry
    assert decode_end_txn_marker(record.key, record.value) == EndTxnMarker(True, 29)
    assert (record.offset, entry.partition_leader_epoch, entry.producer_id) == (9, 2, 5)


@pytest.mark.parametrize("codec", CODECS)
def test_glances_see_what_whole_records_say(codec: int) -> None:
    content = [
        Record(each.offset, each.timestamp + each.offset, b"k" if each.offset % 2 else None, each.value) for each in records(20)
    ]
    entry = only(batch(content, codec=codec))
    assert isinstance(entry, Batch)
    glances = list(iter_glances(entry))
    assert [(each.offset, each.timestamp, each.has_key) for each in glances] == [
        (each.offset, each.timestamp, each.has_key) for each in entry
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_can_be_read_in_part_and_again(codec: int) -> None:
    entry = only(batch(50, codec=codec))
    first = [record.value for record in islice(entry, 3)]
    assert [record.value for record in entry][:3] == first
    assert len(list(entry)) == 50


@pytest.mark.parametrize("count", [1, 100, 300])
def test_large_values_in_a_compressed_batch_are_passed_over(count: int) -> None:
    entry = only(batch(records(count, size=2000), codec=ZSTD))
    assert isinstance(entry, Batch)
    assert sum(1 for _ in iter_glances(entry)) == count


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_wrapper_moves_its_messages(codec: int) -> None:
    entry = only(messages(1, 3, first=25, codec=codec))
    assert (entry.base_offset, entry.last_offset) == (25, 27)
    entry.set_last_offset(33)
    again = only(bytes(entry.raw))
    assert again.is_valid
    assert [record.offset for record in again] == [31, 32, 33]


def _wrapper(magic: int, offset: int, content: bytes) -> bytes:
    return encode_message(Record(offset, START_MS, None, codecs.compress(GZIP, content)), magic=magic, codec=GZIP)


def test_a_wrapper_with_offset_0_has_offsets_of_its_own_inside() -> None:
    entry = only(_wrapper(1, 0, messages(1, 3)))
    assert [record.offset for record in entry] == [0, 1, 2]


def test_a_wrapper_with_less_than_its_last_inner_offset_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        list(only(_wrapper(1, 1, messages(1, 3))))


@pytest.mark.parametrize("content", [b"", b"\0" * 5])
def test_a_wrapper_without_messages_is_refused(content: bytes) -> None:
    with pytest.raises(LogRefusal):
        list(only(_wrapper(1, 3, content)))


def test_a_wrapper_in_a_wrapper_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        list(only(_wrapper(1, 3, messages(1, 3, codec=GZIP))))


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("timestamp_type", [LOG_APPEND_TIME_TYPE, CREATE_TIME])
def test_a_v0_message_takes_no_time(codec: int, timestamp_type: int) -> None:
    entry = next(iter_entries(bytearray(messages(0, 1, codec=codec))))
    with pytest.raises(InvalidState):
        entry.set_max_timestamp(timestamp_type, START_MS)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_an_old_message_takes_no_leader_epoch(magic: int, codec: int) -> None:
    entry = next(iter_entries(bytearray(messages(magic, 1, codec=codec))))
    with pytest.raises(InvalidState):
        entry.set_partition_leader_epoch(15)


def test_log_append_time_of_a_wrapper_is_that_of_its_messages() -> None:
    entry = only(messages(1, 3, codec=GZIP))
    entry.set_max_timestamp(LOG_APPEND_TIME_TYPE, START_MS + 9)
    again = only(bytes(entry.raw))
    assert (again.timestamp_type, again.max_timestamp, again.is_valid) == (LOG_APPEND_TIME_TYPE, START_MS + 9, True)
    assert {record.timestamp for record in again} == {START_MS + 9}


def test_create_time_of_a_wrapper_is_its_own() -> None:
    entry = only(messages(1, 3, codec=GZIP))
    entry.set_max_timestamp(CREATE_TIME, START_MS + 9)
    again = only(bytes(entry.raw))
    assert (again.timestamp_type, again.max_timestamp, again.is_valid) == (CREATE_TIME, START_MS + 9, True)
    assert {record.timestamp for record in again} == {START_MS}


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_in_an_old_wrapper_is_refused(magic: int) -> None:
    stored = bytearray(_wrapper(magic, 2, messages(magic, 3)))
    stored[17] = ZSTD
    with pytest.raises(LogRefusal):
        list(Message(stored))


@pytest.mark.parametrize(("magic", "codec"), [(magic, codec) for magic in (0, 1) for codec in (0, GZIP, SNAPPY, LZ4)])
def test_old_messages_come_back_as_they_were(magic: int, codec: int) -> None:
    stored = messages(magic, 4, first=7, codec=codec)
    assert [record.offset for entry in iter_entries(stored) for record in entry] == [7, 8, 9, 10]
    assert all(entry.is_valid and (entry.producer_id, entry.last_sequence) == (-1, -1) for entry in iter_entries(stored))


def test_the_size_of_the_next_entry() -> None:
    stored = batch(2)
    assert entry_size(b"", 0, 0) is None
    assert entry_size(stored, 0, 11) is None
    assert entry_size(stored, 0, len(stored) - 1) is None
    assert entry_size(stored + b"more", 0, len(stored) + 4) == len(stored)
    for size in (13, 0, -1):
        with pytest.raises(CorruptRecord):
            entry_size(altered(stored, checksum=False, batch_length=size), 0, len(stored))
    with pytest.raises(CorruptRecord):
        entry_size(altered(stored, checksum=False, magic=3), 0, len(stored))


def test_sets_of_all_formats_are_walked() -> None:
    def offsets(data: bytes) -> Iterator[int]:
        for entry in iter_entries(data):
            yield from (record.offset for record in entry)

    stored = messages(0, 2) + messages(1, 2, first=2, codec=GZIP) + batch(3, first=4, codec=LZ4) + batch(1, first=9)
    assert list(offsets(stored)) == [0, 1, 2, 3, 4, 5, 6, 9]
    assert list(offsets(stored[:-5])) == [0, 1, 2, 3, 4, 5, 6]
