"""Planning at the size of a lake: how many requests and how much memory a segment takes, and that the splits stay the same.

Requests and bytes are counted, not seconds. `python -m benchmarks.planning` measures a million segments.
"""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.errors import StorageError
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion.ingest_options import IngestOptions
from kafkalog.spark.ingestion.ingest_plan import IngestPlan, cut_tasks, plan_ingest
from kafkalog.spark.ingestion.tables import Tables
from kafkalog.spark.ingestion.target import open_target
from kafkalog.spark.options import TopicPartition, parse_options
from kafkalog.spark.read_plan import Found, Range, parts_of, plan_splits
from kafkalog.spark.splits import HIGHEST, LOWEST, MOST_SPLITS, Split, WholeSegments, divide, even_bytes, pack
from kafkalog.storage.store import Entry
from tests.builders.lake_store import BUCKET, FILES_OF_SEGMENT, RECORDS, LakeStore, batch_bytes, mounted
from tests.spark.test_plan import read_part
from tests.storage import test_object_store as server

bucket = server.bucket
GIB = 1 << 30


def plan(store: LakeStore, **options: Any) -> list[Split]:
    with mounted(store) as root:
        return plan_splits(parse_options({"path": root, **{name: str(value) for name, value in options.items()}}), 64)


def shape(splits: list[Split]) -> list[list[tuple[str, int, int]]]:
    return [[(piece.path, piece.start, piece.stop) for part in split.parts for piece in part.slices] for split in splits]


