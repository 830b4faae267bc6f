"""Segments that a broker cannot delete by time, because they hold timestamps in the future.

A segment goes when its largest timestamp is older than retention.ms, and segments go in order: one that stays keeps all after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kafkalog.format.entry_table import EntryTable, Ints
from kafkalog.log.partition import Partition, Segment

from .result import PinnedSegment

# What brokers since 4.0 accept by default (message.timestamp.after.max.ms): clocks differ.
TOLERANCE_MS = 3_600_000
DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000  # Kafka's log.retention.hours


@dataclass
class _Seen:
    largest_ms: int
    records: int


class FutureTimestamps:
    """The largest timestamp of each file that has timestamps in the future."""

    def __init__(self, now_ms: int, retention_ms: int) -> None:
        self.bound_ms = now_ms + TOLERANCE_MS
        self.retention_ms = retention_ms
        self.seen: dict[str, _Seen] = {}

    def add_records(self, file: str, timestamps: Ints) -> None:
        largest = int(timestamps.max(initial=-1))
        if largest > self.bound_ms:
            self._see(file, largest, int(np.count_nonzero(timestamps > self.bound_ms)))

    def add_entries(self, file: str, entries: EntryTable, *, count: bool) -> None:
        """Headers count, too: a broker goes by the largest timestamp that the header of a batch states."""
        largest = np.where(entries.magic == 2, entries.max_timestamp, entries.base_timestamp)
        if int(largest.max(initial=-1)) > self.bound_ms:
            self._see(file, int(largest.max()), int(np.count_nonzero(largest > self.bound_ms)) if count else 0)

    def _see(self, file: str, largest_ms: int, records: int) -> None:
        seen = self.seen.setdefault(file, _Seen(largest_ms, 0))
        seen.largest_ms = max(seen.largest_ms, largest_ms)
        seen.records += records

    def merge(self, other: FutureTimestamps) -> None:
        """Add what was seen of other files."""
        self.seen.update(other.seen)

    def pinned(self, partitions: Iterable[Partition]) -> tuple[tuple[PinnedSegment, ...], int]:
        """(the segments, those held longest first; their bytes and those of all segments after them)."""
        found, held_bytes = [], 0
        for partition in partitions:
            is_held = False
            for segment in partition.segments:
                if segment.log.path in self.seen:
                    found.append(self._pinned(partition, segment))
                    is_held = True
                held_bytes += segment.log.size if is_held else 0
        return tuple(sorted(found, key=lambda each: -each.largest_timestamp_ms)), held_bytes

    def _pinned(self, partition: Partition, segment: Segment) -> PinnedSegment:
        seen = self.seen[segment.log.path]
        return PinnedSegment(
            partition.topic,
            partition.partition,
            segment.log.path,
            segment.log.size,
            seen.records,
            seen.largest_ms,
            seen.largest_ms + self.retention_ms,
        )
