"""Records on their way into one partition: batches as a producer cuts them, with the offsets that a leader would assign."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from kafkalog import codecs
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.errors import UsageError
from kafkalog.format import batch, message
from kafkalog.format.batch import NO_SEQUENCE, increment_sequence
from kafkalog.format.entry_front import peek_front, peek_last_offset
from kafkalog.format.names import parse_file_name, segment_file_name
from kafkalog.segment.encode import BatchFields, EncodeOptions, Producer, encode_batches, encode_messages
from kafkalog.storage.fs import Fs

ENOUGH_ROWS = 1 << 16
ENOUGH_BYTES = 8 << 20
RECORD_COLUMNS = ("key", "value", "timestamp_ms", "headers_raw", "headers")
COMMIT, ABORT, OPEN = "commit", "abort", "open"


@dataclass(frozen=True)
class Form:
    """How records are written. A producer id makes them idempotent; with a `transaction` they are one that ends so."""

    magic: int = 2
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = 16_384
    producer_id: int = -1
    producer_epoch: int = -1
    transaction: str | None = None
    leader_epoch: int | None = None
    now_ms: int = -1

    def checked(self, *, idempotent: bool) -> Form:
        """The form, without an epoch where there is no producer; UsageError for what cannot be combined."""
        if self.magic < 2 and (idempotent or self.producer_id >= 0 or self.transaction):
            raise UsageError(f"v{self.magic} messages have neither producers nor transactions; write v2 batches")
        if self.magic < 2 and codecs.codec_id(self.codec) > message.MAX_CODEC:
            raise UsageError(f"{self.codec} does not exist in v{self.magic} messages")
        if self.transaction not in (None, COMMIT, ABORT, OPEN):
            raise UsageError(f"a transaction ends with {COMMIT} or {ABORT}, or stays {OPEN}")
        is_producer = idempotent or self.transaction is not None or self.producer_id >= 0
        return self if is_producer else replace(self, producer_epoch=-1)


class Start(NamedTuple):
    """Where an append begins in an existing log: at its end, with the next sequence number, in this leader epoch."""

    offset: int
    sequence: int
    leader_epoch: int

    @classmethod
    def at_end_of(cls, log: PartitionLog, form: Form) -> Start:
        epoch = form.leader_epoch if form.leader_epoch is not None else log.latest_epoch or 0
        known = log.producers.active_producers.get(form.producer_id)
        continues = known is not None and known.producer_epoch == form.producer_epoch and not known.is_empty
        sequence = increment_sequence(known.last_sequence, 1) if known is not None and continues else 0
        return cls(log.log_end_offset, sequence if form.producer_id >= 0 else NO_SEQUENCE, epoch)


class PartitionWriter:
    """Appends tables of records to an open log. What an interrupted run has appended already is compared, and left as it is."""

    def __init__(self, log: PartitionLog, form: Form, start: Start) -> None:
        self.log = log
        self.form = form
        self.start = start
        self.record_count = 0
        self.appended_bytes = 0
        self._next_offset = start.offset
        self._found_end = log.log_end_offset
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._held_bytes = 0

    def add(self, table: pa.Table) -> None:
        self.record_count += table.num_rows
        self._held.append(table.select([name for name in RECORD_COLUMNS if name in table.column_names]))
        self._held_rows += table.num_rows
        self._held_bytes += table.nbytes
        if self._held_rows >= ENOUGH_ROWS or self._held_bytes >= ENOUGH_BYTES:
            self._append()

    @property
    def knows_all(self) -> bool:
        """Whether everything from the start on is known to be this append's: compared, or appended by this writer."""
        return self._next_offset >= self._found_end

    def finish(self) -> None:
        """Append what is still held, and the marker that ends the transaction."""
        self._append()
        form = self.form
        is_open = self.log.log_end_offset == self._next_offset
        if form.transaction in (COMMIT, ABORT) and self.record_count and is_open:
            self.log.end_transaction(
                form.producer_id, form.producer_epoch, form.transaction == COMMIT, leader_epoch=self.start.leader_epoch
            )

    def _append(self) -> None:
        if not self._held_rows:
            return
        rows = pa.concat_tables(self._held)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        if self._next_offset < self.log.log_end_offset:
            rows = rows.slice(self._compare(rows))
        if not rows.num_rows:
            return
        form = self.form
        appended = self.log.append_records(
            rows,
            codec=form.codec,
            level=form.level,
            batch_bytes=form.batch_bytes,
            leader_epoch=self.start.leader_epoch,
            producer_id=form.producer_id,
            producer_epoch=form.producer_epoch,
            base_sequence=self._sequence,
            is_transactional=form.transaction is not None,
        )
        self._next_offset += rows.num_rows
        self.appended_bytes += appended.valid_bytes

    @property
    def _sequence(self) -> int:
        if self.form.producer_id < 0:
            return NO_SEQUENCE
        return increment_sequence(self.start.sequence, self._next_offset - self.start.offset)

    def _compare(self, rows: pa.Table) -> int:
        """How many of these rows an interrupted run has appended; UsageError if something else is there."""
        first = self._next_offset
        for entry in self._entries(rows):
            stored = self.log.read(self._next_offset, len(entry), "log_end").data
            if stored[: len(entry)] != entry:
                where = f"{self.log.topic}-{self.log.partition} at offset {self._next_offset}"
                raise UsageError(f"{where}: something else was appended since the interrupted run; see --again")
            self._next_offset = next_offset(entry)
            if self._next_offset == self.log.log_end_offset:
                break
        return self._next_offset - first

    def _entries(self, rows: pa.Table) -> Iterator[bytes]:
        """The batches or messages that the log makes of these rows."""
        form, config = self.form, self.log.config
        options = EncodeOptions(
            codec=form.codec,
            level=form.level,
            base_offset=self._next_offset,
            batch_bytes=min(form.batch_bytes, config.max_message_bytes, config.segment_bytes),
            log_append_time_ms=form.now_ms if config.log_append_time and form.magic else None,
        )
        if form.magic < 2:
            return (entry for encoded in encode_messages(rows, form.magic, options) for entry in _single(encoded))
        producer = Producer(form.producer_id, form.producer_epoch, self._sequence, form.transaction is not None)
        return encode_batches(rows, options, BatchFields(self.start.leader_epoch, producer))


def _single(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        front = peek_front(data, position)
        assert front is not None, "what was just encoded is whole"
        yield data[position : position + front.size]
        position += front.size


def next_offset(entry: bytes) -> int:
    """The offset after an entry."""
    return peek_last_offset(entry) + 1


def end_offset(fs: Fs, folder: str) -> int:
    """Where the whole entries of a log end, by their headers; -1 if there is none."""
    parsed = (parse_file_name(name) for name in (fs.list(folder) if fs.kind(folder) == "folder" else ()))
    bases = [name.base_offset for name in parsed if name is not None and name.kind == "log" and not name.suffix]
    if not bases:
        return -1
    path = os.path.join(folder, segment_file_name(max(bases)))
    position, end, size = 0, max(bases), fs.size(path)
    while position + batch.LOG_OVERHEAD < size:
        header = fs.read(path, position, batch.HEADER_SIZE)
        front = peek_front(header)
        if front is None or front.length <= batch.MAGIC_POSITION or position + front.size > size:
            break
        position += front.size
        end = next_offset(header)
    return end
