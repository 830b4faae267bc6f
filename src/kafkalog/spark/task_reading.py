"""The work of a task: read the slices of its split and yield batches with exactly the requested columns."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kafkalog.clusters.places import find_disks
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
from .errors import DATA_LOSS, SparkSourceError, coded
from .options import CLUSTER_TABLES, RANGED_TABLES, SourceOptions
from .segment_slices import as_partition, claimed_offset, damaged_content, exact_span, open_part, still_exists, unchanged
from .session import freeze_garbage
from .splits import EVERYTHING, Part, Split

LOGGER = logging.getLogger("kafkalog.spark")


def read_split(split: Split, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a split, and in PERMISSIVE mode a row for each damaged range."""
    stores: dict[str, Store] = {}
    with coded():
        if options.table in CLUSTER_TABLES and split.parts:
            yield from _read_cluster(split, projection, options)
            return
        for part in split.parts:
            if _is_gone(part, options):
                continue
            if part.root not in stores:
                stores[part.root] = open_store(part.root)[0]
            yield from _read_part(part, stores[part.root], projection, options)
    freeze_garbage()


def _read_cluster(split: Split, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a table of the cluster, from all places together."""
    report = ReadReport()
    disks = find_disks([part.root for part in split.parts])
    logs = Logs(disks.places[0], disks.partitions)
    on_damage = "strict" if options.mode == "FAILFAST" else "salvage"
    for found in logs.read(
        options.table, projection.needed, topics=options.subscribe, at=options.at, on_damage=on_damage, threads=1, report=report
    ):
        yield from projection.batches(found, {})
    part = replace(split.parts[0], slices=())
    yield from _report_damage(part, logs.partitions[0].store, projection, report)


def _is_gone(part: Part, options: SourceOptions) -> bool:
    """Whether the folder was removed since the read was planned and that is allowed. In an object store each file is checked."""
    if options.fail_on_data_loss or "://" in part.folder or os.path.lexists(part.folder):
        return False
    LOGGER.warning("left out: %s is gone", path_text(part.folder))
    return True


def _read_part(part: Part, store: Store, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    report = ReadReport()
    with ExitStack() as stack:
        part, held = _opened(part, store, options, stack)
        slices = {path_text(piece.path): piece for piece in part.slices}
        for found in _table(part, held, projection, options, report):
            yield from projection.batches(found, slices)
        yield from _report_damage(part, held, projection, report)


def _opened(part: Part, store: Store, options: SourceOptions, stack: ExitStack) -> tuple[Part, Store]:
    """The part and the store to read it from; with failOnDataLoss=false without files that were removed."""

    def lose(what: str) -> None:
        if options.fail_on_data_loss:
            raise SparkSourceError(DATA_LOSS, f"{what}; with failOnDataLoss=false what is there is read")
        LOGGER.warning("%s; reading what is there", what)

    if options.table in RANGED_TABLES and exact_span(part) is not None:
        return open_part(part, store, stack, lose)
    if not options.fail_on_data_loss:
        part = replace(part, slices=tuple(piece for piece in part.slices if still_exists(store, piece)))
    return part, stack.enter_context(unchanged(part, store))


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
        check_crcs=options.check_crcs,
        committed=part.committed,
    )
    tables = {"records": record_batches, "batches": batch_batches}
    yield from tables[options.table]([as_partition(part, store)], schema, reading, report)


def _report_damage(part: Part, store: Store, projection: Projection, report: ReadReport) -> Iterator[pa.RecordBatch]:
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
