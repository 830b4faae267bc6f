"""The records of a batch compared with its header: their order, offsets and largest timestamp."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.format import batch
from kafkalog.format.entry_table import EntryHeader, EntryTable, Ints
from kafkalog.log.partition import Partition
from kafkalog.segment.columns import MAX_TIMESTAMP_MS, RecordColumns
from kafkalog.segment.windows import Window

from .finding import Finding, Place, make_finding


def is_plain(window: Window) -> bool:
    """Whether every entry is a single v0/v1 message: it is its only record, so there is nothing to compare."""
    return window.facts.legacy_count == window.count and not window.facts.wrapper_count


def is_rewritten(entries: EntryTable) -> bool:
    """Whether the entries were compacted: only a cleaner leaves batches with fewer records than offsets, or a delete horizon."""
    batches = entries[entries.magic == 2]
    offsets = batches.last_offset - batches.base_offset + 1
    flagged = batches.attributes & batch.DELETE_HORIZON != 0
    return bool(((batches.record_count < offsets) | flagged).any())


def has_sparse_sets(group: RecordColumns) -> bool:
    """The same for compressed v0/v1 sets, whose offsets are known once they are decoded."""
    entries = group.entry_table
    legacy = entries.magic < 2
    return bool((legacy & (group.row_counts < entries.last_offset - group.first_offsets + 1)).any())


def check_empty_batches(entries: EntryTable, file: str, partition: Partition) -> Iterator[Finding]:
    """A batch that declares no records but has some: readers would silently skip them."""
    wrong = (entries.record_count == 0) & (entries.magic == 2) & (entries.size != batch.HEADER_SIZE)
    for row in np.flatnonzero(wrong).tolist():
        found = f"{entries.size[row] - batch.HEADER_SIZE} bytes"
        yield make_finding(
            "count", file, partition, place_of(entries.header(row)), expected="nothing after the header", found=found
        )


def check_records(group: RecordColumns, partition: Partition) -> Iterator[Finding]:
    """Findings about the records of entries that decode, at most one of a kind for each entry."""
    entries, rows = group.entry_table, group.rows
    filled = np.flatnonzero(group.row_counts > 0)
    if not len(filled):
        return
    first_rows = group.first_rows[filled]
    last_rows = first_rows + group.row_counts[filled] - 1
    offsets, timestamps = group.offsets[:rows], group.timestamps[:rows]
    file = group.window.file
    inside = (offsets[first_rows] >= group.first_offsets[filled]) & (offsets[last_rows] <= entries.last_offset[filled])
    if not (inside.all() and (offsets[1:] > offsets[:-1]).all()):
        for at in np.flatnonzero(~inside | _in_disorder(offsets, first_rows)).tolist():
            row = int(filled[at])
            found = offsets[first_rows[at] : last_rows[at] + 1]
            said = f"offsets {found.min()} to {found.max()}"
            wanted = "ascending offsets within the batch's"
            yield make_finding("record-order", file, partition, place_of(entries.header(row)), expected=wanted, found=said)
    yield from _check_timestamps(entries, filled, np.maximum.reduceat(timestamps, first_rows), file, partition)
    yield from _check_time_range(group, filled, partition)


def _check_time_range(group: RecordColumns, filled: NDArray[np.int64], partition: Partition) -> Iterator[Finding]:
    timestamps = group.timestamps[: group.rows]
    if int(timestamps.max()) > MAX_TIMESTAMP_MS or int(timestamps.min()) < -MAX_TIMESTAMP_MS:
        beyond = (timestamps > MAX_TIMESTAMP_MS) | (timestamps < -MAX_TIMESTAMP_MS)
        rows = np.searchsorted(group.first_rows[filled], np.flatnonzero(beyond), side="right") - 1
        for row in np.unique(filled[rows]).tolist():
            yield make_finding("time-range", group.window.file, partition, place_of(group.entry_table.header(row)))


def _in_disorder(offsets: Ints, first_rows: Ints) -> NDArray[np.bool_]:
    """For each entry, whether an offset is not above the one before it."""
    falls = np.zeros(len(offsets), np.bool_)
    np.less_equal(offsets[1:], offsets[:-1], out=falls[1:])
    falls[first_rows] = False
    disorder: NDArray[np.bool_] = np.logical_or.reduceat(falls, first_rows)
    return disorder


def _check_timestamps(
    entries: EntryTable, filled: NDArray[np.int64], largest: Ints, file: str, partition: Partition
) -> Iterator[Finding]:
    """Brokers set the largest timestamp of v2 batches themselves, but leave -1 where a client sent negative ones."""
    stored = entries.max_timestamp[filled]
    for at in np.flatnonzero((largest != stored) & (largest >= 0) & (entries.magic[filled] == 2)).tolist():
        place = place_of(entries.header(int(filled[at])))
        yield make_finding("max-timestamp", file, partition, place, expected=largest[at], found=stored[at])


def place_of(header: EntryHeader) -> Place:
    """The place of an entry."""
    return Place(header.position, header.size, header.base_offset, header.last_offset)
