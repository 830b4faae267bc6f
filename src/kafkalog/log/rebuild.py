"""Rebuild the index, snapshot and checkpoint files of a partition from its batches, byte for byte as Kafka's own recovery does.

Recovery replays segment after segment. For each it writes the `.index`, the `.timeindex` and, if a transaction was aborted there,
the `.txnindex`; between two it writes the producers into a `.snapshot` and reads it back, which drops those that have been silent
for too long. It ends at the first damage. Leader epochs are those of the checkpoint, and newer ones of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkalog.errors import Limits, SegmentError, TornTail
from kafkalog.format.checkpoint import EpochStart, encode_leader_epoch_checkpoint
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.index import encode_txn_index
from kafkalog.format.names import LEADER_EPOCH_CHECKPOINT, segment_file_name
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES, IndexBuilder
from kafkalog.segment.decode import crc_error, crc_matches
from kafkalog.segment.windows import SegmentWalk, WindowBuffers
from kafkalog.storage.store import ByteSource

from .epochs import assign_epoch, epochs_between, newer_epochs
from .partition import Partition, Segment
from .producer_replay import PRODUCER_ID_EXPIRATION_MS, ProducerReplay
from .report import ReadReport

Files = dict[str, bytes]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class RebuildOptions:
    """Settings of the broker that the files are for. Without `now_ms`, the time of its recovery, no producer expires."""

    index_interval_bytes: int = DEFAULT_INTERVAL_BYTES
    now_ms: int | None = None
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS


class SideFileBuilder:
    """Builds the index, snapshot and checkpoint files of a partition from its headers, segment by segment."""

    def __init__(self, options: RebuildOptions, log_start_offset: int = 0, epochs: Sequence[EpochStart] = ()) -> None:
        self.options = options
        self.log_start_offset = log_start_offset
        self.producers = ProducerReplay(options.now_ms, options.producer_id_expiration_ms)
        self.epochs: list[EpochStart] = []
        for start in epochs:
            assign_epoch(self.epochs, start)
        self.end_offset = 0
        self._replayed_offset = 0  # where the last v2 batch ends
        self._snapshot_offset = log_start_offset

    def begin(self, base_offset: int) -> Files:
        """Start the segment of this base offset; returns the snapshot that belongs to it."""
        self.base_offset = base_offset
        self.index = IndexBuilder(base_offset, self.options.index_interval_bytes)
        files = self._snapshot(base_offset) if self.end_offset else {}
        if base_offset <= self.log_start_offset:
            self.producers.clear()
        self.producers.aborted.clear()
        self.end_offset = max(self.end_offset, base_offset)
        self._replayed_offset = base_offset
        return files

    def add(self, entries: EntryTable) -> None:
        if not len(entries):
            return
        self.index.add(entries)
        self.producers.replay(entries)
        for start in newer_epochs(entries, self.epochs[-1].epoch if self.epochs else None):
            assign_epoch(self.epochs, start)
        self.end_offset = int(entries.last_offset[-1]) + 1
        batches = np.flatnonzero(entries.magic == 2)
        if len(batches):
            self._replayed_offset = int(entries.last_offset[batches[-1]]) + 1

    def end(self) -> Files:
        """The index files of the segment; a .txnindex only if it is not empty."""
        files = {"index": self.index.offset_index(), "timeindex": self.index.time_index()}
        aborted = self.producers.aborted
        if aborted:
            rows = [(each.producer_id, each.first_offset, each.marker_offset, each.last_stable_offset) for each in aborted]
            files["txnindex"] = encode_txn_index(rows)
        return {segment_file_name(self.base_offset, kind): content for kind, content in files.items()}

    def finish(self) -> Files:
        """The snapshot at the end of the log, and the leader epochs; brokers leave that file empty until there is one."""
        files = self._snapshot(self.end_offset)
        starts = epochs_between(self.epochs, self.log_start_offset, self.end_offset)
        files[LEADER_EPOCH_CHECKPOINT] = encode_leader_epoch_checkpoint(starts) if self.epochs else b""
        return files

    def _snapshot(self, offset: int) -> Files:
        if self._replayed_offset != offset:  # recovery writes one where the batches end, and reads it back to write this one
            self.producers.reload()
        files = {}
        if offset > self._snapshot_offset:
            files[segment_file_name(offset, "snapshot")] = self.producers.snapshot()
            self._snapshot_offset = offset
        self.producers.reload()
        return files


def rebuild(
    partition: Partition, options: RebuildOptions, limits: Limits, report: ReadReport, progress: Progress | None = None
) -> Iterator[Files]:
    """The rebuilt files of a partition, up to its first damage, which is added to the report.

    `progress` is called with the number of bytes just done.
    """
    builder = SideFileBuilder(options, partition.log_start_offset or 0, partition.epochs)
    for segment in partition.segments:
        yield builder.begin(segment.base_offset)
        with partition.open_log(segment) as source:
            problem = _replay(source, builder, limits, report, progress)
        yield builder.end()
        if problem is not None:
            _note(problem, segment, report)
            break
    yield builder.finish()


def _replay(
    source: ByteSource, builder: SideFileBuilder, limits: Limits, report: ReadReport, progress: Progress | None
) -> SegmentError | None:
    """Feed the intact entries at the start of a segment to the builder; returns what is wrong after them."""
    walk = SegmentWalk(source, 0, source.size, limits)
    buffers = WindowBuffers()
    for window in walk.windows(buffers):
        damaged = np.flatnonzero(~crc_matches(window, np.arange(window.count)))
        valid = int(damaged[0]) if len(damaged) else window.count
        builder.add(window.entries[:valid])
        report.kept_batches += valid
        report.kept_bytes += int(window.entries.size[:valid].sum())
        if progress is not None:
            progress(window.size)
        if valid < window.count:
            return crc_error(window, valid)
        buffers.give_back(window)
    return walk.problem


def _note(problem: SegmentError, segment: Segment, report: ReadReport) -> None:
    if isinstance(problem, TornTail) and segment.is_newest:
        report.end_at_tail(problem)
    else:
        report.drop(problem)
