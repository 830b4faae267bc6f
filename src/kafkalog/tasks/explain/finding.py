"""Where the entries of a log file begin and end, also behind damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafkalog.errors import Limits, UsageError
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.log.order import header_bases
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.store import ByteSource


@dataclass(frozen=True)
class Gap:
    """Bytes in which no entry can be followed, up to the next intact one or the end of the file."""

    start: int
    stop: int


def iter_tables(source: ByteSource, start: int, limits: Limits) -> Iterator[EntryTable | Gap]:
    """Headers of all entries from `start` on, as tables of `scan`, and what lies between them."""
    bounds = ResyncBounds(batch_bytes=limits.batch_bytes)
    while start < source.size:
        walk = SegmentWalk(source, start, source.size, limits)
        yield from walk.headers()
        if walk.problem is None:
            return
        found = None
        if walk.problem.reason != "zero-tail":
            found = find_next_entry(source.read_into, walk.position + 1, source.size, bounds)
        start = source.size if found is None else found.position
        yield Gap(walk.position, start)


def iter_spans(source: ByteSource, start: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """Start and stop of every entry and gap from `start` on; together they are the file."""
    for found in iter_tables(source, start, limits):
        if isinstance(found, Gap):
            yield found.start, found.stop
        else:
            yield from zip(found.position.tolist(), found.stop.tolist(), strict=True)


def find_byte(source: ByteSource, position: int, limits: Limits) -> int:
    """Where the entry that holds this byte begins; the position itself if no entry can be followed there."""
    if not 0 <= position < source.size:
        raise UsageError(f"{source.path}: no byte {position}; the file has {source.size} bytes, 0 to {source.size - 1}")
    for found in iter_tables(source, 0, limits):
        if isinstance(found, Gap):
            if found.start <= position < found.stop:
                return position
            continue
        row = int(np.searchsorted(found.stop, position, "right"))
        if row < len(found):
            return int(found.position[row])
    return position


def find_offset(source: ByteSource, offset: int, limits: Limits) -> int:
    """Where the entry that holds this offset begins; UsageError with what the file does hold."""
    first, last, gaps = None, None, []
    for found in iter_tables(source, 0, limits):
        if isinstance(found, Gap):
            gaps.append(found)
            continue
        # No header has the first offset of a v0/v1 set: it is taken to follow the entry before.
        rows = np.flatnonzero((header_bases(found) <= offset) & (found.last_offset >= offset))
        if len(rows):
            return int(found.position[rows[0]])
        first = int(found.base_offset[0]) if first is None else first
        last = int(found.last_offset[-1])
    held = f"it has {first} to {last}, and offsets may be missing in between" if first is not None else "it has no entry at all"
    lost = "".join(f"; no entry can be followed at byte {gap.start}: see --position {gap.start}" for gap in gaps[:1])
    raise UsageError(f"{source.path}: no entry holds offset {offset}; {held}{lost}")
