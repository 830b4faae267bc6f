"""What compaction keeps: the decision for an entry by its header and transaction, and that for each of its records."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.errors import CorruptBatch, InvalidRecord
from kafkalog.format.control import ABORT, COMMIT, decode_control_type

from ..entries import Entry
from ..entry_records import Record
from ..transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from .offset_map import OffsetMap


class CleanedTransactions:
    """The state of transactions while the log is walked: decides which aborted data and which markers may be dropped."""

    def __init__(self) -> None:
        self._kept: list[AbortedTransaction] = []
        self._ongoing_committed: set[int] = set()
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()  # producers whose aborted transaction had a batch
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []
        self._numbers = itertools.count()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the transactions of a segment's index, before its entries are walked."""
        for transaction in transactions:
            heapq.heappush(self._waiting, (transaction.first_offset, next(self._numbers), transaction))

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Process a transactional data batch; whether it is part of an aborted transaction."""
        self._begin_up_to(last_offset)
        if producer_id in self._ongoing_aborted:
            self._with_data.add(producer_id)
            return True
        self._ongoing_committed.add(producer_id)
        return False

    def on_control(self, control_type: int | None, producer_id: int, last_offset: int) -> bool:
        """Process a control batch (type None if it is empty); whether all data of its transaction is gone, so it may go too."""
        self._begin_up_to(last_offset)
        if control_type is None:
            return True
        if control_type == ABORT:
            return self._on_abort(producer_id)
        if control_type == COMMIT:
            had_data = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not had_data
        return False

    def take_kept(self) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that ended since the last call and must stay in the index, since they still had data."""
        if not self._kept:
            return ()
        kept, self._kept = tuple(self._kept), []
        return kept

    def _on_abort(self, producer_id: int) -> bool:
        transaction = self._ongoing_aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._with_data:
            return True
        self._with_data.discard(producer_id)
        self._kept.append(transaction)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heapq.heappop(self._waiting)[2]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)


# What happens to an entry without kept records. DELETE: its records are not even read.
DELETE, RETAIN_EMPTY, DELETE_EMPTY = range(3)


class LastRecord(NamedTuple):
    """A producer's last record: the offset of its last data, None if the log has only its markers, and its epoch."""

    data_offset: int | None
    producer_epoch: int


class Decision(NamedTuple):
    """What happens to an entry. `ends_nothing`: a marker whose data is all gone, so that its delete horizon starts."""

    retention: int
    discards_records: bool = False
    ends_nothing: bool = False
    kept_transactions: tuple[AbortedTransaction, ...] = ()


@dataclass
class CleanStats:
    """Counts of what a pass has read and written."""

    map_messages_read: int = 0
    map_bytes_read: int = 0
    messages_read: int = 0
    bytes_read: int = 0
    messages_written: int = 0
    bytes_written: int = 0
    invalid_messages: int = 0  # records without a key


@dataclass
class Retention:
    """The rules of one pass, and of the segment that is being cleaned."""

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    upper_bound_offset: int  # of the pass: the entry that ends there stays, so that the log end offset is not lost
    stats: CleanStats
    cleaned_index: TransactionIndex
    last_records: Mapping[int, LastRecord] = field(default_factory=dict)
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)
    retains_legacy_deletes: bool = True

    @property
    def new_horizon_ms(self) -> int:
        """The delete horizon of tombstones written now."""
        return self.now_ms + self.delete_retention_ms

    def decide(self, entry: Entry) -> Decision:
        """Decide about the entry. This advances the state of transactions: call it once for each entry, in log order."""
        discardable = is_discardable(entry, self.transactions)
        discards = discardable
        if entry.is_control_batch:
            horizon = entry.delete_horizon_ms
            discards = discardable and horizon is not None and horizon <= self.now_ms
        if self._is_last_of_producer(entry) or entry.next_offset == self.upper_bound_offset:
            retention = RETAIN_EMPTY
        else:
            retention = DELETE if discards else DELETE_EMPTY
        return Decision(retention, discards, discardable and entry.is_control_batch, self.transactions.take_kept())

    def note(self, decision: Decision) -> None:
        """Add the transactions that the decision keeps to the index, when its entry is processed."""
        for transaction in decision.kept_transactions:
            self.cleaned_index.append(transaction)

    def _is_last_of_producer(self, entry: Entry) -> bool:
        """Whether the entry must stay, if only its header: it carries the last sequence or epoch of an active producer."""
        last = self.last_records.get(entry.producer_id)
        if last is None or not entry.has_producer_id:
            return False
        if last.data_offset is not None:
            return entry.last_offset == last.data_offset
        return entry.is_control_batch and entry.producer_epoch == last.producer_epoch

    def keeps(self, entry: Entry, record: Record) -> bool:
        """Whether a data record stays."""
        if record.offset > self.offsets.latest_offset:
            return True
        if record.key is None:
            self.stats.invalid_messages += 1
            return False
        if record.offset < self.offsets.get(record.key):
            return False
        return record.value is not None or self._keeps_deletes(entry)

    def _keeps_deletes(self, entry: Entry) -> bool:
        if entry.magic < 2:
            return self.retains_legacy_deletes
        return entry.delete_horizon_ms is None or self.now_ms < entry.delete_horizon_ms


def is_discardable(entry: Entry, transactions: CleanedTransactions) -> bool:
    """Advance the state of transactions by the entry; whether it is aborted data, or a marker whose data is all gone."""
    if entry.is_control_batch:
        return transactions.on_control(_control_type(entry), entry.producer_id, entry.last_offset)
    return entry.is_transactional and transactions.on_data(entry.producer_id, entry.last_offset)


def _control_type(entry: Entry) -> int | None:
    """The type of the first control record, None if the entry is empty."""
    record = next(iter(entry), None)
    if record is None:
        return None
    try:
        return decode_control_type(record.key)
    except CorruptBatch as error:
        raise InvalidRecord(f"the control batch at offset {entry.last_offset} cannot be read: {error}") from None
