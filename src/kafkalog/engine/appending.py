"""Append a set of entries: checked, stamped with offsets, held against what is known of its producers, written, taken note of.

The order of these steps is Kafka's, and shows: an append that is refused late has begun its epoch and rolled the log already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog.errors import RecordBatchTooLarge, RecordTooLarge, UnexpectedAppendOffset
from kafkalog.format.batch import CODEC_NAMES
from kafkalog.format.java import MAX_INT32
from kafkalog.storage.fs import Buffer

from .analysis import UNKNOWN_OFFSET, AppendInfo, analyze
from .entries import Entry, iter_entries
from .log_segment import LogSegment
from .offsets import AppendOrigin, OffsetMetadata
from .producer_checks import ProducerAnalysis, analyze_producers
from .producer_state import VerificationGuard
from .validation import Rules, validate

if TYPE_CHECKING:
    from .partition_log import PartitionLog

MAX_OFFSET_DELTA: Final = MAX_INT32


@dataclass(slots=True)
class AppendResult:
    """Where a set went; of a duplicate, where it went the first time, with its timestamp as append time.

    Offsets are -1 if nothing was appended. The first offset of a replicated v0 or v1 set is not known, so -1.
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


@dataclass(slots=True)
class AppendRequest:
    """Who appends, and with what rights."""

    origin: AppendOrigin
    leader_epoch: int
    verification: VerificationGuard | None
    transaction_version: int

    @property
    def assigns_offsets(self) -> bool:
        """Whether the log gives the offsets; Raft and replication come with them."""
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
    """Append entries that this leader made itself: with their offsets and its epoch, and by its rules."""
    limit = log.config.max_message_bytes
    info = analyze(data, AppendOrigin.COORDINATOR, request.leader_epoch, max_message_bytes=limit, offsets_assigned=True)
    info.log_start_offset = log.log_start_offset
    with log.guard.doing("appending"):
        log.local_log.check_open()
        return _append_valid(log, _with_offsets(log, memoryview(data), info), info, request)


def _assign_offsets(log: PartitionLog, data: memoryview, info: AppendInfo, request: AppendRequest) -> Buffer:
    """The entries of a leader's append with their offsets, as they are stored."""
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
    """Entries that have their offsets already, which have to be behind the end of the log."""
    first = info.first_or_last_offset_of_first_batch
    if first < log.log_end_offset:
        raise UnexpectedAppendOffset(f"{log.folder}: a set that begins at offset {first} cannot follow {log.log_end_offset}")
    return data


def _append_valid(log: PartitionLog, records: Buffer, info: AppendInfo, request: AppendRequest) -> AppendResult:
    entries = list(iter_entries(records))
    _note_leader_epochs(log, entries)
    if len(records) > log.config.segment_bytes:
        raise RecordBatchTooLarge(f"{log.folder}: {len(records)} bytes do not fit into a segment of {log.config.segment_bytes}")
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
        elif log.leader_epochs:  # formats without epochs: what is known of epochs is true no more
            log.leader_epochs.clear_and_flush()


def _roll_if_needed(log: PartitionLog, size: int, info: AppendInfo) -> LogSegment:
    active = log.active_segment
    if not active.should_roll(log.config, size, info.max_timestamp, info.last_offset):
        return active
    # The first offset of a v0 or v1 set is known to nobody before it is decompressed; it is not further away than this.
    first_offset = info.last_offset - MAX_OFFSET_DELTA if info.first_offset == UNKNOWN_OFFSET else info.first_offset
    return log.roll(first_offset)


def note_producers(log: PartitionLog, segment: LogSegment, analysis: ProducerAnalysis, last_offset: int) -> None:
    """Take over what an append that is written means for producers and their transactions."""
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
