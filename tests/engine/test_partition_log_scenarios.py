"""A log as a whole where scripts do not reach: failing disks, closed logs, jitter, leftovers in the way of a roll."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.errors import InvalidArgument, LogRefusal, LogStorageFailure, UsageError
from kafkalog.storage.fs import LocalFs, OpenFile
from kafkalog.storage.ownership import Ownership
from tests.engine.scenarios.payloads import batch, in_transaction, produced, records

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


class FailingFs(LocalFs):
    """A disk on which files with `suffix` cannot be opened."""

    suffix: str | None = None

    def open(self, path: str, *, create: bool = False, like: Ownership | None = None) -> OpenFile:
        if self.suffix is not None and path.endswith(self.suffix):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return super().open(path, create=create, like=like)

    @contextmanager
    def failing(self, suffix: str) -> Iterator[None]:
        self.suffix = suffix
        try:
            yield
        finally:
            self.suffix = None


class Logs:
    """Opens the log of one folder, with a stopped clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "t-0"
        self.clock = ManualClock(NOW)
        self.fs = FailingFs()

    def open(self, **settings: object) -> PartitionLog:
        config = LogConfig.of({"segment.index.bytes": 1000, **settings})
        return PartitionLog.open(str(self.folder), config, clock=self.clock, fs=self.fs, transaction_verification=False)

    def names(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name.endswith(suffix))


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_a_log_whose_file_handles_were_closed_does_not_roll(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    log.close_handlers()
    with pytest.raises(LogStorageFailure):
        log.roll()


def test_file_handles_may_be_closed_twice(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    log.close_handlers()
    log.close_handlers()
    with pytest.raises(LogStorageFailure):
        log.close()


def test_a_closed_log_takes_nothing_more(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    log.close()
    with pytest.raises(LogRefusal):
        log.append(batch(1))


def test_a_log_may_be_closed_twice_but_not_after_its_file_handles_were_closed(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    log.close()
    log.close()
    log = logs.open()
    log.close_handlers()
    with pytest.raises(LogStorageFailure):
        log.close()


def test_after_a_clean_stop_an_empty_segment_has_the_index_files_that_a_broker_would_miss(logs: Logs) -> None:
    with logs.open() as log:
        log.append(batch(1))
        log.roll()
    assert [len(logs.names(suffix)) for suffix in (".log", ".index", ".timeindex")] == [2, 2, 2]


def test_after_a_failed_abort_marker_nothing_goes_until_the_log_is_opened_again(logs: Logs) -> None:
    log = logs.open()
    log.append(in_transaction(10, 1, 0, 0))
    with logs.fs.failing(".txnindex"), pytest.raises(LogStorageFailure):
        log.end_transaction(1, 0, False, coordinator_epoch=1)
    assert log.last_stable_offset == 0
    for action in (
        lambda: log.end_transaction(1, 0, False, coordinator_epoch=1),
        lambda: log.append(batch(1)),
        lambda: log.read(0, 4096),
        lambda: log.close(),
    ):
        with pytest.raises(LogStorageFailure):
            action()
    log.close_handlers()
    again = logs.open()
    assert again.log_end_offset == 11
    assert [tuple(each)[:3] for each in again.active_segment.transaction_index.all_aborted()] == [(1, 0, 10)]
    again.update_high_watermark(12)
    assert again.first_unstable_offset is None


def test_the_recovery_point_waits_for_the_snapshot(logs: Logs) -> None:
    log = logs.open()
    log.append(produced(1, 1, 0, 0))
    log.roll()
    with logs.fs.failing(".snapshot"):
        failures = log.run_due_tasks()
    assert failures
    assert log.recovery_point == 0


def test_jitter_rolls_a_segment_a_little_before_its_time(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.engine.config.random", Random(5))
    jitter = 20 * 60_000
    log = logs.open(**{"segment.ms": HOUR_MS, "segment.jitter.ms": jitter})
    log.append(batch(1))
    early = log.active_segment.roll_jitter_ms
    assert 0 < early < jitter
    logs.clock.now += HOUR_MS - jitter
    log.append(batch(records(1, at=logs.clock.now)))
    assert len(log.segments) == 1
    logs.clock.now += jitter - early + 1
    log.append(batch(records(1, at=logs.clock.now)))
    assert len(log.segments) == 2


def test_files_in_the_way_of_a_roll_are_replaced(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    for suffix in ("log", "index", "timeindex", "txnindex"):
        (logs.folder / f"00000000000000000001.{suffix}").write_bytes(b"stray")
    log.roll()
    log.append(batch(1))
    assert [entry.base_offset for entry in log.active_segment.log.iter_entries()] == [1]
    log.close()
    assert logs.names(".txnindex") == []


def test_a_roll_to_where_a_segment_is_already_is_refused(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(2))
    log.truncate_to(0)
    log.append(batch(1))
    log.local_log.update_log_end_offset(0)
    with pytest.raises(LogRefusal):
        log.roll()


def test_a_roll_to_before_the_active_segment_is_refused(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(3))
    log.roll()
    log.local_log.update_log_end_offset(1)
    with pytest.raises(LogRefusal):
        log.roll()


def test_a_roll_may_leave_a_gap(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    assert log.roll(5).base_offset == 5
    assert log.segments.base_offsets == [0, 5]


def test_segments_by_offsets(logs: Logs) -> None:
    size = len(batch(1))
    log = logs.open(**{"internal.segment.bytes": 10 * size})
    for _ in range(22):
        log.append(batch(1))
    expected = {(10, 10): [], (0, 21): [0, 10, 20], (1, 5): [0], (13, 21): [10, 20], (13, 17): [10]}
    for bounds, bases in expected.items():
        assert [segment.base_offset for segment in log.log_segments(*bounds)] == bases
    assert [segment.base_offset for segment in log.non_active_segments_from(5)] == [0, 10]
    with pytest.raises(InvalidArgument):
        log.log_segments(10, 0)


def test_only_segments_with_offsets_too_far_apart_are_split(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(3))
    assert not log.active_segment.has_overflow
    with pytest.raises(InvalidArgument):
        log.split_overflowed_segment(log.active_segment)


def test_times_of_first_entries_by_segment(logs: Logs) -> None:
    log = logs.open()
    assert [segment.first_batch_timestamp for segment in log.segments] == [(1 << 63) - 1]
    log.append(batch(records(1, at=1000)))
    log.roll()
    log.append(batch(records(1, at=2000)))
    assert [segment.first_batch_timestamp for segment in log.segments] == [1000, 2000]


def test_the_expiry_of_producers_ends_with_the_log(logs: Logs) -> None:
    log = logs.open()
    log.append(produced(1, 1, 0, 0))
    log.close()
    logs.clock.now += 10 * 86_400_000
    log.run_due_tasks()
    assert list(log.producers.active_producers) == [1]


@pytest.mark.parametrize("name", ["", "t", "-0", "t-", "t-x", "t-0.deleted"])
def test_a_folder_that_is_not_named_as_a_partition_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        PartitionLog.open(str(tmp_path / "logs" / name))


def test_a_folder_with_other_things_in_it_is_opened(logs: Logs) -> None:
    logs.folder.mkdir(parents=True)
    (logs.folder / "notes.txt").write_text("mine")
    with logs.open() as log:
        log.append(batch(1))
    assert (logs.folder / "notes.txt").read_text() == "mine"


def test_flushing_a_folder_that_vanished_says_so(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(1))
    for path in logs.folder.iterdir():
        path.unlink()
    logs.folder.rmdir()
    with pytest.raises(LogStorageFailure):
        log.flush(force=True)
