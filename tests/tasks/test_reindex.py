"""`reindex`: the files that a broker's recovery would write, in place or apart, and nothing else changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.errors import StorageError, UsageError
from kafkalog.format.index import read_offset_index
from kafkalog.format.names import segment_file_name
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES, IntervalBounds
from kafkalog.tasks.reindex import ReindexOptions, ReindexResult, reindex_partitions
from tests.builders.simulated_disk import SimulatedFs
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, read_rows, transactional_batch, write_segment
from tests.storage.test_publish import hold_lock_in_child

from .test_salvage import damaged, tree


def run(folder: Path, **options: Any) -> ReindexResult:
    (result,) = reindex_partitions(folder, ReindexOptions(**options))
    return result


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Two segments without index and snapshot files; the second ends an aborted transaction that began in the first."""
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, *(made_batch(number * 10) for number in range(40)), transactional_batch(400, 10, 7))
    write_segment(folder, 410, made_batch(410), marker(420, 7, commit=False), made_batch(421, leader_epoch=3))
    return folder


def test_index_snapshot_and_checkpoint_files_are_rebuilt_in_place(orders: Path) -> None:
    logs = tree(orders)
    result = run(orders)
    assert result.state == "written"
    assert {name: content for name, content in tree(orders).items() if name.endswith(".log")} == logs
    assert sorted(result.changed) == sorted(
        [
            "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000410.index",
            "00000000000000000410.timeindex", "00000000000000000410.txnindex", "00000000000000000410.snapshot",
            "00000000000000000431.snapshot", "leader-epoch-checkpoint",
        ]
    )  # fmt: skip
    assert (orders / "leader-epoch-checkpoint").read_text() == "0\n1\n3 421\n"
    index = read_offset_index((orders / segment_file_name(0, "index")).read_bytes(), 0)
    assert len(index) >= 2
    aborted = [row for row in read_rows(orders, "index_entries") if row["kind"] == "transaction"]
    assert len(aborted) == 1


@pytest.mark.parametrize("step", [1, 16, 48])
def test_a_rebuilt_snapshot_lists_colliding_producers_in_the_order_of_the_engine(tmp_path: Path, step: int) -> None:
    """Nine ids in one bucket make Java's map grow before it is full: the engine, tested against a JDK, does so too."""
    folder = tmp_path / "data" / "orders-0"
    batches = [made_batch(n * 10, producer_id=n * step, producer_epoch=0, base_sequence=0) for n in range(9)]
    log = write_segment(folder, 0, *batches)
    fs = SimulatedFs({f"/data/orders-0/{log.name}": log.read_bytes()})
    PartitionLog.open("/data/orders-0", LogConfig(), fs=fs, clock=ManualClock(FIRST_TIME))
    run(folder)
    snapshot = segment_file_name(90, "snapshot")
    assert (folder / snapshot).read_bytes() == fs.files()[f"/data/orders-0/{snapshot}"]


def test_a_second_run_changes_nothing(orders: Path) -> None:
    run(orders)
    before = tree(orders)
    assert run(orders).state == "already there"
    assert tree(orders) == before


def test_old_files_are_kept_aside_unless_they_are_discarded(orders: Path) -> None:
    index = orders / segment_file_name(0, "index")
    index.write_bytes(b"wrong")
    result = run(orders)
    (aside,) = result.kept_aside
    assert aside.startswith("00000000000000000000.index.broken-")
    assert (orders / aside).read_bytes() == b"wrong"
    (orders / aside).unlink()
    index.write_bytes(b"wrong")
    assert run(orders, discard=True).kept_aside == []
    assert list(orders.glob("*.broken-*")) == []


def test_a_dry_run_names_the_changes_and_makes_none(orders: Path) -> None:
    (orders / segment_file_name(77, "snapshot")).write_bytes(b"stray")
    before = tree(orders.parent)
    result = run(orders, dry_run=True)
    assert len(result.changed) == 8
    assert result.removed == [segment_file_name(77, "snapshot")]
    assert tree(orders.parent) == before


def test_stray_snapshots_go_and_an_index_of_no_aborts_becomes_empty(orders: Path) -> None:
    stray, empty = orders / segment_file_name(77, "snapshot"), orders / segment_file_name(0, "txnindex")
    stray.write_bytes(b"stray")
    empty.write_bytes(b"nonsense")
    run(orders)
    assert not stray.exists()
    assert empty.read_bytes() == b""


def test_the_clean_shutdown_marker_goes_before_the_first_change(orders: Path) -> None:
    marker_file = orders.parent / ".kafka_cleanshutdown"
    marker_file.touch()
    run(orders, dry_run=True)
    assert marker_file.exists()
    run(orders)
    assert not marker_file.exists()
    marker_file.touch()
    run(orders)
    assert marker_file.exists(), "nothing changed, so the marker is still right"


def test_it_ends_at_damage_and_leaves_what_follows_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, made_batch(0), damaged(made_batch(10)), made_batch(20))
    write_segment(folder, 30, made_batch(30))
    later = folder / segment_file_name(30, "index")
    later.write_bytes(b"untouched")
    result = run(folder)
    assert [dropped.reason for dropped in result.report.dropped] == ["crc"]
    assert later.read_bytes() == b"untouched"
    assert segment_file_name(10, "snapshot") in result.changed


def test_with_out_the_source_is_only_read_and_no_log_is_copied(orders: Path, tmp_path: Path) -> None:
    before = tree(orders)
    run(orders, out=tmp_path / "out")
    assert tree(orders) == before
    run(orders)
    rebuilt = {name: content for name, content in tree(orders).items() if name not in before}
    assert tree(tmp_path / "out" / "orders-0") == rebuilt
    assert run(orders, out=tmp_path / "out").state == "already there"


def test_a_running_broker_keeps_its_directory(orders: Path) -> None:
    (orders.parent / "meta.properties").touch()
    before = tree(orders)
    with hold_lock_in_child(orders.parent) as child:
        with pytest.raises(StorageError, match="a broker is running"):
            run(orders)
        child.kill()
    assert tree(orders) == before


def test_a_single_file_is_refused(orders: Path) -> None:
    with pytest.raises(UsageError, match="give the partition's folder"):
        run(orders / segment_file_name(0))


@pytest.mark.parametrize("interval", [100, 300, 1024, 4096, 10_000])
def test_the_index_interval_is_found_in_the_index_files(tmp_path: Path, interval: int) -> None:
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, *(made_batch(number * 3, 3) for number in range(200)))
    run(folder, index_interval_bytes=interval)
    found = run(folder, dry_run=True)
    assert found.changed == [], f"{found.index_interval_bytes} gives another index than {interval}"


def test_index_files_that_contradict_each_other_give_the_default() -> None:
    import numpy as np

    bounds = IntervalBounds()
    positions = np.arange(0, 100_000, 100)
    bounds.narrow(positions, np.arange(1000, 90_000, 1000, dtype=np.int32))
    bounds.narrow(positions, np.arange(3000, 90_000, 3000, dtype=np.int32))
    assert bounds.choose() == DEFAULT_INTERVAL_BYTES
