"""Whether a broker is at work on a log directory, seen from another process without taking its lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog.errors import StorageError
from kafkalog.storage.lock import broker_lock, is_broker_running

HOLD = "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); input()"


@contextmanager
def broker_at_work(log_directory: Path) -> Iterator[None]:
    """Another process holds the lock as a broker does."""
    (log_directory / ".lock").touch()
    command = [sys.executable, "-c", HOLD, str(log_directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.stdin.close()


def test_a_held_lock_is_seen_and_left_alone(tmp_path: Path) -> None:
    assert not is_broker_running(str(tmp_path))
    assert not (tmp_path / ".lock").exists()
    with broker_at_work(tmp_path):
        assert is_broker_running(str(tmp_path))
        with pytest.raises(StorageError, match="a broker is running"), broker_lock(str(tmp_path)):
            pass
    assert not is_broker_running(str(tmp_path))


@pytest.mark.parametrize("place", ["s3://bucket/logs", "/nowhere", "a\0b"])
def test_where_there_is_no_lock_no_broker_is_at_work(place: str) -> None:
    assert not is_broker_running(place)
