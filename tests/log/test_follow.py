"""`follow`: records that a running broker appends come once, in order, and never before they are whole."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.format.names import segment_file_name
from kafkalog.log.transactions import replay_transactions
from kafkalog.storage.fs import LocalFs
from kafkalog.storage.lock import is_broker_running
from tests.builders.small_logs import (
    LEFT_BY_COMPACTION,
    made_batch,
    marker,
    read_offsets,
    transactional_batch,
    write_half_swapped,
    write_segment,
)


class Steps:
    """Runs one step of a writer between the rounds of `follow`, and stops it after the last one."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)

    def __call__(self) -> bool:
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False


def _append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as stream:
            stream.write(data)

    return step


def _followed(path: Path, *steps: Callable[[], object], **choices: Any) -> list[int]:
    batches = kafkalog.open(path).follow(["offset"], poll_seconds=0.001, stop=Steps(*steps), **choices)
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


def test_appended_batches_and_new_segments_come_once_and_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    first = write_segment(folder, 0, made_batch(0))
    steps = (
        _append(first, made_batch(10)),
        lambda: None,
        lambda: write_segment(folder, 20),
        _append(folder / segment_file_name(20), made_batch(20) + made_batch(30)),
        _append(folder / segment_file_name(20), made_batch(40)),
    )
    assert _followed(tmp_path, *steps) == list(range(50))


def test_a_write_under_way_is_waited_for(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0))
    coming = made_batch(10)
    steps = [_append(path, coming[at : at + 7]) for at in range(0, len(coming), 7)]
    assert _followed(tmp_path, *steps) == list(range(20))


def test_following_begins_and_ends_where_asked(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0))
    steps = (_append(path, made_batch(10)), _append(path, made_batch(20)))
    assert _followed(tmp_path, *steps, start_offset=7, stop_offset=23) == list(range(7, 23))


def test_damage_that_comes_while_following_is_raised_after_what_lies_before_it_or_passed(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0))
    broken = bytearray(made_batch(20))
    broken[16] = 9  # magic
    steps = (_append(path, made_batch(10) + broken + made_batch(30)), lambda: None)
    found: list[int] = []
    with pytest.raises(kafkalog.SegmentError, match="magic"):
        for batch in kafkalog.open(tmp_path).follow(["offset"], poll_seconds=0.001, stop=Steps(*steps)):
            found += batch.column(0).to_pylist()
    assert found == list(range(20))
    assert _followed(tmp_path, lambda: None, on_damage="salvage") == [*range(20), *range(30, 40)]


def test_a_transaction_that_ends_while_it_is_followed_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", 0, transactional_batch(0, 3, 1), made_batch(3, 2))
    steps = (
        lambda: None,
        _append(path, marker(5, 1, commit=True)),
        _append(path, transactional_batch(6, 2, 1, base_sequence=3)),
        _append(path, made_batch(8, 1)),
        _append(path, marker(9, 1, commit=False)),
        _append(path, made_batch(10, 1)),
    )
    assert _followed(tmp_path, *steps, isolation="read_committed") == [0, 1, 2, 3, 4, 8, 10]


def test_a_transaction_that_begins_while_committed_data_is_read_stays_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_segment(tmp_path / "orders-0", 0, transactional_batch(0, 3, 1), marker(3, 1, commit=True))

    def replay_and_append(*arguments: Any) -> Any:
        found = replay_transactions(*arguments)
        _append(path, transactional_batch(4, 2, 1, base_sequence=3) + made_batch(6, 1)[:-1])()
        return found

    monkeypatch.setattr("kafkalog.log.reading.replay_transactions", replay_and_append)
    assert read_offsets(tmp_path, isolation="read_committed") == [0, 1, 2]


