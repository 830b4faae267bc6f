"""What an overview counts while a profile reads: segments, formats, epochs, times, sizes and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kafkalog.format.entry_table import EntryTable
from kafkalog.log.partition import Partition
from kafkalog.log.transactions import Transaction, TransactionReplay
from kafkalog.tasks.profile.entry_counts import Buckets
from kafkalog.tasks.profile.observer import Ints
from kafkalog.tasks.profile.result import Count, Profile
from kafkalog.tasks.verify import Findings

from .result import (
    AXIS_BINS,
    STATES,
    Deleted,
    EpochSpan,
    FormatCount,
    Overview,
    PartitionView,
    SegmentView,
    SizeBucket,
    Sizes,
    TransactionAxis,
)
from .spans import TimeCounts

MOST_EPOCHS = 500  # kept of a partition: a log has tens, a damaged one could claim billions
MOST_LISTED = 20  # transactions that are listed of a partition


class Observed:
    """An observer of a profile. With `records` times are those of records, otherwise those of batches."""

    def __init__(self, *, records: bool) -> None:
        self.records = records
        self.views: dict[str, PartitionView] = {}
        self.segments: dict[str, SegmentView] = {}
        self.formats: dict[str, dict[int, FormatCount]] = {}
        self.times = TimeCounts()
        self.key_sizes = Buckets()
        self.value_sizes = Buckets()
        self.replays: dict[str, TransactionCounts] = {}

    def begin(self, partition: Partition) -> PartitionView:
        """The view of a partition, with its files; what they hold is counted as it passes."""
        name = partition.file or partition.folder
        if name not in self.views:
            disk_size = sum(stored.stored_size for stored in partition.files)
            view = PartitionView(
                partition.topic, partition.partition, partition.folder, partition.size, disk_size, partition.start_offset
            )
            for segment in partition.segments:
                indexes = sum(stored.stored_size for stored in segment.siblings.values())
                found = SegmentView(segment.log.path, segment.base_offset, segment.log.size, indexes)
                view.segments.append(found)
                self.segments[found.file] = found
            self.views[name] = view
        return self.views[name]

    def see_entries(self, partition: Partition, file: str, entries: EntryTable, counts: Ints) -> None:
        if not len(entries):
            return
        view = self.begin(partition)
        sizes = np.ascontiguousarray(entries.size)
        last_offset = int(entries.last_offset.max())
        view.end_offset = max(view.end_offset, last_offset + 1)
        formats = self.formats.setdefault(view.topic, {})
        for magic in np.unique(entries.magic).tolist():
            rows = entries.magic == magic
            view.magics.add(magic)
            formats.setdefault(magic, FormatCount()).add(int(sizes[rows].sum()), int(rows.sum()), int(counts[rows].sum()))
        segment = self.segments.get(file)
        if segment is not None:
            _add_to_segment(segment, entries, counts, last_offset)
        _add_epochs(view, entries, counts)
        if not self.records:
            self.times.add(np.ascontiguousarray(entries.max_timestamp), sizes, counts)

    def see_records(self, timestamps: Ints, shares: Ints, key_sizes: Ints, value_sizes: Ints) -> None:
        self.times.add(timestamps, shares, np.ones(len(timestamps), np.int64))
        self.key_sizes.add(key_sizes, key_sizes)
        self.value_sizes.add(value_sizes, value_sizes)

    def see_transactions(self, partition: Partition, replay: TransactionReplay) -> None:
        self.replays[partition.file or partition.folder] = TransactionCounts(replay)

    def merge(self, other: Observed) -> None:
        """Add what was seen of other partitions."""
        self.views |= other.views
        self.segments |= other.segments
        for topic, formats in other.formats.items():
            for magic, found in formats.items():
                counted = self.formats.setdefault(topic, {}).setdefault(magic, FormatCount())
                counted.add(found.bytes, found.batches, found.records)
        self.times.merge(other.times)
        self.key_sizes.merge(other.key_sizes)
        self.value_sizes.merge(other.value_sizes)
        self.replays |= other.replays

    def result(
        self,
        paths: tuple[str, ...],
        chosen: Sequence[Partition],
        profile: Profile,
        checked: Findings | None,
        deleted: tuple[Deleted, ...],
    ) -> Overview:
        views = [self.begin(partition) for partition in chosen]
        for name, view in self.views.items():
            view.count = profile.partitions.get((view.topic, view.partition), Count())
            view.end_offset = max(view.end_offset, view.start_offset)
            if name in self.replays:
                view.transactions = self.replays[name].axis(view)
        sizes = (_sizes(self.key_sizes), _sizes(self.value_sizes))
        return Overview(paths, profile, checked, tuple(views), self.formats, self.times.result(), *sizes, deleted)


def _add_to_segment(segment: SegmentView, entries: EntryTable, counts: Ints, last_offset: int) -> None:
    segment.last_offset = max(segment.last_offset, last_offset)
    segment.batches += len(entries)
    segment.records += int(counts.sum())
    known = entries.max_timestamp >= 0
    if known.any():
        first = int(entries.first_timestamp[known].min())
        segment.first_timestamp_ms = first if segment.first_timestamp_ms < 0 else min(segment.first_timestamp_ms, first)
        segment.last_timestamp_ms = max(segment.last_timestamp_ms, int(entries.max_timestamp[known].max()))


def _add_epochs(view: PartitionView, entries: EntryTable, counts: Ints) -> None:
    is_batch = entries.magic == 2
    for epoch in np.unique(entries.leader_epoch[is_batch]).tolist():
        if epoch not in view.epochs and len(view.epochs) >= MOST_EPOCHS:
            view.left_out_epochs = True
            continue
        rows = is_batch & (entries.leader_epoch == epoch)
        first, last = int(entries.base_offset[rows].min()), int(entries.last_offset[rows].max())
        span = view.epochs.setdefault(epoch, EpochSpan(epoch, first, last))
        span.first_offset, span.last_offset = min(span.first_offset, first), max(span.last_offset, last)
        span.batches += int(rows.sum())
        span.records += int(counts[rows].sum())


def _sizes(found: Buckets) -> Sizes:
    result = found.result()
    buckets = tuple(SizeBucket(bucket.first, bucket.last, bucket.batches, bucket.bytes) for bucket in result.buckets)
    return Sizes(buckets, result.smallest, result.largest, result.mean)


class TransactionCounts:
    """The transactions of a partition as arrays, so that a million of them takes little, and those that a report lists."""

    def __init__(self, replay: TransactionReplay) -> None:
        by_state: dict[str, list[Transaction]] = {state: [] for state in STATES}
        for found in (*replay.finished, *replay.open.values()):
            by_state[found.state].append(found)
        self.first_open_offset = replay.first_open_offset
        self.counts = {state: len(found) for state, found in by_state.items()}
        self.spans = {state: _spans(found) for state, found in by_state.items()}
        self.open = tuple(sorted(by_state["open"], key=lambda found: found.first_offset)[:MOST_LISTED])
        self.aborted = tuple(sorted(by_state["aborted"], key=lambda found: -found.record_count)[:MOST_LISTED])

    def axis(self, view: PartitionView) -> TransactionAxis:
        start, end = view.start_offset, view.end_offset
        stable = end if self.first_open_offset is None else self.first_open_offset
        bins = {state: axis_bins(self.spans[state], start, end) for state in STATES}
        return TransactionAxis(view.topic, view.partition, start, end, stable, self.counts, bins, self.open, self.aborted)


def _spans(found: Iterable[Transaction]) -> Ints:
    """First and last offsets; that of a finished one is its marker."""
    pairs = [(each.first_offset, max(each.last_offset, each.marker_offset)) for each in found]
    return np.array(pairs, np.int64).reshape(-1, 2)


def axis_bins(spans: Ints, start: int, end: int) -> tuple[int, ...]:
    """How many spans touch each of AXIS_BINS equal ranges of offsets."""
    width = max(end - start, 1) / AXIS_BINS
    first, last = (np.clip((spans[:, at] - float(start)) / width, 0, AXIS_BINS - 1).astype(np.int64) for at in range(2))
    changes = np.zeros(AXIS_BINS + 1, np.int64)
    np.add.at(changes, first, 1)
    np.add.at(changes, last + 1, -1)
    return tuple(np.cumsum(changes[:-1]).tolist())
