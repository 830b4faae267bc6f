"""The entries of partitions as stored: headers and, on request, checksums and the first offsets of compressed v0/v1 sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import SegmentError, StorageError, TornTail
from kafkalog.format.entry_table import EntryTable
from kafkalog.segment.decode import RecordDecoder, RecordRange, crc_error, crc_matches
from kafkalog.segment.salvage import SalvageWalk
from kafkalog.segment.windows import SegmentWalk, Window, WindowBuffers
from kafkalog.storage.store import ByteSource

from .entry_order import header_bases
from .partition import Partition, Segment
from .reading import ReadOptions, SegmentPlacement, explain_end, open_log, torn_by_crash
from .report import ReadReport


@dataclass
class BatchHeaders:
    """Entries of one file. `base_offsets` is -1 where unknown, `crc_valid` None unless requested."""

    partition: Partition
    file: str
    entries: EntryTable
    base_offsets: NDArray[np.int64]
    crc_valid: NDArray[np.bool_] | None = None

    def rows(self, kept: NDArray[np.bool_]) -> BatchHeaders:
        """Some of the entries."""
        valid = self.crc_valid[kept] if self.crc_valid is not None else None
        return BatchHeaders(self.partition, self.file, self.entries[kept], self.base_offsets[kept], valid)


def read_batches(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[BatchHeaders]:
    """The entries of each partition in turn. A wrong checksum only shows in a column here; lost framing is damage."""
    for partition in partitions:
        yield from _PartitionBatches(partition, options, report).run()


class _PartitionBatches:
    def __init__(self, partition: Partition, options: ReadOptions, report: ReadReport) -> None:
        self.partition = partition
        self.options = options
        self.report = report
        self.strict = options.on_damage == "strict"
        self.check_crcs = options.check_crcs and self.strict
        self.want_crc = self.check_crcs or "crc_valid" in options.columns
        self.want_bases = "base_offset" in options.columns
        self.decoder = RecordDecoder(
            RecordRange(), options.limits, frozenset({"offset"}), check_crcs=False, stop_at_problem=False
        )

    def run(self) -> Iterator[BatchHeaders]:
        wanted = self.options.record_range
        for segment in self.partition.segments_from(wanted.start_offset):
            if segment.base_offset > wanted.last_offset:
                return
            try:
                with open_log(self.partition, segment, self.options, self.report) as source:
                    for found in self._read_segment(segment, source):
                        kept = self._within(found)
                        self.report.kept_batches += len(kept.entries)
                        self.report.kept_bytes += int(kept.entries.size.sum())
                        if len(kept.entries):
                            yield kept
            except StorageError as error:
                if self.strict:
                    raise
                self.report.leave_unread(error)

    def _read_segment(self, segment: Segment, source: ByteSource) -> Iterator[BatchHeaders]:
        if self.options.on_damage == "salvage":
            yield from self._salvage(segment, source)
            return
        walk = SegmentWalk(source, segment.start_position, segment.stop_in(source), self.options.limits)
        if self.want_crc:
            buffers = WindowBuffers()
            for window in walk.windows(buffers):
                found = self._with_crc(window)
                yield self._without_damage(found, window, segment, source) if self.check_crcs else found
                buffers.give_back(window)
        else:
            for entries in walk.headers():
                yield BatchHeaders(self.partition, source.path, entries, self._bases(source, entries))
        if walk.problem is not None:
            self._handle(segment, explain_end(segment, source, walk.problem, self.options.limits))

    def _with_crc(self, window: Window) -> BatchHeaders:
        valid = crc_matches(window, np.arange(window.count))
        entries = window.entries.copy()
        return BatchHeaders(self.partition, window.file, entries, self._decoded_bases(window, header_bases(entries)), valid)

    def _without_damage(self, found: BatchHeaders, window: Window, segment: Segment, source: ByteSource) -> BatchHeaders:
        """The same if every checksum of the range matches; raises the first damage. A torn last entry is left out."""
        assert found.crc_valid is not None
        bad = np.flatnonzero(~found.crc_valid & self._rows_within(found))
        for row in bad.tolist():
            self._handle(segment, torn_by_crash(crc_error(window, row), segment.stop_in(source)))
        return found.rows(found.crc_valid) if len(bad) else found

    def _salvage(self, segment: Segment, source: ByteSource) -> Iterator[BatchHeaders]:
        start, stop = segment.start_position, segment.stop_in(source)
        placement = SegmentPlacement(self.partition, segment, self.options, skipped=start > 0)
        buffers = WindowBuffers()
        for salvaged in SalvageWalk(source, start, stop, self.options.limits, placement).windows(buffers):
            if salvaged.window is not None:
                entries = salvaged.window.entries[salvaged.entries]
                bases = self._decoded_bases(salvaged.window, header_bases(salvaged.window.entries))[salvaged.entries]
                yield BatchHeaders(self.partition, source.path, entries, bases, np.ones(len(entries), np.bool_))
                buffers.give_back(salvaged.window)
            for problem in salvaged.problems:
                self._handle(segment, problem)

    def _bases(self, source: ByteSource, entries: EntryTable) -> NDArray[np.int64]:
        """First offsets; those of compressed v0/v1 sets are read from the sets themselves, if the column is requested."""
        bases = header_bases(entries)
        if self.want_bases:
            for row in np.flatnonzero(bases < 0).tolist():
                position, size = int(entries.position[row]), int(entries.size[row])
                data = np.frombuffer(source.read(position, size), np.uint8)
                window = Window(source.path, position, data, entries.only(row), 1)
                bases[row] = self._decoded_bases(window, bases[row : row + 1])[0]
        return bases

    def _decoded_bases(self, window: Window, bases: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = np.flatnonzero(bases < 0)
        if self.want_bases and len(rows):
            bases = bases.copy()
            for decoded, _ in self.decoder.decode_in_parts(window, rows):
                for group in decoded.groups:
                    bases[group.entries] = group.first_offsets
        return bases

    def _within(self, found: BatchHeaders) -> BatchHeaders:
        """Only the entries that may hold offsets of the range."""
        rows = self._rows_within(found)
        return found if rows.all() else found.rows(rows)

    def _rows_within(self, found: BatchHeaders) -> NDArray[np.bool_]:
        wanted = self.options.record_range
        last = found.entries.last_offset
        first = np.where(found.base_offsets < 0, last, found.base_offsets)
        rows: NDArray[np.bool_] = (last >= wanted.start_offset) & (first <= wanted.last_offset)
        return rows

    def _handle(self, segment: Segment, error: SegmentError) -> None:
        if isinstance(error, TornTail) and segment.is_newest:
            self.report.end_at_tail(error)
        elif self.strict:
            raise error
        else:
            self.report.drop(error)
