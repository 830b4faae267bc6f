"""Inconsistencies, printed after all files as DumpLogSegments prints them on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkalog.format.quantities import plural

Pairs = list[tuple[int, int]]


class OffsetGaps(Protocol):
    """Where the offsets of a log are not consecutive."""

    def lines(self, path: str) -> Iterator[str]: ...


@dataclass(repr=False)
class DumpFindings:
    """Findings by the absolute path of their file."""

    index_mismatches: dict[str, dict[int, int]] = field(default_factory=dict)  # offset in the index -> in the log
    timestamp_mismatches: dict[str, Pairs] = field(default_factory=dict)  # timestamp in the index, in the log
    disordered_timestamps: dict[str, Pairs] = field(default_factory=dict)  # timestamp, the one before it
    offsets_not_found: dict[str, Pairs] = field(default_factory=dict)  # offset in the index, nearest in the log
    gaps: dict[str, OffsetGaps] = field(default_factory=dict)

    def __repr__(self) -> str:
        found = [f"{name.replace('_', ' ')} in {plural(len(files), 'file')}" for name, files in vars(self).items() if files]
        return f"DumpFindings({', '.join(found) or 'none'})"

    def lines(self) -> Iterator[str]:
        """One line after the other, without line ends."""
        for path, mismatches in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            for offset in sorted(mismatches, reverse=True):
                yield f"  Index offset: {offset}, log offset: {mismatches[offset]}"
        for path, pairs in self.timestamp_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {stored}, log timestamp: {found}" for stored, found in pairs)
        for path, pairs in self.disordered_timestamps.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {stored}, Previously indexed timestamp: {before}" for stored, before in pairs)
        for path, pairs in self.offsets_not_found.items():
            yield f"The following indexed offsets are not found in :{path}"
            yield from (f"Indexed offset: {stored}, found log offset: {found}" for stored, found in pairs)
        for path, gaps in self.gaps.items():
            yield from gaps.lines(path)


class Gaps:
    """Records whose offset is not the one before it plus one, of one file; kept in arrays, for there may be millions."""

    def __init__(self) -> None:
        self.last_offset = -1
        self.parts: list[NDArray[np.int64]] = []

    def add(self, offsets: NDArray[np.int64]) -> None:
        """The next records of the file."""
        if not len(offsets):
            return
        before = np.concatenate([[self.last_offset], offsets[:-1]])
        rows = np.flatnonzero(offsets != before + 1)
        if len(rows):
            self.parts.append(_latest(np.stack([before[rows], offsets[rows]])))
        self.last_offset = int(offsets[-1])

    def lines(self, path: str) -> Iterator[str]:
        """Ascending; of several gaps after the same offset the last one counts, as in the map that Kafka's tool fills."""
        yield f"Non-consecutive offsets in {path}"
        for before, offset in _latest(np.concatenate(self.parts, axis=1)).T.tolist():
            yield f"  {before} is followed by {offset}"


def _latest(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of these pairs the last one for each offset before a gap, by that offset."""
    newest_first = pairs[:, ::-1]
    _, rows = np.unique(newest_first[0], return_index=True)
    return newest_first[:, rows]
