"""Log directories: locks, checkpoints and the mark of a clean shutdown, as a broker would find and leave them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.engine.building import RecordsBuilder
from kafkalog.engine.checkpoints import OffsetCheckpoint
from kafkalog.engine.log_directory import LogDirectory
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.errors import LogStorageFailure, StorageError, UsageError
from kafkalog.format import reference
from kafkalog.storage.fs import LocalFs
from tests.conftest import NOBODY, require_root

README = Path(__file__).resolve().parents[2] / "README.md"
NOW = 1_700_000_000_000
HOLD_LOCK = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); input()"


def batch(value: bytes = b"value") -> bytes:
    builder = RecordsBuilder(0)
    builder.append(0, NOW, b"key", value)
    return builder.build()


def opened(path: Path) -> LogDirectory:
    return LogDirectory(str(path), clock=ManualClock(NOW))


def checkpoint(path: Path, name: str) -> dict[tuple[str, int], int]:
    return OffsetCheckpoint(LocalFs(), str(path / name)).read()


def test_a_clean_stop_leaves_checkpoints_and_mark_and_the_next_start_recovers_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        log = directory.open_log("orders", 0)
        assert log.append(batch()).last_offset == 0
        log.append(batch())
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {("orders", 0): 2}
    assert checkpoint(tmp_path, "log-start-offset-checkpoint") == {}
    with opened(tmp_path) as directory:
        log = directory.open_log("orders", 0)
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (2, 2, 2)


def test_an_exception_leaves_the_log_as_a_crash_would(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), opened(tmp_path) as directory:
        directory.open_log("orders", 0).append(batch())
        _ = 1 // 0
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()
    with opened(tmp_path) as directory:
        assert directory.open_log("orders", 0).log_end_offset == 1


@pytest.mark.parametrize("with_block", [True, False])
def test_a_log_closed_before_its_directory_is_durable_and_the_stop_is_clean(tmp_path: Path, with_block: bool) -> None:
    with opened(tmp_path) as directory:
        log = directory.open_log("orders", 0)
        log.append(batch())
        if with_block:
            with log:
                log.append(batch())
        else:
            log.append(batch())
            log.close()
        assert log.recovery_point == 2
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {("orders", 0): 2}


def test_a_log_that_an_exception_ended_before_its_directory_is_recovered_at_the_next_start(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        directory.open_log("other", 0).append(batch())
        with pytest.raises(ZeroDivisionError), directory.open_log("orders", 0) as log:
            log.append(batch())
            _ = 1 // 0
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {("orders", 0): 0, ("other", 0): 1}
    with opened(tmp_path) as directory:
        assert directory.open_log("orders", 0).log_end_offset == 1


def test_a_running_broker_is_respected(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        with pytest.raises(StorageError, match="a broker is running"), opened(tmp_path):
            pytest.fail("two writers in one log directory")
        broker.communicate(b"\n")
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0)


def test_checkpoint_entries_of_other_partitions_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0).append(batch())
        directory.open_log("orders", 1).append(batch())
    with opened(tmp_path) as directory:
        log = directory.open_log("orders", 1)
        log.append(batch())
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {("orders", 0): 1, ("orders", 1): 2}
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_after_a_crash_the_mark_does_not_come_back_before_every_log_was_looked_at(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0)
        directory.open_log("orders", 1)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with opened(tmp_path) as directory:
        directory.open_log("orders", 1)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0)
        directory.open_log("orders", 1)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_log_start_inside_the_first_segment_is_written_down(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        log = directory.open_log("orders", 0)
        for _ in range(3):
            log.append(batch())
        log.update_high_watermark(3)
        assert log.delete_records(2)
    assert checkpoint(tmp_path, "log-start-offset-checkpoint") == {("orders", 0): 2}
    with opened(tmp_path) as directory:
        assert directory.open_log("orders", 0).log_start_offset == 2


def test_a_damaged_checkpoint_means_that_everything_is_recovered(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0).append(batch())
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"\0" * 20)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with opened(tmp_path) as directory:
        assert directory.open_log("orders", 0).log_end_offset == 1
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {("orders", 0): 1}


def test_wrong_paths_are_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such log directory"), opened(tmp_path / "nowhere"):
        pytest.fail("there is no such folder")
    with pytest.raises(UsageError, match="<topic>-<partition>"):
        PartitionLog.open(str(tmp_path / "orders"))
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0)
        with pytest.raises(UsageError, match="open already"):
            directory.open_log("orders", 0)


def test_a_log_that_was_closed_takes_nothing_more(tmp_path: Path) -> None:
    with PartitionLog.open(str(tmp_path / "orders-0"), clock=ManualClock(NOW)) as log:
        log.append(batch())
    with pytest.raises(LogStorageFailure):
        log.append(batch())


MANY_SEGMENTS = """
import os, resource, sys
from kafkalog import LogConfig, LogDirectory
from tests.engine.test_log_directory import batch

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
config = LogConfig.of({"internal.segment.bytes": 100, "retention.bytes": 1, "file.delete.delay.ms": 0})
for start in (0, 200):
    with LogDirectory(sys.argv[1]) as directory:
        log = directory.open_log("orders", 0, config)
        assert log.log_end_offset == start
        for _ in range(200):
            log.append(batch())
        log.run_due_tasks()
        assert sum(len(log.read(offset, isolation="log_end").data) > 0 for offset in range(log.log_end_offset)) == start + 200
    os.remove(sys.argv[1] + "/.kafka_cleanshutdown")  # so that all is recovered
