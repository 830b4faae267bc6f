"""Append a set of entries: check it, assign offsets, check its producers, write it, and update the state of the log.

The order of these steps is Kafka's, and it shows: an append that is refused late has already begun its epoch and rolled the log.

A batch of a transaction is accepted only if the coordinator knows that transaction: either it is open already, or the caller
holds a guard obtained before the coordinator was asked. A marker that is written meanwhile voids the guard, so that no record
slips in after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog.errors import InvalidProducerEpoch, InvalidTxnState, RecordBatchTooLarge, RecordTooLarge, UnexpectedAppendOffset
from kafkalog.format.batch import CODEC_NAMES
from kafkalog.format.java import MAX_INT32, NewestFirstMap
from kafkalog.format.quantities import plural, size_text
from kafkalog.storage.fs import Buffer

from .analysis import UNKNOWN_OFFSET, AppendInfo, analyze
from .entries import Entry, iter_entries
from .log_segment import LogSegment
from .offsets import AppendOrigin, OffsetMetadata
from .producer_state import BatchMetadata, CompletedTransaction, ProducerAppend, VerificationGuard
from .producers import ProducerStates
from .validation import Rules, validate

if TYPE_CHECKING:
    from .partition_log import PartitionLog


MAX_OFFSET_DELTA: Final = MAX_INT32


@dataclass(slots=True)
class AppendResult:
    """Where a set was appended; for a duplicate, where it was appended the first time, with its timestamp as append time.

    Offsets are -1 if nothing was appended. The first offset of a replicated v0 or v1 set is not known, so it is -1 too.
    """

    first_offset: int
    last_offset: int
    last_leader_epoch: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    source_codec: str
    valid_bytes: int
    message_count: int
    records_converted: int

    def __repr__(self) -> str:
        where = f"offsets {self.first_offset} to {self.last_offset}, epoch {self.last_leader_epoch}"
        what = f"{plural(self.message_count, 'record')}, {size_text(self.valid_bytes)}, {self.source_codec!r}"
        return f"AppendResult({where}, {what})"


@dataclass(slots=True)
class AppendRequest:
    """Who appends, and on what terms."""

    origin: AppendOrigin
    leader_epoch: int
    verification: VerificationGuard | None
    transaction_version: int

    @property
    def assigns_offsets(self) -> bool:
        """Whether the log assigns the offsets; sets of a Raft leader and of replication have theirs."""
        return self.origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)

    @property
    def limits_size(self) -> bool:
        return self.origin is not AppendOrigin.REPLICATION


def append(log: PartitionLog, data: Buffer, request: AppendRequest) -> AppendResult:
    """Append the whole entries of `data`."""
    log.topic_id_file.flush()
    info = analyze(
        data,
        request.origin,
        request.leader_epoch,
        max_message_bytes=log.config.max_message_bytes if request.limits_size else None,
        offsets_assigned=not request.assigns_offsets,
    )
    info.log_start_offset = log.log_start_offset
    if info.valid_bytes <= 0:
        return _result(info)
    with log.guard.doing("appending"):
        log.local_log.check_open()
        valid = memoryview(data)[: info.valid_bytes]
        records = _assign_offsets(log, valid, info, request) if request.assigns_offsets else _with_offsets(log, valid, info)
        return _append_valid(log, records, info, request)


def append_stamped(log: PartitionLog, data: Buffer, request: AppendRequest) -> AppendResult:
    """Append entries that this leader made itself, with final offsets, its epoch, and by its rules."""
    limit = log.config.max_message_bytes
    info = analyze(data, AppendOrigin.COORDINATOR, request.leader_epoch, max_message_bytes=limit, offsets_assigned=True)
    info.log_start_offset = log.log_start_offset
    with log.guard.doing("appending"):
        log.local_log.check_open()
        return _append_valid(log, _with_offsets(log, memoryview(data), info), info, request)


def _assign_offsets(log: PartitionLog, data: memoryview, info: AppendInfo, request: AppendRequest) -> Buffer:
    """The entries of a leader's append as they are stored, with their offsets."""
    config = log.config
    info.first_offset = log.log_end_offset
    rules = Rules.of(
        config, info.source_codec, leader_epoch=request.leader_epoch, origin=request.origin, now_ms=log.clock.now_ms()
    )
    validated = validate(bytearray(data), info.source_codec, log.log_end_offset, rules)
    info.max_timestamp = validated.max_timestamp
    info.last_offset = validated.next_offset - 1
    info.records_converted = validated.records_converted
    if config.log_append_time:
        info.log_append_time = rules.now_ms
    if validated.is_rebuilt:
        for entry in iter_entries(validated.data):
            if entry.size > config.max_message_bytes:
                raise RecordTooLarge(f"a batch of {entry.size} bytes as stored; max.message.bytes is {config.max_message_bytes}")
    return validated.data


