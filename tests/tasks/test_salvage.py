"""`salvage` and `undelete`: what is kept, filled, lost and journalled, and that nothing but the new folder is ever written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import NoLogs, SegmentChanged, StorageError, UsageError
from kafkalog.format.checkpoint import PartitionMetadata, encode_partition_metadata
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch
from kafkalog.log.folders import find_partitions
from kafkalog.log.replicas import Lost, MergeOptions
from kafkalog.storage import open_store
from kafkalog.tasks.salvage import SalvageOptions, SalvageResult, salvage_partition, salvage_partitions
from kafkalog.tasks.undelete import find_deleted, undelete_partitions
from tests.builders.memory_store import MemoryFile, MemoryStore
from tests.builders.small_logs import FIRST_TIME, made_batch, made_records, read_offsets, write_segment


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(paths: list[Path], out: Path, **options: Any) -> SalvageResult:
    dry_run = options.pop("dry_run", False)
    (result,) = salvage_partitions(paths, out, SalvageOptions(dry_run, merge=MergeOptions(**options)))
    return result


def damaged(batch: bytes) -> bytes:
    return batch[:-3] + bytes([batch[-3] ^ 1]) + batch[-2:]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Two segments, with one damaged batch in the first and a cut one at the end of the second."""
    folder = tmp_path / "source" / "orders-0"
    write_segment(folder, 0, made_batch(0), damaged(made_batch(10)), made_batch(20))
    write_segment(folder, 30, made_batch(30), made_batch(40)[:50])
    return folder


def test_every_intact_batch_is_kept_and_the_source_is_only_read(orders: Path, tmp_path: Path) -> None:
    before = tree(orders)
    result = run([orders], tmp_path / "out")
    assert tree(orders) == before
    assert result.state == "written"
    assert (result.kept_batches, result.kept_records, result.first_offset, result.end_offset) == (3, 30, 0, 40)
    assert [(dropped.reason, dropped.position) for dropped in result.report.dropped] == [("crc", len(made_batch(0)))]
    assert result.lost == [Lost(10, 19)]
    out = tmp_path / "out" / "orders-0"
    assert (out / segment_file_name(0)).read_bytes() == made_batch(0) + made_batch(20)
    assert (out / segment_file_name(30)).read_bytes() == made_batch(30)
    assert read_offsets(out) == [*range(10), *range(20, 40)]
    assert {path.suffix for path in out.iterdir()} == {".log", ".index", ".timeindex", ".snapshot", ""}