def read_splits(store: LakeStore, splits: list[Split], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets that tasks read, to which the splits were sent."""
    monkeypatch.setattr("tests.spark.test_plan.open_store", lambda root: (store, root))
    sent: list[Split] = pickle.loads(pickle.dumps(splits))
    assert sent == splits
    return [offset for split in sent for part in split.parts for offset in read_part(part)]


# -- requests ----------------------------------------------------------------------------------------------------------------


def test_a_read_of_many_segments_takes_the_pages_of_its_listing_and_no_request_for_a_segment() -> None:
    lake = LakeStore(40, 500)
    plan(lake)
    assert lake.requests == {"page": 1 + 40 * 2, "stat": 2}


def test_a_read_of_one_topic_lists_no_other() -> None:
    lake = LakeStore(400, 100)
    assert plan(lake, subscribe="topic0003")
    assert lake.requests == {"page": 1 + 20, "stat": 2}


def test_folders_are_listed_at_the_same_time_and_no_more_than_the_storage_answers() -> None:
    lake = LakeStore(100, 2, page_seconds=0.005)
    plan(lake)
    assert 8 < lake.most_at_once <= lake.requests_at_once


def test_segments_that_are_cut_are_opened_at_the_same_time() -> None:
    lake = LakeStore(2, 20, segment_batches=60, read_seconds=0.005)
    splits = plan(lake, maxPartitionBytes=60 * len(batch_bytes()) // 3)
    assert len(splits) >= 2 * 20 * 3
    assert 8 < lake.most_at_once <= lake.requests_at_once
    # Log and index are opened and the index is read; each cut proves an entry.
    assert lake.requests["open"] == 2 * 40
    assert lake.requests["read"] <= 40 * (1 + 4)


def test_a_lake_that_would_have_too_many_splits_has_larger_ones_and_its_segments_are_not_opened() -> None:
    assert even_bytes(10**18, 64, 4 << 20, 128 << 20) >= 10**18 // MOST_SPLITS
    lake = LakeStore(40, 600, segment_batches=GIB // len(batch_bytes()))
    splits = plan(lake)  # 24 TiB
    assert "open" not in lake.requests
    assert len(splits) <= 24_000
    assert sum(len(part.slices) for split in splits for part in split.parts) == 24_000


# -- memory ------------------------------------------------------------------------------------------------------------------


def test_a_segment_takes_a_hundred_bytes_of_the_driver_and_few_of_them_travel() -> None:
    segments = 20_000
    lake = LakeStore(segments // 500, 500, segment_batches=64)
    lake.requests_at_once = 1  # folders that are listed at the same time are in memory at the same time
    plan(LakeStore(1, 2))  # what is loaded and kept once
    gc.collect()
    tracemalloc.start()
    splits = plan(lake)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(len(part.slices) for split in splits for part in split.parts) == segments
    assert kept < 40 * segments
    assert most < 200 * segments
    assert sum(len(pickle.dumps(split)) for split in splits) < 40 * segments


def test_tables_read_by_whole_folders_make_no_object_for_a_segment() -> None:
    splits = plan(LakeStore(4, 50), table="segments")
    assert all(isinstance(part.slices, WholeSegments) for split in splits for part in split.parts)
    assert sorted(part.folder for split in splits for part in split.parts) == [
        f"{BUCKET}/topic0000-{number}" for number in range(4)
    ]


# -- the same splits ---------------------------------------------------------------------------------------------------------

LAKE = LakeStore(3, 12, segment_batches=3)
BATCH = len(batch_bytes())


def listed(store: LakeStore) -> list[Partition]:
    return find_partitions(store, BUCKET)


def as_objects(partition: Partition) -> Partition:
    """With an object for each segment, as partitions of single files and unfinished compactions have them."""
    return replace(partition, segments=tuple(partition.segments))


@settings(max_examples=60)
@given(
    start=st.just(LOWEST) | st.integers(0, 12_000),
    stop=st.just(HIGHEST) | st.integers(0, 12_000),
    target=st.integers(BATCH, 60 * BATCH),
    most=st.none() | st.integers(300, 5000),
    least=st.none() | st.integers(1, 60),
)
def test_runs_of_segments_give_the_splits_that_single_segments_give(
    start: int, stop: int, target: int, most: int | None, least: int | None
) -> None:
    given = {"path": BUCKET, "maxRecordsPerPartition": most, "minPartitions": least}
    options = parse_options({name: str(value) for name, value in given.items() if value is not None})

    def splits(partitions: list[Partition]) -> list[Split]:
        ranges = [Range(Found(BUCKET, each), start, stop) for each in partitions]
        return divide(parts_of(ranges, target), target, options)

    with mounted(LAKE):
        found, expected = splits(listed(LAKE)), splits([as_objects(each) for each in listed(LAKE)])
    assert shape(found) == shape(expected)
    assert [[(part.start_offset, part.stop_offset, part.claim) for part in split.parts] for split in found] == [
        [(part.start_offset, part.stop_offset, part.claim) for part in split.parts] for split in expected
    ]


@pytest.mark.parametrize("target", [BATCH, 7 * BATCH, 40 * BATCH, 10**9])
def test_every_record_of_a_lake_is_read_once(target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = read_splits(LAKE, plan(LAKE, maxPartitionBytes=target), monkeypatch)
    assert offsets == [offset for number in range(3) for offset in range(LAKE.end_offset(number))]


def test_an_offset_inside_a_lake_is_found_with_a_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeStore(1, 400)
    starts = '{"topic0000": {"0": 100000100}}'
    splits = plan(lake, startingOffsets=starts, endingOffsets='{"topic0000": {"0": 100000350}}')
    assert lake.requests.total() < 30
    assert read_splits(lake, splits, monkeypatch) == [*range(100_000_100, 100_000_350)]


class WithStrangers(LakeStore):
    """Others have put objects into the bucket as well, and the listing of one folder repeats itself."""

    def list(self, folder: str) -> list[Entry]:
        listed = super().list(folder)
        if folder == BUCKET:
            return [*listed, Entry("notes", "folder", 0, 0), Entry("..", "folder", 0, 0), Entry("topic0000-1/x", "folder", 0, 0)]
        strangers = ["../topic0000-2", "a/b.log", "٧" * 20 + ".log", "9" * 20 + ".log", f"{7:020}.log.old", "x.parquet"]
        return [*listed, *listed[:4], *(Entry(name, "file", 10, 0) for name in strangers)]


def test_a_hostile_listing_changes_no_split() -> None:
    assert shape(plan(WithStrangers(3, 12))) == shape(plan(LakeStore(3, 12)))


class OneFolderFails(LakeStore):
    def list(self, folder: str) -> list[Entry]:
        if folder.endswith("topic0000-7"):
            raise StorageError(f"{folder}: listing the folder failed: access denied", file=folder)
        return super().list(folder)


def test_a_folder_that_cannot_be_listed_fails_the_plan_or_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    lake = OneFolderFails(30, 4)
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_STORAGE: s3://lake/topic0000-7: listing the folder failed"):
        plan(lake)
    splits = plan(lake, mode="PERMISSIVE")
    assert {(part.topic, part.partition) for split in splits for part in split.parts} == {
        (f"topic{number // 20:04}", number % 20) for number in range(30) if number != 7
    }
    assert "left out: s3://lake/topic0000-7: listing the folder failed: access denied" in caplog.text


# -- ingests -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ingest(tmp_path: Path) -> Any:
    options = IngestOptions((BUCKET,), str(tmp_path / "tables"))
    tables = Tables(open_target(options.target), options)

    def run(store: LakeStore, before: dict[TopicPartition, Any]) -> tuple[IngestPlan, list[Split]]:
        store.requests.clear()
        with mounted(store):
            found = plan_ingest(options.source_options(), before, tables)
            return found, cut_tasks(found.partitions, options.source_options(), 64, None) if found.partitions else []

    return run


def test_an_ingest_asks_for_the_ends_of_partitions_and_for_what_is_new(ingest: Any) -> None:
    lake = LakeStore(40, 100)
    pages = 1 + 40
    first, tasks = ingest(lake, {})
    assert sum(len(part.slices) for split in tasks for part in split.parts) == 40 * 100
    assert lake.requests["page"] == pages
    assert lake.requests.total() - pages <= 2 + 12 * 40
    before = {each.key: each.progress(each.end.next_offset - 1, each.end.cursor) for each in first.partitions}

    assert ingest(lake, before)[0].partitions == ()
    assert lake.requests["page"] == pages
    assert lake.requests.total() - pages <= 2 + 2 * 40  # partition.metadata: the topic may be another one

    lake.added = {11: 1}
    again, tasks = ingest(lake, before)
    assert [each.key for each in again.partitions] == [("topic0000", 11)]
    (part,) = (part for split in tasks for part in split.parts)
    assert [piece.base_offset for piece in part.slices] == [LakeStore(40, 100).end_offset(11)]
    assert lake.requests.total() - pages <= 2 + 2 * 40 + 25


def test_partitions_of_an_ingest_are_planned_at_the_same_time(ingest: Any) -> None:
    lake = LakeStore(60, 2, read_seconds=0.005)
    ingest(lake, {})
    assert 8 < lake.most_at_once <= lake.requests_at_once


# -- a real bucket -----------------------------------------------------------------------------------------------------------


def test_a_real_object_store_answers_as_the_simulated_one(bucket: server.Bucket) -> None:
    lake = LakeStore(3, 10, segment_batches=1)
    for key, content in lake.objects():
        bucket.put(f"lake/{key}", content)
    assert sum(1 for _ in lake.objects()) == 3 * (10 * FILES_OF_SEGMENT + 2)
    target = 5 * BATCH
    bucket.proxy.reset()
    found = plan_splits(parse_options({"path": "s3://logs/lake", "maxPartitionBytes": str(target)}), 64)
    requests = len({*bucket.proxy.requests})  # a busy server is asked again
    expected = plan(lake, maxPartitionBytes=target)
    moved = [[(path.replace("s3://logs/lake", BUCKET), *span) for path, *span in split] for split in shape(found)]
    assert moved == [[(path, *span) for path, *span in split] for split in shape(expected)]
    assert lake.requests["page"] <= requests <= lake.requests.total() + 4


def test_a_split_is_filled_in_order_up_to_its_size() -> None:
    (partition, *_) = listed(LAKE)
    parts = [*parts_of([Range(Found(BUCKET, partition), LOWEST, HIGHEST)], 10**9)]
    assert [len(part.slices) for part in parts] == [12]
    sizes = [piece.bytes for piece in parts[0].slices]
    for split in pack(parts, 30 * BATCH)[:-1]:
        taken = sum(part.bytes for part in split.parts)
        number = [piece.base_offset for piece in parts[0].slices].index(split.parts[-1].slices[-1].base_offset)
        assert taken <= 30 * BATCH < taken + sizes[number + 1]
    assert LAKE.end_offset(0) % RECORDS == 0
