"""Offset and time indexes as files: their sizes, what truncation leaves, what they refuse, and how they are searched."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kafkalog.engine.indexes import LazyIndex, OffsetIndex, TimeIndex
from kafkalog.engine.offsets import OffsetPosition, TimestampOffset
from kafkalog.errors import IndexOffsetOverflow, IndexOverflow, InvalidArgument, InvalidOffset, InvalidState
from kafkalog.storage.fs import LocalFs
from tests.builders.simulated_disk import SimulatedFs

BASE = 100


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "00000000000000000100.index")


def offset_index(path: str, max_size: int = 83) -> OffsetIndex:
    return OffsetIndex(LocalFs(), path, BASE, max_size)


def test_a_new_index_has_its_largest_size_in_whole_entries(path: str) -> None:
    index = offset_index(path)
    assert (Path(path).stat().st_size, index.entry_count, index.max_entries) == (80, 0, 10)


def test_an_index_without_room_for_one_entry_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        offset_index(path, max_size=7)


def test_an_index_file_is_made_on_first_use(path: str) -> None:
    lazy = LazyIndex(OffsetIndex, LocalFs(), path, BASE, 80)
    assert not Path(path).exists()
    assert lazy.get() is lazy.get()
    assert Path(path).exists()


def test_a_file_that_is_there_counts_as_full_of_entries(path: str) -> None:
    offset_index(path).release()
    assert offset_index(path).entry_count == 10


def test_truncation_lowers_the_count_and_leaves_old_entries_in_the_file_until_it_is_trimmed(path: str) -> None:
    index = offset_index(path)
    for number in range(1, 5):
        index.append(BASE + number, 10 * number)
    before = Path(path).read_bytes()
    index.truncate_to(BASE + 3)
    assert (index.entry_count, index.last_offset) == (2, BASE + 2)
    assert Path(path).read_bytes() == before
    index.close()
    assert Path(path).read_bytes() == before[:16]


def test_entries_that_no_longer_fit_are_refused_after_the_file_was_cut(path: str) -> None:
    index = offset_index(path)
    for number in range(1, 5):
        index.append(BASE + number, number)
    with pytest.raises(InvalidArgument):
        index.resize(24)
    assert Path(path).stat().st_size == 24


def test_offsets_have_to_rise_and_to_be_in_reach(path: str) -> None:
    index = offset_index(path)
    index.append(BASE + 5, 1)
    with pytest.raises(InvalidOffset):
        index.append(BASE + 5, 2)
    with pytest.raises(IndexOffsetOverflow):
        index.append(BASE + (1 << 31), 2)
    assert index.entry_count == 1


def test_a_full_index_takes_no_entry(path: str) -> None:
    index = offset_index(path, max_size=16)
    index.append(BASE + 1, 1)
    index.append(BASE + 2, 2)
    with pytest.raises(InvalidArgument):
        index.append(BASE + 3, 3)


@given(st.sets(st.integers(1, 5000), max_size=60), st.integers(0, 5100))
def test_lookup_finds_the_last_entry_not_after_an_offset(relative_offsets: set[int], target: int) -> None:
    index = OffsetIndex(SimulatedFs({"/t/x": b""}), "/t/00000000000000000100.index", BASE, 1 << 10)
    for number, offset in enumerate(sorted(relative_offsets), 1):
        index.append(BASE + offset, 10 * number)
    before = [offset for offset in sorted(relative_offsets) if offset <= target]
    expected = OffsetPosition(BASE + before[-1], 10 * len(before)) if before else OffsetPosition(BASE, 0)
    assert index.lookup(BASE + target) == expected


@given(st.integers(1, 60), st.integers(0, 700), st.integers(0, 100))
def test_the_upper_bound_of_a_fetch_is_not_before_its_end(count: int, position: int, size: int) -> None:
    index = OffsetIndex(SimulatedFs({"/t/x": b""}), "/t/00000000000000000100.index", BASE, 1 << 10)
    for number in range(1, count + 1):
        index.append(BASE + number, 10 * number)
    found = index.fetch_upper_bound(position, size)
    if found is None:
        assert 10 * count <= position + size
    else:
        assert position + size <= found.position <= position + size + 10 + 10 * (position + size < 10)


def test_the_time_index_takes_only_later_times_and_keeps_its_last_slot(path: str) -> None:
    index = TimeIndex(LocalFs(), path, BASE, 36)
    index.maybe_append(1000, BASE + 1)
    index.maybe_append(1000, BASE + 2)
    assert index.last_entry == TimestampOffset(1000, BASE + 1)
    with pytest.raises(InvalidState):
        index.maybe_append(999, BASE + 3)
    with pytest.raises(InvalidOffset):
        index.maybe_append(2000, BASE)
    index.maybe_append(2000, BASE + 4)
    with pytest.raises(InvalidArgument):
        index.maybe_append(3000, BASE + 5)
    index.maybe_append(3000, BASE + 5, skip_full_check=True)
    with pytest.raises(IndexOverflow):
        index.maybe_append(4000, BASE + 6, skip_full_check=True)
    assert [index.entry(number).timestamp for number in range(index.entry_count)] == [1000, 2000, 3000]


def test_the_time_index_finds_the_last_entry_not_newer(path: str) -> None:
    index = TimeIndex(LocalFs(), path, BASE, 120)
    for number in range(1, 6):
        index.maybe_append(1000 * number, BASE + number)
    assert index.lookup(999) == TimestampOffset(-1, BASE)
    assert index.lookup(3999) == TimestampOffset(3000, BASE + 3)
    index.truncate_to(BASE + 3)
    assert index.lookup(9999) == TimestampOffset(2000, BASE + 2)


def test_an_offset_out_of_reach_leaves_its_timestamp_after_the_entries(path: str) -> None:
    index = TimeIndex(LocalFs(), path, BASE, 36)
    with pytest.raises(IndexOffsetOverflow):
        index.maybe_append(1000, BASE - 1)
    assert index.entry_count == 0
    assert Path(path).read_bytes() == (1000).to_bytes(8, "big") + bytes(28)
