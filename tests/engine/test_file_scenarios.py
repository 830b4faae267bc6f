"""A segment's file: its limits, slices, walks over what is not whole, searches, truncation, preallocation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.engine.file_records import MAX_SIZE, EntryPlace, FileRecords
from kafkalog.errors import InvalidArgument, LogRefusal
from kafkalog.storage.fs import LocalFs
from tests.engine.scenarios.payloads import GZIP, batch, messages, records
from tests.engine.scenarios.script import START_MS


def open_file(folder: Path, **fields: int) -> FileRecords:
    return FileRecords(LocalFs(), str(folder / "0.log"), **fields)  # type: ignore[arg-type]


@pytest.fixture
def three(tmp_path: Path) -> FileRecords:
    """Three batches of one record."""
    file = open_file(tmp_path)
    for offset in range(3):
        file.append(entry(offset))
    return file


def entry(offset: int, at: int = START_MS) -> bytes:
    return batch(records(1, first=offset, at=at), leader_epoch=3)


ONE = len(entry(0))


def offsets(file: FileRecords, *bounds: int) -> list[int]:
    return [each.last_offset for each in file.iter_entries(*bounds)]


def test_a_file_never_grows_beyond_what_a_position_can_say(three: FileRecords) -> None:
    three.size = MAX_SIZE - ONE + 1
    with pytest.raises(InvalidArgument):
        three.append(entry(3))


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    with path.open("wb") as sparse:
        sparse.truncate(MAX_SIZE + 1)
    with pytest.raises(LogRefusal):
        open_file(tmp_path)


@pytest.mark.parametrize(("position", "size"), [(-1, 0), (0, -1), (3 * ONE + 1, 1)])
def test_slices_outside_of_the_file_are_refused(three: FileRecords, position: int, size: int) -> None:
    with pytest.raises(InvalidArgument):
        three.slice_size(position, size)


def test_slices_end_with_the_file(three: FileRecords) -> None:
    assert three.slice_size(ONE, ONE) == ONE
    assert three.slice_size(ONE, 10 * ONE) == 2 * ONE
    assert three.slice_size(3 * ONE, 5) == 0


def test_the_size_is_that_of_what_was_appended(three: FileRecords, tmp_path: Path) -> None:
    assert three.size == (tmp_path / "0.log").stat().st_size == 3 * ONE
    for offset in range(3, 8):
        three.append(entry(offset))
        assert three.size == (offset + 1) * ONE


def test_a_slice_keeps_its_size_while_the_file_grows(three: FileRecords) -> None:
    size = three.slice_size(ONE, 100 * ONE)
    three.append(entry(3))
    assert offsets(three, ONE, ONE + size) == [1, 2]


@pytest.mark.parametrize("tail", [b"\0" * 5, b"\0" * 17, entry(3)[:-1], entry(3)[:18]])
def test_a_walk_ends_before_what_is_not_whole(three: FileRecords, tail: bytes) -> None:
    three.append(tail)
    assert offsets(three) == [0, 1, 2]
    three.truncate_to(3 * ONE)
    three.append(entry(3))
    assert offsets(three) == [0, 1, 2, 3]


def test_walks_do_not_disturb_appends(three: FileRecords) -> None:
    walk = three.iter_entries()
    assert next(walk).last_offset == 0
    three.append(entry(3))
    assert [each.last_offset for each in walk] == [1, 2]
    assert offsets(three) == [0, 1, 2, 3]


def test_a_read_of_a_part(three: FileRecords) -> None:
    assert three.read(0, 3 * ONE) == b"".join(map(entry, range(3)))
    assert three.read(ONE, ONE) == entry(1)
    assert offsets(three, ONE) == [1, 2]
    assert offsets(three, ONE, 2 * ONE) == [1]
    assert offsets(three, ONE, 3 * ONE - 1) == [1]


def test_a_search_by_offset(three: FileRecords) -> None:
    three.append(batch(records(2, first=50)))
    assert three.find_offset(0, 0) == EntryPlace(0, 0, ONE)
    assert three.find_offset(2, 0) == EntryPlace(2, 2 * ONE, ONE)
    assert three.find_offset(2, ONE) == EntryPlace(2, 2 * ONE, ONE)
    for offset in (3, 49, 50, 51):
        place = three.find_offset(offset, 0)
        assert place is not None
        assert (place.offset, place.position) == (50, 3 * ONE)
    assert three.find_offset(52, 0) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_a_search_by_offset_inside_a_wrapper(tmp_path: Path, magic: int) -> None:
    file = open_file(tmp_path)
    wrapper = messages(magic, 4, codec=GZIP)
    file.append(wrapper + messages(magic, 4, first=4, codec=GZIP))
    for offset, position in ((0, 0), (3, 0), (4, len(wrapper)), (7, len(wrapper))):
        place = file.find_offset(offset, 0)
        assert place is not None
        assert place.position == position


def test_truncation_of_a_file(three: FileRecords, tmp_path: Path) -> None:
    assert three.truncate_to(ONE) == 2 * ONE
    assert offsets(three) == [0]
    assert (three.size, (tmp_path / "0.log").stat().st_size) == (ONE, ONE)


def test_truncation_to_its_own_size_changes_nothing(three: FileRecords, tmp_path: Path) -> None:
    before = (tmp_path / "0.log").stat().st_mtime_ns
    assert three.truncate_to(3 * ONE) == 0
    assert (tmp_path / "0.log").stat().st_mtime_ns == before


@pytest.mark.parametrize("size", [3 * ONE + 1, -1])
def test_a_file_is_not_made_longer_by_truncation(three: FileRecords, size: int) -> None:
    with pytest.raises(LogRefusal):
        three.truncate_to(size)
    assert three.size == 3 * ONE


def test_a_preallocated_file_is_as_long_as_it_will_be(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    file = open_file(tmp_path, initial_size=512 * 1024, preallocate=True)
    assert (file.size, path.stat().st_size) == (0, 512 * 1024)
    file.append(entry(0))
    assert (file.size, path.stat().st_size, offsets(file)) == (ONE, 512 * 1024, [0])
    file.close()
    assert path.stat().st_size == ONE
    again = open_file(tmp_path, exists=True, initial_size=512 * 1024, preallocate=True)
    assert (again.size, path.stat().st_size) == (ONE, ONE)


def test_a_file_without_preallocation_begins_empty(tmp_path: Path) -> None:
    file = open_file(tmp_path, initial_size=512 * 1024)
    assert (file.size, (tmp_path / "0.log").stat().st_size) == (0, 0)


def test_a_closed_file_may_be_closed_again(three: FileRecords) -> None:
    three.close()
    three.close()


@pytest.mark.parametrize(
    ("timestamp", "start", "expected"),
    [
        (0, 0, (0, 0)),
        (5, 0, (10, 1)),
        (10, 0, (10, 1)),
        (10, 2, (20, 2)),
        (20, 0, (20, 2)),
        (21, 0, None),
        (0, 2, (20, 2)),
        (-1, 0, (0, 0)),
    ],
)
def test_a_search_by_time(tmp_path: Path, timestamp: int, start: int, expected: tuple[int, int] | None) -> None:
    file = open_file(tmp_path)
    for offset in range(3):
        file.append(entry(offset, at=10 * offset))
    found = file.find_timestamp(timestamp, 0, start)
    assert (found and (found.timestamp, found.offset)) == expected
    assert found is None or found.leader_epoch == 3


@pytest.mark.parametrize("magic", [0, 1])
def test_a_search_by_time_in_old_messages(tmp_path: Path, magic: int) -> None:
    file = open_file(tmp_path)
    file.append(messages(magic, 2, at=10) + messages(magic, 2, first=2, at=20, codec=GZIP))
    found = file.find_timestamp(15, 0, 0)
    assert (found and (found.offset, found.timestamp, found.leader_epoch)) == ((2, 20, -1) if magic else None)


def test_the_greatest_time_from_a_position_on(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    for offset, time in enumerate((5, 9, 3, 9)):
        file.append(entry(offset, at=time))
    assert file.largest_timestamp_after(0)[:2] == (9, 1)
    assert file.largest_timestamp_after(2 * ONE)[:2] == (9, 3)
    assert file.largest_timestamp_after(4 * ONE)[:2] == (-1, -1)