def test_records_after_a_segment_that_vanishes_for_a_moment_are_not_lost(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    write_segment(folder, 0, made_batch(0))
    second = write_segment(folder, 10, made_batch(10))
    third = write_segment(folder, 20, made_batch(20))
    away = tmp_path / "away"
    away.mkdir()
    restore = Steps(lambda: None, lambda: [file.rename(folder / file.name) for file in list(away.iterdir())])
    batches = kafkalog.open(folder).follow(["offset"], poll_seconds=0.001, threads=1, stop=restore)
    found = next(batches).column(0).to_pylist()
    for file in (second, third):
        file.rename(away / file.name)
    found += [offset for batch in batches for offset in batch.column(0).to_pylist()]
    assert found == list(range(30))


@contextmanager
def _locked_by_a_broker(log_directory: Path) -> Iterator[None]:
    """Another process holds the lock of the log directory, as a broker does."""
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(log_directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate()


def _complete_swap(folder: Path) -> None:
    """The next step of a broker: the second of the two old segments goes, and the new one gets its name."""
    (folder / segment_file_name(20)).rename(folder / f"{segment_file_name(20)}.deleted")
    (folder / f"{segment_file_name(0)}.swap").rename(folder / segment_file_name(0))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_finished_swap_file_on_a_dead_disk_is_followed_and_not_again_when_it_gets_its_name(
    tmp_path: Path, isolation: str
) -> None:
    folder = write_half_swapped(tmp_path / "orders-0")
    (tmp_path / ".lock").touch()  # a dead broker leaves it
    assert _followed(tmp_path, isolation=isolation) == LEFT_BY_COMPACTION
    grown = _append(folder / segment_file_name(40), made_batch(60))
    steps = (lambda: None, lambda: _complete_swap(folder), grown)
    assert _followed(tmp_path, *steps, isolation=isolation) == [*LEFT_BY_COMPACTION, *range(60, 70)]


def test_a_newest_segment_in_a_swap_file_is_followed_on_when_it_gets_its_name(tmp_path: Path) -> None:
    batches = transactional_batch(0, 3, 1), marker(3, 1, commit=False), transactional_batch(4, 2, 1, base_sequence=3)
    path = write_segment(tmp_path / "orders-0", 0, *batches)
    waiting = path.with_name(f"{path.name}.swap")
    path.rename(waiting)
    steps = (lambda: None, lambda: waiting.rename(path), _append(path, marker(6, 1, commit=True) + made_batch(7, 1)))
    assert _followed(tmp_path, *steps, isolation="read_committed") == [4, 5, 7]


def test_records_that_a_live_broker_is_about_to_put_in_place_are_not_stepped_over(tmp_path: Path) -> None:
    folder = write_half_swapped(tmp_path / "orders-0")
    with _locked_by_a_broker(tmp_path):
        assert _followed(tmp_path, lambda: None, lambda: _complete_swap(folder)) == LEFT_BY_COMPACTION


def test_a_swap_file_that_stays_beside_a_live_broker_is_taken_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_half_swapped(tmp_path / "orders-0")
    monkeypatch.setattr("kafkalog.log.swap_segments.SETTLED_SECONDS", 0.2)
    with _locked_by_a_broker(tmp_path):
        started = time.monotonic()
        assert _followed(tmp_path) == LEFT_BY_COMPACTION
        assert time.monotonic() - started >= 0.2


def test_to_ask_whether_a_broker_runs_neither_takes_nor_drops_a_lock(tmp_path: Path) -> None:
    assert is_broker_running(str(tmp_path)) is False
    assert not list(tmp_path.iterdir())
    with _locked_by_a_broker(tmp_path):
        assert is_broker_running(str(tmp_path)) is True
    assert is_broker_running(str(tmp_path)) is False
    with LocalFs().broker_lock(str(tmp_path)):
        assert is_broker_running(str(tmp_path)) is True
        ask = f"from kafkalog.storage.lock import is_broker_running; print(is_broker_running({str(tmp_path)!r}))"
        assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout.strip() == "True"


def test_a_folder_that_stays_away_is_an_error(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0))
    logs = kafkalog.open(path.parent)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(kafkalog.StorageError):
        list(logs.follow(poll_seconds=0.001, stop=lambda: False))


def test_a_single_file_is_followed_alone(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bin"
    copy.write_bytes(made_batch(0))
    write_segment(tmp_path, 50, made_batch(50))
    assert _followed(copy, _append(copy, made_batch(10))) == list(range(20))


def test_damage_is_raised_or_reported_as_by_a_read(tmp_path: Path) -> None:
    broken = bytearray(made_batch(10))
    broken[-1] ^= 1
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0))
    steps = [_append(path, bytes(broken)), _append(path, made_batch(20))]
    logs = kafkalog.open(tmp_path)
    batches = logs.follow(["offset"], poll_seconds=0.001, stop=Steps(*steps), on_damage="skip")
    assert [offset for batch in batches for offset in batch.column(0).to_pylist()] == [*range(10), *range(20, 30)]
    assert logs.report.reasons == {"crc": 1}
    assert logs.report.kept_records == 20
    with pytest.raises(kafkalog.CorruptBatch):
        _followed(tmp_path)


def test_choices_that_read_refuses_are_refused(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0))
    logs = kafkalog.open(tmp_path)
    for choices in ({"isolation": "committed"}, {"on_damage": "ignore"}, {"threads": 0}, {"columns": ["ofset"]}):
        with pytest.raises(kafkalog.UsageError):
            logs.follow(**choices)


def _write_torn(
    path: Path, batches: list[bytes], pieces: random.Random, done: threading.Event, seen: threading.Event | None = None
) -> None:
    """Write the batches in pieces and set `done`; in the middle of them wait until `seen` is set."""
    with path.open("ab", buffering=0) as stream:
        for number, data in enumerate(batches):
            if seen is not None and number == len(batches) // 2:
                seen.wait()
            while data:
                cut = pieces.randint(1, 120)
                stream.write(data[:cut])
                data = data[cut:]
                if pieces.random() < 0.05:
                    time.sleep(0.0005)
    done.set()


def test_reads_beside_a_writer_of_small_pieces_never_fail_and_never_see_less(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "live" / "orders-0", 0)
    batches = [made_batch(first, 10, codec=first // 10 % 5) for first in range(0, 4000, 10)]
    write_segment(tmp_path / "before" / "orders-0", 0, *batches[:5])
    assert len(read_offsets(tmp_path / "before", threads=1)) == 50  # compiles, before the writer begins
    done, seen = threading.Event(), threading.Event()
    writer = threading.Thread(target=_write_torn, args=(path, batches, random.Random(1), done, seen), daemon=True)
    writer.start()
    count = 0
    while not done.is_set():
        found = read_offsets(tmp_path / "live", threads=1)
        assert found == list(range(len(found)))
        assert len(found) >= count
        count = len(found)
        if count:
            seen.set()
    writer.join()
    assert read_offsets(tmp_path / "live") == list(range(4000))


def test_following_a_writer_of_small_pieces_gives_each_record_once(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", 0)
    batches = [made_batch(first, 10) for first in range(0, 4000, 10)]
    done = threading.Event()
    writer = threading.Thread(target=_write_torn, args=(path, batches, random.Random(2), done))
    writer.start()
    followed = kafkalog.open(tmp_path).follow(["offset"], poll_seconds=0.001, stop=done.is_set)
    assert [offset for batch in followed for offset in batch.column(0).to_pylist()] == list(range(4000))
    writer.join()
