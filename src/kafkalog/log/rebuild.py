"""Rebuild the files beside a log from its batches, byte for byte as Kafka's own recovery does.

Recovery replays segment after segment. For each it makes the `.index`, the `.timeindex` and, if a transaction was aborted there,
the `.txnindex`; between two it writes what it knows of the producers into a `.snapshot` and reads it back, which forgets those
that have been silent for too long. It ends at the first damage. Leader epochs are those of the checkpoint, and newer ones of
batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkalog.errors import Limits, SegmentError, TornTail
from kafkalog.format import batch, control
from kafkalog.format.checkpoint import EpochStart, encode_leader_epoch_checkpoint
from kafkalog.format.entry_table import EntryHeader, EntryTable, Ints
from kafkalog.format.index import encode_txn_index
from kafkalog.format.java import HashMap
from kafkalog.format.names import LEADER_EPOCH_CHECKPOINT, segment_file_name
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES, IndexBuilder
from kafkalog.segment.decode import crc_error, crc_matches
from kafkalog.segment.windows import SegmentWalk, WindowBuffers
from kafkalog.storage.store import ByteSource

from .partition import Partition, Segment
from .producer_replay import NONE, ProducerState
from .report import ReadReport

DAY_MS = 24 * 60 * 60 * 1000
Files = dict[str, bytes]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class RebuildOptions:
    """The settings of the broker that the files are for. Without a time of its recovery, no producer is forgotten."""

    index_interval_bytes: int = DEFAULT_INTERVAL_BYTES
    now_ms: int | None = None
    producer_id_expiration_ms: int = DAY_MS


class ProducerReplay:
    """Producers as recovery sees them, and the transactions that were aborted on the way."""

    def __init__(self, options: RebuildOptions) -> None:
        self.options = options
        self.states: HashMap[ProducerState] = HashMap()
        self.open: dict[int, int] = {}  # producer id: where its transaction begins
        self.aborted: list[tuple[int, int, int, int]] = []

    def clear(self) -> None:
        self.states = HashMap()
        self.open.clear()

    def reload(self) -> None:
        """What is left after a snapshot was written and read again, into a new map: recovery has one for each segment."""
        before, self.states = self.states, HashMap()
        for state in before:
            if not self._is_expired(state):
                self.states.put(state.producer_id, state)

    def _is_expired(self, state: ProducerState) -> bool:
        now = self.options.now_ms
        silent = now is not None and now - state.last_timestamp_ms >= self.options.producer_id_expiration_ms
        return silent and state.current_transaction_first_offset == NONE

    def snapshot(self) -> bytes:
        stored = [tuple(vars(state).values()) for state in self.states]
        return encode_snapshot(np.array(stored, PRODUCERS))

    def replay(self, entries: EntryTable) -> None:
        rows = np.flatnonzero((entries.producer_id >= 0) & (entries.magic == 2))
        plain = not (entries.attributes[rows] & (batch.TRANSACTIONAL | batch.CONTROL)).any()
        if plain:  # then only the last batch of each producer counts
            rows = self._last_of_each(entries, rows)
        for header in entries[rows]:
            self._take(header)

    def _last_of_each(self, entries: EntryTable, rows: Ints) -> Ints:
        producers, first = np.unique(entries.producer_id[rows], return_index=True)
        last = len(rows) - 1 - np.unique(entries.producer_id[rows[::-1]], return_index=True)[1]
        for producer_id in producers[np.argsort(first)].tolist():
            self._state(producer_id)
        return rows[last]

    def _state(self, producer_id: int) -> ProducerState:
        state = self.states.entries.get(producer_id)
        if state is None:
            state = ProducerState(producer_id)
            self.states.put(producer_id, state)
        return state

    def _take(self, header: EntryHeader) -> None:
        producer_id = header.producer_id
        state = self._state(producer_id)
        state.take(header, emptied_opens=True)
        if state.current_transaction_first_offset != NONE:
            self.open[producer_id] = state.current_transaction_first_offset
        elif producer_id in self.open:
            first = self.open.pop(producer_id)
            if header.control_type == control.ABORT:
                marker = header.base_offset
                self.aborted.append((producer_id, first, marker, min(self.open.values(), default=marker + 1)))


class EpochReplay:
    """The leader epochs of a checkpoint, with those of batches that are newer."""

    def __init__(self, known: Sequence[EpochStart]) -> None:
        self.starts = list(known)

    def replay(self, entries: EntryTable) -> None:
        epochs = np.where(entries.magic == 2, entries.leader_epoch, -1)
        latest = self.starts[-1].epoch if self.starts else -1
        rises = np.diff(np.maximum.accumulate(np.maximum(epochs, latest)), prepend=latest) > 0
        for row in np.flatnonzero(rises).tolist():
            self._assign(EpochStart(int(epochs[row]), int(entries.base_offset[row])))

    def _assign(self, start: EpochStart) -> None:
        while self.starts and (self.starts[-1].epoch >= start.epoch or self.starts[-1].start_offset >= start.start_offset):
            self.starts.pop()
        self.starts.append(start)

    def within(self, start_offset: int, end_offset: int) -> list[EpochStart]:
        """The epochs of a log that begins and ends there."""
        starts = [start for start in self.starts if start.start_offset < end_offset]
        before = [start for start in starts if start.start_offset <= start_offset]
        return [*(EpochStart(start.epoch, start_offset) for start in before[-1:]), *starts[len(before) :]]


class SideFileBuilder:
    """Takes the headers of a partition, segment by segment; gives out the files beside its logs as they become known."""

    def __init__(self, options: RebuildOptions, log_start_offset: int = 0, epochs: Sequence[EpochStart] = ()) -> None:
        self.options = options
        self.log_start_offset = log_start_offset
        self.producers = ProducerReplay(options)
        self.epochs = EpochReplay(epochs)
        self.end_offset = 0
        self._replayed_offset = 0  # where the last v2 batch ended
        self._snapshot_offset = log_start_offset

    def begin(self, base_offset: int) -> Files:
        """Go on to the segment of this base offset; the snapshot that belongs to it."""
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
        self.epochs.replay(entries)
        self.end_offset = int(entries.last_offset[-1]) + 1
        batches = np.flatnonzero(entries.magic == 2)
        if len(batches):
            self._replayed_offset = int(entries.last_offset[batches[-1]]) + 1

    def end(self) -> Files:
        """The index files of the segment; a .txnindex only if it is not empty."""
        files = {"index": self.index.offset_index(), "timeindex": self.index.time_index()}
        if self.producers.aborted:
            files["txnindex"] = encode_txn_index(self.producers.aborted)
        return {segment_file_name(self.base_offset, kind): content for kind, content in files.items()}

    def finish(self) -> Files:
        """The snapshot at the end of the log, and the leader epochs; brokers leave their file empty until there is one."""
        files = self._snapshot(self.end_offset)
        starts = self.epochs.within(self.log_start_offset, self.end_offset)
        files[LEADER_EPOCH_CHECKPOINT] = encode_leader_epoch_checkpoint(starts) if self.epochs.starts else b""
        return files

    def _snapshot(self, offset: int) -> Files:
        if self._replayed_offset != offset:  # recovery wrote one where the batches end, and reads it to write this one
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
    """The files beside the logs of a partition, up to its first damage, which the report then names.

    `progress` is told how many more bytes are done.
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
    """Feed the intact entries at the start of a segment to the builder; what is wrong behind them."""
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
