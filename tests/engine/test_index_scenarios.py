"""The offset and the time index of a segment: lookups, their limits, files of every size, truncation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kafkalog.engine.indexes import OffsetIndex, TimeIndex
from kafkalog.engine.offsets import OffsetPosition, TimestampOffset
from kafkalog.errors import CorruptIndex, IndexOffsetOverflow, InvalidArgument, InvalidOffset, InvalidState
from kafkalog.storage.fs import LocalFs

BASE = 45
OFFSET_ENTRY, TIME_ENTRY = 8, 12


def offset_index(folder: Path, base: int = BASE, entries: int = 30) -> OffsetIndex:
    return OffsetIndex(LocalFs(), str(folder / "00000000000000000045.index"), base, entries * OFFSET_ENTRY)


def time_index(folder: Path, entries: int = 30) -> TimeIndex:
    return TimeIndex(LocalFs(), str(folder / "00000000000000000045.timeindex"), BASE, entries * TIME_ENTRY)


def filled_time_index(folder: Path, count: int, entries: int = 30) -> TimeIndex:
    index = time_index(folder, entries)
    for number in range(1, count + 1):
        index.maybe_append(number * 10, BASE + number)
    return index


@pytest.mark.parametrize("entries", [1, 2, 30, 1023, 1500])
def test_a_lookup_finds_the_last_entry_not_after_its_offset(tmp_path: Path, entries: int) -> None:
    random = Random(entries)
    index = offset_index(tmp_path, entries=entries)
    offsets = sorted(random.sample(range(BASE + 1, BASE + 20 * entries), entries))
    for number, offset in enumerate(offsets):
        index.append(offset, 7 * number)
    for offset in (*offsets, *(random.randrange(BASE, offsets[-1] + 100) for _ in range(50))):
        row = bisect_right(offsets, offset)
        expected = OffsetPosition(offsets[row - 1], 7 * (row - 1)) if row else OffsetPosition(BASE, 0)
        assert index.lookup(offset) == expected


def test_lookups_at_the_extremes(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    assert index.lookup(BASE) == OffsetPosition(BASE, 0)
    assert index.lookup(BASE - 10) == OffsetPosition(BASE, 0)
    for number in range(index.max_entries):
        index.append(BASE + number + 1, number)
    assert index.lookup(BASE) == OffsetPosition(BASE, 0)
    assert index.lookup(BASE + 10_000) == OffsetPosition(BASE + index.max_entries, index.max_entries - 1)


def test_entries_by_number(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    for number in range(10):
        index.append(BASE + number + 1, number)
    assert [index.entry(number) for number in range(10)] == [OffsetPosition(BASE + number + 1, number) for number in range(10)]
    with pytest.raises(InvalidArgument):
        index.entry(10)


def test_a_full_index_takes_no_more(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    for number in range(index.max_entries):
        assert not index.is_full
        index.append(BASE + number + 1, number)
    assert index.is_full
    with pytest.raises(InvalidArgument):
        index.append(BASE + index.max_entries + 1, 0)


def test_offsets_of_an_index_rise(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(51, 0)
    for offset in (51, 50):
        with pytest.raises(InvalidOffset):
            index.append(offset, 1)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + (1 << 31)])
def test_an_index_holds_offsets_near_its_base_only(tmp_path: Path, offset: int) -> None:
    index = offset_index(tmp_path)
    assert not index.can_append_offset(offset)
    with pytest.raises(IndexOffsetOverflow):
        index.append(offset, 0)
    assert index.can_append_offset(BASE + (1 << 31) - 1)


def test_the_upper_bound_of_a_fetch(tmp_path: Path) -> None:
    index = offset_index(tmp_path, base=0, entries=8)
    entries = [OffsetPosition(0, 0), OffsetPosition(1, 10), OffsetPosition(2, 23), OffsetPosition(3, 37)]
    assert index.fetch_upper_bound(0, 5) is None
    for entry in entries:
        index.append(*entry)
    assert index.fetch_upper_bound(0, 5) == entries[1]
    assert index.fetch_upper_bound(0, 10) == entries[1]
    assert index.fetch_upper_bound(0, 23) == entries[2]
    assert index.fetch_upper_bound(0, 22) == entries[2]
    assert index.fetch_upper_bound(10, 24) == entries[3]
    assert index.fetch_upper_bound(37, 1) is None


def test_an_index_is_found_again(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(51, 0)
    index.append(52, 1)
    index.close()
    again = offset_index(tmp_path)
    assert (again.entry_count, again.max_entries, again.size) == (2, 2, 16)
    assert again.lookup(51) == OffsetPosition(51, 0)
    assert again.lookup(52) == OffsetPosition(52, 1)


def test_truncation_of_an_index(tmp_path: Path) -> None:
    index = offset_index(tmp_path, base=0, entries=10)
    for offset in range(1, 10):
        index.append(offset, offset)
    index.truncate_to(12)
    assert index.lookup(10) == OffsetPosition(9, 9)
    assert index.lookup(9) == OffsetPosition(9, 9)
    index.append(10, 10)
    index.truncate_to(10)
    assert index.last_offset == 9
    index.append(10, 10)
    index.truncate_to(9)
    assert (index.last_offset, index.entry_count) == (8, 8)
    index.append(9, 9)
    index.truncate_to(5)
    assert (index.last_offset, index.entry_count) == (4, 4)
    index.truncate_to(0)
    assert (index.last_offset, index.entry_count) == (0, 0)


def test_an_empty_index_and_one_at_its_base_are_sane(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.sanity_check()
    index.append(BASE, 0)
    index.sanity_check()
    assert index.last_offset == BASE


def test_an_index_whose_last_offset_lies_before_its_base_is_not_sane(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000045.index"
    path.write_bytes(b"\0\0\0\1\0\0\0\1" + b"\xff\xff\xff\xff\0\0\0\2")
    with pytest.raises(CorruptIndex):
        offset_index(tmp_path).sanity_check()


@pytest.mark.parametrize("kind", [offset_index, time_index])
def test_files_of_other_than_whole_entries_are_not_sane(tmp_path: Path, kind: Callable[[Path], OffsetIndex | TimeIndex]) -> None:
    index = kind(tmp_path)
    path = Path(index.path)
    index.release()
    path.write_bytes(bytes(index.entry_size + 1))
    with pytest.raises(CorruptIndex):
        kind(tmp_path).sanity_check()


def test_an_index_whose_file_was_closed_is_opened_again_when_it_is_used(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(46, 3)
    index.release()
    assert index.lookup(46) == OffsetPosition(46, 3)
    index.release()
    index.delete_if_exists()
    assert not Path(index.path).exists()


def test_a_time_lookup_finds_the_last_entry_not_newer(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 0)
    assert index.lookup(100) == TimestampOffset(-1, BASE)
    for number in range(1, 21):
        index.maybe_append(number * 10, BASE + number)
    assert index.lookup(9) == TimestampOffset(-1, BASE)
    assert index.lookup(10) == TimestampOffset(10, BASE + 1)
    assert index.lookup(25) == TimestampOffset(20, BASE + 2)
    assert index.lookup(10_000) == TimestampOffset(200, BASE + 20)


def test_time_entries_by_number(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 5)
    assert [index.entry(number) for number in range(5)] == [TimestampOffset(10 * n, BASE + n) for n in range(1, 6)]
    with pytest.raises(InvalidArgument):
        index.entry(5)


def test_the_time_index_keeps_its_last_place_for_the_end(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 29)
    assert index.is_full
    with pytest.raises(InvalidArgument):
        index.maybe_append(1000, BASE + 100)
    index.maybe_append(1000, BASE + 100, skip_full_check=True)
    assert index.entry_count == index.max_entries == 30


def test_truncation_of_a_time_index(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 20)
    index.truncate_to(BASE + 11)
    assert (index.entry_count, index.last_entry) == (10, TimestampOffset(100, BASE + 10))
    index.reset()
    assert (index.entry_count, index.last_entry) == (0, TimestampOffset(-1, BASE))


def test_times_and_offsets_of_a_time_index_do_not_fall(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 28)
    with pytest.raises(InvalidOffset):
        index.maybe_append(10_000, BASE)
    with pytest.raises(InvalidState):
        index.maybe_append(5, BASE + 100)
    index.maybe_append(10_000, BASE + 28)
    assert index.entry_count == 29


def test_an_entry_without_a_newer_time_is_left_out(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 3)
    index.maybe_append(30, BASE + 10)
    assert (index.entry_count, index.last_entry) == (3, TimestampOffset(30, BASE + 3))


@pytest.mark.parametrize("stored", [[(20, 2), (10, 3)], [(10, 1), (20, -1)]])
def test_a_time_index_out_of_order_is_not_sane(tmp_path: Path, stored: list[tuple[int, int]]) -> None:
    filled_time_index(tmp_path, 3).sanity_check()
    content = b"".join(time.to_bytes(8, "big") + offset.to_bytes(4, "big", signed=True) for time, offset in stored)
    (tmp_path / "00000000000000000045.timeindex").write_bytes(content)
    with pytest.raises(CorruptIndex):
        time_index(tmp_path).sanity_check()


def test_resizing_a_time_index_keeps_its_entries(tmp_path: Path) -> None:
    index = filled_time_index(tmp_path, 10)
    assert not index.resize(30 * TIME_ENTRY)
    assert index.resize(10 * TIME_ENTRY)
    assert Path(index.path).stat().st_size == 10 * TIME_ENTRY
    assert index.resize(25 * TIME_ENTRY + 7)
    assert (index.max_entries, index.last_entry) == (25, TimestampOffset(100, BASE + 10))


def test_the_last_time_entry_is_known(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    assert index.last_entry == TimestampOffset(-1, BASE)
    index.maybe_append(7, BASE + 2)
    assert index.last_entry == TimestampOffset(7, BASE + 2)
    index.close()
    assert time_index(tmp_path).last_entry == TimestampOffset(7, BASE + 2)


def test_bytes_of_the_entries(tmp_path: Path) -> None:
    times = filled_time_index(tmp_path, 1)
    offsets = offset_index(tmp_path)
    offsets.append(BASE + 1, 515)
    times.close()
    offsets.close()
    assert Path(times.path).read_bytes() == (10).to_bytes(8, "big") + (1).to_bytes(4, "big")
    assert Path(offsets.path).read_bytes() == (1).to_bytes(4, "big") + (515).to_bytes(4, "big")
