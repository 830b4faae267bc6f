"""Changing whole logs through the engine, where the command line's tests do not look: formats, passes, replicas of the truth."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.errors import InvalidState
from kafkalog.format.snapshot import decode_snapshot
from kafkalog.tasks.cat import tail_offset
from kafkalog.tasks.compact import compact_partitions
from kafkalog.tasks.maintenance import ChangeRequest
from kafkalog.tasks.reindex import ReindexOptions, reindex_partitions
from kafkalog.tasks.salvage import salvage_partitions
from tests.builders.small_logs import (
    FIRST_TIME,
    LEFT_BY_COMPACTION,
    made_batch,
    read_offsets,
    read_rows,
    write_half_swapped,
    write_segment,
)
from tests.tasks.test_salvage import tree

DAY_MS = 86_400_000
SMALL = {"internal.segment.bytes": "4000"}


def keyed(count: int, keys: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "key": pa.array([b"k%d" % (number % keys) for number in numbers], pa.binary()),
            "value": pa.array([None if number % 11 == 0 else b"v%d" % number for number in numbers], pa.binary()),
            "timestamp_ms": pa.array([FIRST_TIME + number for number in numbers], pa.int64()),
        }
    )


def latest(folder: Path) -> dict[bytes, bytes]:
    """The last value of each key, as a consumer has it; a tombstone is nothing."""
    found: dict[bytes, bytes | None] = {}
    for row in read_rows(folder, columns=["key", "value"]):
        found[row["key"]] = row["value"]
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_consumer_ends_up_with_the_same_after_compaction_and_twice_is_as_once(tmp_path: Path, magic: int, codec: str) -> None:
    folder = tmp_path / "orders-0"
    for turn in range(3):
        kafkalog.append(keyed(400, 37, 400 * turn), folder, magic=magic, codec=codec, batch_bytes=1000, config=SMALL)
    before = latest(folder)
    now = FIRST_TIME + 30 * DAY_MS
    (result,) = kafkalog.compact(folder, in_place=True, roll=True, config=SMALL, now_ms=now)
    assert result.details["records_kept"] < 100
    assert latest(folder) == before
    rows = read_rows(folder, columns=["offset", "key", "value"])
    kafkalog.compact(folder, in_place=True, roll=True, whole=True, config=SMALL, now_ms=now)
    assert latest(folder) == before
    assert read_rows(folder, columns=["offset", "key", "value"]) == rows
    (third,) = kafkalog.compact(folder, in_place=True, roll=True, config=SMALL, now_ms=now)
    assert third.state == "already there"
    assert list(kafkalog.verify(folder)) == []


def test_a_map_that_is_too_small_takes_more_passes(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    for turn in range(8):
        kafkalog.append(keyed(400, 397, 400 * turn), folder, config=SMALL)
    before = latest(folder)
    place = ChangeRequest(tmp_path / "out", now_ms=FIRST_TIME)
    (result,) = compact_partitions(folder, place, SMALL, roll=True, map_bytes=24 * 300)
    assert result.details["passes"] > 1
    assert latest(tmp_path / "out" / "orders-0") == before


def test_the_start_of_a_log_goes_with_a_copy_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10))
    (tmp_path / "data" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    kafkalog.convert(tmp_path / "data", out=tmp_path / "converted", codec="gzip")
    kafkalog.truncate(tmp_path / "data", 15, out=tmp_path / "cut")
    assert read_offsets(tmp_path / "converted") == list(range(7, 20))
    assert read_offsets(tmp_path / "cut") == list(range(7, 10))


RAFT_FILES = {"quorum-state": b'{"leaderId":1,"data_version":0}', f"{5:020}-{2:010}.checkpoint": b"a snapshot"}


@pytest.fixture
def metadata_log(tmp_path: Path) -> Path:
    """The log of a KRaft controller, with its vote, a snapshot, and one that it is about to delete."""
    folder = tmp_path / "data" / "__cluster_metadata-0"
    write_segment(folder, 0, made_batch(0), made_batch(10))
    for name, content in {**RAFT_FILES, f"{1:020}-{1:010}.checkpoint.deleted": b"old"}.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("command", ["salvage", "convert", "recover", "compact", "truncate", "retain"])
def test_a_copy_of_the_metadata_log_keeps_the_vote_and_the_snapshots(metadata_log: Path, tmp_path: Path, command: str) -> None:
    """A controller without them has forgotten its vote, and may find no beginning of its log."""
    out = tmp_path / "out"
    work: dict[str, Callable[[], object]] = {
        "salvage": lambda: kafkalog.salvage(metadata_log, out),
        "convert": lambda: kafkalog.convert(metadata_log, out=out, codec="gzip"),
        "recover": lambda: kafkalog.recover(metadata_log, out=out),
        "compact": lambda: kafkalog.compact(metadata_log, out=out),
        "truncate": lambda: kafkalog.truncate(metadata_log, 10, out=out),
        "retain": lambda: kafkalog.retain(metadata_log, out=out, start_offset=10),
    }
    work[command]()
    copied = out / "__cluster_metadata-0"
    kept = {
        path.name: path.read_bytes() for path in copied.iterdir() if path.name.startswith("quorum") or "checkpoint" in path.suffix
    }
    assert kept == RAFT_FILES
    work[command]()  # finds its own work


def test_several_replicas_of_the_metadata_log_have_no_vote_in_common(metadata_log: Path, tmp_path: Path) -> None:
    second = tmp_path / "second" / "__cluster_metadata-0"
    shutil.copytree(metadata_log, second)
    kafkalog.salvage([metadata_log, second], tmp_path / "out")
    copied = tmp_path / "out" / "__cluster_metadata-0"
    assert {name: (copied / name).exists() for name in RAFT_FILES} == dict(zip(RAFT_FILES, (False, True), strict=True))


@pytest.mark.parametrize("to_offset", [20, 25])
def test_a_log_is_not_emptied_because_an_index_names_the_first_offset_of_the_batch_that_is_cut(
    tmp_path: Path, to_offset: int
) -> None:
    """Brokers up to 1.1 indexed the first offset of what was appended, later ones the last of a batch."""
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10), made_batch(20), indexed=[2])
    (tmp_path / "data" / ".kafka_cleanshutdown").touch()
    (planned,) = kafkalog.truncate(folder, to_offset, in_place=True, dry_run=True)
    (done,) = kafkalog.truncate(folder, to_offset, in_place=True)
    assert planned.after == done.after
    assert read_offsets(folder) == list(range(20))


def test_a_plan_of_a_truncation_between_two_segments_is_what_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    for base in (0, 20, 40):
        write_segment(folder, base, made_batch(base), made_batch(base + 10))
    (copied,) = kafkalog.truncate(folder, 20, out=tmp_path / "out")
    (planned,) = kafkalog.truncate(folder, 20, in_place=True, dry_run=True)
    (done,) = kafkalog.truncate(folder, 20, in_place=True)
    assert planned.after == done.after == copied.after
    assert read_offsets(folder) == read_offsets(tmp_path / "out") == list(range(20))


def test_the_plan_of_a_copy_begins_where_the_copy_does(tmp_path: Path) -> None:
    """A copy has no checkpoint of a cleaner yet, so all of it is cleaned."""
    folder = tmp_path / "data" / "orders-0"
    for turn in range(3):
        kafkalog.append(keyed(400, 37, 400 * turn), folder, config=SMALL)
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 1200\n")
    choices: dict[str, Any] = {"out": tmp_path / "out", "roll": True, "config": SMALL, "now_ms": FIRST_TIME}
    (planned,) = kafkalog.compact(folder, dry_run=True, **choices)
    (done,) = kafkalog.compact(folder, **choices)
    assert planned.details["first_dirty_offset"] == done.details["first_dirty_offset"] == 0
    assert planned.details["dirty_bytes"] > 0


def test_a_v0_log_that_cannot_be_compacted_is_named(tmp_path: Path) -> None:
    """Kafka's cleaner fails here too: the last entry of a pass stays, and an empty one takes v2."""
    folder = tmp_path / "orders-0"
    table = keyed(3, 3).set_column(0, "key", pa.array([b"a", b"b", None], pa.binary()))
    kafkalog.append(table, folder, magic=0)
    before = read_rows(folder)
    with pytest.raises(InvalidState, match=r"orders-0: .* which only v2 can store, not v0.*kafkalog convert"):
        kafkalog.compact(folder, in_place=True, roll=True)
    assert read_rows(folder) == before
    kafkalog.convert(folder, in_place=True)
    kafkalog.compact(folder, in_place=True, roll=True)
    assert read_rows(folder, columns=["key"]) == [b"a", b"b"]


