"""Producers replayed from batch headers, as a broker rebuilds them: the content of a `.snapshot` at the end of the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kafkalog.errors import Limits
from kafkalog.format import batch, control
from kafkalog.format.batch import last_sequence
from kafkalog.format.entry_table import EntryHeader, EntryTable, Ints
from kafkalog.format.java import HashMap
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot

from .partition import Partition
from .report import ReadReport
from .segments import iter_headers
from .transactions import Transaction, TransactionReplay

NONE: Final = -1
PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000  # Kafka's default


def producer_rows(entries: EntryTable, batches_kept: int = 1) -> Ints:
    """The rows that decide the state of producers; see `decisive_rows`."""
    return decisive_rows(entries, np.flatnonzero((entries.producer_id >= 0) & (entries.magic == 2)), batches_kept)


def decisive_rows(entries: EntryTable, rows: Ints, batches_kept: int = 1) -> Ints:
    """Those of `rows` that decide the state of their producers: replaying the others as well changes nothing.

    Of each producer: markers, emptied batches, the rows next to them, the first row, and the last `batches_kept` batches of data.
    A batch inside a transaction, or outside all of them, changes nothing that the next one does not change again.
    """
    by_producer = rows[np.argsort(entries.producer_id[rows], kind="stable")]
    producers, attributes = entries.producer_id[by_producer], entries.attributes[by_producer]
    is_control = attributes & batch.CONTROL != 0
    marks = is_control | (entries.record_count[by_producer] == 0)
    changes = (producers[1:] != producers[:-1]) | ((attributes[1:] ^ attributes[:-1]) & batch.TRANSACTIONAL != 0)
    chosen = marks.copy()
    chosen[1:] |= marks[:-1] | changes
    chosen[:-1] |= marks[1:] | changes
    chosen[:1] = chosen[-1:] = True
    if batches_kept > 1:
        data = np.flatnonzero(~is_control)
        same_later = producers[data[batches_kept:]] == producers[data[:-batches_kept]]
        chosen[np.append(data[:-batches_kept][~same_later], data[-batches_kept:])] = True
    decisive: Ints = np.sort(by_producer[chosen])
    return decisive


def is_expired(last_timestamp_ms: int, now_ms: int, expiration_ms: int, *, in_transaction: bool) -> bool:
    """Whether a broker forgets a producer: it has been silent for too long, and has no open transaction."""
    return not in_transaction and now_ms - last_timestamp_ms >= expiration_ms


def encode_producers(rows: Iterable[tuple[int, ...]]) -> bytes:
    """A snapshot with these rows: the values of a `ReplayedProducer`, in its order."""
    return encode_snapshot(np.array(list(rows), PRODUCERS))


@dataclass
class ReplayedProducer:
    """The state of a producer, with the fields of a snapshot; sequence and offset are -1 when only a marker is left of it."""

    producer_id: int
    producer_epoch: int = NONE
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    last_timestamp_ms: int = NONE
    coordinator_epoch: int = NONE
    current_transaction_first_offset: int = NONE

    def apply(self, header: EntryHeader, *, emptied_opens: bool = False) -> None:
        """Apply the next batch. One that the cleaner emptied opens a transaction only for a broker's recovery."""
        attributes = header.attributes
        if attributes & batch.CONTROL:
            if header.control_type in (control.ABORT, control.COMMIT):
                self._apply_marker(header)
            return
        self._enter_epoch(header.producer_epoch)
        base, last = header.base_offset, header.last_offset
        self.last_sequence = last_sequence(header.base_sequence, last - base)
        self.last_offset = last
        self.offset_delta = last - base
        self.last_timestamp_ms = header.max_timestamp
        opens = attributes & batch.TRANSACTIONAL and (emptied_opens or header.record_count > 0)
        if opens and self.current_transaction_first_offset == NONE:
            self.current_transaction_first_offset = base

    def _apply_marker(self, header: EntryHeader) -> None:
        self._enter_epoch(header.producer_epoch)
        self.coordinator_epoch = header.coordinator_epoch
        self.last_timestamp_ms = header.max_timestamp
        self.current_transaction_first_offset = NONE

    def _enter_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.last_sequence = self.last_offset = NONE
            self.offset_delta = 0


class ProducerReplay:
    """Producers as recovery sees them, and the transactions that were aborted. Without `now_ms` no producer expires."""

    def __init__(self, now_ms: int | None = None, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self.now_ms = now_ms
        self.expiration_ms = expiration_ms
        self.states: HashMap[ReplayedProducer] = HashMap()
        self.transactions = TransactionReplay(emptied_opens=True)
        self.aborted: list[Transaction] = []

    def clear(self) -> None:
        self.states = HashMap()
        self.transactions.open.clear()

    def reload(self) -> None:
        """Keep what is left after a snapshot was written and read back, into a new map: recovery has one for each segment."""
        before, self.states = self.states, HashMap()
        for state in before:
            if not self._is_expired(state):
                self.states.put(state.producer_id, state)

    def _is_expired(self, state: ReplayedProducer) -> bool:
        in_transaction = state.current_transaction_first_offset != NONE
        return self.now_ms is not None and is_expired(
            state.last_timestamp_ms, self.now_ms, self.expiration_ms, in_transaction=in_transaction
        )

    def snapshot(self) -> bytes:
        return encode_producers(tuple(vars(state).values()) for state in self.states)

    def replay(self, entries: EntryTable) -> None:
        decisive = entries[producer_rows(entries)]
        for header in decisive:
            state = self.states.entries.get(header.producer_id)
            if state is None:
                state = ReplayedProducer(header.producer_id)
                self.states.put(header.producer_id, state)
            state.apply(header, emptied_opens=True)
        self.transactions.replay([decisive])
        self.aborted += [ended for ended in self.transactions.finished if ended.state == "aborted"]
        self.transactions.finished.clear()


def replay_producers(partition: Partition, limits: Limits, unread: ReadReport | None = None) -> tuple[int, list[dict[str, Any]]]:
    """(the offset after the last entry, every producer's state there, by producer id). Nothing expires in a replay."""
    states: dict[int, ReplayedProducer] = {}
    end_offset = 0
    for _, entries in iter_headers(partition, limits, unread):
        end_offset = int(entries.last_offset[-1]) + 1
        for header in entries[producer_rows(entries)]:
            states.setdefault(header.producer_id, ReplayedProducer(header.producer_id)).apply(header)
    return end_offset, [vars(states[producer_id]) for producer_id in sorted(states)]
