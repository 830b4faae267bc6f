"""Append Arrow tables: batches as a producer would make them, with the offsets, epoch and checks of the leader.

Batches are written many at a time, but rolled and indexed as if each had been appended on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog import codecs
from kafkalog.errors import InvalidRecord, InvalidTimestamp, RecordBatchTooLarge, RecordTooLarge, UsageError
from kafkalog.format.batch import CODEC_MASK, NO_TIMESTAMP, TRANSACTIONAL
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.java import MAX_INT64
from kafkalog.segment.encode import BatchFields, BatchRun, EncodeOptions, Producer, encode_messages, encode_runs

from .appending import (
    AppendRequest,
    AppendResult,
    ProducerAnalysis,
    analyze_producers,
    append_stamped,
    has_ongoing_transaction,
    note_producers,
)
from .config import LogConfig
from .entries import iter_entries
from .file_records import scan_entries
from .indexes import MAX_RELATIVE_OFFSET
from .log_segment import MAX_TIMESTAMP
from .offsets import AppendOrigin, OffsetMetadata
from .producer_state import TRANSACTION_VERSION_UNKNOWN, VerificationGuard
from .validation import target_compression

if TYPE_CHECKING:
    from .partition_log import PartitionLog

RUN_BYTES = 4 << 20  # written and indexed at once; larger runs gain nothing


def append_table(
    log: PartitionLog,
    table: pa.Table | pa.RecordBatch,
    codec: str,
    level: int | None,
    batch_bytes: int,
    leader_epoch: int,
    producer: Producer,
) -> AppendResult:
    """Append the rows of `table`."""
    log.topic_id_file.flush()
    now_ms = log.clock.now_ms()
    _check_rows(table, log.config, now_ms)
    target = codecs.codec_id(codec)
    if log.config.compression_type != "producer":
        target, level = target_compression(log.config, target)
    options = EncodeOptions(
        codec=codecs.NAMES[target],
        level=level,
        base_offset=log.log_end_offset,
        batch_bytes=min(batch_bytes, log.config.max_message_bytes, log.config.segment_bytes),
        log_append_time_ms=now_ms if log.config.log_append_time and log.config.magic else None,
    )
    request = AppendRequest(AppendOrigin.CLIENT, leader_epoch, None, TRANSACTION_VERSION_UNKNOWN)
    if log.config.magic == 2:
        if producer.is_transactional:
            request = replace(request, verification=_verification(log, producer))
        runs = encode_runs(table, options, BatchFields(leader_epoch, producer), run_bytes=RUN_BYTES)
        appends = _append_batches(log, runs, request)
    else:
        if producer.is_idempotent:
            raise UsageError(f"v{log.config.magic} messages have no place for a producer id")
        appends = _append_messages(log, encode_messages(table, log.config.magic, options), request)
    result = AppendResult(-1, -1, -1, NO_TIMESTAMP, NO_TIMESTAMP, log.log_start_offset, codec, 0, 0, 0)
    for appended in appends:
        result = appended if result.first_offset < 0 else _together(result, appended)
    return replace(result, source_codec=codec, log_append_time=now_ms if log.config.log_append_time else NO_TIMESTAMP)


def _check_rows(table: pa.Table | pa.RecordBatch, config: LogConfig, now_ms: int) -> None:
    """Apply the leader's rules for records that rows of a table can break."""
    names = table.schema.names
    if config.compact and ("key" not in names or table.column("key").null_count):
        raise InvalidRecord("a compacted topic takes no records without a key")
    if config.log_append_time:
        return
    times = _timestamps(table)
    if times is None:
        return
    limits = pc.min_max(pc.filter(times, pc.not_equal(times, NO_TIMESTAMP))).as_py()
    oldest, newest = limits["min"], limits["max"]
    if newest is not None and newest - now_ms > config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(f"timestamp {newest} is later than {now_ms} by more than message.timestamp.after.max.ms allows")
    before_ms = config.message_timestamp_before_max_ms
    if oldest is not None and before_ms != MAX_INT64 and now_ms - oldest > before_ms:
        raise InvalidTimestamp(f"timestamp {oldest} is earlier than {now_ms} by more than message.timestamp.before.max.ms allows")


