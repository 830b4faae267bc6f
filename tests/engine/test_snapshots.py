"""The `.snapshot` files after each event in the life of a log, and those that a reload trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.engine.producers import ProducerStates
from tests.engine.test_producers import NOW, Log, data_batch


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def take(producers: ProducerStates, *offsets: int) -> None:
    for offset in offsets:
        producers.map_end_offset = offset
        producers.take_snapshot()


def offsets(log: Log) -> list[int]:
    return [int(path.name.removesuffix(".snapshot")) for path in sorted(log.folder.glob("*.snapshot"))]


def test_a_snapshot_is_taken_once_per_offset(log: Log) -> None:
    log.append(data_batch(1, 0, 0))
    path = log.producers.take_snapshot()
    assert path is not None
    assert Path(path).name == "00000000000000000001.snapshot"
    assert log.producers.take_snapshot() is None


def test_a_damaged_snapshot_is_deleted_and_an_older_one_taken(log: Log) -> None:
    log.append(data_batch(1, 0, 0))
    log.producers.take_snapshot()
    log.append(data_batch(1, 0, 1))
    path = log.producers.take_snapshot()
    assert path is not None
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    producers = log.new_producers()
    producers.truncate_and_reload(0, 2, NOW)
    assert producers.map_end_offset == 1
    assert producers.active_producers[1].last_sequence == 0
    assert offsets(log) == [1]


def test_with_no_snapshot_left_the_state_begins_at_the_log_start_offset(log: Log) -> None:
    take(log.producers, 3)
    producers = log.new_producers()
    producers.truncate_and_reload(5, 9, NOW)
    assert (producers.map_end_offset, offsets(log)) == (5, [])


def test_truncation_keeps_the_snapshots_within_the_log(log: Log) -> None:
    take(log.producers, 2, 4, 6, 8)
    log.producers.truncate_and_reload(2, 6, NOW)
    assert offsets(log) == [4, 6]
    assert log.producers.map_end_offset == 6


def test_a_stray_snapshot_goes_except_that_of_a_clean_shutdown(log: Log) -> None:
    take(log.producers, 1, 2, 5, 7, 9)
    log.producers.remove_stray_snapshots([0, 2, 5])
    assert offsets(log) == [2, 5, 9]
    log.producers.remove_stray_snapshots([0, 2, 5, 10])
    assert offsets(log) == [2, 5]


def test_a_snapshot_that_waits_for_its_deletion_is_renamed(log: Log) -> None:
    take(log.producers, 4)
    snapshot = log.producers.remove_and_mark_snapshot_for_deletion(4)
    assert snapshot is not None
    assert Path(snapshot.path).name == "00000000000000000004.snapshot.deleted"
    assert log.producers.latest_snapshot_offset is None
    snapshot.delete_if_exists()
    assert list(log.folder.iterdir()) == []


def test_a_snapshot_that_is_gone_already_needs_no_deletion(log: Log) -> None:
    take(log.producers, 4)
    (log.folder / "00000000000000000004.snapshot").unlink()
    assert log.producers.remove_and_mark_snapshot_for_deletion(4) is None


def test_starting_over_deletes_all_snapshots(log: Log) -> None:
    log.append(data_batch(1, 0, 0, transactional=True))
    log.producers.take_snapshot()
    log.producers.truncate_fully_and_start_at(29)
    assert offsets(log) == []
    assert log.producers.is_empty
    assert log.producers.first_unstable_offset is None
    assert log.producers.take_snapshot() is not None
    assert offsets(log) == [29]


def test_an_older_snapshot_is_overwritten_in_place_and_its_tail_stays(log: Log) -> None:
    """Kafka does not cut the file first; the tail makes it fail its checksum, so that a reload passes it over."""
    stale = log.folder / "00000000000000000001.snapshot"
    stale.write_bytes(bytes(500))
    log.append(data_batch(1, 0, 0))
    log.producers.take_snapshot()
    assert stale.stat().st_size == 500
    producers = log.new_producers()
    producers.truncate_and_reload(0, 3, NOW)
    assert producers.is_empty


def test_an_expired_producer_is_not_loaded(log: Log) -> None:
    log.append(data_batch(1, 0, 0))
    log.append(data_batch(2, 0, 0, transactional=True))
    log.clock.now += 10**9
    log.reload()
    assert list(log.producers.active_producers) == [2]


def test_when_the_log_start_offset_moves_the_state_moves_along(log: Log) -> None:
    take(log.producers, 3)
    log.producers.on_log_start_offset_incremented(8)
    assert log.producers.map_end_offset == 8
    assert log.producers.take_snapshot() is not None
    assert offsets(log) == [3, 8]


def test_snapshots_follow_a_renamed_folder(log: Log, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    take(log.producers, 3)
    (log.folder / "00000000000000000003.snapshot").rename(folder / "00000000000000000003.snapshot")
    log.producers.update_parent_folder(str(folder))
    log.producers.delete_snapshots_before(4)
    assert list(folder.iterdir()) == []