def _with_offsets(log: PartitionLog, data: memoryview, info: AppendInfo) -> Buffer:
    """Entries that have their offsets already, which must not be below the log end offset."""
    first = info.first_or_last_offset_of_first_batch
    if first < log.log_end_offset:
        raise UnexpectedAppendOffset(
            f"{log.folder}: a set that begins at offset {first} cannot be appended at {log.log_end_offset}"
        )
    return data


def _append_valid(log: PartitionLog, records: Buffer, info: AppendInfo, request: AppendRequest) -> AppendResult:
    entries = list(iter_entries(records))
    _note_leader_epochs(log, entries)
    if len(records) > log.config.segment_bytes:
        raise RecordBatchTooLarge(f"{log.folder}: {len(records)} bytes do not fit in a segment of {log.config.segment_bytes}")
    segment = _roll_if_needed(log, len(records), info)
    append_at = OffsetMetadata(info.first_or_last_offset_of_first_batch, segment.base_offset, segment.size)
    analysis = analyze_producers(
        log.producers, entries, append_at, request.origin, request.verification, request.transaction_version
    )
    if analysis.duplicate is not None:
        info.first_offset = analysis.duplicate.first_offset
        info.last_offset = analysis.duplicate.last_offset
        info.log_append_time = analysis.duplicate.timestamp
        info.log_start_offset = log.log_start_offset
        return _result(info)
    log.local_log.append(info.last_offset, records, entries)
    log.watermarks.follow_log_end()
    note_producers(log, segment, analysis, info.last_offset)
    if log.local_log.unflushed_messages >= log.config.flush_messages:
        log.flush()
    return _result(info)


def _note_leader_epochs(log: PartitionLog, entries: list[Entry]) -> None:
    for entry in entries:
        if entry.magic >= 2:
            log.leader_epochs.assign(entry.partition_leader_epoch, entry.base_offset)
        elif log.leader_epochs:  # a format without epochs: the known ones no longer describe the log
            log.leader_epochs.clear_and_flush()


def _roll_if_needed(log: PartitionLog, size: int, info: AppendInfo) -> LogSegment:
    active = log.active_segment
    if not active.should_roll(log.config, size, info.max_timestamp, info.last_offset):
        return active
    # The first offset of a v0 or v1 set is not known before it is decompressed; it cannot be lower than this.
    first_offset = info.last_offset - MAX_OFFSET_DELTA if info.first_offset == UNKNOWN_OFFSET else info.first_offset
    return log.roll(first_offset)


def note_producers(log: PartitionLog, segment: LogSegment, analysis: ProducerAnalysis, last_offset: int) -> None:
    """Update the producers and their transactions after an append was written."""
    producers = log.producers
    for producer_append in analysis.appends:
        producers.update(producer_append)
    for completed in analysis.completed:
        segment.update_transaction_index(completed, producers.last_stable_offset(completed))
        producers.complete_transaction(completed)
    producers.map_end_offset = last_offset + 1
    log.watermarks.update_first_unstable_offset()


def _result(info: AppendInfo) -> AppendResult:
    return AppendResult(
        info.first_offset,
        info.last_offset,
        info.last_leader_epoch,
        info.max_timestamp,
        info.log_append_time,
        info.log_start_offset,
        CODEC_NAMES[info.source_codec],
        info.valid_bytes,
        info.message_count,
        info.records_converted,
    )


@dataclass
class ProducerAnalysis:
    """The state changes to apply once the bytes are written, or the earlier batch that this one duplicates."""

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
    """Check the producers of entries that will be written at `append_at`, up to the first duplicate."""
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
            # The position where a transaction begins is kept, so that the last stable offset needs no search.
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
    """A guard for the producer's next batch; None if its transaction is already open, which needs none."""
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