def _timestamps(table: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array | None:
    if "timestamp_ms" in table.schema.names:
        return table.column("timestamp_ms").cast(pa.int64())
    if "timestamp" in table.schema.names:
        return table.column("timestamp").cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    return None


def _verification(log: PartitionLog, producer: Producer) -> VerificationGuard | None:
    """The guard that opens the transaction: we are the only writer, so there is no coordinator to ask."""
    return log.start_verification(producer.producer_id, producer.base_sequence, producer.producer_epoch, False)


def _append_batches(log: PartitionLog, runs: Iterator[BatchRun], request: AppendRequest) -> Iterator[AppendResult]:
    for run in runs:
        start = 0
        while start < len(run.entries):
            if run.entries.base_offset[start] != log.log_end_offset:
                run, start = run.part(start, len(run.entries)).moved(log.log_end_offset), 0
            stop = start + _begin_piece(log, run.entries[start:], request.leader_epoch)
            appended = _append_piece(log, run.part(start, stop), request)
            if appended is None:  # one is a duplicate: append the first alone, which takes no offsets if it is the one
                stop = start + 1
                appended = append_stamped(log, bytes(run.part(start, stop).data), request)
            yield appended
            start = stop


def _begin_piece(log: PartitionLog, entries: EntryTable, leader_epoch: int) -> int:
    """How many of these batches go into the active segment at once, at least one. Rolls the segment first if needed."""
    config = log.config
    sizes, timestamps = entries.size, entries.max_timestamp
    first_offset, last_offset = int(entries.base_offset[0]), int(entries.last_offset[0])
    size, timestamp = int(sizes[0]), int(timestamps[0])
    if size > config.max_message_bytes:
        raise RecordTooLarge(f"{log.folder}: a batch of {size} bytes; max.message.bytes is {config.max_message_bytes}")
    log.leader_epochs.assign(leader_epoch, first_offset)
    if size > config.segment_bytes:
        raise RecordBatchTooLarge(f"{log.folder}: {size} bytes do not fit in a segment of {config.segment_bytes}")
    active = log.active_segment
    if active.should_roll(config, size, timestamp, last_offset):
        active = log.roll(first_offset)
    slots = min(index.capacity - index.entry_count for index in (active.offset_index, active.time_index))
    fits = (
        (np.cumsum(sizes) <= config.segment_bytes - active.size)
        & (sizes <= config.max_message_bytes)
        & (entries.last_offset - active.base_offset <= MAX_RELATIVE_OFFSET)
    )
    oldest = active.first_batch_timestamp if active.size else timestamp
    if 0 <= oldest < MAX_TIMESTAMP:  # otherwise the segment ages by the clock, which does not move during an append
        fits &= timestamps - oldest <= config.max_segment_ms - active.roll_jitter_ms
    fits[1 if _begins_transaction(log, entries) else max(1, slots - 1) :] = False
    fits[0] = True
    return len(fits) if fits.all() else int(np.argmin(fits))


def _begins_transaction(log: PartitionLog, entries: EntryTable) -> bool:
    """Whether the first batch opens a transaction: it is then appended alone."""
    producer_id, producer_epoch = int(entries.producer_id[0]), int(entries.producer_epoch[0])
    is_transactional = bool(entries.attributes[0] & TRANSACTIONAL)
    return is_transactional and not has_ongoing_transaction(log.producers, producer_id, producer_epoch)


def _append_piece(log: PartitionLog, piece: BatchRun, request: AppendRequest) -> AppendResult | None:
    """Append batches to one segment; None if one of them is a duplicate.

    This leader made them itself, so only their producer is left to check.
    """
    entries = piece.entries
    first_offset, last_offset = int(entries.base_offset[0]), int(entries.last_offset[-1])
    with log.guard.doing("appending"):
        log.local_log.check_open()
        segment = log.active_segment
        analysis = ProducerAnalysis()
        if entries.producer_id[0] >= 0:
            append_at = OffsetMetadata(first_offset, segment.base_offset, segment.size)
            checks = request.origin, request.verification, request.transaction_version
            analysis = analyze_producers(log.producers, iter_entries(piece.data), append_at, *checks)
            if analysis.duplicate is not None:
                return None
        log.local_log.append(last_offset, piece.data, table=entries)
        log.watermarks.follow_log_end()
        note_producers(log, segment, analysis, last_offset)
        if log.local_log.unflushed_messages >= log.config.flush_messages:
            log.flush()
    newest, size, count = int(entries.max_timestamp.max()), len(piece.data), last_offset - first_offset + 1
    times = newest, NO_TIMESTAMP, log.log_start_offset
    return AppendResult(first_offset, last_offset, request.leader_epoch, *times, "", size, count, 0)


def _append_messages(log: PartitionLog, sets: Iterator[bytes], request: AppendRequest) -> Iterator[AppendResult]:
    """Append sets of v0 or v1 messages, one at a time."""
    for data in sets:
        entries = scan_entries(data, 0)
        if entries is None or entries.attributes[0] & CODEC_MASK:  # a single wrapper, whose first offset is inside it
            yield append_stamped(log, data, request)
            continue
        _begin_set(log, entries)
        appended = _append_piece(log, BatchRun(memoryview(data), entries), request)
        assert appended is not None, "messages have no producer, so no duplicates"
        yield appended


def _begin_set(log: PartitionLog, entries: EntryTable) -> None:
    """Check plain messages that are appended together as a leader does, and roll the segment if they do not fit."""
    config, active = log.config, log.active_segment
    size, largest = int(entries.size.sum()), int(entries.size.max())
    if largest > config.max_message_bytes:
        raise RecordTooLarge(f"{log.folder}: a message of {largest} bytes; max.message.bytes is {config.max_message_bytes}")
    if log.leader_epochs:  # a format without epochs: the known ones no longer describe the log
        log.leader_epochs.clear_and_flush()
    if size > config.segment_bytes:
        raise RecordBatchTooLarge(f"{log.folder}: {size} bytes do not fit in a segment of {config.segment_bytes}")
    if active.should_roll(config, size, int(entries.max_timestamp.max()), int(entries.last_offset[-1])):
        log.roll()


def _together(first: AppendResult, then: AppendResult) -> AppendResult:
    return replace(
        then,
        first_offset=first.first_offset,
        max_timestamp=max(first.max_timestamp, then.max_timestamp),
        valid_bytes=first.valid_bytes + then.valid_bytes,
        message_count=first.message_count + then.message_count,
        records_converted=first.records_converted + then.records_converted,
    )
