"""The state of one producer, and the state after an append.

A `ProducerState` changes only by what is in the log. An append is first applied to a `ProducerAppend`: it starts from the state
of its producer, applies the batches one by one, refuses what breaks a rule, and holds the resulting state. The log merges that
into the producer's state once the bytes are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog.errors import (
    CorruptBatch,
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from kafkalog.format.batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence
from kafkalog.format.control import ABORT, COMMIT, EndTxnMarker, decode_control_type, decode_end_txn_marker
from kafkalog.format.java import MAX_INT16

from .offsets import AppendOrigin, OffsetMetadata

if TYPE_CHECKING:
    from .entries import Entry

MAX_PRODUCER_EPOCH: Final = MAX_INT16

BATCHES_KEPT: Final = 5  # as many requests as an idempotent producer may have in flight

# Versions of the transaction protocol: from 2 on the coordinator bumps the producer's epoch with every marker (KIP-890).
TRANSACTION_VERSION_UNKNOWN: Final = -1
EPOCH_PER_TRANSACTION: Final = 2


class BatchMetadata(NamedTuple):
    """One of the producer's last batches, kept to recognise duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction ended by the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True)
class TransactionMetadata:
    """A transaction that is open, or whose marker (at `last_offset`) is not yet below the high watermark."""

    producer_id: int
    first_offset: OffsetMetadata
    last_offset: int | None = None


class VerificationGuard:
    """A token for one question to the transaction coordinator, compared by identity."""

    __slots__ = ()


