"""The index files of a segment compared with its entries, which are seen once, in order, and not kept.

An offset index entry (offset, position) is right if an entry of the log begins at the position, and the offset is the first or
last one of an entry from there up to where the next index entry points: releases differ in which, and a follower before 4.0 wrote
one for many entries. A time index entry (timestamp, offset) is right if the log's entry with that offset has that largest
timestamp, and no earlier one has one as large.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import INFO
from kafkalog.format import index
from kafkalog.format.entry_table import EntryTable, Ints
from kafkalog.format.java import MAX_INT64
from kafkalog.log.partition import Partition, Segment, StoredFile

from .finding import Finding, Place, first_of_kind, make_finding

UNSEEN = -1
STALE = "left by a truncation, or the end of the log is lost: the segment was not closed"
Flags = NDArray[np.bool_]


class _Index:
    """Entries of an index file, and which of them were found in the log."""

    def __init__(self, partition: Partition, stored: StoredFile, data: bytes, layout: np.dtype[Any]) -> None:
        self.partition = partition
        self.stored = stored
        self.data = data
        self.entry_size = layout.itemsize
        self.stale_from = sys.maxsize

    def mismatch(self, row: int, expected: str, found: object) -> Finding:
        """The finding for the index entry of this number."""
        place = Place(row * self.entry_size, self.entry_size)
        severity, detail = (None, "") if row < self.stale_from else (INFO, STALE)
        return make_finding(
            "index-mismatch",
            self.stored.path,
            self.partition,
            place,
            severity=severity,
            expected=expected,
            found=found,
            detail=detail,
        )

    def expect_stale(self, doubtful: Flags) -> None:
        """A truncation leaves old entries after the new ones until the segment is closed: they begin at the first doubtful."""
        if doubtful.any():
            self.stale_from = int(doubtful.argmax())

    def check_size(self) -> Iterator[Finding]:
        rest = len(self.data) % self.entry_size
        if rest:
            row = len(self.data) // self.entry_size
            yield self.mismatch(row, f"entries of {self.entry_size} bytes", f"{rest} bytes at the end")


def _not_above_before(values: NDArray[Any], *, may_repeat: bool = False) -> Flags:
    """True for values that are not above the one before."""
    wrong = np.zeros(len(values), np.bool_)
    wrong[1:] = values[1:] < values[:-1] if may_repeat else values[1:] <= values[:-1]
    return wrong


class OffsetIndex(_Index):
    """A `.index`."""

    def __init__(self, partition: Partition, stored: StoredFile, data: bytes) -> None:
        super().__init__(partition, stored, data, index.OFFSET_INDEX_ENTRY)
        entries = index.read_offset_index(data, stored.base_offset)
        if len(entries) == 1 and entries["position"][0] == 0:
            entries = entries[:0]  # created at full size, with nothing written yet: the first entry of a segment is never indexed
        self.offsets: Ints = entries["offset"].astype(np.int64)
        self.positions: Ints = entries["position"].astype(np.int64)
        self._by_position = np.argsort(self.positions, kind="stable")
        self._sorted_positions = self.positions[self._by_position]
        self.first_offsets = np.full(len(entries), UNSEEN)  # of the log's entry at the position
        self.is_boundary = np.zeros(len(entries), np.bool_)

    def add(self, table: EntryTable, bases: Ints) -> None:
        positions, lasts = table.position, table.last_offset
        start, stop = np.searchsorted(self._sorted_positions, (positions[0], positions[-1] + 1))
        chosen = self._by_position[start:stop]
        at = np.searchsorted(positions, self.positions[chosen])
        found = positions[at] == self.positions[chosen]
        self.first_offsets[chosen[found]] = bases[at[found]]
        near = np.flatnonzero((self.offsets >= bases[0]) & (self.offsets <= lasts[-1]))
        at = np.searchsorted(lasts, self.offsets[near])
        self.is_boundary[near] |= (lasts[at] == self.offsets[near]) | (bases[at] == self.offsets[near])

    def finish(self, last_offset: int, unknown: Flags, *, is_open: bool, compacted: bool) -> Iterator[Finding]:
        """The findings; `unknown` are entries that point into damage. A cleaner of 2.8 may store the last record it kept."""
        yield from self.check_size()
        order = _not_above_before(self.offsets) | _not_above_before(self.positions)
        missing = (self.first_offsets == UNSEEN) & ~unknown
        if is_open:
            self.expect_stale(order | (self.offsets > last_offset))
        # If the next entry is unusable, the one after it bounds this one.
        usable = np.where(self.first_offsets == UNSEEN, MAX_INT64, self.first_offsets)
        following = np.minimum.accumulate(np.append(usable[1:], last_offset + 1)[::-1])[::-1] if len(usable) else usable
        known = self.first_offsets != UNSEEN
        outside = known & ((self.offsets < self.first_offsets) | (self.offsets >= following))
        between = known & ~self.is_boundary & (not compacted)
        for row in np.flatnonzero(order | missing | outside | between).tolist():
            entry = f"offset {self.offsets[row]} at byte {self.positions[row]}"
            if missing[row]:
                yield self.mismatch(row, "the position of an entry of the log", entry)
            elif order[row]:
                yield self.mismatch(row, "offsets and positions that ascend", entry)
            elif outside[row]:
                yield self.mismatch(row, f"an offset from {self.first_offsets[row]} to {following[row] - 1}", entry)
            else:
                yield self.mismatch(row, "the first or last offset of an entry of the log", entry)


class TimeIndex(_Index):
    """A `.timeindex`."""

    def __init__(self, partition: Partition, stored: StoredFile, data: bytes) -> None:
        super().__init__(partition, stored, data, index.TIME_INDEX_ENTRY)
        entries = index.read_time_index(data, stored.base_offset)
        if len(entries) == 1 and not any(data[: self.entry_size]):
            entries = entries[:0]
        self.timestamps: Ints = entries["timestamp"].astype(np.int64)
        self.offsets: Ints = entries["offset"].astype(np.int64)
        self.found_timestamps = np.zeros(len(entries), np.int64)
        self.is_found = np.zeros(len(entries), np.bool_)
        self.is_first = np.zeros(len(entries), np.bool_)
        self.greatest = UNSEEN

    def add(self, table: EntryTable, bases: Ints) -> None:
        lasts, times = table.last_offset, table.max_timestamp
        greatest = np.maximum.accumulate(np.concatenate(([self.greatest], times)))  # before each entry, and after the last
        self.greatest = int(greatest[-1])
        near = np.flatnonzero((self.offsets >= bases[0]) & (self.offsets <= lasts[-1]))
        at = np.searchsorted(lasts, self.offsets[near])
        inside = bases[at] <= self.offsets[near]
        near, at = near[inside], at[inside]
        # v0 has no timestamps to compare with, yet 0.10.2 wrote entries for it.
        self.is_found[near] = True
        self.found_timestamps[near] = np.where(table.magic[at] == 0, self.timestamps[near], times[at])
        self.is_first[near] = (greatest[at] < self.timestamps[near]) | (table.magic[at] == 0)

    def finish(self, last_offset: int, unknown: Flags, *, is_closed: bool, is_open: bool, compacted: bool) -> Iterator[Finding]:
        """The findings; `unknown` are entries whose offsets lie in damage. Cleaners before 2.0 do not store the largest."""
        yield from self.check_size()
        order = _not_above_before(self.timestamps) | _not_above_before(self.offsets, may_repeat=True)
        missing = ~self.is_found & ~unknown
        if is_open:
            self.expect_stale(order | (self.offsets > last_offset))
        other = self.is_found & (self.found_timestamps != self.timestamps)
        later = self.is_found & ~self.is_first & (not compacted)
        for row in np.flatnonzero(order | missing | other | later).tolist():
            entry = f"timestamp {self.timestamps[row]} at offset {self.offsets[row]}"
            if missing[row]:
                yield self.mismatch(row, "the offset of an entry of the log", entry)
            elif order[row]:
                yield self.mismatch(row, "timestamps and offsets that ascend", entry)
            elif other[row]:
                yield self.mismatch(row, f"timestamp {self.found_timestamps[row]}, as the log has it", entry)
            else:
                yield self.mismatch(row, "a timestamp above all before that offset", entry)
        if is_closed and not compacted and not unknown.any() and len(self.timestamps) and self.greatest > self.timestamps.max():
            row = len(self.timestamps)
            yield self.mismatch(row, f"a last entry with timestamp {self.greatest}", f"{self.timestamps.max()}")


class SegmentIndexes:
    """The two indexes of one segment, those that exist."""

    def __init__(self, partition: Partition, segment: Segment, contents: dict[str, bytes]) -> None:
        self.segment = segment
        kinds = segment.siblings
        self.offset = OffsetIndex(partition, kinds["index"], contents["index"]) if "index" in contents else None
        self.time = TimeIndex(partition, kinds["timeindex"], contents["timeindex"]) if "timeindex" in contents else None
        self.last_offset = UNSEEN
        self.damage: list[tuple[int, int]] = []

    def add(self, table: EntryTable, bases: Ints) -> None:
        """Add entries of the log, intact and in order."""
        self.last_offset = int(table.last_offset[-1])
        if self.offset is not None:
            self.offset.add(table, bases)
        if self.time is not None:
            self.time.add(table, bases)

    def finish(self, *, ended_well: bool, compacted: bool) -> Iterator[Finding]:
        """Findings about the indexes; `ended_well`: the broker shut down cleanly."""
        is_open = self.segment.is_newest and not ended_well
        last_offset = self.last_offset if not self.damage else MAX_INT64 - 1
        if self.offset is not None:
            unknown = np.zeros(len(self.offset.positions), np.bool_)
            for start, stop in self.damage:
                unknown |= (self.offset.positions >= start) & (self.offset.positions < stop)
            relaxed = compacted or bool(self.damage)
            yield from first_of_kind(self.offset.finish(last_offset, unknown, is_open=is_open, compacted=relaxed))
        if self.time is not None:
            unknown = np.full(len(self.time.offsets), bool(self.damage))
            is_closed = not self.segment.is_newest
            found = self.time.finish(last_offset, unknown, is_closed=is_closed, is_open=is_open, compacted=compacted)
            yield from first_of_kind(found)
