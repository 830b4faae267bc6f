"""What compaction keeps: the decision for an entry by its header, and the one for each of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog.errors import CorruptBatch, InvalidRecord
from kafkalog.format.control import decode_control_type

from ..entries import Entry
from ..entry_records import Record
from ..transaction_index import AbortedTransaction, TransactionIndex
from .cleaned_transactions import CleanedTransactions
from .offset_map import OffsetMap

# What becomes of an entry of which no record is kept. DELETE: its records are not even looked at.
DELETE, RETAIN_EMPTY, DELETE_EMPTY = range(3)


class LastRecord(NamedTuple):
    """What a producer wrote last: the offset of its last data, None if the log knows only markers of it, and its epoch."""

    data_offset: int | None
    producer_epoch: int


class Decision(NamedTuple):
    """What becomes of an entry. `ends_nothing`: a marker of which all data is gone, so that its delete horizon begins."""

    retention: int
    discards_records: bool = False
    ends_nothing: bool = False
    kept_transactions: tuple[AbortedTransaction, ...] = ()


@dataclass
class CleanStats:
    """What a pass has read and written."""

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
    upper_bound_offset: int  # of the pass: the entry that ends there stays, so that the end of the log is not forgotten
    stats: CleanStats
    cleaned_index: TransactionIndex
    last_records: Mapping[int, LastRecord] = field(default_factory=dict)
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)
    retains_legacy_deletes: bool = True

    @property
    def new_horizon_ms(self) -> int:
        """Until when the deletes that are written now stay."""
        return self.now_ms + self.delete_retention_ms

    def decide(self, entry: Entry) -> Decision:
        """What becomes of the entry; transactions move on with it, so each is asked for once, in the order of the log."""
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
        """Put what the decision keeps into the index, when its entry's turn has come."""
        for transaction in decision.kept_transactions:
            self.cleaned_index.append(transaction)

    def _is_last_of_producer(self, entry: Entry) -> bool:
        """Whether the entry has to stay, if only as a header: it tells the sequence or epoch that an active producer is at."""
        last = self.last_records.get(entry.producer_id)
        if last is None or not entry.has_producer_id:
            return False
        if last.data_offset is not None:
            return entry.last_offset == last.data_offset
        return entry.is_control_batch and entry.producer_epoch == last.producer_epoch

    def keeps(self, entry: Entry, record: Record) -> bool:
        """Whether a record of data stays."""
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
    """Take the entry into the state of transactions; whether it is aborted data, or a marker of which all data is gone."""
    if entry.is_control_batch:
        return transactions.on_control(_control_type(entry), entry.producer_id, entry.last_offset)
    return entry.is_transactional and transactions.on_data(entry.producer_id, entry.last_offset)


def _control_type(entry: Entry) -> int | None:
    """The type of the first control record, None if the entry has been emptied."""
    record = next(iter(entry), None)
    if record is None:
        return None
    try:
        return decode_control_type(record.key)
    except CorruptBatch as error:
        raise InvalidRecord(f"the control batch at offset {entry.last_offset} cannot be read: {error}") from None
