"""What a task does: read the slices of its split and give out batches of exactly the columns asked for."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from kafkalog.errors import SegmentChanged, StorageError, path_text
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import Dropped, ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.storage import open_store
from kafkalog.storage.store import Store
from kafkalog.tables.batches import batch_batches
from kafkalog.tables.logs import Logs
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table

from .columns import Projection, corrupt_row
from .errors import coded
from .options import RANGED_TABLES, SourceOptions
from .splits import EVERYTHING, FileSlice, Part, Split, as_segment

LOGGER = logging.getLogger("kafkalog.spark")
CORRUPT_BYTES: Final = 1 << 20
SECOND_NS: Final = 1_000_000_000

_frozen = False


def freeze_garbage() -> None:
    """Spare the collection after each task what was loaded before the first one; once per worker."""
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True


def read_split(split: Split, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a split, and in PERMISSIVE mode a row for each bad range."""
    freeze_garbage()
    stores: dict[str, Store] = {}
    with coded():
        for part in split.parts:
            if part.root not in stores:
                stores[part.root] = open_store(part.root)[0]
            yield from _read_part(part, stores[part.root], projection, options)


def _read_part(part: Part, store: Store, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    report = ReadReport()
    if not options.fail_on_data_loss:
        part = replace(part, slices=tuple(piece for piece in part.slices if _is_there(store, piece)))
    for piece in part.slices:
        check_unchanged(store, piece)
    slices = {path_text(piece.path): piece for piece in part.slices}
    for found in _table(part, store, projection, options, report):
        yield from projection.batches(found, slices)
    for piece in part.slices:
        # One that is gone by now was read to its end all the same.
        if store.stat(piece.path) is not None:
            check_unchanged(store, piece)
    yield from _tell_damage(part, store, projection, report)


def _table(
    part: Part, store: Store, projection: Projection, options: SourceOptions, report: ReadReport
) -> Iterator[pa.RecordBatch]:
    schema = find_table(options.table).schema(projection.needed)
    on_damage = "strict" if options.mode == "FAILFAST" else "salvage"
    if options.table not in RANGED_TABLES:
        logs = Logs(part.folder, find_partitions(store, part.folder))
        yield from logs.read(options.table, projection.needed, on_damage=on_damage, threads=1, report=report)
        return
    reading = ReadOptions(
        columns=frozenset(schema.names),
        record_range=RecordRange(part.start_offset, part.stop_offset),
        isolation=options.isolation,
        on_damage=on_damage,
        threads=1,  # Spark runs a task on each core
        committed=part.committed,
    )
    tables = {"records": record_batches, "batches": batch_batches}
    yield from tables[options.table]([_partition(part, store)], schema, reading, report)


def _partition(part: Part, store: Store) -> Partition:
    return Partition(
        store,
        part.folder,
        part.topic,
        part.partition,
        segments=tuple(as_segment(piece) for piece in part.slices),
        log_start_offset=part.log_start_offset,
    )


def _is_there(store: Store, piece: FileSlice) -> bool:
    """Whether the file still exists; retention may have removed it since the read was planned."""
    there = store.stat(piece.path) is not None
    if not there:
        LOGGER.warning("left out: %s is gone", path_text(piece.path))
    return there


def check_unchanged(store: Store, piece: FileSlice) -> None:
    """SegmentChanged unless the file is what it was at planning; the newest segment may have grown, or lost an empty end."""
    now = store.stat(piece.path)
    if now is None or now.kind != "file":
        raise SegmentChanged("changed", file=piece.path, position=piece.start, expected="the file", found="no file")
    is_object = "://" in piece.path
    # An object's time comes in whole seconds from some requests.
    unit = SECOND_NS if is_object else 1
    if now.size == piece.size and now.mtime_ns // unit == piece.mtime_ns // unit:
        return
    if piece.may_grow and now.size != piece.size and now.size >= piece.stop and not is_object:
        return
    expected = f"{piece.size} bytes of {piece.mtime_ns} ns"
    raise SegmentChanged(
        "changed",
        file=piece.path,
        position=piece.start,
        expected=expected,
        found=f"{now.size} bytes of {now.mtime_ns} ns",
        detail="call load() again to read what is there now",
    )


def _tell_damage(part: Part, store: Store, projection: Projection, report: ReadReport) -> Iterator[pa.RecordBatch]:
    low, high = part.claim
    dropped = [each for each in report.dropped if part.claim == EVERYTHING or low <= _place(store, each, part) < high]
    for each in dropped:
        LOGGER.warning("left out: %s", each.message)
    for problem in report.unread:
        LOGGER.warning("left out: %s", problem)
    if not projection.has_corrupt_column:
        return
    rows: list[dict[str, Any]] = [corrupt_row(each, _content(store, each)) for each in dropped]
    rows += [{"file_path": problem.partition(": ")[0], "reason": "unreadable"} for problem in report.unread]
    if rows:
        yield projection.corrupt_batch(rows)


def _place(store: Store, dropped: Dropped, part: Part) -> int:
    """The offset at which damage counts: right before the entry that follows, as its own offset may be what is damaged."""
    piece = next(piece for piece in part.slices if path_text(piece.path) == path_text(dropped.file))
    following = dropped.position + dropped.length
    try:
        with store.open(piece.path) as source:
            front = source.read(following, 8) if 0 <= following < source.size else b""
    except (StorageError, SegmentChanged):
        front = b""
    if len(front) == 8:
        return int.from_bytes(front, "big", signed=True) - 1
    return (part.stop_offset if piece.next_base_offset is None else piece.next_base_offset) - 1


def _content(store: Store, dropped: Dropped) -> bytes | None:
    """The bad bytes, the first MiB of them; None where they cannot be had."""
    try:
        with store.open(dropped.file) as source:
            return source.read(max(dropped.position, 0), min(max(dropped.length, 0), CORRUPT_BYTES))
    except (StorageError, SegmentChanged):
        return None
