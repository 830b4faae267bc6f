"""A clean partition out of damaged replicas: every intact batch with its bytes and offsets, and new index files.

The source is only read. The partition appears under its name complete or not at all, and a journal next to it, written first,
lists every byte range that was left out, what was filled from where, and which offsets are lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from kafkalog.errors import SegmentChanged, StorageError, UsageError, path_text
from kafkalog.format import batch, names
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.quantities import offsets_text, plural, repr_text, size_text
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.rebuild import RebuildOptions, SideFileBuilder
from kafkalog.log.replicas import Kept, Lost, MergeOptions, SalvagedLog, newest_first
from kafkalog.log.report import ReadReport
from kafkalog.segment.build import MAX_RELATIVE_OFFSET
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.publish import publish_files
from kafkalog.storage.store import ByteSource
from kafkalog.storage.unfinished import name_beside, path_beside
from kafkalog.tables.choices import Names, Numbers

from .output import (
    COPY_BYTES,
    MAX_LOG_BYTES,
    Comparison,
    Nowhere,
    Output,
    Progress,
    folder_name,
    output_folder,
    raft_files,
    staged_copy,
    stored_bytes,
)
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
    """How to salvage. Without `index_interval_bytes` it is taken from the existing index files."""

    dry_run: bool = False
    index_interval_bytes: int | None = None
    merge: MergeOptions = field(default_factory=MergeOptions)


@dataclass(frozen=True)
class Taken:
    """Entries that the journal lists: from another replica, or possibly part of a value."""

    file: str
    position: int
    length: int
    first_offset: int
    last_offset: int


@dataclass(repr=False)
class SalvageResult:
    """The result for one partition. `state` is "written", "already there" (the same, from an earlier run) or "not written"."""

    topic: str
    partition: int
    sources: list[str]
    folder: str
    state: str = "not written"
    segment_count: int = 0
    kept_batches: int = 0
    kept_records: int | None = 0  # without control records; None: compressed v0/v1 sets, which do not say
    kept_bytes: int = 0
    first_offset: int | None = None
    end_offset: int = 0
    log_start_offset: int | None = None
    report: ReadReport = field(default_factory=ReadReport)
    filled: list[Taken] = field(default_factory=list)
    unverified: list[Taken] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)

    def __repr__(self) -> str:
        batches = plural(self.kept_batches, "batch", "batches")
        records = f"{plural(self.kept_records, 'record')} in {batches}" if self.kept_records is not None else batches
        offsets = "" if self.first_offset is None else offsets_text(self.first_offset, self.end_offset)
        dropped = f"{size_text(self.report.dropped_bytes)} dropped" if self.report.dropped else ""
        return repr_text(
            "SalvageResult", self.folder, self.state, records, size_text(self.kept_bytes), offsets, dropped, self._lost_text
        )

    @property
    def _lost_text(self) -> str:
        if not self.lost:
            return ""
        first = self.lost[0]
        last = "an unknown end" if first.last_offset is None else first.last_offset
        more = f" and {plural(len(self.lost) - 1, 'more range')}" if len(self.lost) > 1 else ""
        return f"lost offsets {first.first_offset} to {last}{more}"

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic

    @property
    def is_damaged(self) -> bool:
        """Whether the new partition lacks, or has from another replica, anything of the first source."""
        return bool(self.report.dropped or self.report.unread or self.lost or self.filled)

    def events(self) -> Iterator[dict[str, Any]]:
        """The journal, line by line."""
        yield {"event": "salvage", "topic": self.topic, "partition": self.partition, "sources": self.sources}
        for dropped in self.report.dropped:
            yield {"event": "dropped", **asdict(dropped)}
        for tail in self.report.tails:
            yield {"event": "tail", **asdict(tail)}
        for message in self.report.unread:
            yield {"event": "unread", "message": message}
        for filled in self.filled:
            yield {"event": "filled", **asdict(filled)}
        for unverified in self.unverified:
            yield {"event": "unverified", **asdict(unverified)}
        for lost in self.lost:
            yield {"event": "lost", **asdict(lost)}
        kept = ("segment_count", "kept_batches", "kept_records", "kept_bytes", "first_offset", "end_offset", "log_start_offset")
        yield {"event": "kept", **{name: getattr(self, name) for name in kept}}


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
    comparison.require_same(_hint_at_partial(fs, folder))
    result.state = "already there"
    return result


def _hint_at_partial(fs: Fs, folder: str) -> str:
    """Of a folder that an earlier run made without what it could not read; empty for any other."""
    journal = path_beside(folder, ".salvage.jsonl")
    if fs.kind(journal) != "file":
        return ""
    has_unread = any(b'"event": "unread"' in line for line in fs.read(journal, 0, COPY_BYTES).splitlines())
    return " (an earlier run could not read all of the source)" if has_unread else ""


def _refuse_own_folder(replicas: Sequence[Partition], folder: str) -> None:
    for replica in replicas:
        if f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(replica.folder)}/"):
            raise UsageError(f"--out: {folder} is the damaged partition itself, which is never written to; choose another folder")
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
            self._salvage_segment(segment, log, builder, output)
        if self.result.report.unread and not self.result.kept_batches:  # an empty partition would look like a rescued one
            raise StorageError(self.result.report.unread[0], file=self.primary.folder)
        metadata = next((content for replica in self.replicas if (content := read_metadata(replica)) is not None), None)
        for name, content in {**builder.finish(), **({names.PARTITION_METADATA: metadata} if metadata else {})}.items():
            output.write(name, [content])
        self._keep_raft_files(output)
        self.result.end_offset = builder.end_offset
        return self.result

    def _keep_raft_files(self, output: Output) -> None:
        """Copy KRaft's snapshots, of whichever replica has them, and its vote, unless several replicas voted."""
        found = {os.path.basename(stored.path): (each, stored) for each in self.replicas for stored in raft_files(each)}
        for name, (replica, stored) in sorted(found.items()):
            if name == names.QUORUM_STATE and len(self.replicas) > 1:
                continue
            try:
                for _ in stored_bytes(replica, stored):
                    """Read once before anything is written: what cannot be read whole is not copied."""
            except StorageError as error:
                self.result.report.leave_unread(error)
                continue
            output.write(name, stored_bytes(replica, stored))

    def _salvage_segment(self, segment: Segment, log: SalvagedLog, builder: SideFileBuilder, output: Output) -> None:
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
            new.begin(0)  # an empty newest one says where the log continues; others are compaction's
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
    """How many records entries have by their headers, without control records; None where compressed v0/v1 sets do not say."""
    old = entries.magic < 2
    if (old & (entries.attributes & batch.CODEC_MASK != 0)).any():
        return None
    control = ~old & (entries.attributes & batch.CONTROL != 0)
    return int(np.where(old, 1, np.where(control, 0, entries.record_count)).sum())


