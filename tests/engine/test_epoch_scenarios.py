"""Leader epochs: assignment, where an epoch ends, truncation from both sides, the checkpoint file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.engine.checkpoints import CheckpointFile
from kafkalog.engine.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs
from kafkalog.engine.schedule import ManualClock, Schedule
from kafkalog.storage.fs import LocalFs

UNDEFINED = (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
THREE = ((2, 6), (3, 8), (4, 11))


class Epochs:
    """The epochs of a folder, with the tasks that write their file."""

    def __init__(self, folder: Path, *entries: tuple[int, int]) -> None:
        self.file = folder / "leader-epoch-checkpoint"
        self.schedule = Schedule(ManualClock())
        self.epochs = LeaderEpochs(CheckpointFile(LocalFs(), str(self.file)), self.schedule)
        for entry in entries:
            self.epochs.assign(*entry)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return [(entry.epoch, entry.start_offset) for entry in self.epochs.entries]


@pytest.fixture
def empty(tmp_path: Path) -> Epochs:
    return Epochs(tmp_path)


@pytest.fixture
def three(tmp_path: Path) -> Epochs:
    return Epochs(tmp_path, *THREE)


def test_an_epoch_is_remembered_with_its_first_offset(empty: Epochs) -> None:
    empty.epochs.assign(2, 10)
    assert (empty.epochs.latest_epoch, empty.entries) == (2, [(2, 10)])
    empty.epochs.assign(3, 14)
    assert empty.entries == [(2, 10), (3, 14)]


@pytest.mark.parametrize(
    ("entries", "epoch", "end"),
    [
        ((), 0, UNDEFINED),
        ((), UNDEFINED_EPOCH, UNDEFINED),
        (((2, 11), (3, 12)), UNDEFINED_EPOCH, UNDEFINED),
        (((2, 0),), 2, (2, 99)),
        (((2, 6), (3, 7)), 1, (1, 6)),
        (((5, 11), (6, 12), (7, 13)), 4, (4, 11)),
        (((1, 11), (1, 12), (2, 13), (2, 14), (3, 15), (3, 16)), 2, (2, 15)),
        (((0, 10), (2, 13), (4, 17)), 1, (0, 13)),
        (((0, 10), (2, 13), (4, 17)), 2, (2, 17)),
        (((0, 10), (2, 13), (4, 17)), 3, (2, 17)),
        (((2, 100),), 3, UNDEFINED),
        (((2, 6),), 2, (2, 99)),
    ],
)
def test_where_an_epoch_ends(tmp_path: Path, entries: tuple[tuple[int, int], ...], epoch: int, end: tuple[int, int]) -> None:
    assert Epochs(tmp_path, *entries).epochs.end_offset_for(epoch, 99) == end


def test_an_epoch_keeps_the_first_offset_it_got(empty: Epochs) -> None:
    empty.epochs.assign(2, 6)
    empty.epochs.assign(2, 9)
    empty.epochs.assign(2, 10)
    assert empty.entries == [(2, 6)]


def test_an_earlier_start_of_the_same_epoch_wins(empty: Epochs) -> None:
    empty.epochs.assign(2, 9)
    empty.epochs.assign(2, 6)
    assert empty.entries == [(2, 6)]


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        (((2, 9), (3, 8)), [(3, 8)]),
        (((2, 6), (1, 5)), [(1, 5)]),
        (((2, 6), (3, 5), (4, 7)), [(3, 5), (4, 7)]),
        (((1, 5), (2, 6), (3, 7), (2, 8)), [(1, 5), (2, 8)]),
        (((1, 5), (2, 6), (1, 7)), [(1, 7)]),
        (((0, 5), (1, 5), (2, 5)), [(2, 5)]),
    ],
)
def test_epochs_and_offsets_rise_together(
    tmp_path: Path, entries: tuple[tuple[int, int], ...], left: list[tuple[int, int]]
) -> None:
    assert Epochs(tmp_path, *entries).entries == left


def test_leaders_change_many_times(empty: Epochs) -> None:
    end = 0
    for epoch in range(1, 40):
        empty.epochs.assign(epoch, end)
        end += epoch % 3
    assert empty.epochs.latest_epoch == 39
    for epoch, start in empty.entries[1:]:
        assert empty.epochs.end_offset_for(epoch - 1, end)[1] == start


def test_a_follower_gets_epochs_with_its_records(empty: Epochs) -> None:
    for epoch, offset in ((0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (4, 6), (4, 7)):
        empty.epochs.assign(epoch, offset)
    assert empty.entries == [(0, 0), (1, 3), (2, 5), (4, 6)]
    assert empty.epochs.end_offset_for(0, 8) == (0, 3)
    assert empty.epochs.end_offset_for(3, 8) == (2, 6)
    assert empty.epochs.end_offset_for(4, 8) == (4, 8)


@pytest.mark.parametrize(
    ("offset", "left"),
    [(8, [(2, 6)]), (9, [(2, 6), (3, 8)]), (11, [(2, 6), (3, 8)]), (12, list(THREE)), (6, []), (0, []), (-1, list(THREE))],
)
def test_truncation_from_the_end(three: Epochs, offset: int, left: list[tuple[int, int]]) -> None:
    three.epochs.truncate_from_end(offset)
    assert three.entries == left


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (1, list(THREE)),
        (6, list(THREE)),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
        (-1, list(THREE)),
    ],
)
def test_truncation_from_the_start(three: Epochs, offset: int, left: list[tuple[int, int]]) -> None:
    three.epochs.truncate_from_start(offset)
    assert three.entries == left


def test_truncation_of_nothing(empty: Epochs) -> None:
    empty.epochs.truncate_from_start(7)
    empty.epochs.truncate_from_end(7)
    assert empty.entries == []
    assert empty.schedule.waiting == 0
    assert empty.epochs.latest_epoch is None


def test_clearing_empties_the_file_too(three: Epochs, tmp_path: Path) -> None:
    three.epochs.clear_and_flush()
    assert three.entries == []
    assert three.file.read_text() == "0\n0\n"
    assert Epochs(tmp_path).entries == []


def test_epochs_are_found_again(three: Epochs, tmp_path: Path) -> None:
    assert three.file.read_text() == "0\n3\n2 6\n3 8\n4 11\n"
    assert Epochs(tmp_path).entries == list(THREE)


def test_neighbours_of_an_epoch(three: Epochs) -> None:
    assert [three.epochs.previous_epoch(epoch) for epoch in (2, 3, 4, 5, 10)] == [None, 2, 3, 4, 4]
    assert [three.epochs.next_epoch(epoch) for epoch in (0, 2, 3, 4, 5)] == [2, 3, 4, None, None]
    assert (three.epochs.earliest_entry, three.epochs.latest_entry) == (THREE[0], THREE[-1])


def test_neighbours_where_there_are_none(empty: Epochs) -> None:
    assert empty.epochs.previous_epoch(3) is None
    assert empty.epochs.next_epoch(3) is None
    assert empty.epochs.earliest_entry is None
    assert empty.epochs.latest_entry is None


@pytest.mark.parametrize(("offset", "epoch"), [(0, None), (5, None), (6, 2), (7, 2), (8, 3), (10, 3), (11, 4), (1000, 4)])
def test_the_epoch_of_an_offset(three: Epochs, offset: int, epoch: int | None) -> None:
    assert three.epochs.epoch_for_offset(offset) == epoch
