"""The listing of a log directory, compared with Kafka's tools and the tables."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pytest

import kafkalog
from kafkalog import codecs
from kafkalog.format.names import is_own_name, segment_file_name
from kafkalog.format.reference import Record, encode_batch, encode_message, encode_wrapper
from kafkalog.storage.failures import read_error
from kafkalog.storage.local import LocalFile, LocalStore
from kafkalog.tasks.compression_ratio import places_for
from kafkalog.tasks.listing import PartitionListing, ls
from tests.golden import sets
from tests.golden.expected import read_eras

DELETED = "3f2a8c0d4e5b46179a8b0c1d2e3f4a5b-delete"


def squeeze(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def write(folder: Path, base_offset: int, *entries: bytes, suffix: str = "log") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / segment_file_name(base_offset, suffix)).write_bytes(b"".join(entries))


def batch_at(offset: int, count: int = 1, codec: int = 0) -> bytes:
    records = [Record(offset + at, 1_700_000_000_000 + offset + at, b"k", b"value " * 20) for at in range(count)]
    return encode_batch(records, leader_epoch=2, codec=codec, compress=squeeze)


def only(path: Path, *, deep: bool = False) -> PartitionListing:
    (found,) = ls(path, deep=deep).partitions
    return found


@pytest.mark.parametrize("era", sets.eras())
def test_counts_and_formats_are_those_of_kafkas_own_batches(era: str, golden: Callable[[str], Path]) -> None:
    listings = {(found.topic, found.partition): found for found in ls(golden(era) / era, deep=True).partitions}
    glances = {(found.topic, found.partition): found for found in ls(golden(era) / era).partitions}
    (expected_era,) = (each for each in read_eras(golden(era)) if each.name == era)
    for partition in expected_era.partitions:
        batches = [batch for name, found in partition.batches.items() if name.endswith(".log") for batch in found]
        found, glance = listings[partition.topic, partition.partition], glances[partition.topic, partition.partition]
        if era.endswith("-damaged"):
            continue
        assert not found.problems
        assert not glance.problems
        sizes = Counter[int]()
        for batch in batches:
            sizes[batch["magic"]] += batch["sizeInBytes"]
        assert {magic: share.bytes for magic, share in found.formats.items()} == dict(sizes)
        assert found.magics == tuple(sorted(sizes))
        assert set(glance.magics) <= set(found.magics)
        assert set(glance.codecs) <= set(found.codecs)
        if batches:
            assert found.end_offset == glance.end_offset == batches[-1]["nextOffset"]


@pytest.mark.parametrize("era", ["0.10.2.2", "2.8.2", "4.3.0"])
def test_records_per_format_are_those_that_a_read_gives(era: str, golden: Callable[[str], Path]) -> None:
    folder = golden(era) / era
    read = kafkalog.open(folder).read("records", ["topic", "partition", "magic"], include_control=True).read_all().to_pylist()
    expected = Counter((row["topic"], row["partition"], row["magic"]) for row in read)
    starts = {(found.topic, found.partition) for found in kafkalog.open(folder).partitions if found.log_start_offset}
    for found in ls(folder, deep=True).partitions:
        for magic, share in found.formats.items():
            if (found.topic, found.partition) not in starts:  # records below the log start are stored, but not read
                assert share.records == expected[found.topic, found.partition, magic], found.folder


def test_a_partition_with_everything_is_described(tmp_path: Path) -> None:
    folder = tmp_path / "orders-3"
    old = [Record(at, 1_600_000_000_000, b"k", b"value " * 20) for at in range(4)]
    write(folder, 0, encode_message(old[0], magic=0), encode_wrapper(old[1:], codec=codecs.GZIP, compress=squeeze))
    write(folder, 4, batch_at(4, 10, codecs.ZSTD), batch_at(14)[:50])
    write(folder, 0, b"x", suffix="log.deleted")
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n2 4\n")
    found = only(folder, deep=True)
    assert (found.topic, found.partition, found.segment_count, found.start_offset, found.end_offset) == ("orders", 3, 2, 0, 14)
    assert {magic: (share.batches, share.records) for magic, share in found.formats.items()} == {0: (1, 1), 1: (1, 3), 2: (1, 10)}
    assert found.codecs == ("none", "gzip", "zstd")
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (1_600_000_000_000, 1_700_000_000_013)
    assert found.compression_ratio is not None
    assert found.compression_ratio > 2
    assert found.leader_epochs == (2,)
    assert found.leftovers == ("00000000000000000000.log.deleted",)
    assert (found.tail_bytes, found.problems) == (50, ())
    assert only(folder).end_offset == 14


@pytest.mark.parametrize("deep", [False, True])
def test_a_partition_begins_at_the_time_of_its_first_record_not_at_the_end_of_its_first_batch(tmp_path: Path, deep: bool) -> None:
    write(tmp_path / "orders-0", 0, batch_at(0, 10), batch_at(10, 10))
    found = only(tmp_path / "orders-0", deep=deep)
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (1_700_000_000_000, 1_700_000_000_019)


def test_folders_on_their_way_out_are_leftovers_of_their_topic(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, batch_at(0))
    write(tmp_path / f"orders-1.{DELETED}", 0, batch_at(0))
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\n")
    listing = ls(tmp_path)
    (topic,) = listing.topics
    assert [found.partition for found in topic.partitions] == [0]
    assert topic.leftovers == (f"orders-1.{DELETED} ({len(batch_at(0))} bytes)",)
    assert listing.other_names == ("lost+found",)


def test_damage_and_hostile_files_are_problems_of_their_partition_only(tmp_path: Path) -> None:
    write(tmp_path / "good-0", 0, batch_at(0))
    write(tmp_path / "magic-0", 0, batch_at(0)[:16] + b"\x63" + batch_at(0)[17:])
    write(tmp_path / "magic-0", 9, batch_at(9))
    write(tmp_path / "name-0", 50, batch_at(0))
    write(tmp_path / "codec-0", 0, batch_at(0, 1, codecs.ZSTD)[:-9] + b"no zstd..")
    (tmp_path / "link-0").mkdir()
    (tmp_path / "link-0" / segment_file_name(0, "log")).symlink_to("/dev/zero")
    (tmp_path / "empty-0").mkdir()
    for deep in (False, True):
        found = {each.topic: each for each in ls(tmp_path, deep=deep).partitions}
        assert {topic for topic, each in found.items() if each.problems} >= {"magic", "link", "codec"}
        assert not found["good"].problems
        assert "magic" in found["magic"].problems[0]
        assert "symbolic link" in found["link"].problems[0]
        assert found["empty"].segment_count == 0
    (misnamed,) = (each for each in ls(tmp_path).partitions if each.topic == "name")
    assert "before the one in its name" in misnamed.problems[0]


def test_an_object_store_gives_the_same(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, batch_at(0, 10, codecs.LZ4), batch_at(10))
    write(tmp_path / "orders-0", 11, batch_at(11), batch_at(12)[:20])
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for deep in (False, True):
        here, there = only(tmp_path, deep=deep), ls("orders-0", filesystem=store, deep=deep).partitions[0]
        assert here.apparent_size == there.apparent_size == there.disk_size  # a store of objects has no blocks
        assert replace(here, folder="", disk_size=0) == replace(there, folder="", disk_size=0)
    explanation = kafkalog.explain("orders-0", offset=5, filesystem=store)
    assert (explanation.start, explanation.problems) == (0, [])


def noise(size: int, seed: int) -> bytes:
    """Text that compresses to about a half."""
    return random.Random(seed).randbytes(size // 2).hex().encode()


def uneven(folder: Path) -> Path:
    """Segments that begin with a batch of one value repeated, as a topic's first test messages do; ordinary ones follow."""
    for base in (0, 1000, 2000):
        first = encode_batch([Record(base, 1, b"k", b"same" * 50_000)], codec=codecs.ZSTD, compress=squeeze)
        rest = (Record(base + at, 1, b"k", noise(30_000, base + at)) for at in range(1, 40))
        write(folder, base, first, *(encode_batch([each], codec=codecs.ZSTD, compress=squeeze) for each in rest))
    return folder


