"""The small tables, built row by row: segments, index entries, transactions, producers, epochs, findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from kafkalog.errors import SegmentError, StorageError, path_text
from kafkalog.format import index
from kafkalog.format.snapshot import decode_snapshot
from kafkalog.log.checks.finding import Finding
from kafkalog.log.epochs import replay_epochs
from kafkalog.log.partition import Partition, StoredFile
from kafkalog.log.producer_replay import replay_producers
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.log.segments import summarise_segments
from kafkalog.log.transactions import Transaction, replay_transactions
from kafkalog.storage.store import SMALL_FILE

from .schemas import record_batch

Row = dict[str, Any]
CHUNK_ROWS = 1 << 16
INDEX_KINDS = {"index": "offset", "timeindex": "time", "txnindex": "transaction"}


def row_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow batches; a column that a row lacks is null."""
    remaining = (_as_text(row) for row in rows)
    while chunk := list(islice(remaining, CHUNK_ROWS)):
        yield pa.RecordBatch.from_pylist(chunk, schema=schema) if len(schema) else record_batch([], schema, len(chunk))


def _as_text(row: Row) -> Row:
    return {name: path_text(value) if isinstance(value, str) else value for name, value in row.items()}


def place(partition: Partition) -> Row:
    return {"topic": partition.topic, "partition": partition.partition}


def _unread(options: ReadOptions, report: ReadReport) -> ReadReport | None:
    """The report that notes unreadable files; None if they are errors."""
    return None if options.on_damage == "strict" else report


def segment_rows(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[Row]:
    deep = bool(options.columns & {"batch_count", "record_count", "max_timestamp_ms", "magics", "codecs"})
    for partition in partitions:
        for row in summarise_segments(partition, options.limits, _unread(options, report), deep=deep):
            yield {**place(partition), **row}


def index_entry_rows(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[Row]:
    for partition in partitions:
        for stored in partition.files:
            if stored.kind in INDEX_KINDS and not stored.suffix:
                for number, row in enumerate(_entries(partition, stored, options, report)):
                    yield {**place(partition), "file": stored.path, "kind": INDEX_KINDS[stored.kind], "entry": number, **row}


def _entries(partition: Partition, stored: StoredFile, options: ReadOptions, report: ReadReport) -> list[Row]:
    data = _content(partition, stored, options, report)
    if data is None:
        return []
    if stored.kind == "index":
        entries = index.read_offset_index(data, stored.base_offset)
        return [{"offset": offset, "position": position} for offset, position in entries.tolist()]
    if stored.kind == "timeindex":
        entries = index.read_time_index(data, stored.base_offset)
        return [{"timestamp_ms": timestamp, "offset": offset} for timestamp, offset in entries.tolist()]
    try:
        entries = index.read_txn_index(data)
    except SegmentError as error:
        _reject(error, stored, options, report)
        return []
    return [dict(zip(index.TXN_ENTRIES.names or (), entry, strict=True)) for entry in entries.tolist()]


def _content(partition: Partition, stored: StoredFile, options: ReadOptions, report: ReadReport) -> bytes | None:
    try:
        return partition.store.read_small(stored.path, SMALL_FILE)
    except StorageError as error:
        if options.on_damage == "strict":
            raise
        report.leave_unread(error)
        return None


def _reject(error: SegmentError, stored: StoredFile, options: ReadOptions, report: ReadReport) -> None:
    """Raise for a malformed index or snapshot file, or report the whole file."""
    error = type(error)(
        error.reason,
        file=stored.path,
        position=max(error.position, 0),
        length=stored.size,
        expected=error.expected,
        found=error.found,
        detail=error.detail,
    )
    if options.on_damage == "strict":
        raise error
    report.drop(error)


def producer_rows(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[Row]:
    for partition in partitions:
        for stored in partition.files:
            if stored.kind == "snapshot" and not stored.suffix:
                yield from _snapshot_rows(partition, stored, options, report)
        if partition.segments:
            end_offset, producers = replay_producers(partition, options.limits, _unread(options, report))
            for row in producers:
                yield {**place(partition), "source": "replay", "snapshot_offset": end_offset, **row}


def _snapshot_rows(partition: Partition, stored: StoredFile, options: ReadOptions, report: ReadReport) -> Iterator[Row]:
    data = _content(partition, stored, options, report)
    if data is None:
        return
    try:
        producers = decode_snapshot(data)
    except SegmentError as error:
        _reject(error, stored, options, report)
        return
    for entry in producers:
        yield {
            **place(partition),
            "file": stored.path,
            "source": "snapshot",
            "snapshot_offset": stored.base_offset,
            "producer_id": int(entry["producer_id"]),
            "producer_epoch": int(entry["producer_epoch"]),
            "last_sequence": int(entry["last_sequence"]),
            "last_offset": int(entry["last_offset"]),
            "offset_delta": int(entry["offset_delta"]),
            "last_timestamp_ms": int(entry["timestamp"]),
            "coordinator_epoch": int(entry["coordinator_epoch"]),
            "current_transaction_first_offset": int(entry["current_txn_first_offset"]),
        }


def epoch_rows(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[Row]:
    for partition in partitions:
        for row in replay_epochs(partition, options.limits, _unread(options, report)):
            yield {**place(partition), **row}


def transaction_rows(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[Row]:
    for partition in partitions:
        replay = replay_transactions(partition, options.limits, _unread(options, report))
        for transaction in sorted([*replay.finished, *replay.open.values()], key=lambda found: found.first_offset):
            yield {**place(partition), **_transaction_row(transaction)}


def _transaction_row(transaction: Transaction) -> Row:
    row: Row = dict(vars(transaction))
    if transaction.state == "open":
        for name in ("marker_offset", "marker_timestamp_ms", "coordinator_epoch", "last_stable_offset"):
            row[name] = None
    return row


def finding_rows(findings: Iterable[Finding | None]) -> Iterator[Row]:
    for finding in findings:
        if finding is not None:
            yield {**vars(finding), "about": finding.about, "advice": finding.advice}
