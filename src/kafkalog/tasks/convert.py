"""Logs re-encoded: v0 and v1 messages as v2 batches, with another codec, in other batches; offsets and timestamps stay.

A copy appears complete or not at all. In place, each segment is replaced through the file names that a broker's own compaction
uses, so that a broker or another run completes or undoes what a crash interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np

from kafkalog.codecs import codec_id
from kafkalog.engine.config import LogConfig
from kafkalog.engine.schedule import SystemClock
from kafkalog.errors import Limits, SegmentError, TornTail, UsageError
from kafkalog.format import batch, names
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.rebuild import RebuildOptions, SideFileBuilder
from kafkalog.log.report import ReadReport
from kafkalog.log.swap_segments import Replacement
from kafkalog.segment.build import IndexBuilder
from kafkalog.segment.recode import KEPT, RECOMPRESSED, REENCODED, Recoder, Recoding
from kafkalog.segment.windows import SegmentWalk, WindowBuffers
from kafkalog.storage.fs import Buffer, Fs, LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.publish import holds, sync_names
from kafkalog.storage.store import SMALL_FILE
from kafkalog.tables.choices import Names, Numbers

from .locking import NewCheckpoints, held, remove_marker, set_log_start
from .maintenance import ChangeRequest, partitions_for
from .opening import settle_interrupted
from .output import (
    COPY_BYTES,
    MAX_LOG_BYTES,
    Comparison,
    Output,
    Progress,
    folder_name,
    output_folder,
    raft_files,
    staged_copy,
    stored_bytes,
)
from .partitions import (
    PathLike,
    each_partition,
    find_index_interval,
    listed_again,
    read_metadata,
    require_listed,
    require_real_folder,
)

HEADERS_AT_ONCE = (1 << 15) - 24


@dataclass(repr=False)
class ConvertResult:
    """The result for one partition. The plan, `to_…`, is made first, from headers alone; the rest is counted during the work.

    A dry run encodes everything and writes nothing, so that it fails where the work itself would fail.
    """

    topic: str
    partition: int
    folder: str
    state: str = "not written"
    entries: int = 0
    size: int = 0
    to_encode: int = 0  # v0 and v1 messages and sets, and batches that may share a batch with others
    to_compress: int = 0
    to_keep: int = 0
    formats: dict[str, int] = field(default_factory=dict)  # how many entries of each format and codec
    segments: int = 0
    changed_segments: int = 0
    new_batches: int = 0
    new_size: int = 0
    report: ReadReport = field(default_factory=ReadReport)

    def __repr__(self) -> str:
        work = f"{self.to_encode} to re-encode, {self.to_compress} to recompress, {self.to_keep} to keep"
        size = size_text(self.size) + (f" -> {size_text(self.new_size)}" if self.new_size else "")
        entries = plural(self.entries, "entry", "entries")
        tail = f"tail of {size_text(sum(tail.length for tail in self.report.tails))} left out" if self.report.tails else ""
        return repr_text("ConvertResult", self.folder, self.state, f"{entries}: {work}", size, tail)

    @property
    def is_planned(self) -> bool:
        """Whether anything is to be done."""
        return self.to_encode + self.to_compress > 0


def convert(
    path: PathLike,
    *,
    out: PathLike | None = None,
    in_place: bool = False,
    codec: str | None = None,
    level: int | None = None,
    batch_bytes: int | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    dry_run: bool = False,
) -> list[ConvertResult]:
    """Re-encode the partitions at `path` as v2 batches, with this codec, in batches of this size; offsets and timestamps stay.

    The result goes into folders below `out`, or `in_place`. Without a codec and a size, each batch keeps its own. SegmentError at
    damage.
    """
    request = ChangeRequest(out, in_place, dry_run, topics=topics, partitions=partitions)
    recoding = Recoding(None if codec is None else codec_id(codec), level, batch_bytes)
    return list(convert_partitions(path, request, recoding))


def convert_partitions(
    path: PathLike,
    request: ChangeRequest,
    recoding: Recoding | None = None,
    *,
    index_interval_bytes: int | None = None,
    limits: Limits | None = None,
) -> Iterator[ConvertResult]:
    """Convert the partitions at `path`, one after the other; SegmentError at damage.

    A copy is not made then; in place, the segments before the damaged one are converted already.
    """

    def work(partition: Partition) -> ConvertResult:
        if partition.file is not None and request.in_place:
            raise UsageError(f"{partition.file}: give the partition's folder; its segments are converted together")
        return convert_partition(
            require_listed(partition), request, recoding or Recoding(), index_interval_bytes, limits or Limits()
        )

    yield from each_partition(partitions_for(path, request), work, request.on_failure)


def convert_partition(
    partition: Partition, request: ChangeRequest, recoding: Recoding, index_interval_bytes: int | None, limits: Limits
) -> ConvertResult:
    result = ConvertResult(partition.topic, partition.partition, partition.folder)
    if request.out is not None:
        result.folder = os.path.join(output_folder(request.out), folder_name(partition))
        if os.path.realpath(result.folder) == os.path.realpath(partition.folder):
            raise UsageError(f"--out: {result.folder} is the partition itself; choose another folder, or --in-place")
    elif isinstance(request.fs, LocalFs) and not isinstance(partition.store, LocalStore):
        raise UsageError(f"{partition.folder}: only local folders can be changed in place; give --out")
    if request.in_place:
        require_real_folder(request.fs, partition.folder)
    is_changed = request.in_place and not request.dry_run
    with held(request.fs, partition.folder) if is_changed else nullcontext():
        if is_changed:
            settle_interrupted(request.fs, partition.folder, LogConfig(), SystemClock().now_ms())
            partition = listed_again(partition)
        work = _Conversion(partition, recoding, limits, result, request.progress)
        work.interval = index_interval_bytes or find_index_interval(partition, limits)
        work.plan()
        if not request.dry_run:
            request.on_plan(result)
            (work.change_in_place if request.in_place else work.write_folder)(request.fs)
            return result
        try:
            (work.rehearse_in_place if request.in_place else work.rehearse)()
        except SegmentError:
            result.new_size = 0
            request.on_plan(result)
            raise
        request.on_plan(result)
    return result


class _Rehearsal:
    """The output of a dry run: files are made and discarded."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        for _ in parts:
            """Each is made when it is asked for."""


