"""What a task does: read the slices of its split and give out batches of exactly the columns asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kafkalog.errors import path_text
from kafkalog.log.folders import find_partitions
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.storage import open_store
from kafkalog.storage.store import Store
from kafkalog.tables.batches import batch_batches
from kafkalog.tables.logs import Logs
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table

from .columns import Projection, corrupt_row
from .errors import coded
from .garbage import freeze_garbage
from .options import RANGED_TABLES, SourceOptions
from .slices import as_partition, check_unchanged, claimed_offset, damaged_content, is_there
from .splits import EVERYTHING, Part, Split

LOGGER = logging.getLogger("kafkalog.spark")


def read_split(split: Split, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a split, and in PERMISSIVE mode a row for each bad range."""
    stores: dict[str, Store] = {}
    with coded():
        for part in split.parts:
            if part.root not in stores:
                stores[part.root] = open_store(part.root)[0]
            yield from _read_part(part, stores[part.root], projection, options)
    freeze_garbage()


def _read_part(part: Part, store: Store, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    report = ReadReport()
    if not options.fail_on_data_loss:
        part = replace(part, slices=tuple(piece for piece in part.slices if is_there(store, piece)))
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
    yield from tables[options.table]([as_partition(part, store)], schema, reading, report)


def _tell_damage(part: Part, store: Store, projection: Projection, report: ReadReport) -> Iterator[pa.RecordBatch]:
    low, high = part.claim
    dropped = [each for each in report.dropped if part.claim == EVERYTHING or low <= claimed_offset(store, each, part) < high]
    for each in dropped:
        LOGGER.warning("left out: %s", each.message)
    for problem in report.unread:
        LOGGER.warning("left out: %s", problem)
    if not projection.has_corrupt_column:
        return
    rows: list[dict[str, Any]] = [corrupt_row(each, damaged_content(store, each)) for each in dropped]
    rows += [{"file_path": problem.partition(": ")[0], "reason": "unreadable"} for problem in report.unread]
    if rows:
        yield projection.corrupt_batch(rows)
