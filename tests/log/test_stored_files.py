"""Listings kept as columns: the same files and segments as one object for each, whatever the names are."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import StorageError
from kafkalog.format.names import MAX_OFFSET, parse_file_name
from kafkalog.log.folders import find_partitions, segments_of
from kafkalog.log.partition import Segment, StoredFile
from kafkalog.log.stored_files import Segments, StoredFiles, stored_file
from kafkalog.storage.store import Entry
from tests.builders.lake_store import BUCKET, LakeStore

PREFIX = "s3://logs/orders-0/"
DIGITS = f"{7:020d}"
# What anyone may have put into a bucket.
HOSTILE = [
    "",
    ".",
    "..",
    "../orders-1",
    f"../{DIGITS}.log",
    f"a/{DIGITS}.log",
    f"{DIGITS}.log/",
    f"{DIGITS}.log ",
    f"{DIGITS}.LOG",
    f"{DIGITS}.log.deleted.deleted",
    f"0{DIGITS}.log",
    f"{DIGITS[1:]}.log",
    f"-{DIGITS[1:]}.log",
    f"+{DIGITS[1:]}.log",
    f"{DIGITS[:10]}_{DIGITS[11:]}.log",
    "٧" * 20 + ".log",
    "²" * 20 + ".log",
    "9" * 20 + ".log",
    f"{MAX_OFFSET + 1}.log",
    DIGITS,
    ".log",
    "log",
]
SEGMENT_NAMES = st.builds(
    "{:020d}.{}".format,
    st.integers(0, 6) | st.just(MAX_OFFSET),
    st.sampled_from(["log", "log", "index", "timeindex", "txnindex", "snapshot", "log.deleted", "index.swap", "log.cleaned"]),
)
OTHER_NAMES = st.sampled_from(
    [
        "leader-epoch-checkpoint",
        "leader-epoch-checkpoint.tmp",
        "partition.metadata",
        "quorum-state",
        f"{3:020d}-{2:010d}.checkpoint",
        f"{3:020d}-{2:010d}-12345.checkpoint.part",
        "notes.txt",
        *HOSTILE,
    ]
)
NUMBERS = st.integers(0, 1 << 40)
ENTRIES = st.lists(
    st.builds(
        Entry,
        SEGMENT_NAMES | SEGMENT_NAMES | OTHER_NAMES,
        st.sampled_from(["file", "file", "file", "file", "folder", "other"]),
        NUMBERS,
        NUMBERS | st.integers(-(1 << 70), 1 << 70),
        st.just(""),
        st.none() | NUMBERS,
        NUMBERS | st.just((1 << 64) - 1),
    ),
    max_size=25,
)


def as_objects(entries: list[Entry]) -> list[StoredFile]:
    ordered = sorted(entries, key=lambda entry: entry.name)
    parsed = [(entry, parse_file_name(entry.name)) for entry in ordered if entry.kind == "file"]
    return [stored_file(PREFIX + entry.name, entry, name) for entry, name in parsed if name is not None]


@given(ENTRIES)
def test_columns_are_the_same_files_and_segments_as_objects(entries: list[Entry]) -> None:
    files, objects = StoredFiles(PREFIX, entries), as_objects(entries)
    assert [*files] == objects
    assert [stored.disk_size for stored in files] == [stored.disk_size for stored in objects]
    assert [files[row] for row in range(len(files))] == objects
    assert files.leftovers() == tuple(stored for stored in objects if stored.suffix)
    for kind in ("leader-epoch-checkpoint", "partition.metadata", "log"):
        assert files.first_of(kind) == next((stored for stored in objects if stored.kind == kind), None)
    segments, expected = Segments(files), segments_of(objects)
    assert segments == expected
    assert segments.log_bytes == sum(segment.log.size for segment in expected)
    assert [*segments.spans()] == [(each.base_offset, each.next_base_offset, each.log.size) for each in expected]


@given(ENTRIES, st.integers(-1, 8), st.slices(6))
def test_a_part_of_the_segments_is_a_view_that_knows_what_follows(entries: list[Entry], offset: int, cut: slice) -> None:
    segments, expected = Segments(StoredFiles(PREFIX, entries)), segments_of(as_objects(entries))
    assert segments[cut] == expected[cut]
    assert segments.reaching(offset) == tuple(
        each for each in expected if each.next_base_offset is None or each.next_base_offset > offset
    )
    assert [*reversed(segments)] == [*reversed(expected)]
    if expected:
        newest = Segment(expected[-1].log, {}, None, 0, 12)
        assert segments.with_newest(newest) == (*expected[:-1], newest)
        assert segments.with_newest(newest)[:-1] == expected[:-1]
        assert [*segments.with_newest(newest).spans()] == [*segments[:-1].spans()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_files_of_kafka_is_no_segment(name: str) -> None:
    assert [*StoredFiles(PREFIX, [Entry(name, "file", 1, 1)])] == []


def test_a_segment_that_is_listed_twice_is_one() -> None:
    entries = [Entry(f"{DIGITS}.log", "file", size, 1) for size in (10, 20)]
    assert [each.log.size for each in Segments(StoredFiles(PREFIX, entries))] == [20]


def test_partitions_that_are_not_wanted_are_named_but_not_listed() -> None:
    lake = LakeStore(40, 3)
    found = find_partitions(lake, BUCKET, lambda name: name.topic == "topic0001")
    assert {(each.topic, len(each.segments)) for each in found} == {("topic0000", 0), ("topic0001", 3)}
    assert lake.requests["page"] == 1 + 20


class OneFolderFails(LakeStore):
    def list(self, folder: str) -> list[Entry]:
        if folder.endswith("topic0000-7"):
            raise StorageError(f"{folder}: listing the folder failed: access denied", file=folder)
        return super().list(folder)


def test_a_folder_that_cannot_be_listed_is_reported_with_its_partition_and_the_others_are_whole() -> None:
    found = find_partitions(OneFolderFails(30, 4), BUCKET)
    assert [str(each) for each in found] == [f"topic{number // 20:04}-{number % 20}" for number in range(30)]
    assert [len(each.segments) for each in found] == [0 if number == 7 else 4 for number in range(30)]
    assert {each.problems for each in found} == {(), ("s3://lake/topic0000-7: listing the folder failed: access denied",)}


def test_a_segments_object_survives_being_sent() -> None:
    (partition, *_) = find_partitions(LakeStore(1, 3), BUCKET)
    assert pickle.loads(pickle.dumps(partition.segments[1])) == partition.segments[1]