@dataclass(slots=True)
class VerificationState:
    """A producer whose transaction is being verified, and the lowest sequence number that waits for the answer."""

    timestamp: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    guard: VerificationGuard = field(default_factory=VerificationGuard)

    def note(self, sequence: int, epoch: int) -> None:
        """Another batch waits: a lower sequence blocks all above it, a newer epoch starts over."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class ProducerState:
    """A producer: its epoch, its last batches, and where its open transaction begins."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "last_timestamp", "producer_epoch", "producer_id")

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = deque(batches, BATCHES_KEPT)

    @property
    def is_empty(self) -> bool:
        """Whether no data batch of this epoch is known."""
        return not self.batches

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def without_batches(self) -> ProducerState:
        """A copy without batches."""
        return ProducerState(
            self.producer_id, self.producer_epoch, self.coordinator_epoch, self.last_timestamp, self.current_txn_first_offset
        )

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        self._enter_epoch(producer_epoch)
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        self._enter_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def update(self, later: ProducerState) -> None:
        """Merge the state after an append; its batches follow those of the same epoch."""
        self._enter_epoch(later.producer_epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.current_txn_first_offset = later.current_txn_first_offset
        self.last_timestamp = later.last_timestamp

    def find_duplicate(self, producer_epoch: int, base_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The one of the last batches with exactly these sequence numbers."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                    return batch
        return None

    def _enter_epoch(self, producer_epoch: int) -> None:
        if self.producer_epoch != producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class ProducerAppend:
    """The batches of one producer in one append, checked one by one; `state` is the producer's state after them."""

    __slots__ = ("_before", "_origin", "_verification", "started_transactions", "state")

    def __init__(self, before: ProducerState, origin: AppendOrigin, verification: VerificationState | None = None) -> None:
        self._before = before
        self._origin = origin
        self._verification = verification
        self.state = before.without_batches()
        self.started_transactions: list[TransactionMetadata] = []

    @property
    def producer_id(self) -> int:
        return self.state.producer_id

    def append(
        self,
        entry: Entry,
        first_offset: OffsetMetadata | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> CompletedTransaction | None:
        """Apply a data batch or a marker; returns the transaction that it ends."""
        if entry.is_control_batch:
            record = next(iter(entry), None)
            if record is None:  # the cleaner removed the marker with all of its transaction
                return None
            marker = _end_transaction_marker(record.key, record.value)
            return self.append_marker(marker, entry.producer_epoch, entry.base_offset, record.timestamp, transaction_version)
        self.append_data(
            entry.producer_epoch,
            entry.base_sequence,
            entry.last_sequence,
            entry.max_timestamp,
            first_offset or OffsetMetadata(entry.base_offset),
            entry.last_offset,
            entry.is_transactional,
        )
        return None

    def append_data(
        self,
        producer_epoch: int,
        base_sequence: int,
        last_sequence: int,
        last_timestamp: int,
        first_offset: OffsetMetadata,
        last_offset: int,
        is_transactional: bool,
    ) -> None:
        """Apply a data batch. A transaction that it opens begins at `first_offset`."""
        offset = first_offset.offset
        self._check_epoch(producer_epoch, offset, TRANSACTION_VERSION_UNKNOWN)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(producer_epoch, base_sequence, offset)
        state = self.state
        state.add_batch(producer_epoch, BatchMetadata(last_sequence, last_offset, last_offset - offset, last_timestamp))
        if state.current_txn_first_offset is None:
            if is_transactional:
                state.current_txn_first_offset = offset
                self.started_transactions.append(TransactionMetadata(state.producer_id, first_offset))
        elif not is_transactional:
            raise InvalidTxnState(
                f"producer {state.producer_id} has a transaction open since offset {state.current_txn_first_offset}, "
                f"and the batch at offset {offset} is not transactional"
            )

    def append_marker(
        self, marker: EndTxnMarker, producer_epoch: int, offset: int, timestamp: int, transaction_version: int
    ) -> CompletedTransaction | None:
        """Apply a marker; returns the transaction that it ends, None if none was open."""
        if transaction_version == TRANSACTION_VERSION_UNKNOWN:
            if self._origin is not AppendOrigin.REPLICATION:
                raise InvalidArgument("a marker needs the transaction version of its coordinator")
            transaction_version = 0
        self._check_epoch(producer_epoch, offset, transaction_version)
        self._check_coordinator_epoch(marker, offset)
        state = self.state
        first_offset = state.current_txn_first_offset
        state.end_transaction(producer_epoch, marker.coordinator_epoch, timestamp)
        if first_offset is None:
            return None
        return CompletedTransaction(state.producer_id, first_offset, offset, not marker.commit)

    def _check_epoch(self, producer_epoch: int, offset: int, transaction_version: int) -> None:
        current = self.state.producer_epoch
        strict = transaction_version >= EPOCH_PER_TRANSACTION
        if producer_epoch > current or (producer_epoch == current and not strict):
            return
        # The coordinator may repeat a marker whose response was lost; the largest epoch cannot be bumped any further.
        if producer_epoch == current and (self.state.current_txn_first_offset is None or current == MAX_PRODUCER_EPOCH):
            return
        if self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(
                f"producer {self.producer_id} writes at offset {offset} with epoch {producer_epoch}, "
                f"{'not above' if strict else 'below'} its epoch {current}"
            )

    def _check_sequence(self, producer_epoch: int, base_sequence: int, offset: int) -> None:
        verification = self._verification
        if verification is not None:
            if base_sequence > verification.lowest_sequence:
                raise self._out_of_order(base_sequence, offset, f"{verification.lowest_sequence} still waits for verification")
            if verification.supports_epoch_bump and base_sequence != 0 and self._before.is_empty:
                raise self._out_of_order(base_sequence, offset, "the producer has no state, so it must start with 0")
        if producer_epoch != self.state.producer_epoch:
            if base_sequence != 0 and self.state.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(base_sequence, offset, f"epoch {producer_epoch} is new, so it must start with 0")
        elif self._before.producer_epoch != NO_PRODUCER_EPOCH:
            last_sequence = self._last_sequence(producer_epoch)
            if base_sequence != (0 if last_sequence == MAX_SEQUENCE else last_sequence + 1):
                raise self._out_of_order(base_sequence, offset, f"the last one was {last_sequence}")

    def _last_sequence(self, producer_epoch: int) -> int:
        if not self.state.is_empty:
            return self.state.last_sequence
        return self._before.last_sequence if producer_epoch == self._before.producer_epoch else NO_SEQUENCE

    def _out_of_order(self, base_sequence: int, offset: int, reason: str) -> OutOfOrderSequence:
        return OutOfOrderSequence(
            f"sequence number {base_sequence} of producer {self.producer_id} at offset {offset} is out of order: {reason}"
        )

    def _check_coordinator_epoch(self, marker: EndTxnMarker, offset: int) -> None:
        current = self.state.coordinator_epoch
        if marker.coordinator_epoch < current and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"the marker of producer {self.producer_id} at offset {offset} comes from a coordinator of epoch "
                f"{marker.coordinator_epoch}; one of epoch {current} has taken over"
            )


def _end_transaction_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker:
    try:
        control_type = decode_control_type(key)
        if control_type not in (ABORT, COMMIT):
            raise InvalidArgument(f"a control record of type {control_type} instead of a transaction marker")
        return decode_end_txn_marker(key, value)
    except CorruptBatch as error:
        raise InvalidRecord(str(error)) from error