class _Block(NamedTuple):
    """New bytes, the segment that they belong to, and the headers of the batches in them."""

    base_offset: int
    data: bytearray
    entries: EntryTable


class _Conversion:
    interval: int

    def __init__(
        self, partition: Partition, recoding: Recoding, limits: Limits, result: ConvertResult, progress: Progress
    ) -> None:
        self.partition = partition
        self.recoding = recoding
        self.limits = limits
        self.result = result
        self.progress = progress

    # the plan

    def plan(self) -> None:
        """Count, from headers alone, what is to be done."""
        result = self.result
        for segment in self.partition.segments:
            for table in self._headers(segment):
                actions = np.bincount(self.recoding.actions(table), minlength=3)
                result.to_keep += int(actions[KEPT])
                result.to_compress += int(actions[RECOMPRESSED])
                result.to_encode += int(actions[REENCODED])
                result.entries += len(table)
                result.size += int(table.size.sum())
                _count_formats(table, result.formats)
        result.segments = len(self.partition.segments)

    def _headers(self, segment: Segment) -> Iterator[EntryTable]:
        with self.partition.open_log(segment) as source:
            walk = SegmentWalk(source, 0, source.size, self.limits)
            yield from walk.headers()
            self._require_whole(segment, walk.problem)

    def _require_whole(self, segment: Segment, problem: SegmentError | None) -> None:
        if problem is None:
            return
        if not (isinstance(problem, TornTail) and segment.is_newest):
            raise problem
        if not self.result.report.tails:
            self.result.report.end_at_tail(problem)

    # the new bytes

    def _blocks(self, segment: Segment) -> Iterator[_Block]:
        """The new log of a segment; one that would become larger than a file can be continues in another."""
        base_offset, size = segment.base_offset, 0
        yield _Block(base_offset, bytearray(), EntryTable.with_room(0))
        for data in self._recoded(segment):
            is_full = size + len(data) > MAX_LOG_BYTES
            table = _headers_of(data, 0 if is_full else size, self.limits)
            if is_full:
                base_offset, size = int(table.base_offset[0]), 0
            size += len(data)
            self.result.new_batches += len(table)
            self.result.new_size += len(data)
            yield _Block(base_offset, data, table)

    def _recoded(self, segment: Segment) -> Iterator[bytearray]:
        recoder = Recoder(self.recoding, self.limits, self._epochs_at)
        buffers = WindowBuffers()
        with self.partition.open_log(segment) as source:
            walk = SegmentWalk(source, 0, source.size, self.limits)
            for window in walk.windows(buffers):
                size = window.size
                if data := bytearray().join(recoder.recode(window)):
                    yield data
                buffers.give_back(window)
                self.progress(size)
            self._require_whole(segment, walk.problem)
        if data := bytearray().join(recoder.finish()):
            yield data

    def _epochs_at(self, offsets: Ints) -> Ints:
        """The leader epochs that the partition's checkpoint gives to these offsets, -1 where it says nothing."""
        starts = np.array([start.start_offset for start in self.partition.epochs], np.int64)
        epochs = np.array([-1, *(start.epoch for start in self.partition.epochs)], np.int64)
        found: Ints = epochs[np.searchsorted(starts, offsets, side="right")]
        return found

    # as a copy

    def write_folder(self, fs: Fs) -> None:
        result = self.result
        if fs.kind(result.folder) != "missing":
            comparison = Comparison(fs, result.folder)
            self._write(comparison)
            comparison.require_same()
            result.state = "already there"
            return
        with staged_copy(fs, result.folder, self.partition) as staged:
            self._write(staged)
            checkpoints = NewCheckpoints(fs, os.path.dirname(result.folder), self.partition.topic, self.partition.partition)
            set_log_start(checkpoints, self.partition)
            checkpoints.keep()
            staged.publish()
        result.state = "written"

    def _write(self, output: Output) -> None:
        builder = SideFileBuilder(RebuildOptions(self.interval), epochs=self.partition.epochs)
        for segment in self.partition.segments:
            for base_offset, blocks in groupby(self._blocks(segment), lambda block: block.base_offset):
                for name, content in builder.begin(base_offset).items():
                    output.write(name, [content])
                output.write(names.segment_file_name(base_offset), _fed(builder, blocks))
                for name, content in builder.end().items():
                    output.write(name, [content])
            self.result.changed_segments += 1
        files = builder.finish()
        if (metadata := read_metadata(self.partition)) is not None:
            files[names.PARTITION_METADATA] = metadata
        for name, content in files.items():
            output.write(name, [content])
        for stored in raft_files(self.partition):
            output.write(os.path.basename(stored.path), stored_bytes(self.partition, stored))

    def rehearse(self) -> None:
        """Everything that `write_folder` does, except writing."""
        self._write(_Rehearsal())

    # in place

    def rehearse_in_place(self) -> None:
        """Everything that `change_in_place` does, except writing."""
        for segment in self.partition.segments:
            if self._changes(segment):
                _Rehearsal().write("log", _indexed(IndexBuilder(segment.base_offset, self.interval), self._blocks(segment)))
                self.result.changed_segments += 1
            else:
                self.result.new_size += segment.log.size

    def _changes(self, segment: Segment) -> bool:
        return any((self.recoding.actions(table) != KEPT).any() for table in self._headers(segment))

    def change_in_place(self, fs: Fs) -> None:
        """Replace the segments that change; the caller holds the lock."""
        result = self.result
        if not result.is_planned:
            result.state = "already there"
            return
        remove_marker(fs, self.partition.folder)
        for segment in self.partition.segments:
            if self._changes(segment):
                self._replace(fs, segment)
        if result.changed_segments:
            sync_names(fs, self.partition.folder)
        result.state = "written" if result.changed_segments else "already there"

    def _replace(self, fs: Fs, segment: Segment) -> None:
        """Re-encode the segment, and replace it unless it came out the same."""
        new = Replacement(fs, self.partition.folder, segment.base_offset)
        index = IndexBuilder(segment.base_offset, self.interval)
        try:
            new.write("log", _indexed(index, self._blocks(segment)))
            if holds(fs, segment.log.path, _parts_of(fs, new.path("log", ".cleaned"))):
                new.undo()
                return
            new.write("index", [index.offset_index()])
            new.write("timeindex", [index.time_index()])
            if (aborted := segment.siblings.get("txnindex")) is not None:
                new.write("txnindex", [self.partition.store.read_small(aborted.path, SMALL_FILE)])
        except BaseException:
            new.undo()
            raise
        new.publish()  # from here on a failure leaves what a crash leaves: the next start completes it, or undoes it
        self.result.changed_segments += 1