@pytest.fixture
def half_swapped(tmp_path: Path) -> Path:
    return write_half_swapped(tmp_path / "data" / "orders-0")


def test_a_read_gives_a_completed_swap_segment_whose_place_is_free(half_swapped: Path) -> None:
    assert read_offsets(half_swapped) == LEFT_BY_COMPACTION
    assert read_rows(half_swapped, "batches", ["base_offset"]) == [10, 30, 40, 50]
    (partition,) = kafkalog.open(half_swapped).partitions
    assert tail_offset("", partition, 35, {}) == 15
    assert sorted(read_rows(half_swapped, "segments", ["state"])) == ["active", "closed", "deleted", "swap"]


def test_salvage_keeps_a_completed_swap_segment_whose_place_is_free(half_swapped: Path, tmp_path: Path) -> None:
    (result,) = salvage_partitions([half_swapped], tmp_path / "out")
    assert result.kept_records == 40
    assert read_offsets(tmp_path / "out") == LEFT_BY_COMPACTION


def test_a_converted_copy_holds_a_completed_swap_segment(half_swapped: Path, tmp_path: Path) -> None:
    (result,) = kafkalog.convert(half_swapped, out=tmp_path / "out", codec="gzip")
    assert read_offsets(tmp_path / "out") == LEFT_BY_COMPACTION
    (planned,) = kafkalog.convert(half_swapped, in_place=True, codec="gzip", dry_run=True)
    (done,) = kafkalog.convert(half_swapped, in_place=True, codec="gzip")
    assert (planned.to_compress, planned.segments) == (done.to_compress, done.segments) == (result.to_compress, 2)
    assert read_offsets(half_swapped) == LEFT_BY_COMPACTION


