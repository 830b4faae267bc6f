"""A partition summarised from its headers: from the first and last ones, or from all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from kafkalog import codecs
from kafkalog.errors import KafkaLogError, Limits, SegmentError, StorageError, TornTail
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels import scan
from kafkalog.log.entry_order import header_bases
from kafkalog.log.partition import Partition, Segment
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk, explain_stop
from kafkalog.storage.store import ByteSource

from .compression_ratio import PLACES, Measured, is_end, measure_entries, measure_sample

# A new index has room for a million entries and is read as a whole: that pays only below this share of the log's bytes.
INDEX_SHARE = 16


@dataclass(frozen=True)
class FormatShare:
    """What is stored in one format; records are None where a set could not be counted."""

    bytes: int = 0
    batches: int = 0
    records: int | None = 0

    def __add__(self, other: FormatShare) -> FormatShare:
        records = None if self.records is None or other.records is None else self.records + other.records
        return FormatShare(self.bytes + other.bytes, self.batches + other.batches, records)


@dataclass
class Found:
    """The facts of a partition found so far."""

    problems: list[str] = field(default_factory=list)
    unreadable: bool = False
    unread_files: set[str] = field(default_factory=set)
    end_offset: int | None = None
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    magics: set[int] = field(default_factory=set)
    codec_ids: set[int] = field(default_factory=set)
    epochs: set[int] = field(default_factory=set)
    formats: dict[int, FormatShare] = field(default_factory=dict)
    tail_bytes: int = 0
    measured: Measured = field(default_factory=Measured)

    @property
    def codec_names(self) -> list[str]:
        return [codecs.NAMES[codec] if codec < len(codecs.NAMES) else f"codec {codec}" for codec in sorted(self.codec_ids)]

    @property
    def batch_count(self) -> int:
        return sum(share.batches for share in self.formats.values())

    @property
    def record_count(self) -> int | None:
        return sum(self.formats.values(), FormatShare()).records

    def see(self, entries: EntryTable) -> None:
        """Count entries in."""
        self.magics.update(np.unique(entries.magic).tolist())
        self.codec_ids.update(np.unique(entries.attributes & batch.CODEC_MASK).tolist())
        self.epochs.update(np.unique(entries.leader_epoch[entries.magic == 2]).tolist())
        self.epochs.discard(-1)
        known = entries.max_timestamp >= 0
        if known.any():
            first, last = int(entries.first_timestamp[known].min()), int(entries.max_timestamp[known].max())
            self.first_timestamp_ms = first if self.first_timestamp_ms is None else min(self.first_timestamp_ms, first)
            self.last_timestamp_ms = last if self.last_timestamp_ms is None else max(self.last_timestamp_ms, last)

    def see_end(self, segment: Segment, last_offset: int | None, problem: SegmentError | None) -> None:
        """Note where the walk through a segment ended."""
        if last_offset is not None:
            self.end_offset = max(self.end_offset or 0, last_offset + 1)
        if isinstance(problem, TornTail) and segment.is_newest:
            self.tail_bytes += problem.length
        elif problem is not None:
            self.problems.append(str(problem))


@contextmanager
def _opened(partition: Partition, segment: Segment, found: Found) -> Iterator[ByteSource | None]:
    """The open log, or None where storage cannot read it; an error inside becomes a problem too."""
    path = segment.log.path
    if path in found.unread_files:
        yield None
        return
    try:
        source = partition.open_log(segment)
    except KafkaLogError as error:
        _note(found, path, error)
        yield None
        return
    with source:
        try:
            yield source
        except KafkaLogError as error:
            _note(found, path, error)


def _note(found: Found, path: str, error: KafkaLogError) -> None:
    """A file that cannot be read is one problem, however often it is tried."""
    if isinstance(error, StorageError):
        found.unreadable = True
        found.unread_files.add(path)
    found.problems.append(str(error))


# A sample


def summarise_sample(partition: Partition, limits: Limits, found: Found, places: int = PLACES) -> None:
    """The first entry of every segment, the last one of the partition, and sampled entries for its compression ratio."""
    _see_ends(partition, limits, found)
    if found.codec_ids - {codecs.NONE}:
        found.measured = measure_sample(partition, lambda segment: _opened(partition, segment, found), limits, places)
        found.problems += found.measured.problems


def _see_ends(partition: Partition, limits: Limits, found: Found) -> None:
    firsts: list[EntryTable] = []
    for segment in partition.segments:
        if not segment.log.size:
            continue
        with _opened(partition, segment, found) as source:
            if source is not None:
                firsts += _first_entry(segment, source, limits, found)
    if firsts:
        found.see(EntryTable.joined(firsts))
    for segment in reversed(partition.segments):
        with _opened(partition, segment, found) as source:
            if source is not None:
                _see_last(partition, segment, source, limits, found)
        if found.end_offset is not None:
            return
    if partition.segments:
        found.end_offset = partition.start_offset


def _first_entry(segment: Segment, source: ByteSource, limits: Limits, found: Found) -> list[EntryTable]:
    """The first header of a segment, if it has one."""
    chunk = np.frombuffer(source.read(0, min(scan.CONTROL_PEEK, source.size)), np.uint8)
    entries = EntryTable.with_room(1)
    status, count, _ = scan.scan_headers(chunk, 0, source.size, limits.batch_bytes, entries.fields)
    if not count:
        if not segment.is_newest:  # the end of the newest one is read anyway
            found.see_end(segment, None, explain_stop(source, 0, source.size, status, limits))
        return []
    first = int(entries.base_offset[0])
    if first < segment.base_offset:
        found.problems.append(f"{source.path}: begins with offset {first}, before the one in its name")
    return [entries]


def _see_last(partition: Partition, segment: Segment, source: ByteSource, limits: Limits, found: Found) -> None:
    index = segment.siblings.get("index")
    hint = index.path if index is not None and index.size * INDEX_SHARE <= source.size else None
    start = seek_position(source, partition.store, hint, segment.base_offset, MAX_OFFSET, limits)
    walk = SegmentWalk(source, start, source.size, limits)
    last = None
    for entries in walk.headers():
        last = entries[-1:]
    if last is not None:
        found.see(last)
    found.see_end(segment, int(last.last_offset[0]) if last is not None else None, walk.problem)


# All headers


def summarise_all(partition: Partition, limits: Limits, found: Found, *, measure: bool = True) -> None:
    """Every header of every segment, and with `measure` the decompressed size of every entry.

    Sets of v0 and v1, which do not say how many records they hold, are decompressed in any case.
    """
    ends = []
    for segment in partition.segments:
        with _opened(partition, segment, found) as source:
            ends.append(source is not None and _scan_segment(segment, source, limits, found, measure=measure))
    found.measured.is_whole = measure and all(ends)
    found.problems += found.measured.problems
    for magic, records in found.measured.set_records.items():
        if magic in found.formats:
            found.formats[magic] += FormatShare(records=records)
    if found.end_offset is None and partition.segments:
        found.end_offset = partition.start_offset


def _scan_segment(segment: Segment, source: ByteSource, limits: Limits, found: Found, *, measure: bool) -> bool:
    """Whether the whole segment could be walked."""
    walk = SegmentWalk(source, 0, source.size, limits)
    has_sets = False
    last = None
    for entries in walk.headers():
        found.see(entries)
        for magic in np.unique(entries.magic).tolist():
            found.formats[magic] = found.formats.get(magic, FormatShare()) + _share(entries[entries.magic == magic])
        has_sets |= bool((header_bases(entries) < 0).any())
        last = int(entries.last_offset.max())
    found.see_end(segment, last, walk.problem)
    if measure or has_sets:
        measure_entries(source, 0, walk.position, limits, found.measured, sets_only=not measure)
    return is_end(walk)


def _share(entries: EntryTable) -> FormatShare:
    """Entries of one format; sets of v0 and v1 count as no record yet."""
    counts = np.where(entries.magic == 2, np.maximum(entries.record_count, 0), header_bases(entries) >= 0)
    return FormatShare(int(entries.size.sum()), len(entries), int(counts.sum()))
