"""What an append means for its producers, before it is written: duplicates, verification, and the state that follows.

A batch of a transaction is taken only if the coordinator knows of that transaction: either it is open already, or the caller has
a guard, got before the coordinator was asked. A marker written meanwhile makes the guard void, so no record slips in behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkalog.errors import InvalidProducerEpoch, InvalidTxnState
from kafkalog.format.java import NewestFirstMap

from .entries import Entry
from .offsets import AppendOrigin, OffsetMetadata
from .producer_state import BatchMetadata, CompletedTransaction, ProducerAppend, VerificationGuard
from .producers import ProducerStates


@dataclass
class ProducerAnalysis:
    """The appends to be taken over once the bytes are written, or the batch that was appended before."""

    appends: NewestFirstMap[ProducerAppend] = field(default_factory=NewestFirstMap)
    completed: list[CompletedTransaction] = field(default_factory=list)
    duplicate: BatchMetadata | None = None


def analyze_producers(
    producers: ProducerStates,
    entries: Iterable[Entry],
    append_at: OffsetMetadata,
    origin: AppendOrigin,
    guard: VerificationGuard | None,
    transaction_version: int,
) -> ProducerAnalysis:
    """Check entries that will be written at `append_at`. The analysis ends at the first duplicate."""
    analysis = ProducerAnalysis()
    position = append_at.position
    for entry in entries:
        if entry.has_producer_id:
            if origin is AppendOrigin.CLIENT:
                analysis.duplicate = _find_duplicate(producers, entry)
                if analysis.duplicate is not None:
                    return analysis
            if origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR) and entry.is_transactional:
                _check_transaction(producers, entry, guard)
            # Where a transaction begins is kept, so that the last stable offset needs no search.
            first_offset = None
            if entry.is_transactional:
                first_offset = OffsetMetadata(entry.base_offset, append_at.segment_base_offset, position)
            completed = producers.update_producers(entry, analysis.appends, first_offset, origin, transaction_version)
            if completed is not None:
                analysis.completed.append(completed)
        position += entry.size
    return analysis


def has_ongoing_transaction(producers: ProducerStates, producer_id: int, producer_epoch: int) -> bool:
    """Whether the producer has an open transaction of this epoch; with a newer one, the transaction may have ended."""
    state = producers.last_entry(producer_id)
    return state is not None and state.current_txn_first_offset is not None and state.producer_epoch == producer_epoch


def start_verification(
    producers: ProducerStates, producer_id: int, sequence: int, producer_epoch: int, supports_epoch_bump: bool
) -> VerificationGuard | None:
    """A guard for the producer's next batch; None if its transaction is open, so that it needs none."""
    _check_epoch(producers, producer_id, producer_epoch)
    if has_ongoing_transaction(producers, producer_id, producer_epoch):
        return None
    return producers.create_verification(producer_id, sequence, producer_epoch, supports_epoch_bump).guard


def _find_duplicate(producers: ProducerStates, entry: Entry) -> BatchMetadata | None:
    state = producers.last_entry(entry.producer_id)
    return None if state is None else state.find_duplicate(entry.producer_epoch, entry.base_sequence, entry.last_sequence)


def _check_transaction(producers: ProducerStates, entry: Entry, guard: VerificationGuard | None) -> None:
    if has_ongoing_transaction(producers, entry.producer_id, entry.producer_epoch):
        return
    _check_epoch(producers, entry.producer_id, entry.producer_epoch)
    if producers.settings.transaction_verification and not entry.is_control_batch:
        verification = producers.verification(entry.producer_id)
        if verification is None or verification.guard is not guard:
            raise InvalidTxnState(f"the coordinator was not asked whether producer {entry.producer_id} has an open transaction")


def _check_epoch(producers: ProducerStates, producer_id: int, producer_epoch: int) -> None:
    state = producers.last_entry(producer_id)
    if state is not None and producer_epoch < state.producer_epoch:
        raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer_epoch}, below its epoch {state.producer_epoch}")
