"""Append Arrow tables: batches as a producer would make them, with offsets, epoch and checks of the leader that takes them.

Batches are written many at a time, but rolled and indexed as if each had come alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog import codecs
from kafkalog.errors import InvalidRecord, InvalidTimestamp, UsageError
from kafkalog.segment.encode import encode_batches, encode_messages

from .appending import AppendRequest, AppendResult, append_stamped
from .config import MAX_LONG, LogConfig
from .entries import entry_at
from .offsets import NO_TIMESTAMP, AppendOrigin
from .producer_state import TRANSACTION_VERSION_UNKNOWN, VerificationGuard
from .validation import target_compression

if TYPE_CHECKING:
    from .partition_log import PartitionLog

CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Producer:
    """Who the records come from; without an id nobody in particular."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0


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
    now_ms = log.clock.now_ms()
    _check_rows(table, log.config, now_ms)
    target = codecs.codec_id(codec)
    if log.config.compression_type != "producer":
        target, level = target_compression(log.config, target)
    sets = _encode(log, table, codecs.NAMES[target], level, batch_bytes, leader_epoch, producer, now_ms)
    request = AppendRequest(AppendOrigin.CLIENT, leader_epoch, None, TRANSACTION_VERSION_UNKNOWN)
    if producer.is_transactional:
        request = replace(request, verification=_verification(log, producer))
    chunks = sets if producer.is_idempotent else _joined(log, sets)
    result: AppendResult | None = None
    for chunk in chunks:
        appended = append_stamped(log, chunk, request)
        result = appended if result is None else _together(result, appended)
    if result is None:
        return AppendResult(-1, -1, -1, NO_TIMESTAMP, NO_TIMESTAMP, log.log_start_offset, codec, 0, 0, 0)
    return replace(result, source_codec=codec, log_append_time=now_ms if log.config.log_append_time else NO_TIMESTAMP)


def _check_rows(table: pa.Table | pa.RecordBatch, config: LogConfig, now_ms: int) -> None:
    """The rules of a leader for records, where they can be broken by rows of a table."""
    names = table.schema.names
    if config.compact and ("key" not in names or table.column("key").null_count):
        raise InvalidRecord("a topic that is compacted takes no records without a key")
    if config.log_append_time:
        return
    times = _timestamps(table)
    if times is None:
        return
    limits = pc.min_max(pc.filter(times, pc.not_equal(times, NO_TIMESTAMP))).as_py()
    oldest, newest = limits["min"], limits["max"]
    if newest is not None and newest - now_ms > config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(f"timestamp {newest} is further ahead of {now_ms} than message.timestamp.after.max.ms allows")
    before_ms = config.message_timestamp_before_max_ms
    if oldest is not None and before_ms != MAX_LONG and now_ms - oldest > before_ms:
        raise InvalidTimestamp(f"timestamp {oldest} is further behind {now_ms} than message.timestamp.before.max.ms allows")


def _timestamps(table: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array | None:
    if "timestamp_ms" in table.schema.names:
        return table.column("timestamp_ms").cast(pa.int64())
    if "timestamp" in table.schema.names:
        return table.column("timestamp").cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    return None


def _encode(
    log: PartitionLog,
    table: pa.Table | pa.RecordBatch,
    codec: str,
    level: int | None,
    batch_bytes: int,
    leader_epoch: int,
    producer: Producer,
    now_ms: int,
) -> Iterator[bytes]:
    append_time = now_ms if log.config.log_append_time else None
    batch_bytes = min(batch_bytes, log.config.max_message_bytes, log.config.segment_bytes)
    magic = log.config.magic
    if magic < 2:
        if producer.is_idempotent:
            raise UsageError(f"v{magic} messages have no place for a producer id")
        append_time = append_time if magic else None
        return encode_messages(
            table,
            magic=magic,
            codec=codec,
            level=level,
            base_offset=log.log_end_offset,
            batch_bytes=batch_bytes,
            log_append_time_ms=append_time,
        )
    return encode_batches(
        table,
        codec=codec,
        level=level,
        base_offset=log.log_end_offset,
        batch_bytes=batch_bytes,
        leader_epoch=leader_epoch,
        log_append_time_ms=append_time,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        is_transactional=producer.is_transactional,
    )


def _verification(log: PartitionLog, producer: Producer) -> VerificationGuard | None:
    """We are the only writer, so there is no coordinator to ask whether the transaction is open: it is now."""
    return log.start_verification(producer.producer_id, producer.base_sequence, producer.producer_epoch, False)


def _joined(log: PartitionLog, sets: Iterator[bytes]) -> Iterator[bytes]:
    """The sets, as many in one as belong into the same segment and find room in its indexes."""
    chunk: list[bytes] = []
    size = 0
    first_timestamp = NO_TIMESTAMP
    for data in sets:
        timestamp = entry_at(data, 0, 0).max_timestamp
        if chunk and (size + len(data) > _room(log) or _may_roll(log, first_timestamp, timestamp)):
            yield b"".join(chunk)
            chunk, size = [], 0
        if not chunk:
            first_timestamp = timestamp
        chunk.append(data)
        size += len(data)
    if chunk:
        yield b"".join(chunk)


def _room(log: PartitionLog) -> int:
    """How many bytes may come at once: an index entry stands for more than index.interval.bytes."""
    active = log.active_segment
    slots = min(index.capacity - index.entry_count for index in (active.offset_index, active.time_index))
    indexed = max(0, slots - 1) * (active.index_interval_bytes + 1)
    return min(CHUNK_BYTES, log.config.segment_bytes - active.size, indexed)


def _may_roll(log: PartitionLog, first_timestamp: int, timestamp: int) -> bool:
    """Whether a batch may be too new for the segment that it would come into, or for one that the chunk begins."""
    active = log.active_segment
    oldest = min(first_timestamp, active.first_batch_timestamp)
    return timestamp - oldest > log.config.max_segment_ms - active.roll_jitter_ms


def _together(first: AppendResult, then: AppendResult) -> AppendResult:
    return replace(
        then,
        first_offset=first.first_offset,
        max_timestamp=max(first.max_timestamp, then.max_timestamp),
        valid_bytes=first.valid_bytes + then.valid_bytes,
        message_count=first.message_count + then.message_count,
        records_converted=first.records_converted + then.records_converted,
    )
