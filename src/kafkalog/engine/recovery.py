"""Recover a segment: rebuild its indexes from the entries up to the first damaged one, and cut off the rest.

The entries are replayed into producers and leader epochs. Large segments are read in windows of many entries, as long as nothing
in them is odd; the rest, and small segments, entry by entry.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkalog.errors import CorruptRecord, InvalidRecord, LogRefusal
from kafkalog.format import batch, control
from kafkalog.log.epochs import newer_epochs
from kafkalog.log.producer_replay import producer_rows
from kafkalog.segment.decode import crc_matches
from kafkalog.segment.windows import Window, WindowBuffers

from .entries import Entry, entry_at
from .file_records import iter_windows
from .leader_epochs import LeaderEpochs
from .log_segment import LogSegment
from .offsets import AppendOrigin
from .producer_state import BATCHES_KEPT
from .producers import ProducerStates

WINDOWED_BYTES: Final = 1 << 20  # below this, loading the kernels takes longer than they save


def recover_segment(segment: LogSegment, producers: ProducerStates, leader_epochs: LeaderEpochs) -> int:
    """Recover a segment; returns how many bytes were cut off."""
    recovery = _Recovery(segment, producers, leader_epochs)
    segment.reset_indexes()
    try:
        if segment.size >= WINDOWED_BYTES:
            recovery.recover_windows()
        recovery.recover_entries()
    except (CorruptRecord, InvalidRecord):
        pass  # what follows is cut off
    truncated = segment.log.truncate_to(recovery.valid_bytes)
    segment.offset_index.trim_to_valid_size()  # first: the time index may have no room for its last entry
    segment.finish_indexes()
    return truncated


class _Recovery:
    def __init__(self, segment: LogSegment, producers: ProducerStates, leader_epochs: LeaderEpochs) -> None:
        self.segment = segment
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.valid_bytes = 0
        self.indexed_position = 0

    def recover_entries(self) -> None:
        """Continue entry by entry to the end."""
        segment = self.segment
        for entry in segment.log.iter_entries(self.valid_bytes):
            entry.ensure_valid()
            segment.ensure_offset_in_range(entry.last_offset)
            segment.note_timestamp(entry)
            if self.valid_bytes - self.indexed_position > segment.index_interval_bytes:
                segment.index_entry(entry, self.valid_bytes)
                self.indexed_position = self.valid_bytes
            self.valid_bytes += entry.size
            if entry.magic >= batch.MAX_MAGIC:
                self._note_epoch(entry.partition_leader_epoch, entry.base_offset)
                self._note_producer(entry)
                self.producers.map_end_offset = entry.last_offset + 1

    def recover_windows(self) -> None:
        """Continue window by window, up to the first with an entry that would be refused."""
        for window in iter_windows(self.segment.log, WindowBuffers()):
            if not crc_matches(window, np.arange(window.count)).all() or not _has_readable_markers(window):
                return
            indexed_position = self.segment.index_in_bulk(window.entries, self.indexed_position)
            if indexed_position is None:
                return
            self.indexed_position = indexed_position
            self.valid_bytes = window.position + window.size
            self._note_batches(window)

    def _note_batches(self, window: Window) -> None:
        entries = window.entries
        batches = np.flatnonzero(entries.magic == batch.MAX_MAGIC)
        if not len(batches):
            return
        for start in newer_epochs(entries, self.leader_epochs.latest_epoch):
            self.leader_epochs.assign(*start)
        for row in producer_rows(entries, BATCHES_KEPT).tolist():
            self._note_producer(_entry(window, row))
        self.producers.map_end_offset = int(entries.last_offset[batches[-1]]) + 1

    def _note_epoch(self, leader_epoch: int, base_offset: int) -> None:
        latest = self.leader_epochs.latest_epoch
        if leader_epoch >= 0 and (latest is None or leader_epoch > latest):
            self.leader_epochs.assign(leader_epoch, base_offset)

    def _note_producer(self, entry: Entry) -> None:
        if not entry.has_producer_id:
            return
        append = self.producers.prepare_update(entry.producer_id, AppendOrigin.REPLICATION)
        completed = append.append(entry)
        self.producers.update(append)
        if completed is not None:
            self.segment.update_transaction_index(completed, self.producers.last_stable_offset(completed))
            self.producers.complete_transaction(completed)


def _has_readable_markers(window: Window) -> bool:
    """Whether every control batch of a producer is a transaction marker: recovery ends at one that is not."""
    entries = window.entries
    rows = np.flatnonzero((entries.attributes & batch.CONTROL != 0) & (entries.producer_id >= 0))
    if not np.isin(entries.control_type[rows], (control.ABORT, control.COMMIT)).all():
        return False
    try:
        for row in rows.tolist():
            next(iter(_entry(window, row)))
    except LogRefusal:
        return False
    return bool((entries.coordinator_epoch[rows] >= 0).all())


def _entry(window: Window, row: int) -> Entry:
    position = int(window.entries.position[row])
    return entry_at(window.data.data, position - window.position, position)
