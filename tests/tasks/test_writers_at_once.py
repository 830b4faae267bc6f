"""Two writers on one partition: the second is refused, or finds done what it was to do; nothing is written twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog import codecs
from kafkalog.errors import CorruptBatch, NoLogs, StorageError
from kafkalog.format.names import segment_file_name
from kafkalog.segment.recode import Recoding
from kafkalog.storage.fs import LocalFs
from kafkalog.tasks.append import AppendOptions, AppendResult, Target, append_records, source_file
from kafkalog.tasks.convert import ConvertResult, convert_partitions
from kafkalog.tasks.maintenance import ChangeRequest
from kafkalog.tasks.reindex import ReindexOptions, ReindexResult, reindex_partitions
from tests.builders.small_logs import made_batch, read_offsets, read_rows, write_segment


class LateFs(LocalFs):
    """A file system whose user is slow: before it locks a folder for the first time, somebody else has been there."""

    def __init__(self, before: Callable[[], object]) -> None:
        self.before: list[Callable[[], object]] = [before]

    @contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        while self.before:
            self.before.pop()()
        with super().lock(folder):
            yield


@pytest.mark.parametrize("is_there", [True, False])
def test_an_append_that_another_one_overtakes_writes_nothing_twice(tmp_path: Path, is_there: bool) -> None:
    orders = tmp_path / "data" / "orders-0"
    if is_there:
        write_segment(orders, 0, made_batch(0))
    source = tmp_path / "records.jsonl"
    source.write_text("".join(json.dumps({"value": f"v{number}", "timestamp": number}) + "\n" for number in range(20)))

    def run(fs: LocalFs) -> AppendResult:
        return append_records([source_file(str(source))], Target.of(str(orders), None), AppendOptions(), fs)

    with pytest.raises(StorageError, match="another append" if is_there else "another process"):
        run(LateFs(lambda: run(LocalFs())))
    assert len(read_offsets(orders)) == (30 if is_there else 20)
    assert run(LocalFs()).state == "already there"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10))
    return folder


def convert_late(folder: Path, before: Callable[[], object]) -> ConvertResult:
    (result,) = convert_partitions(folder, ChangeRequest(in_place=True, fs=LateFs(before)), Recoding(codecs.GZIP))
    return result


def reindex_late(folder: Path, before: Callable[[], object]) -> ReindexResult:
    (result,) = reindex_partitions(folder, ReindexOptions(), fs=LateFs(before))
    return result


def roll(folder: Path) -> None:
    """Leave the log as a broker does that was started, took records as the leader of a new epoch, and was stopped."""
    write_segment(folder, 20, made_batch(20, leader_epoch=3))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n3 20\n")


def test_convert_leaves_no_segment_out_that_came_just_before_it_held_the_folder(orders: Path) -> None:
    assert convert_late(orders, lambda: roll(orders)).changed_segments == 2
    assert set(read_rows(orders, "batches", ["codec"])) == {"gzip"}
    assert read_offsets(orders) == list(range(30))


def test_convert_completes_what_was_interrupted_just_before_it_held_the_folder(orders: Path) -> None:
    swap = orders / f"{segment_file_name(0)}.swap"
    convert_late(orders, lambda: swap.write_bytes(made_batch(10)))
    assert not swap.exists()
    assert read_offsets(orders) == list(range(10, 20))


def test_reindex_forgets_no_epoch_of_a_segment_that_came_just_before_it_held_the_folder(orders: Path) -> None:
    result = reindex_late(orders, lambda: roll(orders))
    assert segment_file_name(20, "index") in result.changed
    assert (orders / "leader-epoch-checkpoint").read_text() == "0\n1\n3 20\n"


def test_a_snapshot_that_came_just_before_reindex_held_the_folder_is_stale_too(orders: Path) -> None:
    stray = orders / segment_file_name(17, "snapshot")
    assert reindex_late(orders, lambda: stray.write_bytes(b"stray")).removed == [stray.name]
    assert not stray.exists()


@pytest.mark.parametrize("run", [convert_late, reindex_late])
def test_a_log_that_went_just_before_its_folder_was_held_is_said_to_be_gone(
    orders: Path, run: Callable[[Path, Callable[[], object]], object]
) -> None:
    with pytest.raises(NoLogs):
        run(orders, lambda: (orders / segment_file_name(0)).unlink())
    assert list(orders.iterdir()) == []


def test_batches_damaged_just_before_the_folder_was_locked_are_not_cut_off(orders: Path) -> None:
    """Only an interrupted compaction is completed there, and opening the log for it would cut off whole batches."""
    log = orders / segment_file_name(0)
    (orders / f"{segment_file_name(0)}.cleaned").write_bytes(b"half")
    damaged = bytes(100) + log.read_bytes()[100:]
    with pytest.raises(CorruptBatch):
        convert_late(orders, lambda: log.write_bytes(damaged))
    assert log.read_bytes() == damaged
