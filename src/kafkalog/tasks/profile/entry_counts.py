"""Counted from the headers of batches and messages: by partition, codec and producer, and how full batches are."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog import codecs
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.log.entry_order import header_bases
from kafkalog.log.partition import Partition

from .ranking import HeavyItems
from .result import Bucket, Count, Distribution

MOST_PRODUCERS = 1 << 16
UNKNOWN_CODEC = "unknown"

Name = TypeVar("Name", str, tuple[str, int])


def header_counts(entries: EntryTable) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(records of each entry as far as its header says, whether it is a set of v0 or v1 whose header does not)."""
    is_set = header_bases(entries) < 0
    counts = np.where(entries.magic == 2, np.maximum(entries.record_count, 0), ~is_set)
    return counts.astype(np.int64), is_set


class EntryCounts:
    """Entries as they pass. Sums by partition and codec; all others are derived from these at the end."""

    def __init__(self) -> None:
        self.by_codec: dict[tuple[str, int, int], Count] = {}
        self.producers = HeavyItems(MOST_PRODUCERS)
        self.batch_records = Buckets()
        self.batch_bytes = Buckets()

    def add(
        self,
        partition: Partition,
        entries: EntryTable,
        counts: NDArray[np.int64],
        raw_sizes: NDArray[np.int64] | None = None,
        uncounted: NDArray[np.bool_] | None = None,
    ) -> None:
        """Entries of a partition with the records of each, their sizes without compression, and whose counts are not known."""
        sizes = np.ascontiguousarray(entries.size)
        numbers = entries.attributes & batch.CODEC_MASK
        for codec in np.unique(numbers).tolist():
            rows = numbers == codec
            count = self.by_codec.setdefault((partition.topic, partition.partition, codec), Count())
            count += Count(
                int(sizes[rows].sum()),
                0 if raw_sizes is None else int(raw_sizes[rows].sum()),
                int(rows.sum()),
                int(counts[rows].sum()),
                0 if uncounted is None else int(uncounted[rows].sum()),
            )
        self.producers.add_numbers(np.ascontiguousarray(entries.producer_id), sizes, counts)
        self.batch_bytes.add(sizes, sizes)
        known = slice(None) if uncounted is None else ~uncounted
        self.batch_records.add(counts[known], sizes[known])

    def merge(self, other: EntryCounts) -> None:
        """Add what was counted elsewhere."""
        for key, count in other.by_codec.items():
            self.by_codec.setdefault(key, Count()).__iadd__(count)
        self.producers.merge(other.producers)
        self.batch_records.merge(other.batch_records)
        self.batch_bytes.merge(other.batch_bytes)

    def partitions(self) -> dict[tuple[str, int], Count]:
        found: dict[tuple[str, int], Count] = {}
        for (topic, number, _), count in self.by_codec.items():
            found.setdefault((topic, number), Count()).__iadd__(count)
        return _sorted(found)

    def topics(self) -> dict[str, Count]:
        found: dict[str, Count] = {}
        for (topic, _, _), count in self.by_codec.items():
            found.setdefault(topic, Count()).__iadd__(count)
        return _sorted(found)

    def codecs(self) -> dict[str, Count]:
        found: dict[str, Count] = {}
        for (_, _, codec), count in self.by_codec.items():
            name = codecs.NAMES[codec] if codec < len(codecs.NAMES) else UNKNOWN_CODEC
            found.setdefault(name, Count()).__iadd__(count)
        return _sorted(found)

    def total(self) -> Count:
        total = Count()
        for count in self.by_codec.values():
            total += count
        return total


def _sorted(found: dict[Name, Count]) -> dict[Name, Count]:
    return dict(sorted(found.items(), key=lambda item: (-item[1].bytes, item[0])))


class Buckets:
    """How many values, and bytes, there are between two powers of two."""

    def __init__(self) -> None:
        self.counts = np.zeros(65, np.int64)
        self.bytes = np.zeros(65, np.int64)
        self.sum = 0
        self.smallest: int | None = None
        self.largest = 0

    def add(self, values: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        if not len(values):
            return
        numbers = np.frexp(values.astype(np.float64))[1]  # 0 for 0, else the number of bits
        self.counts += np.bincount(numbers, minlength=65)
        self.bytes += np.bincount(numbers, sizes, 65).astype(np.int64)
        self.sum += int(values.sum())
        least = int(values.min())
        self.smallest = least if self.smallest is None else min(self.smallest, least)
        self.largest = max(self.largest, int(values.max()))

    def merge(self, other: Buckets) -> None:
        self.counts += other.counts
        self.bytes += other.bytes
        self.sum += other.sum
        known = [each.smallest for each in (self, other) if each.smallest is not None]
        self.smallest = min(known, default=None)
        self.largest = max(self.largest, other.largest)

    def result(self) -> Distribution:
        buckets = tuple(
            Bucket(1 << bits >> 1, (1 << bits) - 1, int(self.counts[bits]), int(self.bytes[bits]))
            for bits in np.flatnonzero(self.counts).tolist()
        )
        count = int(self.counts.sum())
        return Distribution(buckets, self.smallest or 0, self.largest, self.sum / count if count else 0.0)
