"""Records on their way into one partition: batches as a producer cuts them, with the offsets that a leader would assign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog import codecs
from kafkalog.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge, UsageError
from kafkalog.format import batch, message
from kafkalog.format.sequence import NO_SEQUENCE, increment_sequence
from kafkalog.log.engine.config import LogConfig
from kafkalog.log.engine.partition_log import PartitionLog
from kafkalog.segment.encode import encode_batches, encode_messages
from kafkalog.segment.gathering import Gatherer, record_count

CHUNK_BYTES = 1 << 20
RECORD_COLUMNS = ("key", "value", "timestamp_ms", "headers_raw", "headers")
COMMIT, ABORT, OPEN = "commit", "abort", "open"


@dataclass(frozen=True)
class Form:
    """How records are written. A producer id makes them idempotent; with a `transaction` they are one, which ends so."""

    magic: int = 2
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = 16_384
    producer_id: int = -1
    producer_epoch: int = -1
    transaction: str | None = None
    leader_epoch: int | None = None
    now_ms: int = -1

    def check(self) -> None:
        """UsageError for what cannot go together."""
        if self.magic < 2 and (self.producer_id >= 0 or self.transaction):
            raise UsageError(f"v{self.magic} messages know neither producers nor transactions; write v2 batches")
        if self.magic < 2 and codecs.codec_id(self.codec) > message.MAX_CODEC:
            raise UsageError(f"{self.codec} does not exist in v{self.magic} messages")
        if self.transaction not in (None, COMMIT, ABORT, OPEN):
            raise UsageError(f"a transaction ends with {COMMIT} or {ABORT}, or stays {OPEN}")


class Start(NamedTuple):
    """Where an append begins in a log that is there: behind what was appended before, in this leader epoch."""

    offset: int
    sequence: int
    leader_epoch: int

    @classmethod
    def at_end_of(cls, log: PartitionLog, form: Form) -> Start:
        epoch = form.leader_epoch if form.leader_epoch is not None else log.latest_epoch or 0
        known = log.producers.active_producers.get(form.producer_id)
        goes_on = known is not None and known.producer_epoch == form.producer_epoch and not known.is_empty
        sequence = increment_sequence(known.last_sequence, 1) if known is not None and goes_on else 0
        return cls(log.log_end_offset, sequence if form.producer_id >= 0 else NO_SEQUENCE, epoch)


class PartitionWriter:
    """Appends tables of records to an open log. What an interrupted run has appended already is compared, and left as it is."""

    def __init__(self, log: PartitionLog, form: Form, start: Start) -> None:
        self.log = log
        self.form = form
        self.start = start
        self.next_offset = self.known_offset = start.offset
        self.record_count = 0
        self.appended_bytes = 0
        self._sequence = start.sequence
        self._gatherer = Gatherer(self._batches)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def add(self, table: pa.Table) -> None:
        check_records(table, self.log.config, self.form.now_ms)
        self.record_count += table.num_rows
        rows = table.select([name for name in RECORD_COLUMNS if name in table.column_names])
        if self.form.magic < 2:
            for encoded in self._messages(rows):
                self._take(encoded)
            self.next_offset += table.num_rows
            return
        for encoded in self._gatherer.add(rows):
            self._take_batch(encoded)

    def finish(self) -> None:
        """Append what is still held, and the marker that ends the transaction."""
        for encoded in self._gatherer.finish():
            self._take_batch(encoded)
        self._append_waiting()
        form = self.form
        if form.transaction in (COMMIT, ABORT) and self.record_count and self.log.log_end_offset == self.next_offset:
            self.log.end_transaction(
                form.producer_id, form.producer_epoch, commit=form.transaction == COMMIT, leader_epoch=self.start.leader_epoch
            )

    def _batches(self, table: pa.Table) -> Iterator[bytes]:
        form, config = self.form, self.log.config
        return encode_batches(
            table,
            codec=form.codec,
            level=form.level,
            base_offset=self.next_offset,
            batch_bytes=form.batch_bytes,
            leader_epoch=self.start.leader_epoch,
            log_append_time_ms=form.now_ms if config.log_append_time else None,
            producer_id=form.producer_id,
            producer_epoch=form.producer_epoch,
            base_sequence=self._sequence,
            is_transactional=form.transaction is not None,
        )

    def _messages(self, table: pa.Table) -> Iterator[bytes]:
        form, config = self.form, self.log.config
        return encode_messages(
            table,
            magic=form.magic,
            codec=form.codec,
            level=form.level,
            base_offset=self.next_offset,
            batch_bytes=form.batch_bytes,
            log_append_time_ms=form.now_ms if config.log_append_time and form.magic else None,
        )

    def _take_batch(self, encoded: bytes) -> None:
        count = record_count(encoded)
        self._take(encoded)
        self.next_offset += count
        if self._sequence != NO_SEQUENCE:
            self._sequence = increment_sequence(self._sequence, count)

    def _take(self, encoded: bytes) -> None:
        largest = self.log.config.max_message_bytes
        for entry in (encoded,) if self.form.magic == 2 or self.form.codec != "none" else _entries(encoded):
            if len(entry) > largest:
                raise RecordTooLarge(f"a batch of {len(entry)} bytes, with max.message.bytes={largest}")
            if self.known_offset < self.log.log_end_offset:
                self._compare(entry)
                continue
            if self._waiting_bytes + len(entry) > self._room():
                self._append_waiting()
            self._waiting.append(entry)
            self._waiting_bytes += len(entry)

    def _room(self) -> int:
        """So much fits into the active segment; a leader, who appends batch by batch, would roll there too."""
        return min(CHUNK_BYTES, self.log.config.segment_bytes - self.log.active_segment.size)

    def _append_waiting(self) -> None:
        if self._waiting:
            self.log.append_as_follower(b"".join(self._waiting), self.start.leader_epoch)
            self.appended_bytes += self._waiting_bytes
            self.known_offset = self.log.log_end_offset
        self._waiting, self._waiting_bytes = [], 0

    def _compare(self, entry: bytes) -> None:
        """Step over what an interrupted run has appended; UsageError if it is something else."""
        stored = self.log.read(self.known_offset, len(entry), "log_end").data
        if stored[: len(entry)] != entry:
            where = f"{self.log.topic}-{self.log.partition} at offset {self.known_offset}"
            raise UsageError(f"{where}: something else was appended since the interrupted run; see --again")
        self.known_offset = _next_offset(entry)


def check_records(table: pa.Table, config: LogConfig, now_ms: int) -> None:
    """A leader's rules for what clients send: keys on compacted topics, timestamps near the broker's time."""
    if config.compact and ("key" not in table.column_names or table.column("key").null_count):
        raise InvalidRecord("a record without a key, which a compacted topic does not take")
    if config.log_append_time or not table.num_rows:
        return
    found = pc.min_max(table.column("timestamp_ms")).as_py()
    if found["max"] - now_ms > config.message_timestamp_after_max_ms:
        limit = config.message_timestamp_after_max_ms
        raise InvalidTimestamp(f"timestamp {found['max']} is later than message.timestamp.after.max.ms={limit} allows")
    if now_ms - found["min"] > config.message_timestamp_before_max_ms:
        limit = config.message_timestamp_before_max_ms
        raise InvalidTimestamp(f"timestamp {found['min']} is earlier than message.timestamp.before.max.ms={limit} allows")


def _entries(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        size = batch.LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + 12], "big")
        yield data[position : position + size]
        position += size


def _next_offset(entry: bytes) -> int:
    """The offset behind an entry: a message is named by its last offset, a batch by its first."""
    offset = int.from_bytes(entry[:8], "big")
    if entry[batch.MAGIC_POSITION] < 2:
        return offset + 1
    return offset + int.from_bytes(entry[batch.LAST_OFFSET_DELTA_POSITION : batch.LAST_OFFSET_DELTA_POSITION + 4], "big") + 1
