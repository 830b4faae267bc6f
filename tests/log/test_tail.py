"""The end of a growing partition: where it is, and how little is read to keep it up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.errors import Limits, StorageError
from kafkalog.log.partition import Partition
from kafkalog.log.tail import PartitionTail
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.local import LocalFile, LocalStore
from tests.builders.small_logs import made_batch, marker, transactional_batch, write_segment


def listed(folder: Path) -> Partition:
    (partition,) = kafkalog.open(folder).partitions
    return partition


def append(log: Path, *entries: bytes) -> None:
    with log.open("ab") as stream:
        stream.write(b"".join(entries))


def looked(tail: PartitionTail, folder: Path) -> int:
    tail.look(listed(folder))
    return tail.end_offset


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were opened, by name."""
    names: list[str] = []
    open_file = LocalStore.open

    def noted(store: LocalStore, path: str) -> LocalFile:
        names.append(Path(path).name)
        return open_file(store, path)

    monkeypatch.setattr(LocalStore, "open", noted)
    return names


def test_the_end_follows_a_growing_segment_and_a_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    log = write_segment(folder, 0, made_batch(0))
    tail = PartitionTail(Limits())
    assert looked(tail, folder) == 10
    append(log, made_batch(10), made_batch(20)[:50])
    assert looked(tail, folder) == 20
    assert tail.position == len(made_batch(0)) + len(made_batch(10))
    append(log, made_batch(20)[50:])
    assert looked(tail, folder) == 30
    write_segment(folder, 30)
    assert looked(tail, folder) == 30
    append(folder / "00000000000000000030.log", made_batch(30))
    assert looked(tail, folder) == 40


def test_without_anything_new_no_file_is_opened_and_new_entries_alone_are_read(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "orders-0"
    log = write_segment(folder, 0, *(made_batch(offset) for offset in range(0, 1000, 10)))
    tail = PartitionTail(Limits(), transactions=True)
    looked(tail, folder)
    opened.clear()
    assert looked(tail, folder) == 1000
    assert opened == []
    walked: list[tuple[int, int]] = []

    def noted(source: Any, start: int, stop: int, limits: Limits) -> SegmentWalk:
        walked.append((start, stop))
        return SegmentWalk(source, start, stop, limits)

    monkeypatch.setattr("kafkalog.log.tail.SegmentWalk", noted)
    before = log.stat().st_size
    append(log, made_batch(1000))
    assert looked(tail, folder) == 1010
    assert walked == [(before, before + len(made_batch(1000)))]


def test_a_zero_tail_and_an_entry_with_a_hole_are_not_the_end_yet(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    large = made_batch(10, 100)
    torn = large[:1024] + bytes(1024) + large[2048:]
    log = write_segment(folder, 0, made_batch(0), torn)
    tail = PartitionTail(Limits())
    assert looked(tail, folder) == 10
    log.write_bytes(made_batch(0) + bytes(4096))
    assert looked(tail, folder) == 10
    log.write_bytes(made_batch(0) + made_batch(10) + bytes(4096))
    assert looked(tail, folder) == 20
    assert tail.damage is None


def test_damage_before_an_intact_entry_ends_the_log_or_is_passed(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    broken = bytearray(made_batch(10))
    broken[16] = 9  # magic
    write_segment(folder, 0, made_batch(0), bytes(broken), made_batch(20))
    strict, passing = PartitionTail(Limits()), PartitionTail(Limits(), pass_damage=True)
    assert looked(strict, folder) == 10
    assert strict.damage is not None
    assert strict.damage.reason == "magic"
    assert looked(passing, folder) == 30
    assert passing.damage is None


def test_a_log_that_was_truncated_and_appended_to_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    log = write_segment(folder, 0, made_batch(0), made_batch(10), made_batch(20))
    tail = PartitionTail(Limits())
    assert looked(tail, folder) == 30
    log.write_bytes(made_batch(0))
    assert looked(tail, folder) == 10
    log.write_bytes(made_batch(0, 3) + made_batch(3, 40))
    assert looked(tail, folder) == 43
    log.unlink()
    write_segment(folder, 500, made_batch(500))
    assert looked(tail, folder) == 510


def test_transactions_are_replayed_as_they_come(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    log = write_segment(folder, 0, made_batch(0), transactional_batch(10, 5, 1))
    tail = PartitionTail(Limits(), transactions=True)
    assert (looked(tail, folder), tail.stable_offset) == (15, 10)
    append(log, marker(15, 1, commit=False))
    write_segment(folder, 16, transactional_batch(16, 4, 2))
    assert (looked(tail, folder), tail.stable_offset) == (20, 16)
    committed = tail.committed(0, 16)
    assert committed is not None
    assert committed.first_open_offset == 16
    append(folder / "00000000000000000016.log", marker(20, 2, commit=True))
    assert (looked(tail, folder), tail.stable_offset) == (21, 21)


def test_the_epoch_of_entries_that_were_not_read_is_not_guessed(tmp_path: Path) -> None:
    """A new leader appends to the newest segment, and rolls it, between two looks: only the newest one is read then."""
    folder = tmp_path / "orders-0"
    log = write_segment(folder, 0, made_batch(0, leader_epoch=0))
    tail = PartitionTail(Limits())
    looked(tail, folder)
    assert tail.epoch_before(10) == (0, 0)
    append(log, made_batch(10, leader_epoch=1))
    write_segment(folder, 20, made_batch(20, leader_epoch=1), made_batch(30, leader_epoch=1), indexed=[1])
    assert looked(tail, folder) == 40
    assert tail.epoch_before(15) is None
    assert tail.epoch_before(40) == (1, 30)


def test_a_rewritten_log_that_is_gone_before_it_is_read_leaves_what_was_known(tmp_path: Path) -> None:
    """A reader that forgot it would take the log for an empty one and report a false data loss."""
    folder = tmp_path / "orders-0"
    log = write_segment(folder, 0, made_batch(0), made_batch(10))
    tail = PartitionTail(Limits())
    assert looked(tail, folder) == 20
    write_segment(folder, 0, made_batch(10))
    shorter = listed(folder)
    log.unlink()
    with pytest.raises(StorageError, match="No such file"):
        tail.look(shorter)
    assert (tail.end_offset, tail.restarts) == (20, 0)
    write_segment(folder, 0, made_batch(10), made_batch(20))
    assert looked(tail, folder) == 30