def test_a_ratio_is_not_that_of_the_first_batches_and_says_whether_it_is_estimated(tmp_path: Path) -> None:
    uneven(tmp_path / "orders-0")
    exact, glance = only(tmp_path, deep=True), only(tmp_path)
    assert exact.compression_ratio_exact
    assert exact.compression_ratio == kafkalog.profile(tmp_path).total.ratio
    assert not glance.compression_ratio_exact
    assert exact.compression_ratio is not None
    assert glance.compression_ratio == pytest.approx(exact.compression_ratio, rel=0.15)


def test_the_ratio_of_a_topic_counts_its_uncompressed_partitions(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, batch_at(0, 50, codecs.ZSTD))
    write(tmp_path / "orders-1", 0, batch_at(0, 50))
    truth = kafkalog.profile(tmp_path).total.ratio
    for deep in (False, True):
        (topic,) = ls(tmp_path, deep=deep).topics
        assert topic.compression_ratio == pytest.approx(truth)
        assert topic.compression_ratio_exact is deep
    (plain,) = ls(tmp_path / "orders-1").topics
    assert plain.compression_ratio is None


@pytest.mark.parametrize("preallocated", [False, True])
def test_a_ratio_is_estimated_at_places_that_an_index_names(tmp_path: Path, preallocated: bool) -> None:
    values = [b"same" * 5_000] * 50 + [noise(20_000, at) for at in range(300)]
    table = pa.table({"value": pa.array(values, pa.binary())})
    kafkalog.append(table, tmp_path / "orders-0", codec="zstd", transaction="commit")
    index = tmp_path / "orders-0" / segment_file_name(0, "index")
    if preallocated:
        os.truncate(index, 10 << 20)
    exact, glance = only(tmp_path / "orders-0", deep=True), only(tmp_path / "orders-0")
    assert exact.compression_ratio is not None
    assert not glance.compression_ratio_exact
    assert glance.compression_ratio == pytest.approx(exact.compression_ratio, rel=0.15)