class _NewSegment:
    """A segment of the output while its pieces arrive: the ranges to copy into its log, and its index files."""

    def __init__(self, builder: SideFileBuilder, base_offset: int) -> None:
        self.builder = builder
        self.base_offset = base_offset
        self.size = 0
        self.ranges: list[_Range] = []
        self.files: dict[str, bytes] | None = None  # None: no piece yet, so it is not written

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
    """A broker's cleaner replaces segments; the broker appends only to the newest one, which is harmless."""
    segments = [segment for segment in part.partition.segments if segment.log.path == part.file]
    if any(not segment.is_newest and segment.log.mtime_ns != source.fingerprint.mtime_ns for segment in segments):
        raise SegmentChanged("changed", file=part.file, detail="it was replaced or written to meanwhile; stop the broker first")


def note_taken(noted: list[Taken], added: Taken) -> None:
    """Add to the last one if it continues there."""
    last = noted[-1] if noted else None
    if last is not None and last.file == added.file and last.position + last.length == added.position:
        noted[-1] = replace(last, length=last.length + added.length, last_offset=added.last_offset)
    else:
        noted.append(added)


def journal_files(result: SalvageResult) -> dict[str, list[bytes]]:
    """The journals of a partition by their names: for programs, and for people."""
    lines = "".join(json.dumps(event) + "\n" for event in result.events())
    text = path_text("\n".join(describe(result)) + "\n")
    name = os.path.basename(result.folder)
    return {name_beside(name, ".salvage.jsonl"): [lines.encode()], name_beside(name, ".salvage.txt"): [text.encode()]}


def describe(result: SalvageResult) -> list[str]:
    """The result for people, most important first; every line but the first is indented."""
    records = "" if result.kept_records is None else f", {plural(result.kept_records, 'record')}"
    offsets = "" if result.first_offset is None else f", offsets {result.first_offset} to {result.end_offset - 1}"
    batches, segments = plural(result.kept_batches, "batch", "batches"), plural(result.segment_count, "segment")
    lines = [f"{result.name}", f"  kept {batches}{records}, {result.kept_bytes} bytes in {segments}{offsets}"]
    for dropped in result.report.dropped:
        lines.append(f"  dropped {dropped.length} bytes: {dropped.message}")
    for tail in result.report.tails:
        lines.append(f"  tail of {tail.length} bytes left out (not damage: not yet written, or cut short): {tail.message}")
    lines += [f"  not read: {message}" for message in result.report.unread]
    if result.report.unread:
        lines.append("  so it is not whole: do not put it in the place of the original")
    for filled in result.filled:
        offsets = f"{filled.first_offset} to {filled.last_offset}"
        lines.append(f"  filled offsets {offsets} from byte {filled.position} of {filled.file}")
    for taken in result.unverified:
        offsets = f"{taken.first_offset} to {taken.last_offset}"
        lines.append(
            f"  kept unverified offsets {offsets} from byte {taken.position} of {taken.file}: they may be part of a value"
        )
    for lost in result.lost:
        last = "an unknown end" if lost.last_offset is None else lost.last_offset
        lines.append(f"  lost offsets {lost.first_offset} to {last}, at most")
    if result.log_start_offset is not None:
        lines.append(f"  also kept records before {result.log_start_offset}, the log start offset: they had been deleted")
    return lines
