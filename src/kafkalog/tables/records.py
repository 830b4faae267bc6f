"""The `records` table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from kafkalog.errors import path_text
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions, RecordSlice, read_records
from kafkalog.log.report import ReadReport
from kafkalog.segment.arrays import Constants

from .schemas import record_batch

# More than a window usually has. A batch on disk can hold 38 million records within the limits, and the columns that we and our
# callers make of them take many times the memory of the records themselves.
BATCH_ROWS = 1 << 18


def record_batches(
    partitions: Iterable[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[pa.RecordBatch]:
    """The records of the partitions, one Arrow batch per window of the log."""
    for batch, _ in iter_record_batches(partitions, schema, options, report):
        yield batch


def iter_record_batches(
    partitions: Iterable[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The same, each with the offset after its last record."""
    constants = Constants()
    for found in read_records(partitions, options, report):
        for start in range(found.start, found.stop, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, found.stop)
            arrays = [_column(found, name, constants, start, stop) for name in schema.names]
            yield record_batch(arrays, schema, stop - start), int(found.columns.offsets[stop - 1]) + 1
            del arrays
        del found  # or these records would stay in memory with the next ones


def _column(found: RecordSlice, name: str, constants: Constants, start: int, stop: int) -> pa.Array:
    rows = stop - start
    if name == "topic":
        return constants.array(path_text(found.partition.topic), pa.string(), rows)
    if name == "partition":
        return constants.array(found.partition.partition, pa.int32(), rows)
    if name == "file":
        return constants.array(path_text(found.columns.window.file), pa.string(), rows)
    return found.columns.column(name, constants, start, stop)
