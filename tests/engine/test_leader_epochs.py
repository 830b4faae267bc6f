"""Leader epochs: against a model that looks through all entries, and the content of the checkpoint over time."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kafkalog.engine.checkpoints import CheckpointFile
from kafkalog.engine.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs
from kafkalog.engine.schedule import ManualClock, Schedule
from kafkalog.errors import InvalidArgument, LogStorageFailure
from kafkalog.format.checkpoint import EpochStart
from kafkalog.log.epochs import epochs_between
from kafkalog.storage.fs import LocalFs


class Epochs:
    """The epochs of a log whose checkpoint is in `folder`, and the tasks that write it later."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "leader-epoch-checkpoint"
        self.schedule = Schedule(ManualClock())
        self.epochs = LeaderEpochs(CheckpointFile(LocalFs(), str(self.file)), self.schedule, "t-0")

    def stored(self) -> str:
        return self.file.read_text()


@pytest.fixture
def log(tmp_path: Path) -> Epochs:
    return Epochs(tmp_path)


small = st.integers(0, 8)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("assign"), small, small),
        st.tuples(st.just("truncate_from_end"), st.integers(-1, 8)),
        st.tuples(st.just("truncate_from_start"), small),
        st.tuples(st.just("clear")),
    ),
    max_size=12,
)


class Model:
    """The same rules, said of a plain set of pairs."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def assign(self, epoch: int, start: int) -> None:
        if self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= start:
            return
        self.entries = [entry for entry in self.entries if entry[0] < epoch and entry[1] < start] + [(epoch, start)]

    def truncate_from_end(self, end: int) -> None:
        if end >= 0:
            self.entries = [entry for entry in self.entries if entry[1] < end]

    def truncate_from_start(self, start: int) -> None:
        before = [epoch for epoch, offset in self.entries if offset <= start]
        self.entries = [(epoch, start) for epoch in before[-1:]] + [entry for entry in self.entries if entry[1] > start]

    def clear(self) -> None:
        self.entries = []

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        later = [start for other, start in self.entries if other > epoch]
        known = [other for other, _ in self.entries if other <= epoch]
        if epoch == -1 or not self.entries or epoch > self.entries[-1][0]:
            return -1, -1
        return max(known, default=epoch), min(later, default=log_end_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        return max((epoch for epoch, start in self.entries if start <= offset), default=None)


@settings(max_examples=120)
@given(operations)
def test_epochs_behave_as_the_model(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, model = Epochs(Path(folder)), Model()
        for name, *arguments in steps:
            getattr(log.epochs, name)(*arguments)
            getattr(model, name)(*arguments)
            assert list(log.epochs.entries) == model.entries
        for number in range(-1, 10):
            assert log.epochs.end_offset_for(number, 99) == model.end_offset_for(number, 99)
            assert log.epochs.epoch_for_offset(number) == model.epoch_for_offset(number)
            epochs = [epoch for epoch, _ in model.entries]
            assert log.epochs.previous_epoch(number) == max((epoch for epoch in epochs if epoch < number), default=None)
            assert log.epochs.next_epoch(number) == min((epoch for epoch in epochs if epoch > number), default=None)
        in_range = Model()
        in_range.entries = list(model.entries)
        in_range.truncate_from_start(2)
        in_range.truncate_from_end(6)
        assert epochs_between(log.epochs.entries, 2, 6) == in_range.entries


@settings(max_examples=50)
@given(operations)
def test_the_checkpoint_leads_to_the_same_epochs_once_what_waits_is_written(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Epochs(Path(folder))
        for name, *arguments in steps:
            getattr(log.epochs, "clear_and_flush" if name == "clear" else name)(*arguments)
        log.schedule.run_due()
        assert Epochs(Path(folder)).epochs.entries == log.epochs.entries


def test_the_file_is_empty_until_something_is_written(log: Epochs) -> None:
    assert log.stored() == ""
    log.epochs.assign(2, 5)
    assert log.stored() == "0\n1\n2 5\n"
    log.epochs.clear_and_flush()
    assert log.stored() == "0\n0\n"


def test_truncated_epochs_are_written_in_the_background(log: Epochs) -> None:
    log.epochs.assign_all([EpochStart(1, 0), EpochStart(2, 4), EpochStart(3, 9)])
    log.epochs.truncate_from_end(9)
    log.epochs.truncate_from_start(2)
    assert log.stored() == "0\n3\n1 0\n2 4\n3 9\n"
    assert log.schedule.run_due() == []
    assert log.stored() == "0\n2\n1 2\n2 4\n"


def test_a_folder_that_is_gone_is_not_written_to(log: Epochs) -> None:
    log.epochs.assign(1, 0)
    log.epochs.truncate_from_end(0)
    log.file.unlink()
    log.file.parent.rmdir()
    assert log.schedule.run_due() == []


def test_an_epoch_that_nobody_knows_has_no_end(log: Epochs) -> None:
    assert log.epochs.end_offset_for(UNDEFINED_EPOCH, 7) == (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
    assert log.epochs.end_offset_for(0, 7) == (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
    assert not log.epochs
    assert log.epochs.latest_epoch is None
    assert log.epochs.earliest_entry is None


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_a_negative_epoch_or_offset_is_refused(log: Epochs, epoch: int, start: int) -> None:
    with pytest.raises(InvalidArgument):
        log.epochs.assign(epoch, start)
    assert log.stored() == ""


def test_a_checkpoint_that_is_none_keeps_the_log_from_opening(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n")
    with pytest.raises(LogStorageFailure):
        Epochs(tmp_path)


def test_a_copy_writes_to_its_own_file(log: Epochs, tmp_path: Path) -> None:
    log.epochs.assign(1, 0)
    copy = log.epochs.with_checkpoint(CheckpointFile(LocalFs(), str(tmp_path / "other")))
    copy.assign(2, 3)
    assert log.epochs.entries == ((1, 0),)
    assert log.stored() == "0\n1\n1 0\n"
    assert (tmp_path / "other").read_text() == "0\n2\n1 0\n2 3\n"