def test_reindex_treats_a_completed_swap_segment_as_the_log_that_it_will_be(half_swapped: Path) -> None:
    waiting = half_swapped / f"{0:020d}.txnindex.swap"
    waiting.write_bytes(b"of the new segment")
    list(reindex_partitions(half_swapped, ReindexOptions()))
    snapshot = half_swapped / f"{40:020d}.snapshot"
    assert decode_snapshot(snapshot.read_bytes())["producer_id"].tolist() == [7]
    assert waiting.read_bytes() == b"of the new segment"
    waiting.unlink()
    kafkalog.recover(half_swapped, in_place=True, now_ms=FIRST_TIME)
    (again,) = reindex_partitions(half_swapped, ReindexOptions(dry_run=True))
    assert (again.changed, again.removed) == ([], [])


def test_a_swap_file_whose_place_is_not_free_is_left_out(half_swapped: Path, tmp_path: Path) -> None:
    """The segments that it is to replace are all still there, and hold no less."""
    (half_swapped / f"{0:020d}.log.deleted").rename(half_swapped / f"{0:020d}.log")
    assert [result.kept_records for result in salvage_partitions([half_swapped], tmp_path / "out")] == [60]


def test_a_partition_that_was_not_asked_for_is_left_as_a_crash_left_it(tmp_path: Path) -> None:
    for topic in ("orders", "others"):
        write_segment(tmp_path / f"{topic}-0", 0, made_batch(0))
    (tmp_path / "others-0" / f"{0:020d}.log.cleaned").write_bytes(b"half")
    before = tree(tmp_path / "others-0")
    kafkalog.convert(tmp_path, in_place=True, codec="gzip", topics=["orders"])
    assert tree(tmp_path / "others-0") == before


def test_interrupted_changes_of_a_broker_are_completed_first(tmp_path: Path) -> None:
    """A `.swap` file is complete and only waits to replace the old segment; a `.cleaned` one is not, and goes."""
    folder = tmp_path / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10))
    write_segment(folder, 20, made_batch(20))
    (folder / f"{0:020d}.log.swap").write_bytes(made_batch(10))
    (folder / f"{20:020d}.log.cleaned").write_bytes(b"half")
    (planned,) = kafkalog.truncate(folder, 25, in_place=True, dry_run=True)
    assert planned.before is not None
    assert planned.before.size == 2 * len(made_batch(10))
    assert (folder / f"{0:020d}.log.swap").exists(), "a plan changes nothing"
    kafkalog.convert(folder, in_place=True, codec="gzip")
    assert read_offsets(folder) == list(range(10, 30))
    assert not [path for path in folder.iterdir() if path.suffix in (".swap", ".cleaned", ".deleted")]
