"""Index files and producer snapshots from headers: against the rule written out plainly, however the headers come in tables."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.errors import CorruptBatch
from kafkalog.format.batch import CONTROL, TRANSACTIONAL
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.control import ABORT, COMMIT
from kafkalog.format.entry_table import FIELD_COUNT, EntryTable
from kafkalog.log.producer_replay import producer_rows
from kafkalog.log.rebuild import RebuildOptions, SideFileBuilder
from kafkalog.segment.build import MAX_RELATIVE_OFFSET, IndexBuilder

BASE = 1000
Entries = list[tuple[int, int, int]]  # size, offsets in it, timestamp
entries = st.lists(st.tuples(st.integers(61, 9000), st.integers(1, 50), st.integers(-5, 40)), max_size=60)


def table(rows: Entries) -> EntryTable:
    made = EntryTable(np.zeros((FIELD_COUNT, len(rows)), np.int64))
    sizes = np.array([size for size, _, _ in rows], np.int64)
    counts = np.array([count for _, count, _ in rows], np.int64)
    made.magic = 2
    made.size = sizes
    made.position = np.cumsum(sizes) - sizes
    made.last_offset = BASE + np.cumsum(counts) - 1
    made.base_offset = made.last_offset - counts + 1
    made.max_timestamp = [timestamp for _, _, timestamp in rows]
    made.producer_id = made.leader_epoch = -1
    return made


def plainly(rows: Entries, interval: int) -> tuple[bytes, bytes]:
    """The loop of recovery, batch by batch."""
    offsets, times = b"", b""
    position = indexed = 0
    last = BASE - 1
    greatest, at, noted = -1, -1, -1
    for size, count, timestamp in rows:
        last += count
        if timestamp > greatest:
            greatest, at = timestamp, last
        if position - indexed > interval:
            offsets += struct.pack(">ii", last - BASE, position)
            if greatest > noted:
                times += struct.pack(">qi", greatest, at - BASE)
                noted = greatest
            indexed = position
        position += size
    if greatest > noted:
        times += struct.pack(">qi", greatest, at - BASE)
    return offsets, times


@settings(max_examples=200)
@given(rows=entries, interval=st.integers(1, 20_000), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_indexes_are_those_of_the_plain_loop_however_the_tables_are_cut(rows: Entries, interval: int, cuts: list[int]) -> None:
    builder = IndexBuilder(BASE, interval)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    made = table(rows)
    for start, stop in pairwise(edges):
        builder.add(made[start:stop])
    assert (builder.offset_index(), builder.time_index()) == plainly(rows, interval)


def test_an_offset_that_no_index_can_hold_is_refused() -> None:
    made = table([(100, 1, 0)])
    made.last_offset = BASE + MAX_RELATIVE_OFFSET + 1
    with pytest.raises(CorruptBatch, match="offset-range"):
        IndexBuilder(BASE).add(made)


@settings(max_examples=60)
@given(producers=st.lists(st.integers(0, 5), min_size=1, max_size=40), cut=st.integers(0, 40))
def test_only_the_last_batch_of_a_producer_counts_whatever_the_tables(producers: list[int], cut: int) -> None:
    made = table([(100, 2, 7)] * len(producers))
    made.producer_id = producers
    made.base_sequence = np.arange(len(producers)) * 2
    made.record_count = 2
    found = []
    for edges in ((0, len(producers)), (0, min(cut, len(producers)), len(producers))):
        builder = SideFileBuilder(RebuildOptions())
        builder.begin(BASE)
        for start, stop in pairwise(edges):
            builder.add(made[start:stop])
        found.append(builder.finish())
    assert found[0] == found[1]
    builder = SideFileBuilder(RebuildOptions())
    builder.begin(BASE)
    for row in range(len(producers)):
        builder.add(made[row : row + 1])
    assert builder.finish() == found[0]


@st.composite
def producer_batches(draw: st.DrawFn) -> EntryTable:
    """Batches of a few producers: data, in transactions or not, emptied ones, markers, and other control batches."""
    count = draw(st.integers(1, 40))
    made = table([(100, 2, 7)] * count)

    def drawn(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    made.producer_id = drawn(st.integers(-1, 2))
    made.producer_epoch = drawn(st.integers(0, 1))
    made.base_sequence = np.arange(count) * 2
    made.record_count = drawn(st.sampled_from((0, 2, 2, 2)))
    made.max_timestamp = drawn(st.integers(0, 9))
    made.attributes = drawn(st.sampled_from((0, 0, TRANSACTIONAL, TRANSACTIONAL, TRANSACTIONAL | CONTROL)))
    is_control = made.attributes & CONTROL != 0
    made.control_type = np.where(is_control, drawn(st.sampled_from((ABORT, COMMIT, 2))), -1)
    made.coordinator_epoch = np.where(is_control, drawn(st.integers(0, 3)), -1)
    return made


def rebuilt(tables: list[EntryTable], now_ms: int | None) -> dict[str, bytes]:
    builder = SideFileBuilder(RebuildOptions(now_ms=now_ms, producer_id_expiration_ms=3))
    builder.begin(BASE)
    for each in tables:
        builder.add(each)
    return {**builder.end(), **builder.begin(BASE + 100), **builder.finish()}


@settings(max_examples=200)
@given(made=producer_batches(), now_ms=st.none() | st.integers(0, 15))
def test_batches_that_are_passed_over_change_no_snapshot_and_no_transaction_index(made: EntryTable, now_ms: int | None) -> None:
    one_by_one = [made[row : row + 1] for row in range(len(made))]
    assert rebuilt([made], now_ms) == rebuilt(one_by_one, now_ms)


@settings(max_examples=200)
@given(made=producer_batches(), kept=st.integers(1, 5))
def test_the_last_batches_of_every_producer_are_decisive(made: EntryTable, kept: int) -> None:
    rows = producer_rows(made, kept).tolist()
    for producer_id in range(3):
        mine = np.flatnonzero(made.producer_id == producer_id)
        data = [row for row in mine.tolist() if not made.attributes[row] & CONTROL]
        assert set(data[-kept:]) <= set(rows)
        assert [row for row in rows if row in data][-kept:] == data[-kept:]


def test_a_checkpoint_whose_epochs_are_out_of_order_is_rebuilt_as_a_broker_loads_it() -> None:
    builder = SideFileBuilder(RebuildOptions(), epochs=[EpochStart(*line) for line in ((2, 0), (4, 1002), (3, 1005), (5, 1010))])
    builder.begin(BASE)
    builder.add(table([(100, 20, 7)]))
    assert builder.finish()["leader-epoch-checkpoint"] == b"0\n3\n2 0\n3 1005\n5 1010\n"
