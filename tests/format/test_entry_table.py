"""The table of entry headers, whose columns are views of the array that kernels take, and the front of every entry."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from kafkalog.format import entry_table
from kafkalog.format.entry_front import FRONT, SMALLEST_ENTRY, EntryFront, peek_crc, peek_front, peek_last_offset, peek_length
from kafkalog.format.entry_table import FIELD_COUNT, EntryHeader, EntryTable
from kafkalog.format.reference import Record, encode_batch, encode_message
from kafkalog.kernels import scan


def numbered(count: int) -> EntryTable:
    """Field f of entry e is 100 * f + e."""
    return EntryTable(np.arange(FIELD_COUNT)[:, None] * 100 + np.arange(count))


@pytest.mark.parametrize("name", EntryHeader._fields)
def test_a_column_is_a_view_of_the_row_that_kernels_know_by_the_same_name(name: str) -> None:
    table = numbered(3)
    row = getattr(entry_table, name.upper())
    column = getattr(table, name)
    assert np.shares_memory(column, table.fields)
    assert column.tolist() == table.fields[row].tolist() == table.column(name).tolist()
    setattr(table, name, -1)
    assert table.fields[row].tolist() == [-1, -1, -1]
    column += 1
    assert getattr(table.header(2), name) == 0


def test_rows_are_chosen_by_slice_mask_and_number() -> None:
    table = numbered(5)
    assert table[1:3].position.tolist() == [1, 2]
    assert np.shares_memory(table[1:3].fields, table.fields)
    assert table[table.position > 2].position.tolist() == [3, 4]
    assert table[np.array([4, 0])].magic.tolist() == [204, 200]
    assert table.without([0, 3]).position.tolist() == [1, 2, 4]
    assert table.without([]) is table
    assert len(table[5:]) == 0
    assert table.only(-1).position.tolist() == [4]
    assert table.only(1).fields.flags.c_contiguous


def test_tables_are_joined_and_copied() -> None:
    table = numbered(2)
    assert EntryTable.joined([table, table[:1]]).position.tolist() == [0, 1, 0]
    copied = table.copy()
    copied.position = 7
    assert table.position.tolist() == [0, 1]


def test_headers_come_out_one_by_one() -> None:
    table = numbered(2)
    assert list(table) == [table.header(0), table.header(1)]
    assert table.header(1).stop == table.stop[1] == 1 + 101


def test_the_kernel_fills_what_the_names_say() -> None:
    stored = encode_message(Record(3, 5, b"k", b"v"), magic=1)
    records = [Record(7, 9, None, b"v"), Record(8, 10, None, b"v")]
    stored += encode_batch(records, leader_epoch=4, producer_id=11, producer_epoch=1, base_sequence=6)
    table = EntryTable.with_room(3)
    status, count, _ = scan.scan_window(np.frombuffer(stored, np.uint8), 0, len(stored), 1000, len(stored), table.fields)
    assert (status, count) == (scan.END, 2)
    message, batch = table[:count]
    assert message.position == 1000
    assert batch.position == message.stop
    assert batch.stop == 1000 + len(stored)
    assert (message.magic, message.base_offset, message.max_timestamp, message.record_count) == (1, 3, 5, -1)
    assert (batch.magic, batch.base_offset, batch.last_offset, batch.record_count) == (2, 7, 8, 2)
    assert (batch.leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 11, 1, 6)
    assert peek_last_offset(stored) == 3
    assert peek_last_offset(stored[message.size :]) == 8
    assert (peek_crc(stored, 1), peek_crc(stored[message.size :], 2)) == (message.crc, batch.crc)


@pytest.mark.parametrize("magic", [0, 1, 2, 255])
def test_a_front_is_read_whatever_it_says(magic: int) -> None:
    data = struct.pack(">qiIB", -5, -1, 77, magic)
    assert len(data) == FRONT.itemsize
    assert peek_front(data) == EntryFront(-5, -1, magic)
    assert peek_front(b"xx" + data, 2) == peek_front(memoryview(data))
    assert EntryFront(0, SMALLEST_ENTRY - 12, 0).size == SMALLEST_ENTRY == 26


def test_of_a_front_that_is_cut_only_the_length_is_known_and_then_nothing() -> None:
    data = struct.pack(">qiIB", 1, 20, 77, 2)
    assert peek_front(data[:-1]) is None
    assert peek_length(data[:12]) == 20
    assert peek_length(data[:11]) is None
    assert peek_length(data, 6) is None
