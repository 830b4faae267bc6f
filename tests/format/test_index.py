"""Index files: entries, zero tails, partial entries."""

from __future__ import annotations

import struct

import pytest

from kafkalog.errors import UnsupportedFormat
from kafkalog.format.index import read_offset_index, read_time_index, read_txn_index

TXN_ENTRY = bytes.fromhex("00000000000000000009000000000000000500000000000000070000000000000008")


def _offset_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def _time_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_offsets_become_absolute() -> None:
    assert read_offset_index(_offset_entries((19, 1146), (30, 2200)), 208).tolist() == [(227, 1146), (238, 2200)]
    assert read_time_index(_time_entries((1607778304192, 12)), 208).tolist() == [(1607778304192, 220)]


def test_the_zero_tail_of_a_preallocated_index_is_cut() -> None:
    assert read_offset_index(_offset_entries((19, 1146)) + bytes(4088), 208).tolist() == [(227, 1146)]
    assert read_time_index(_time_entries((1607778304192, 12)) + bytes(4080), 208).tolist() == [(1607778304192, 220)]


def test_the_first_entry_may_have_relative_offset_zero() -> None:
    assert read_time_index(_time_entries((1000, 0), (2000, 3), (0, 0)), 5).tolist() == [(1000, 5), (2000, 8)]


def test_an_index_that_nobody_wrote_to_reads_as_kafkas_tool_prints_it() -> None:
    assert read_offset_index(bytes(4096), 209).tolist() == [(209, 0)]
    assert read_time_index(bytes(4092), 209).tolist() == [(0, 209)]


@pytest.mark.parametrize("size", [0, 1, 7])
def test_less_than_one_entry_is_no_entry(size: int) -> None:
    assert read_offset_index(b"\1" * size, 0).tolist() == []
    assert read_time_index(b"\1" * size, 0).tolist() == []
    assert read_txn_index(b"\0" * size).tolist() == []


def test_a_partial_entry_at_the_end_is_ignored() -> None:
    assert read_offset_index(_offset_entries((1, 2)) + b"\0\0\0\5", 0).tolist() == [(1, 2)]
    assert read_txn_index(TXN_ENTRY + TXN_ENTRY[:33]).tolist() == [(0, 9, 5, 7, 8)]


def test_stale_entries_after_a_truncation_are_kept_since_nothing_marks_them() -> None:
    assert read_offset_index(_offset_entries((5, 50), (3, 30)), 100).tolist() == [(105, 50), (103, 30)]


def test_a_ten_mebibyte_index_with_one_entry_reads_as_one_entry() -> None:
    assert len(read_offset_index(_offset_entries((7, 70)) + bytes((10 << 20) - 8), 0)) == 1


def test_an_aborted_transaction_is_read_from_its_34_bytes() -> None:
    entries = read_txn_index(TXN_ENTRY * 2)
    assert entries.dtype.names == ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    assert entries.tolist() == [(0, 9, 5, 7, 8)] * 2


@pytest.mark.parametrize(("version", "reason"), [(b"\0\1", "version"), (b"\1\0", "version"), (b"\xff\xff", "file-format")])
def test_a_transaction_index_of_another_version_is_refused_where_it_begins(version: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedFormat) as error:
        read_txn_index(TXN_ENTRY + version + TXN_ENTRY[2:])
    assert (error.value.reason, error.value.position) == (reason, 34)


def test_views_of_other_buffers_are_read_too() -> None:
    stored = bytearray(_offset_entries((1, 2), (3, 4)))
    assert read_offset_index(memoryview(stored)[8:], 0).tolist() == [(3, 4)]
