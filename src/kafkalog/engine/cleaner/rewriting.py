"""Filter the entries of a chunk one at a time: those that lose nothing are copied, the others are rewritten.

This is the plain path, for entries of any format. `chunk_kernels` does the same for v2 batches by kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalog.errors import InvalidState
from kafkalog.format import batch
from kafkalog.format.batch import NO_TIMESTAMP

from ..building import RecordsBuilder, encode_batch
from ..entries import Batch, Buffer, Entry, iter_entries
from ..entry_records import Record
from .kept_records import DELETE, RETAIN_EMPTY, Decision, Retention


@dataclass
class Filtered:
    """The result of filtering the first `bytes_read` bytes of a chunk."""

    output: Buffer = field(default_factory=bytearray)
    bytes_read: int = 0
    messages_read: int = 0
    messages_retained: int = 0
    max_offset: int = -1

    def add(self, data: bytes | memoryview, messages: int, max_offset: int) -> None:
        assert isinstance(self.output, bytearray)
        self.output += data
        self.messages_retained += messages
        self.max_offset = max(self.max_offset, max_offset)


def filter_chunk(chunk: bytes, room: int, retention: Retention) -> Filtered:
    """The entries of `chunk` that stay, up to the one that makes them exceed `room` bytes.

    The result of a chunk is appended at once, so the files that a failed pass leaves show where it ended.
    """
    filtered = Filtered()
    for entry in iter_entries(chunk):
        decision = retention.decide(entry)
        retention.note(decision)
        filter_entry(entry, decision, retention, filtered)
        if len(filtered.output) > room:
            break
    return filtered


def filter_entry(entry: Entry, decision: Decision, retention: Retention, filtered: Filtered) -> None:
    """Add what stays of one entry."""
    filtered.bytes_read += entry.size
    if decision.retention == DELETE:
        return
    kept, read = _filter_records(entry, decision, retention)
    filtered.messages_read += read
    if kept:
        needs_horizon = entry.delete_horizon_ms is None and (
            decision.ends_nothing or any(record.value is None for record in kept)
        )
        if len(kept) == read and entry.magic == batch.MAX_MAGIC and not needs_horizon:
            filtered.add(entry.raw, read, entry.last_offset)
        else:
            horizon = retention.new_horizon_ms if needs_horizon else entry.delete_horizon_ms
            filtered.add(_rewritten(entry, kept, horizon), len(kept), max(record.offset for record in kept))
    elif decision.retention == RETAIN_EMPTY:
        if not isinstance(entry, Batch):
            left = f"the entry of offset {entry.last_offset} would become empty"
            raise InvalidState(f"{left}, which only v2 can store, not v{entry.magic}; first run `kafkalog convert`")
        filtered.add(_emptied(entry), 0, entry.last_offset)


def _filter_records(entry: Entry, decision: Decision, retention: Retention) -> tuple[list[Record], int]:
    """The records that stay, and the number of all."""
    records = list(entry)
    if decision.discards_records:
        return [], len(records)
    if entry.is_control_batch:
        return records, len(records)
    return [record for record in records if retention.keeps(entry, record)], len(records)


def _emptied(entry: Batch) -> bytes:
    """The header alone, for the state of its producer; a delete horizon goes with the records."""
    return encode_batch(
        b"",
        base_offset=entry.base_offset,
        last_offset=entry.last_offset,
        records_count=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=entry.max_timestamp,
        attributes=entry.attributes & (batch.LOG_APPEND_TIME | batch.TRANSACTIONAL | batch.CONTROL),
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        base_sequence=entry.base_sequence,
        partition_leader_epoch=entry.partition_leader_epoch,
    )


def _rewritten(entry: Entry, records: list[Record], delete_horizon_ms: int | None) -> bytes:
    """A v2 batch of these records that replaces the entry; a v2 entry keeps its base and last offset."""
    is_batch = entry.magic == batch.MAX_MAGIC
    append_time = entry.timestamp_type == batch.LOG_APPEND_TIME_TYPE
    builder = RecordsBuilder(
        entry.base_offset if is_batch else records[0].offset,
        codec=entry.codec,
        timestamp_type=batch.LOG_APPEND_TIME_TYPE if append_time else batch.CREATE_TIME,
        log_append_time=entry.max_timestamp if append_time else NO_TIMESTAMP,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        base_sequence=entry.base_sequence,
        is_transactional=entry.is_transactional,
        is_control_batch=entry.is_control_batch,
        partition_leader_epoch=entry.partition_leader_epoch,
        delete_horizon_ms=None if delete_horizon_ms is None or delete_horizon_ms < 0 else delete_horizon_ms,
    )
    builder.append_all(records)
    if is_batch:
        builder.override_last_offset(entry.last_offset)
    return builder.build()
