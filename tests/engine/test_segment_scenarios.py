"""One segment: reads, truncation, recovery, times, files; and several of them in a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkalog.engine.checkpoints import CheckpointFile
from kafkalog.engine.config import LogConfig
from kafkalog.engine.leader_epochs import LeaderEpochs
from kafkalog.engine.log_segment import LogSegment
from kafkalog.engine.log_segments import LogSegments
from kafkalog.engine.producers import ProducerStates
from kafkalog.engine.recovery import recover_segment
from kafkalog.engine.schedule import ManualClock, Schedule
from kafkalog.errors import InvalidArgument, SegmentOffsetOverflow
from kafkalog.format.reference import decode_entries
from kafkalog.storage.fs import LocalFs
from tests.engine.scenarios.payloads import batch, in_transaction, marker, messages, records

NOW = 1_700_000_000_000
END_OF_TIME = (1 << 63) - 1


def open_segment(folder: Path, base: int = 40, *, exists: bool = False, **settings: object) -> LogSegment:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = LogConfig.of({"index.interval.bytes": 10, "segment.index.bytes": 1000, **named})
    return LogSegment.open(str(folder), base, config, fs=LocalFs(), clock=ManualClock(NOW), exists=exists)


def entry(first: int, count: int = 1, at: int = NOW, **fields: int) -> bytes:
    return batch(records(count, first=first, at=at), leader_epoch=0, **fields)


def found(segment: LogSegment, offset: int, max_size: int = 10_000, *, min_one: bool = False) -> list[tuple[int, int]] | None:
    """First and last offsets of the entries that a read gives; None where it says that the offset is after the end."""
    part = segment.read(offset, max_size, segment.size, min_one=min_one)
    if part is None:
        return None
    if part.records is None:
        return []
    stored = segment.log.read(part.position, part.size)
    whole = stored if part.size >= len(entry(0)) else b""
    return [(each.base_offset or 0, each.last_offset) for each in decode_entries(whole)]


def state(folder: Path) -> tuple[ProducerStates, LeaderEpochs]:
    fs, clock = LocalFs(), ManualClock(NOW)
    epochs = LeaderEpochs(CheckpointFile(fs, str(folder / "leader-epoch-checkpoint")), Schedule(clock))
    return ProducerStates(fs, str(folder), clock), epochs


@pytest.mark.parametrize(("base", "offset"), [(0, 1 << 31), (1, 0), (100, 10), (1 << 31, 0)])
def test_offsets_too_far_from_the_base_are_refused(tmp_path: Path, base: int, offset: int) -> None:
    with pytest.raises(SegmentOffsetOverflow):
        open_segment(tmp_path, base).append(offset, entry(0))


def test_an_empty_segment_has_nothing_to_read(tmp_path: Path) -> None:
    assert found(open_segment(tmp_path), 40) is None


def test_a_read_before_the_first_entry_begins_with_it(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(53, entry(50, 4))
    for offset in (41, 50, 52):
        assert found(segment, offset) == [(50, 53)]


def test_a_read_after_the_last_entry_finds_nothing(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(51, entry(50, 2))
    assert found(segment, 52) is None


def test_a_read_from_a_gap_continues_after_it(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(51, entry(50, 2))
    segment.append(61, entry(60, 2))
    assert found(segment, 55) == [(60, 61)]


@pytest.mark.parametrize("min_one", [True, False])
def test_without_a_last_position_nothing_may_be_read(tmp_path: Path, min_one: bool) -> None:
    segment = open_segment(tmp_path)
    segment.append(50, entry(50))
    for offset in (48, 50):
        part = segment.read(offset, 300, None, min_one=min_one)
        assert part is not None
        assert part.records is None
    assert segment.read(51, 300, None, min_one=min_one) is None


def test_a_read_of_a_negative_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        open_segment(tmp_path).read(40, -1, 10)


def test_truncation_again_and_again(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    offset = 40
    for _ in range(30):
        segment.append(offset, entry(offset))
        segment.append(offset + 1, entry(offset + 1))
        assert found(segment, offset) == [(offset, offset), (offset + 1, offset + 1)]
        segment.truncate_to(offset + 1)
        assert found(segment, offset) == [(offset, offset)]
        offset += 1


def test_truncation_of_an_empty_segment_starts_its_clock_again(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    config = LogConfig.of({"segment.ms": 500, "segment.index.bytes": 1000})
    segment = LogSegment.open(str(tmp_path), 0, config, fs=LocalFs(), clock=clock)
    segment.make_index_files()
    segment.close()
    reopened = LogSegment.open(str(tmp_path), 0, config, fs=LocalFs(), clock=clock, exists=True)
    assert (reopened.time_index.size, reopened.offset_index.size) == (0, 0)
    clock.now += 600
    reopened.truncate_to(57)
    assert not reopened.should_roll(config, 100, NOW, 100)
    assert not reopened.time_index.is_full
    assert not reopened.offset_index.is_full
    assert reopened.should_roll(config, 100, NOW, 1 << 31)


def test_truncation_takes_times_back(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    for number in range(30):
        segment.append(40 + number, entry(40 + number, at=10 * number))
    assert (segment.largest_timestamp, segment.read_next_offset()) == (290, 70)
    for offset, largest in ((60, 190), (59, 180), (58, 170), (41, 0)):
        segment.truncate_to(offset)
        assert (segment.largest_timestamp, segment.read_next_offset()) == (largest, offset)
    segment.truncate_to(40)
    assert segment.size == 0


def test_truncation_of_everything_leaves_room_for_everything(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(41, entry(40, 2))
    segment.truncate_to(0)
    assert (segment.size, segment.read_next_offset()) == (0, 40)
    assert found(segment, 0) is None
    segment.append(41, entry(40, 2))
    assert found(segment, 0) == [(40, 41)]


def test_truncation_to_an_offset_in_a_gap(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(40, entry(40))
    segment.append(60, entry(60))
    segment.truncate_to(50)
    assert segment.read_next_offset() == 41
    assert segment.size == len(entry(40))


def test_a_record_by_its_time(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    for number in range(10):
        segment.append(40 + number, entry(40 + number, at=10 * number))
    assert segment.largest_timestamp == 90
    for timestamp, offset in ((0, 40), (15, 42), (70, 47), (90, 49)):
        place = segment.find_offset_by_timestamp(timestamp, 40)
        assert place is not None
        assert (place.offset, place.timestamp) == (offset, 10 * (offset - 40))
    assert segment.find_offset_by_timestamp(91, 40) is None
    place = segment.find_offset_by_timestamp(-1, 40)
    assert place is not None
    assert place.offset == 40


def test_the_next_offset(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    assert segment.read_next_offset() == 40
    segment.append(52, entry(50, 3))
    assert segment.read_next_offset() == 53


def test_files_are_renamed_together(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.make_index_files()
    name = "00000000000000000040"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.log", f"{name}.index", f"{name}.timeindex"}
    segment.change_suffixes("", ".deleted")
    assert segment.has_suffix(".deleted")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.log.deleted",
        f"{name}.index.deleted",
        f"{name}.timeindex.deleted",
    }
    segment.change_suffixes(".deleted", "")
    assert (tmp_path / f"{name}.log").exists()


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_recovery_rebuilds_damaged_indexes(tmp_path: Path, suffix: str) -> None:
    segment = open_segment(tmp_path, 0)
    for offset in range(60):
        segment.append(offset, entry(offset, at=10 * offset))
    segment.close()
    path = tmp_path / f"00000000000000000000.{suffix}"
    path.write_bytes(b"\x5a" * (len(path.read_bytes()) or 100))
    segment = open_segment(tmp_path, 0, exists=True)
    assert recover_segment(segment, *state(tmp_path)) == 0
    for offset in range(60):
        assert found(segment, offset, 1, min_one=True) == [(offset, offset)]
        place = segment.find_offset_by_timestamp(10 * offset, 0)
        assert place is not None
        assert place.offset == offset


def test_recovery_finds_aborted_transactions(tmp_path: Path) -> None:
    segment = open_segment(tmp_path, 100)
    entries = [
        in_transaction(2, 5, 0, 0, first=100, leader_epoch=0),
        in_transaction(2, 6, 0, 0, first=102, leader_epoch=0),
        entry(104, 2),
        in_transaction(2, 5, 0, 2, first=106, leader_epoch=0),
        marker(6, 0, commit=False, offset=108),
    ]
    for stored in entries:
        (last,) = (each.last_offset for each in decode_entries(stored))
        segment.append(last, stored)
    producers, epochs = state(tmp_path)
    recover_segment(segment, producers, epochs)
    assert producers.map_end_offset == 109
    assert [tuple(each) for each in segment.transaction_index.all_aborted()] == [(6, 102, 108, 100)]
    again, _ = state(tmp_path)
    recover_segment(segment, again, epochs)
    assert segment.transaction_index.all_aborted()[0].last_stable_offset == 100


def test_recovery_finds_leader_epochs(tmp_path: Path) -> None:
    segment = open_segment(tmp_path, 100)
    for offset, epoch in ((104, 0), (106, 1), (110, 1), (112, 2), (114, 2)):
        segment.append(offset + 1, batch(records(2, first=offset), leader_epoch=epoch))
    producers, epochs = state(tmp_path)
    recover_segment(segment, producers, epochs)
    assert [tuple(each) for each in epochs.entries] == [(0, 104), (1, 106), (2, 112)]


@pytest.mark.parametrize("damaged", [0, 7, 19])
def test_recovery_cuts_a_segment_at_a_damaged_entry(tmp_path: Path, damaged: int) -> None:
    segment = open_segment(tmp_path, 0)
    for offset in range(20):
        segment.append(offset, entry(offset))
    place = segment.translate_offset(damaged)
    assert place is not None
    segment.close()
    path = tmp_path / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[place.position + 64] ^= 255
    path.write_bytes(content)
    segment = open_segment(tmp_path, 0, exists=True)
    assert recover_segment(segment, *state(tmp_path)) == len(content) - place.position
    assert segment.read_next_offset() == damaged
    assert path.stat().st_size == place.position


def test_a_preallocated_segment_is_filled_from_its_start(tmp_path: Path) -> None:
    segment = open_segment(tmp_path, preallocate="true", segment_bytes=1 << 21)
    path = tmp_path / "00000000000000000040.log"
    assert (segment.size, path.stat().st_size) == (0, 1 << 21)
    segment.append(51, entry(50, 2))
    segment.append(61, entry(60, 2))
    assert found(segment, 55) == [(60, 61)]
    size = segment.size
    segment.close()
    assert path.stat().st_size == size
    again = open_segment(tmp_path, preallocate="true", exists=True, segment_bytes=1 << 21)
    assert (again.size, again.read_next_offset()) == (size, 62)


def test_entries_are_copied_from_a_file_as_far_as_they_fit(tmp_path: Path) -> None:
    source = open_segment(tmp_path, 0)
    near = b"".join(entry(offset) for offset in (0, 10, (1 << 31) - 1))
    far = entry((1 << 31) + 3)
    source.log.append(near + far)
    target_folder = tmp_path / "target"
    target_folder.mkdir()
    target = open_segment(target_folder, 0)
    assert target.append_from_file(source.log, 0) == len(near)
    assert target.read_next_offset() == 1 << 31
    beyond = open_segment(target_folder, 1 << 31)
    assert beyond.append_from_file(source.log, len(near)) == len(far)


@pytest.mark.parametrize(("times", "first"), [((), END_OF_TIME), ((100, 50), 100), ((-1, 100), END_OF_TIME)])
def test_the_time_of_the_first_entry(tmp_path: Path, times: Sequence[int], first: int) -> None:
    segment = open_segment(tmp_path)
    for offset, time in enumerate(times, 40):
        segment.append(offset, entry(offset, at=time))
    assert segment.first_batch_timestamp == first


def test_the_time_of_a_first_old_message(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(40, messages(0, 1, first=40))
    assert segment.first_batch_timestamp == END_OF_TIME


def test_files_that_are_gone_already_can_be_deleted(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.append(40, entry(40))
    segment.delete_if_exists()
    segment.delete_if_exists()
    assert list(tmp_path.iterdir()) == []


def four_segments(folder: Path) -> LogSegments:
    return LogSegments(open_segment(folder, base) for base in (1, 10, 20, 30))


def bases(segments: Sequence[LogSegment]) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_segments_between_two_offsets(tmp_path: Path) -> None:
    segments = four_segments(tmp_path)
    assert bases(segments.between(10, 10)) == []
    assert bases(segments.between(0, 21)) == [1, 10, 20]
    assert bases(segments.between(2, 5)) == [1]
    assert bases(segments.between(13, 31)) == [10, 20, 30]
    assert bases(segments.between(13, 17)) == [10]
    with pytest.raises(InvalidArgument):
        segments.between(10, 0)


def test_segments_except_the_active_one(tmp_path: Path) -> None:
    segments = four_segments(tmp_path)
    assert bases(segments.non_active_from(0)) == [1, 10, 20]
    assert bases(segments.non_active_from(10)) == [10, 20]
    assert bases(segments.non_active_from(25)) == [20]
    assert bases(segments.non_active_from(30)) == []


def test_segments_around_an_offset(tmp_path: Path) -> None:
    segments = four_segments(tmp_path)
    for offset, lower, floor, higher in (
        (1, None, 1, 10),
        (10, 1, 10, 20),
        (15, 10, 10, 20),
        (30, 20, 30, None),
        (99, 30, 30, None),
    ):
        around = (segments.lower(offset), segments.floor(offset), segments.higher(offset))
        assert tuple(each and each.base_offset for each in around) == (lower, floor, higher)
    assert bases(segments.all_higher(10)) == [20, 30]
    assert segments.floor(0) is None


def test_segments_come_and_go(tmp_path: Path) -> None:
    segments = four_segments(tmp_path)
    assert (len(segments), segments.base_offsets, segments.active.base_offset) == (4, [1, 10, 20, 30], 30)
    assert segments.first is segments.get(1)
    segments.remove(30)
    assert segments.last is segments.get(20)
    assert 30 not in segments
    segments.clear()
    assert (len(segments), segments.first, segments.last) == (0, None, None)