def test_the_journal_names_every_byte_and_offset_that_is_gone(orders: Path, tmp_path: Path) -> None:
    run([orders], tmp_path / "out")
    lines = (tmp_path / "out" / "orders-0.salvage.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == ["salvage", "dropped", "tail", "lost", "kept"]
    _, dropped, tail, lost, kept = events
    assert (dropped["base_offset"], dropped["last_offset"], dropped["length"]) == (10, 19, len(made_batch(10)))
    assert (tail["position"], tail["length"]) == (len(made_batch(30)), 50)
    assert (lost["first_offset"], lost["last_offset"]) == (10, 19)
    sizes = sum(path.stat().st_size for path in orders.glob("*.log"))
    assert kept["kept_bytes"] + dropped["length"] + tail["length"] == sizes
    assert "lost offsets 10 to 19" in (tmp_path / "out" / "orders-0.salvage.txt").read_text()


def test_a_second_run_finds_its_own_work_and_writes_nothing(orders: Path, tmp_path: Path) -> None:
    run([orders], tmp_path / "out")
    before = tree(tmp_path / "out")
    result = run([orders], tmp_path / "out")
    assert result.state == "already there"
    assert tree(tmp_path / "out") == before


def test_a_folder_with_something_else_is_never_overwritten(orders: Path, tmp_path: Path) -> None:
    run([orders], tmp_path / "out")
    extra = tmp_path / "out" / "orders-0" / "extra"
    extra.touch()
    with pytest.raises(UsageError, match="exists already with other content"):
        run([orders], tmp_path / "out")
    extra.unlink()
    log = tmp_path / "out" / "orders-0" / segment_file_name(0)
    log.write_bytes(log.read_bytes() + b"x")
    with pytest.raises(UsageError, match="exists already with other content"):
        run([orders], tmp_path / "out")


def test_a_dry_run_writes_nothing(orders: Path, tmp_path: Path) -> None:
    result = run([orders], tmp_path / "out", dry_run=True)
    assert (result.state, result.kept_batches) == ("not written", 3)
    assert not (tmp_path / "out").exists()


def test_neither_the_source_nor_a_log_directory_is_written_to(orders: Path, tmp_path: Path) -> None:
    for out in (orders.parent, orders, orders / "below"):
        with pytest.raises(UsageError, match="never written to"):
            run([orders], out)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    with pytest.raises(UsageError, match="log directory of a broker"):
        run([orders], tmp_path / "data")
    for below in ("rescued", "rescued/further/down"):  # a broker does not start with a folder that belongs to no partition
        with pytest.raises(UsageError, match=f"inside of {tmp_path}/data, the log directory of a broker"):
            run([orders], tmp_path / "data" / below)


def test_a_hole_is_filled_from_another_replica(orders: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "orders-0"
    write_segment(other, 0, damaged(made_batch(0)), made_batch(10), made_batch(20))
    result = run([orders, other], tmp_path / "out")
    assert result.lost == []
    assert [(filled.first_offset, filled.last_offset) for filled in result.filled] == [(10, 19)]
    assert result.filled[0].file == str(other / segment_file_name(0))
    out = tmp_path / "out" / "orders-0"
    assert (out / segment_file_name(0)).read_bytes() == made_batch(0) + made_batch(10) + made_batch(20)
    assert read_offsets(out) == list(range(40))


def test_a_hole_that_one_replica_cannot_fill_is_filled_from_the_next(tmp_path: Path) -> None:
    batches = [made_batch(10 * number) for number in range(6)]
    good = {0: {0, 5}, 1: {0, 2, 5}, 2: {0, 1, 3, 5}}
    for replica, intact in good.items():
        entries = [each if number in intact else damaged(each) for number, each in enumerate(batches)]
        write_segment(tmp_path / str(replica) / "orders-0", 0, *entries)
    result = run([tmp_path / str(replica) / "orders-0" for replica in good], tmp_path / "out")
    assert read_offsets(tmp_path / "out" / "orders-0") == [*range(40), *range(50, 60)]
    assert result.lost == [Lost(40, 49)]


def test_batches_of_a_replica_that_diverged_are_not_taken(tmp_path: Path) -> None:
    """The other one wrote offsets 10 to 19 in epoch 7, which this log never had: its neighbours are of epochs 4 and 5."""
    first, other = tmp_path / "a" / "orders-0", tmp_path / "b" / "orders-0"
    write_segment(
        first, 0, made_batch(0, leader_epoch=4), damaged(made_batch(10, leader_epoch=5)), made_batch(20, leader_epoch=5),
        made_batch(30, leader_epoch=9),
    )  # fmt: skip
    write_segment(other, 0, made_batch(0, leader_epoch=4), made_batch(10, leader_epoch=7))
    result = run([first, other], tmp_path / "out")
    assert result.filled == []
    assert result.lost == [Lost(10, 19)]


def test_the_replica_of_the_newest_epoch_is_followed_whatever_the_order(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / "orders-0", tmp_path / "new" / "orders-0"
    write_segment(old, 0, made_batch(0, leader_epoch=1), made_batch(10, leader_epoch=1), made_batch(20, leader_epoch=1))
    write_segment(new, 0, made_batch(0, leader_epoch=1), made_batch(10, 5, leader_epoch=2))
    run([old, new], tmp_path / "out")
    assert read_offsets(tmp_path / "out" / "orders-0") == list(range(15))


def test_gaps_without_damage_are_filled_only_on_request(tmp_path: Path) -> None:
    first, other = tmp_path / "a" / "orders-0", tmp_path / "b" / "orders-0"
    write_segment(first, 0, made_batch(0))
    write_segment(first, 20, made_batch(20), made_batch(30))
    write_segment(other, 0, made_batch(0), made_batch(10), made_batch(20))
    run([first, other], tmp_path / "out")
    assert read_offsets(tmp_path / "out" / "orders-0") == [*range(10), *range(20, 40)]
    run([first, other], tmp_path / "all", fill_gaps=True)
    assert read_offsets(tmp_path / "all" / "orders-0") == list(range(40))


def test_a_segment_that_is_gone_altogether_is_reported_and_filled(tmp_path: Path) -> None:
    first, other = tmp_path / "a" / "orders-0", tmp_path / "b" / "orders-0"
    write_segment(first, 0, made_batch(0))
    write_segment(first, 10, bytes(4000))
    write_segment(first, 20, made_batch(20))
    write_segment(other, 0, made_batch(0), made_batch(10))
    alone = run([first], tmp_path / "alone")
    assert (alone.lost, alone.segment_count) == ([Lost(10, 19)], 2)
    both = run([first, other], tmp_path / "both")
    assert (both.lost, both.segment_count) == ([], 3)
    assert read_offsets(tmp_path / "both" / "orders-0") == list(range(30))


def test_partitions_with_different_topic_ids_are_no_replicas(orders: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "orders-0"
    write_segment(other, 0, made_batch(0))
    for folder, letter in ((orders, "B"), (other, "C")):
        (folder / "partition.metadata").write_bytes(encode_partition_metadata(PartitionMetadata(0, letter * 22)))
    with pytest.raises(UsageError, match="topic ids differ"):
        run([orders, other], tmp_path / "out")
    run([orders], tmp_path / "out")
    assert (tmp_path / "out" / "orders-0" / "partition.metadata").read_bytes() == (orders / "partition.metadata").read_bytes()


@pytest.mark.parametrize("damage", [slice(0, 61), slice(8, 12), slice(17, 21), slice(0, 8), slice(16, 17)])
def test_batches_forged_inside_a_value_are_not_taken(tmp_path: Path, damage: slice) -> None:
    """T-24: the header of the batch that holds them is damaged, so that a search after it finds them."""
    forged = made_batch(11, 2) + made_batch(13, 2) + made_batch(15, 3)
    holder = bytearray(encode_batch([Record(10, FIRST_TIME, None, b"x" * 50 + forged), *made_records(11, 9)]))
    holder[damage] = bytes(each ^ 0x5A for each in holder[damage])
    folder = tmp_path / "source" / "orders-0"
    write_segment(folder, 0, made_batch(0), bytes(holder), made_batch(20))
    result = run([folder], tmp_path / "out")
    assert read_offsets(tmp_path / "out" / "orders-0") == [*range(10), *range(20, 30)]
    assert result.lost == [Lost(10, 19)]


def test_batches_between_two_damages_need_something_to_speak_for_them(tmp_path: Path) -> None:
    """Zeroed headers before and after: these may be bytes of a value. A damaged body shows by its length that they are not."""
    batches = [made_batch(10 * number) for number in range(6)]
    zeroed = [bytes(61) + batches[number][61:] for number in range(6)]
    folder = tmp_path / "source" / "orders-0"
    write_segment(folder, 0, batches[0], zeroed[1], batches[2], zeroed[3], batches[4], batches[5])
    result = run([folder], tmp_path / "out")
    assert "unverified" in result.report.reasons
    assert read_offsets(tmp_path / "out" / "orders-0") == [*range(10), *range(40, 60)]
    every = run([folder], tmp_path / "all", unverified=True)
    assert [(taken.first_offset, taken.last_offset) for taken in every.unverified] == [(20, 29)]
    assert read_offsets(tmp_path / "all" / "orders-0") == [*range(10), *range(20, 30), *range(40, 60)]
    write_segment(folder, 0, batches[0], zeroed[1], batches[2], damaged(batches[3]), batches[4], batches[5])
    run([folder], tmp_path / "chained")
    assert read_offsets(tmp_path / "chained" / "orders-0") == [*range(10), *range(20, 30), *range(40, 60)]


class FailingFile(MemoryFile):
    """Cannot read the page at 4096."""

    def read_into(self, position: int, target: memoryview) -> int:
        if position < 8192 and position + len(target) > 4096:
            failure = StorageError(f"{self.path}: no", file=self.path)
            failure.errno = errno.EIO
            raise failure
        return super().read_into(position, target)


class FailingStore(MemoryStore):
    def open(self, path: str) -> MemoryFile:
        return FailingFile(path, super().open(path).data)


def test_a_page_that_the_device_cannot_read_costs_only_the_batches_in_it(tmp_path: Path) -> None:
    batches = [made_batch(10 * number) for number in range(60)]
    log = b"".join(batches)
    (partition,) = find_partitions(FailingStore({f"/disk/orders-0/{segment_file_name(0)}": log}), "/disk/orders-0")
    result = salvage_partition([partition], str(tmp_path / "orders-0"))
    starts = [len(b"".join(batches[:number])) for number in range(60)]
    untouched = [n for n, at in enumerate(starts) if at + len(batches[n]) <= 4096 or at >= 8192]
    assert read_offsets(tmp_path / "orders-0") == [offset for n in untouched for offset in range(10 * n, 10 * n + 10)]
    assert "unreadable" in result.report.reasons


def test_a_segment_that_changes_meanwhile_is_not_copied(orders: Path, tmp_path: Path) -> None:
    (partition,) = find_partitions(*open_store(orders))
    os.utime(orders / segment_file_name(0), ns=(1, 1))
    with pytest.raises(SegmentChanged, match="stop the broker"):
        salvage_partition([partition], str(tmp_path / "out" / "orders-0"))
    assert os.listdir(tmp_path / "out") == []


def test_an_empty_newest_segment_keeps_its_offset(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "orders-0"
    write_segment(folder, 0, made_batch(0))
    write_segment(folder, 50)
    result = run([folder], tmp_path / "out")
    assert (result.end_offset, result.segment_count) == (50, 2)
    assert (tmp_path / "out" / "orders-0" / segment_file_name(50)).read_bytes() == b""


def test_segments_that_overlap_become_one_log_with_rising_offsets(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10))
    write_segment(folder, 20, made_batch(20))
    write_segment(folder, 25, made_batch(25), made_batch(35))
    result = run([folder], tmp_path / "out")
    kept = read_offsets(tmp_path / "out" / "orders-0", on_damage="strict")
    assert kept == sorted(set(kept))
    assert result.report.dropped


def test_a_whole_log_directory_is_salvaged_partition_by_partition(orders: Path, tmp_path: Path) -> None:
    write_segment(orders.parent / "other-3", 0, made_batch(0))
    write_segment(orders.parent / f"gone-0.{'a' * 32}-delete", 0, made_batch(0))
    found = list(salvage_partitions([orders.parent], tmp_path / "out"))
    assert [result.name for result in found] == ["orders-0", "other-3"]
    assert [result.name for result in salvage_partitions([orders.parent], tmp_path / "some", topics=["other"])] == ["other-3"]


def test_a_single_file_of_any_name_becomes_a_partition(tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    copy = tmp_path / "copies" / "part.bin"
    copy.write_bytes(made_batch(70) + damaged(made_batch(80)) + made_batch(90))
    run([copy], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "copies").glob("*.log")] == [segment_file_name(70)]
    assert read_offsets(tmp_path / "out" / "copies") == [*range(70, 80), *range(90, 100)]


def test_deleted_topics_and_segments_are_found_and_copied(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_segment(data / f"gone-2.{'a' * 32}-delete", 0, made_batch(0), made_batch(10))
    live = data / "orders-0"
    write_segment(live, 0, made_batch(0)).rename(live / (segment_file_name(0) + ".deleted"))
    write_segment(live, 10, made_batch(10)).rename(live / (segment_file_name(10) + ".deleted"))
    write_segment(live, 20, made_batch(20))
    before = tree(data)
    found = find_deleted(data)
    assert [(each.what, each.topic, each.partition, each.base_offsets) for each in found] == [
        ("deleted topic", "gone", 2, [0]),
        ("deleted segments", "orders", 0, [0, 10]),
    ]
    results = list(undelete_partitions(found, tmp_path / "out"))
    assert [result.kept_records for result in results] == [20, 20]
    assert read_offsets(tmp_path / "out" / "gone-2") == list(range(20))
    assert read_offsets(tmp_path / "out" / "orders-0") == list(range(20))
    assert tree(data) == before


def test_two_deleted_topics_of_one_name_stay_apart(tmp_path: Path) -> None:
    names = [f"gone-0.{letter * 32}-delete" for letter in "ab"]
    for number, name in enumerate(names):
        write_segment(tmp_path / "data" / name, 10 * number, made_batch(10 * number))
    list(undelete_partitions(find_deleted(tmp_path / "data"), tmp_path / "out"))
    assert [read_offsets(tmp_path / "out" / name / "gone-0")[0] for name in names] == [0, 10]


def test_where_nothing_was_deleted_nothing_is_copied(orders: Path, tmp_path: Path) -> None:
    assert find_deleted(orders.parent) == []
    with pytest.raises(NoLogs, match="nothing deleted"):
        list(undelete_partitions([], tmp_path / "out"))