with LogDirectory(sys.argv[1]) as directory:
    log = directory.open_log("orders", 0, config)
    log.truncate_to(150)
    log.append(batch())
    log.update_high_watermark(log.log_end_offset)
    assert log.delete_old_segments() > 140
    log.run_due_tasks()
"""


ABORTED_EVERYWHERE = """
import os, resource, sys
from kafkalog import LogConfig, LogDirectory
from tests.engine.test_log_directory import transactional_batch

path, count, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
config = LogConfig.of({"internal.segment.bytes": 100})
with LogDirectory(path) as directory:
    log = directory.open_log("orders", 0, config)
    for sequence in range(count):
        guard = log.start_verification(7, sequence, 0, False)
        log.append(transactional_batch(sequence), verification=guard)
        log.end_transaction(7, 0, False)
for is_clean in (True, False):
    if not is_clean:
        os.remove(path + "/.kafka_cleanshutdown")
    with LogDirectory(path) as directory:
        log = directory.open_log("orders", 0, config)
        assert len(log.segments) == 2 * count
        aborted = log.collect_aborted_transactions(0, log.log_end_offset)
        assert [one.first_offset for one in aborted] == list(range(0, 2 * count, 2))
"""


def transactional_batch(sequence: int) -> bytes:
    return reference.encode_batch(
        [reference.Record(0, NOW, b"key", b"value", ())],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


def _run(script: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, timeout=240, cwd=Path(__file__).parents[2])


def test_a_log_may_have_more_segments_than_the_process_may_have_files(tmp_path: Path) -> None:
    _run(MANY_SEGMENTS, str(tmp_path))
    assert len(list((tmp_path / "orders-0").glob("*.log"))) == 1


def test_it_may_have_more_transaction_indexes_too(tmp_path: Path) -> None:
    _run(ABORTED_EVERYWHERE, str(tmp_path), "100", "64")


def test_the_example_of_the_readme_begins_a_log_at_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a RecursionError: nothing is above the first folder of a relative path."""
    monkeypatch.chdir(tmp_path)
    example = next(line for line in README.read_text().splitlines() if "PartitionLog.open(" in line)
    (path,) = re.findall(r'PartitionLog\.open\("([^"/][^"]*)"\)', example)
    table = pa.table({"key": [b"k"], "value": [b"v"]})
    with kafkalog.PartitionLog.open(path) as log:
        log.append_records(table, codec="zstd")
    assert kafkalog.open(path).read("records").read_all().num_rows == 1


def test_files_that_root_makes_in_the_log_directory_of_another_user_belong_to_that_user(tmp_path: Path) -> None:
    require_root()
    os.chown(tmp_path, NOBODY, NOBODY)
    with opened(tmp_path) as directory:
        directory.open_log("orders", 0).append(batch())
        lock = (tmp_path / ".lock").stat()
    assert (lock.st_uid, lock.st_gid) == (NOBODY, NOBODY)
    found = {str(path.relative_to(tmp_path)): path.stat() for path in tmp_path.rglob("*")}
    assert {"orders-0", f"orders-0/{0:020d}.log", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"} <= found.keys()
    assert {(status.st_uid, status.st_gid) for status in found.values()} == {(NOBODY, NOBODY)}