def _fed(builder: SideFileBuilder, blocks: Iterable[_Block]) -> Iterator[bytearray]:
    for block in blocks:
        builder.add(block.entries)
        yield block.data


def _indexed(index: IndexBuilder, blocks: Iterable[_Block]) -> Iterator[bytearray]:
    for block in blocks:
        if block.base_offset != index.base_offset:
            raise UsageError(f"the segment of offset {index.base_offset} would become larger than a file can be; use --out")
        index.add(block.entries)
        yield block.data


def _parts_of(fs: Fs, path: str) -> Iterator[bytes]:
    position = 0
    while part := fs.read(path, position, COPY_BYTES):
        yield part
        position += len(part)


def _headers_of(data: bytearray, position: int, limits: Limits) -> EntryTable:
    """The headers of the batches in `data`, which will be at `position` of a file."""
    content = np.frombuffer(data, np.uint8)
    found, at = [], 0
    while at < len(content):
        table = EntryTable.with_room(HEADERS_AT_ONCE)
        _, count, end = scan.scan_window(content, at, len(content), position, limits.batch_bytes, table.fields)
        assert count, "what was just written can be read"
        found.append(table[:count])
        at = end
    return EntryTable.joined(found)


def _count_formats(table: EntryTable, formats: dict[str, int]) -> None:
    kinds = table.magic * (batch.CODEC_MASK + 1) + (table.attributes & batch.CODEC_MASK)
    for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
        magic, codec = divmod(int(kind), batch.CODEC_MASK + 1)
        name = f"v{magic} {batch.CODEC_NAMES[codec] if codec < len(batch.CODEC_NAMES) else 'unknown'}"
        formats[name] = formats.get(name, 0) + int(count)
