"""Transactions of a partition, replayed from batch headers and markers: which committed, which aborted, which are open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalog.errors import Limits
from kafkalog.format import batch, control
from kafkalog.format.batch import NO_OFFSET
from kafkalog.format.entry_table import EntryHeader, EntryTable
from kafkalog.format.names import MAX_OFFSET
from kafkalog.format.quantities import plural, size_text
from kafkalog.storage.store import ByteSource

from .partition import Partition
from .report import ReadReport
from .segments import iter_headers


@dataclass
class Transaction:
    """One transaction of one producer; the marker's fields are -1 while it is open."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp_ms: int
    last_offset: int = NO_OFFSET
    last_timestamp_ms: int = -1
    batch_count: int = 0
    record_count: int = 0
    size: int = 0
    state: str = "open"
    marker_offset: int = NO_OFFSET
    marker_timestamp_ms: int = -1
    coordinator_epoch: int = -1
    last_stable_offset: int = NO_OFFSET  # when the marker was written, as a .txnindex stores it

    def add(self, header: EntryHeader) -> None:
        self.last_offset = header.last_offset
        self.last_timestamp_ms = max(self.last_timestamp_ms, header.max_timestamp)
        self.batch_count += 1
        self.record_count += header.record_count
        self.size += header.size

    def __repr__(self) -> str:
        marker = f", marker at {self.marker_offset}" if self.marker_offset != NO_OFFSET else ""
        counts = f"{plural(self.batch_count, 'batch', 'batches')}, {plural(self.record_count, 'record')}, {size_text(self.size)}"
        producer = f"producer {self.producer_id} epoch {self.producer_epoch}"
        return f"Transaction({self.state}, {producer}, offsets {self.first_offset} to {self.last_offset}{marker}, {counts})"


@dataclass
class TransactionReplay:
    """Transactions replayed from headers in log order. For a broker's recovery an emptied batch opens one as well."""

    finished: list[Transaction] = field(default_factory=list)
    open: dict[int, Transaction] = field(default_factory=dict)
    emptied_opens: bool = False

    def replay(self, tables: Iterable[EntryTable]) -> TransactionReplay:
        for entries in tables:
            involved = entries.attributes & (batch.TRANSACTIONAL | batch.CONTROL) != 0
            for header in entries[involved & (entries.magic == 2)]:
                self._apply(header)
        return self

    def _apply(self, header: EntryHeader) -> None:
        attributes = header.attributes
        if attributes & batch.CONTROL:
            self._end(header)
        elif header.record_count > 0 or self.emptied_opens:  # cleaners of 0.11 and 1.1 leave emptied batches whose marker is gone
            producer_id = header.producer_id
            transaction = self.open.get(producer_id)
            if transaction is None:
                transaction = Transaction(producer_id, header.producer_epoch, header.base_offset, header.base_timestamp)
                self.open[producer_id] = transaction
            transaction.add(header)

    def _end(self, header: EntryHeader) -> None:
        kind = header.control_type
        transaction = self.open.get(header.producer_id)
        if kind not in (control.ABORT, control.COMMIT) or transaction is None:
            return
        del self.open[transaction.producer_id]
        transaction.state = "aborted" if kind == control.ABORT else "committed"
        transaction.marker_offset = header.base_offset
        transaction.marker_timestamp_ms = header.max_timestamp
        transaction.coordinator_epoch = header.coordinator_epoch
        transaction.last_stable_offset = min(
            (other.first_offset for other in self.open.values()), default=transaction.marker_offset + 1
        )
        self.finished.append(transaction)

    @property
    def first_open_offset(self) -> int | None:
        """Where a read_committed consumer must wait, or None if no transaction is open."""
        return min((transaction.first_offset for transaction in self.open.values()), default=None)

    def aborted(self, start_offset: int = 0, stop_offset: int = MAX_OFFSET) -> AbortedRanges:
        return AbortedRanges(
            transaction
            for transaction in self.finished
            if transaction.state == "aborted"
            and transaction.marker_offset >= start_offset
            and transaction.first_offset < stop_offset
        )

    def committed(self, start_offset: int = 0, stop_offset: int = MAX_OFFSET) -> Committed:
        """The state that a reader of these offsets needs."""
        return Committed(self.aborted(start_offset, stop_offset), self.first_open_offset)

    def forget_before(self, offset: int) -> None:
        """Drop the transactions that ended below `offset`."""
        self.finished = [transaction for transaction in self.finished if transaction.marker_offset >= offset]


def replay_transactions(partition: Partition, limits: Limits, unread: ReadReport | None = None) -> TransactionReplay:
    """All transactions of the partition. A marker whose checksum does not match is ignored: its transaction stays open."""
    headers = iter_headers(partition, limits, unread)
    return TransactionReplay().replay(without_damaged_markers(source, entries) for source, entries in headers)


def without_damaged_markers(source: ByteSource, entries: EntryTable) -> EntryTable:
    """The headers except markers whose checksum does not match."""
    markers = np.flatnonzero((entries.attributes & batch.CONTROL != 0) & (entries.magic == 2))
    damaged = [
        row
        for row, header in zip(markers.tolist(), entries[markers], strict=True)
        if crc32c(source.read(header.position + batch.CRC_START, header.size - batch.CRC_START)) != header.crc
    ]
    return entries.without(damaged)


class Committed(NamedTuple):
    """State of a partition that a read_committed reader needs."""

    aborted: AbortedRanges
    first_open_offset: int | None


class AbortedRanges:
    """Which batches belong to aborted transactions."""

    def __init__(self, transactions: Iterable[Transaction]) -> None:
        ranges: dict[int, list[tuple[int, int]]] = {}
        for transaction in transactions:
            ranges.setdefault(transaction.producer_id, []).append((transaction.first_offset, transaction.marker_offset))
        self._ranges = {producer_id: np.array(sorted(found), np.int64) for producer_id, found in ranges.items()}

    def mask(self, entries: EntryTable) -> NDArray[np.bool_]:
        """True for the data batches of aborted transactions."""
        aborted = np.zeros(len(entries), np.bool_)
        candidates = (entries.attributes & (batch.TRANSACTIONAL | batch.CONTROL) == batch.TRANSACTIONAL) & (entries.magic == 2)
        producer_ids = entries.producer_id
        for producer_id in np.unique(producer_ids[candidates]).tolist():
            ranges = self._ranges.get(producer_id)
            if ranges is None:
                continue
            rows = np.flatnonzero(candidates & (producer_ids == producer_id))
            bases = entries.base_offset[rows]
            at = np.searchsorted(ranges[:, 0], bases, side="right") - 1
            aborted[rows] = (at >= 0) & (bases < ranges[np.maximum(at, 0), 1])
        return aborted