def test_a_glance_at_many_partitions_takes_fewer_places_of_each() -> None:
    assert [places_for(count) for count in (0, 1, 32, 100, 10_000)] == [16, 16, 16, 5, 3]


def test_sparse_index_files_count_on_the_disk_with_what_they_take(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, batch_at(0))
    for kind in ("index", "timeindex"):
        write(tmp_path / "orders-0", 0, suffix=kind)
        os.truncate(tmp_path / "orders-0" / segment_file_name(0, kind), 10 << 20)
    found = only(tmp_path)
    assert found.apparent_size == found.size + (20 << 20)
    assert found.disk_size == (tmp_path / "orders-0" / segment_file_name(0)).stat().st_blocks * 512
    disk = kafkalog.profile(tmp_path).disk
    assert (disk.index_bytes, disk.index_disk_bytes) == (20 << 20, 0)
    assert disk.disk_bytes == disk.log_disk_bytes == found.disk_size


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "orders-0", 0, batch_at(0, 5, codecs.ZSTD))
    write(tmp_path / "orders-0", 5, batch_at(5, 5, codecs.ZSTD))

    def refuse(self: Any, position: int, target: memoryview) -> int:
        raise read_error(self.path, f"reading {len(target)} bytes at byte {position} failed", OSError(errno.EIO, "x"))

    unread = LocalStore.open

    def open_or_refuse(self: LocalStore, path: str) -> LocalFile:
        if path.endswith(segment_file_name(5)):
            raise read_error(path, "opening failed", PermissionError(errno.EACCES, "x"))
        return unread(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "open", open_or_refuse)
        for deep in (False, True):
            found = only(tmp_path, deep=deep)
            assert len(found.problems) == 1, found.problems
            assert found.unreadable
    monkeypatch.setattr(LocalFile, "read_into", refuse)
    assert len(only(tmp_path).problems) == 2  # one of each file


def test_the_notes_of_kafkalog_itself_are_not_those_of_strangers(tmp_path: Path) -> None:
    kafkalog.append(pa.table({"value": pa.array([b"x"])}), tmp_path / "orders-0")
    (tmp_path / ".orders-1.inprogress").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    listing = ls(tmp_path)
    assert listing.other_names == ("notes.txt",)
    assert listing.own_names == (".orders-0.append.json", ".orders-1.inprogress")
    for command in ("convert", "compact", "recover"):
        assert is_own_name(f"orders-0.{command}.json")
    assert is_own_name("orders-0.salvage.jsonl")


def test_many_segments_are_listed_without_reading_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        for base in range(0, 100, 10):
            write(tmp_path / f"topic-{number}", base, batch_at(base, 10))
    taken: list[int] = []
    read = LocalFile.read_into

    def counted(self: Any, position: int, target: memoryview) -> int:
        taken.append(len(target))
        return read(self, position, target)

    monkeypatch.setattr(LocalFile, "read_into", counted)
    assert ls(tmp_path).topics[0].segment_count == 1000
    assert 0 < len(taken) <= 1000
    assert sum(taken) < sum(path.stat().st_size for path in tmp_path.rglob("*.log")) // 10
