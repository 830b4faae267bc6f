"""A clean partition out of damaged ones: every intact batch with its bytes and offsets, and fresh files beside the logs.

The source is only read. The partition appears under its name complete or not at all, and a journal beside it, written first,
lists every byte range that was left out, what was filled from where, and which offsets are lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kafkalog.errors import SegmentChanged, StorageError, UsageError
from kafkalog.format import batch, names
from kafkalog.format.entry_table import EntryTable
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.rebuild import RebuildOptions, SideFileBuilder
from kafkalog.log.replicas import Kept, Lost, MergeOptions, SalvagedLog, newest_first
from kafkalog.segment.build import MAX_RELATIVE_OFFSET
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.publish import publish_files
from kafkalog.storage.store import ByteSource
from kafkalog.tables.choices import Names, Numbers

from .journal import SalvageResult, Taken, journal_files, note_taken
from .output import COPY_BYTES, MAX_LOG_BYTES, Comparison, Nowhere, Output, Progress, folder_name, output_folder, staged_copy
from .partitions import (
    OnFailure,
    PathLike,
    chosen_from,
    each_partition,
    find_index_interval,
    read_metadata,
    replicas_by_partition,
    require_listed,
)


@dataclass(frozen=True)
class SalvageOptions:
    """How to salvage. Without `index_interval_bytes` it is taken from the index files that are there."""

    dry_run: bool = False
    index_interval_bytes: int | None = None
    merge: MergeOptions = field(default_factory=MergeOptions)


def salvage(
    source: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    fill_gaps: bool = False,
    unverified: bool = False,
    index_interval_bytes: int | None = None,
    dry_run: bool = False,
) -> list[SalvageResult]:
    """Copy every intact batch of the damaged partitions at `source` into clean ones below `out`; the source is only read.

    Several sources with the same partition are replicas: each fills the holes of the others. `fill_gaps` also fills gaps without
    damage; `unverified` also keeps batches found after damage that may have been part of a value.
    """
    options = SalvageOptions(dry_run, index_interval_bytes, MergeOptions(fill_gaps, unverified))
    return list(salvage_partitions(source, out, options, topics=topics, partitions=partitions))


def salvage_partitions(
    paths: PathLike | Sequence[PathLike],
    out: PathLike,
    options: SalvageOptions | None = None,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    fs: Fs | None = None,
    progress: Progress | None = None,
    on_failure: OnFailure | None = None,
) -> Iterator[SalvageResult]:
    """Salvage the partitions at `paths`, one after the other; those of the same topic and number are replicas of each other.

    With `on_failure` one that cannot be salvaged is reported to it, and the others continue.
    """
    paths = [paths] if isinstance(paths, str | os.PathLike) else paths
    groups = {id(group[0]): group for group in replicas_by_partition(chosen_from(paths, topics, partitions))}
    target = output_folder(out)

    def work(first: Partition) -> SalvageResult:
        folder = os.path.join(target, folder_name(first))
        return salvage_partition(groups[id(first)], folder, options, fs=fs, progress=progress)

    return each_partition([group[0] for group in groups.values()], work, on_failure)


def salvage_partition(
    replicas: Sequence[Partition],
    folder: str,
    options: SalvageOptions | None = None,
    *,
    fs: Fs | None = None,
    progress: Progress | None = None,
) -> SalvageResult:
    """One partition as the new folder `folder`; UsageError if something else is there already."""
    options = options or SalvageOptions()
    fs = fs or LocalFs()
    _refuse_own_folder(replicas, folder)
    shown = [replica for replica in replicas if replica.segments] or [require_listed(replica) for replica in replicas]
    work = _Salvage(newest_first(shown, options.merge.limits), folder, options, progress)
    work.result.report.unread += [problem for replica in replicas if not replica.segments for problem in replica.problems]
    if options.dry_run:
        return work.run(Nowhere())
    if fs.kind(folder) == "missing":
        return work.write(fs)
    comparison = Comparison(fs, folder)
    result = work.run(comparison)
    comparison.require_same()
    result.state = "already there"
    return result


def _refuse_own_folder(replicas: Sequence[Partition], folder: str) -> None:
    for replica in replicas:
        if f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(replica.folder)}/"):
            raise UsageError(f"--out: {folder} is what is to be salvaged; it is never written to, choose another folder")
    metadata = {content for replica in replicas if (content := read_metadata(replica)) is not None}
    if len(metadata) > 1:
        folders = ", ".join(replica.folder for replica in replicas)
        raise UsageError(f"not replicas of one partition, their topic ids differ: {folders}")


class _Salvage:
    def __init__(self, replicas: Sequence[Partition], folder: str, options: SalvageOptions, progress: Progress | None) -> None:
        self.primary = replicas[0]
        self.replicas = replicas
        self.options = options
        self.progress = progress or (lambda size: None)
        sources = [replica.file or replica.folder for replica in replicas]
        start = self.primary.log_start_offset
        self.result = SalvageResult(self.primary.topic, self.primary.partition, sources, folder, log_start_offset=start)
        self.result.report.unread += [problem for replica in replicas for problem in replica.problems]

    def write(self, fs: Fs) -> SalvageResult:
        result = self.result
        with staged_copy(fs, result.folder, self.primary) as staged:
            self.run(staged)
            publish_files(fs, os.path.dirname(result.folder), journal_files(result))
            staged.publish()
        result.state = "written"
        return result

    def run(self, output: Output) -> SalvageResult:
        interval = self.options.index_interval_bytes or find_index_interval(self.primary, self.options.merge.limits)
        log = SalvagedLog(self.replicas, self.options.merge, self.result.report)
        builder = SideFileBuilder(RebuildOptions(interval), epochs=self.primary.epochs)
        for segment in self.primary.segments:
            self._take_segment(segment, log, builder, output)
        if self.result.report.unread and not self.result.kept_batches:  # an empty partition would look like a rescued one
            raise StorageError(self.result.report.unread[0], file=self.primary.folder)
        metadata = next((content for replica in self.replicas if (content := read_metadata(replica)) is not None), None)
        for name, content in {**builder.finish(), **({names.PARTITION_METADATA: metadata} if metadata else {})}.items():
            output.write(name, [content])
        self.result.end_offset = builder.end_offset
        return self.result

    def _take_segment(self, segment: Segment, log: SalvagedLog, builder: SideFileBuilder, output: Output) -> None:
        new = _NewSegment(builder, segment.base_offset)
        for piece in log.pieces(segment):
            if isinstance(piece, Lost):
                self.result.lost.append(piece)
                continue
            if new.is_full_for(piece):
                self._put(new, output)
                new = _NewSegment(builder, piece.first_offset)
            new.add(piece)
            self._count(piece)
        if segment.is_newest or not segment.log.size:
            new.begin(0)  # an empty newest one tells where the log goes on; others are compaction's
        self._put(new, output)

    def _put(self, new: _NewSegment, output: Output) -> None:
        if new.files is None:
            return
        self.result.segment_count += 1
        output.write(names.segment_file_name(new.base_offset), _copied(new.ranges))
        for name, content in {**new.files, **new.builder.end()}.items():
            output.write(name, [content])

    def _count(self, piece: Kept) -> None:
        result, entries = self.result, piece.run.entries
        size = piece.run.stop - piece.run.start
        if result.first_offset is None:
            result.first_offset = piece.first_offset
        result.kept_batches += len(entries)
        result.kept_bytes += size
        records = count_records(entries)
        result.kept_records = None if result.kept_records is None or records is None else result.kept_records + records
        taken = Taken(piece.run.file, piece.run.start, size, piece.first_offset, piece.last_offset)
        if piece.filled:
            note_taken(result.filled, taken)
        if not piece.run.verified:
            note_taken(result.unverified, taken)
        self.progress(size)


def count_records(entries: EntryTable) -> int | None:
    """How many records entries have by their headers, without control records; None where compressed v0/v1 sets do not tell."""
    old = entries.magic < 2
    if (old & (entries.attributes & batch.CODEC_MASK != 0)).any():
        return None
    control = ~old & (entries.attributes & batch.CONTROL != 0)
    return int(np.where(old, 1, np.where(control, 0, entries.record_count)).sum())


class _NewSegment:
    """A segment of the output while its pieces come: the ranges to copy into its log, and what stands beside it."""

    def __init__(self, builder: SideFileBuilder, base_offset: int) -> None:
        self.builder = builder
        self.base_offset = base_offset
        self.size = 0
        self.ranges: list[_Range] = []
        self.files: dict[str, bytes] | None = None  # None: nothing has come, so it is not made

    def is_full_for(self, piece: Kept) -> bool:
        """Whether a filled hole makes it larger than a log file or its index can be."""
        too_large = self.size + piece.run.stop - piece.run.start > MAX_LOG_BYTES
        return self.size > 0 and (too_large or piece.last_offset - self.base_offset > MAX_RELATIVE_OFFSET)

    def begin(self, first_offset: int) -> None:
        if self.files is None:
            self.base_offset = self.base_offset if self.base_offset >= 0 else first_offset
            self.files = self.builder.begin(self.base_offset)

    def add(self, piece: Kept) -> None:
        self.begin(piece.first_offset)
        entries = piece.run.entries.copy()
        sizes = entries.size
        entries.position = self.size + np.cumsum(sizes) - sizes
        self.builder.add(entries)
        self.size += int(sizes.sum())
        _extend(self.ranges, _Range(piece.partition, piece.run.file, piece.run.start, piece.run.stop))


@dataclass(frozen=True)
class _Range:
    partition: Partition
    file: str
    start: int
    stop: int


def _extend(ranges: list[_Range], added: _Range) -> None:
    last = ranges[-1] if ranges else None
    if last is not None and last.file == added.file and last.stop == added.start:
        ranges[-1] = _Range(last.partition, last.file, last.start, added.stop)
    else:
        ranges.append(added)


def _copied(ranges: Iterable[_Range]) -> Iterator[memoryview]:
    """The bytes of these ranges, as they are stored."""
    buffer = memoryview(bytearray(COPY_BYTES))
    for part in ranges:
        with part.partition.store.open(part.file) as source:
            _require_unchanged(part, source)
            for position in range(part.start, part.stop, COPY_BYTES):
                chunk = buffer[: min(COPY_BYTES, part.stop - position)]
                if source.read_into(position, chunk) < len(chunk):
                    found = f"{source.size} bytes"
                    raise SegmentChanged("changed", file=part.file, position=position, expected=f"{part.stop} bytes", found=found)
                yield chunk


def _require_unchanged(part: _Range, source: ByteSource) -> None:
    """A broker that compacts replaces segments; only to the newest one it appends, which hurts nothing."""
    segments = [segment for segment in part.partition.segments if segment.log.path == part.file]
    if any(not segment.is_newest and segment.log.mtime_ns != source.fingerprint.mtime_ns for segment in segments):
        raise SegmentChanged("changed", file=part.file, detail="it was replaced or written to meanwhile; stop the broker first")
