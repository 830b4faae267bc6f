"""The headers of a partition's segments: walked, or summarised by segment from names, sizes and a few or all headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kafkalog.errors import Limits, StorageError
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels import scan
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.store import ByteSource

from .entry_order import header_bases
from .partition import Partition, Segment
from .report import ReadReport

MILLION = 1_000_000


def iter_headers(
    partition: Partition, limits: Limits, unread: ReadReport | None = None
) -> Iterator[tuple[ByteSource, EntryTable]]:
    """Tables of headers of every segment, as far as each can be walked, with the open file.

    A file that cannot be read is an error; with `unread` it is noted there and skipped.
    """
    for segment in partition.segments:
        try:
            with partition.open_log(segment) as source:
                for entries in SegmentWalk(source, 0, source.size, limits).headers():
                    yield source, entries
        except StorageError as error:
            if unread is None:
                raise
            unread.leave_unread(error)


def end_offset(partition: Partition, limits: Limits) -> int:
    """The offset that the next record would get: the one after the last whole entry."""
    for segment in reversed(partition.segments):
        with partition.open_log(segment) as source:
            index = segment.siblings.get("index")
            start = seek_position(source, partition.store, index.path if index else None, segment.base_offset, MAX_OFFSET, limits)
            last = -1
            for entries in SegmentWalk(source, start, source.size, limits).headers():
                last = int(entries.last_offset[-1])
            if last >= 0:
                return last + 1
    return partition.start_offset


def summarise_segments(
    partition: Partition, limits: Limits, unread: ReadReport | None = None, *, deep: bool
) -> Iterator[dict[str, Any]]:
    """One row per segment, live ones first. Without `deep` an index may save the walk to the last entry.

    A file that cannot be read is an error; with `unread` it is noted there, and its row has only what its name says.
    """
    for segment in (*partition.segments, *_left_over(partition)):
        row = _named(segment)
        try:
            with partition.open_log(segment) as source:
                row |= _deep(source, limits) if deep else _shallow(partition, segment, source, limits)
        except StorageError as error:
            if unread is None:
                raise
            unread.leave_unread(error)
        yield row


def _left_over(partition: Partition) -> Iterator[Segment]:
    for stored in partition.leftovers:
        if stored.kind == "log":
            yield Segment(stored)


def _named(segment: Segment) -> dict[str, Any]:
    sizes = {f"{kind}_size": found.size for kind, found in segment.siblings.items()}
    return {
        "file": segment.log.path,
        "state": segment.log.suffix or ("active" if segment.is_newest else "closed"),
        "base_offset": segment.base_offset,
        "next_base_offset": segment.next_base_offset,
        "size": segment.log.size,
        "modified_ms": segment.log.mtime_ns // MILLION,
        **{name: sizes.get(name) for name in ("index_size", "timeindex_size", "txnindex_size")},
    }


def _shallow(partition: Partition, segment: Segment, source: ByteSource, limits: Limits) -> dict[str, Any]:
    index = segment.siblings.get("index")
    start = seek_position(source, partition.store, index.path if index else None, segment.base_offset, MAX_OFFSET, limits)
    walk = SegmentWalk(source, start, source.size, limits)
    last: dict[str, Any] = {}
    for entries in walk.headers():
        last = {"last_offset": int(entries.last_offset[-1])}
    return {**_first(source, limits), **last, "valid_size": walk.position}


def _first(source: ByteSource, limits: Limits) -> dict[str, Any]:
    """The first entry alone."""
    chunk = np.frombuffer(source.read(0, min(scan.CONTROL_PEEK, source.size)), np.uint8)
    entries = EntryTable.with_room(1)
    _, count, _ = scan.scan_headers(chunk, 0, source.size, limits.batch_bytes, entries.fields)
    return _first_of(entries) if count else {}


def _first_of(entries: EntryTable) -> dict[str, Any]:
    return {"first_magic": int(entries.magic[0]), "first_timestamp_ms": int(entries.first_timestamp[0])}


def _deep(source: ByteSource, limits: Limits) -> dict[str, Any]:
    row: dict[str, Any] = {"batch_count": 0, "record_count": 0, "max_timestamp_ms": -1}
    magics: set[int] = set()
    codecs: set[int] = set()
    walk = SegmentWalk(source, 0, source.size, limits)
    for entries in walk.headers():
        if not row["batch_count"]:
            row |= _first_of(entries)
        row["batch_count"] += len(entries)
        row["last_offset"] = int(entries.last_offset[-1])
        row["max_timestamp_ms"] = max(row["max_timestamp_ms"], int(entries.max_timestamp.max()))
        row["record_count"] = _add_counts(row["record_count"], entries)
        magics.update(np.unique(entries.magic).tolist())
        codecs.update(np.unique(entries.attributes & batch.CODEC_MASK).tolist())
    names = (*batch.CODEC_NAMES, "unknown", "unknown", "unknown")
    return {**row, "valid_size": walk.position, "magics": sorted(magics), "codecs": [names[codec] for codec in sorted(codecs)]}


def _add_counts(total: int | None, entries: EntryTable) -> int | None:
    """Records so far; None once a compressed v0/v1 set is among the entries."""
    if total is None or (header_bases(entries) < 0).any():
        return None
    return total + int(np.where(entries.magic == 2, entries.record_count, 1).sum())
