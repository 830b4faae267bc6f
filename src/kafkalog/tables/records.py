"""The `records` table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from kafkalog.errors import path_text
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions, RecordSlice, read_records
from kafkalog.log.report import ReadReport
from kafkalog.segment.constant import Constants

from .schemas import record_batch


def record_batches(
    partitions: Iterable[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[pa.RecordBatch]:
    """The records of the partitions, one Arrow batch per window of the log."""
    for batch, _ in iter_record_batches(partitions, schema, options, report):
        yield batch


def iter_record_batches(
    partitions: Iterable[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The same, each with the offset behind its last record."""
    constants = Constants()
    for found in read_records(partitions, options, report):
        arrays = [_column(found, name, constants) for name in schema.names]
        yield record_batch(arrays, schema, found.stop - found.start), int(found.columns.offsets[found.stop - 1]) + 1


def _column(found: RecordSlice, name: str, constants: Constants) -> pa.Array:
    rows = found.stop - found.start
    if name == "topic":
        return constants.array(path_text(found.partition.topic), pa.string(), rows)
    if name == "partition":
        return constants.array(found.partition.partition, pa.int32(), rows)
    if name == "file":
        return constants.array(path_text(found.columns.window.file), pa.string(), rows)
    column = found.columns.column(name, constants)
    return column if rows == found.columns.rows else column.slice(found.start, rows)
