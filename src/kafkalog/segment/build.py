"""Build the `.index` and `.timeindex` of a segment from its headers, entry for entry as Kafka's own recovery does.

Recovery adds an entry at the first batch that begins more than `index.interval.bytes` after the last one indexed (at first, after
the start of the file). The offset entry has that batch's last offset; the time entry, written only if it is higher than the last,
has the greatest timestamp so far and the last offset of the first batch with it. The greatest of all comes last.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch
from kafkalog.format.batch import NO_TIMESTAMP
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.index import encode_offset_index, encode_time_index
from kafkalog.format.java import MAX_INT32

DEFAULT_INTERVAL_BYTES: Final = 4096
MAX_RELATIVE_OFFSET: Final = MAX_INT32

Column = NDArray[np.int64]
NOTHING: Final[Column] = np.empty(0, np.int64)


class IndexBuilder:
    """Collects the headers of a segment's entries in file order, table by table; then encodes its two index files."""

    def __init__(self, base_offset: int, interval_bytes: int = DEFAULT_INTERVAL_BYTES) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.indexed_position = 0
        self.greatest_timestamp = NO_TIMESTAMP
        self.offset_of_greatest = -1
        self.indexed_timestamp = NO_TIMESTAMP
        self._offsets: list[tuple[Column, Column]] = []
        self._times: list[tuple[Column, Column]] = []

    def add(self, entries: EntryTable) -> None:
        """Add headers, whose positions are those in the indexed log file."""
        if len(entries):
            offsets, times = self.next_entries(entries)
            self._offsets.append(offsets)
            self._times.append(times)

    def next_entries(self, entries: EntryTable) -> tuple[tuple[Column, Column], tuple[Column, Column]]:
        """The index entries of these headers (at least one): offsets and positions, timestamps and offsets."""
        lasts = entries.last_offset
        if int(lasts.max()) - self.base_offset > MAX_RELATIVE_OFFSET:
            raise CorruptBatch(
                "offset-range", expected=f"at most {MAX_RELATIVE_OFFSET} above {self.base_offset}", found=int(lasts.max())
            )
        rows = self._indexed_rows(entries.position)
        greatest, offsets = self._running_maximum(entries.max_timestamp, lasts)
        rising = rows[np.diff(greatest[rows], prepend=self.indexed_timestamp) > 0]
        if len(rising):
            self.indexed_timestamp = int(greatest[rising[-1]])
        return (lasts[rows], entries.position[rows]), (greatest[rising], offsets[rising])

    def _indexed_rows(self, positions: Column) -> Column:
        known = positions.tolist()
        rows = []
        row = bisect_right(known, self.indexed_position + self.interval_bytes)
        while row < len(known):
            rows.append(row)
            self.indexed_position = known[row]
            row = bisect_right(known, self.indexed_position + self.interval_bytes, row)
        return np.array(rows, np.int64)

    def _running_maximum(self, timestamps: Column, lasts: Column) -> tuple[Column, Column]:
        """For each row the greatest timestamp so far, and the last offset of the first entry with it."""
        greatest = np.maximum.accumulate(np.maximum(timestamps, self.greatest_timestamp))
        rises = np.diff(greatest, prepend=self.greatest_timestamp) > 0
        at = np.maximum.accumulate(np.where(rises, np.arange(len(lasts)), -1))
        offsets = np.where(at >= 0, lasts[at], self.offset_of_greatest)
        self.greatest_timestamp, self.offset_of_greatest = int(greatest[-1]), int(offsets[-1])
        return greatest, offsets

    def offset_index(self) -> bytes:
        offsets, positions = _joined(self._offsets)
        return encode_offset_index(offsets, positions, self.base_offset)

    def time_index(self) -> bytes:
        times, offsets = _joined(self._times)
        if self.greatest_timestamp > self.indexed_timestamp:
            times, offsets = np.append(times, self.greatest_timestamp), np.append(offsets, self.offset_of_greatest)
        return encode_time_index(times, offsets, self.base_offset)


def _joined(parts: list[tuple[Column, Column]]) -> tuple[Column, Column]:
    if not parts:
        return NOTHING, NOTHING
    first, second = zip(*parts, strict=True)
    return np.concatenate(first), np.concatenate(second)


class IntervalBounds:
    """Bounds of the interval that existing index files were written with: at least `lowest`, below `limit`."""

    def __init__(self) -> None:
        self.lowest = 0
        self.limit = MAX_RELATIVE_OFFSET
        self.seen = False

    def narrow(self, positions: Column, indexed: NDArray[np.int32]) -> None:
        """Narrow the bounds by where the entries of a log begin, and which of them its index has."""
        stops = indexed[(indexed > 0) & (indexed <= positions[-1])].astype(np.int64)
        if not len(stops) or not np.isin(stops, positions).all() or (np.diff(stops) <= 0).any():
            return
        starts = np.concatenate(([0], stops[:-1]))
        before = positions[np.searchsorted(positions, stops) - 1]
        self.lowest = max(self.lowest, int((before - starts).max()))
        self.limit = min(self.limit, int((stops - starts).min()))
        self.seen = True

    def choose(self) -> int:
        """The likeliest interval: the default, or the roundest number within the bounds; the default if none is."""
        if self.lowest <= DEFAULT_INTERVAL_BYTES < self.limit or self.lowest >= self.limit:
            return DEFAULT_INTERVAL_BYTES
        for step in (1 << 20, 1 << 10, 1000, 100, 10):
            rounded = -(-self.lowest // step) * step
            if 0 < rounded < self.limit:
                return rounded
        return self.lowest
