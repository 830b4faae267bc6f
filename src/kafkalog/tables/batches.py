"""The `batches` table: reads headers only, unless a column needs more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.errors import path_text
from kafkalog.format import batch
from kafkalog.format.batch import MAX_SEQUENCE, NO_SEQUENCE
from kafkalog.format.entry_table import EntryTable
from kafkalog.log.batches import BatchHeaders, read_batches
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.segment.arrays import Constants
from kafkalog.segment.columns import codec_names, timestamp_types, validity

from .schemas import record_batch

STORED: dict[str, tuple[str, Any]] = {
    "position": ("position", np.int64),
    "size": ("size", np.int64),
    "magic": ("magic", np.int8),
    "last_offset": ("last_offset", np.int64),
    "crc": ("crc", np.int64),
    "base_timestamp_ms": ("base_timestamp", np.int64),
    "max_timestamp_ms": ("max_timestamp", np.int64),
    "producer_id": ("producer_id", np.int64),
    "producer_epoch": ("producer_epoch", np.int16),
    "base_sequence": ("base_sequence", np.int32),
    "leader_epoch": ("leader_epoch", np.int32),
}


def batch_batches(
    partitions: Iterable[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[pa.RecordBatch]:
    """The entries of the partitions, as stored."""
    constants = Constants()
    for found in read_batches(partitions, options, report):
        arrays = [_column(found, name, constants) for name in schema.names]
        yield record_batch(arrays, schema, len(found.entries))


def _column(found: BatchHeaders, name: str, constants: Constants) -> pa.Array:
    rows = len(found.entries)
    if name == "topic":
        return constants.array(path_text(found.partition.topic), pa.string(), rows)
    if name == "partition":
        return constants.array(found.partition.partition, pa.int32(), rows)
    if name == "file":
        return constants.array(path_text(found.file), pa.string(), rows)
    if name == "base_offset":
        return _nullable(found.base_offsets, found.base_offsets >= 0)
    if name == "crc_valid":
        assert found.crc_valid is not None
        return pa.array(found.crc_valid)
    if name in STORED:
        column, dtype = STORED[name]
        return pa.array(found.entries.column(column).astype(dtype, copy=False))
    return DERIVED[name](found.entries)


def _nullable(values: NDArray[Any], valid: NDArray[np.bool_]) -> pa.Array:
    bitmap, nulls = validity(valid.astype(np.uint8))
    array = pa.array(values)
    return pa.Array.from_buffers(array.type, len(values), [bitmap, array.buffers()[1]], nulls)


def _record_count(entries: EntryTable) -> pa.Array:
    return _nullable(entries.record_count.astype(np.int32), entries.magic == 2)


def _delete_horizon(entries: EntryTable) -> pa.Array:
    flagged = (entries.attributes & batch.DELETE_HORIZON != 0) & (entries.magic == 2)
    return _nullable(entries.base_timestamp, flagged)


def _last_sequence(entries: EntryTable) -> pa.Array:
    base = entries.base_sequence
    last = (base + entries.last_offset - entries.base_offset) & MAX_SEQUENCE
    return pa.array(np.where(base < 0, NO_SEQUENCE, last).astype(np.int32))


def _flag(mask: int) -> Callable[[EntryTable], pa.Array]:
    return lambda entries: pa.array((entries.attributes & mask != 0) & (entries.magic == 2))


DERIVED: dict[str, Callable[[EntryTable], pa.Array]] = {
    "record_count": _record_count,
    "codec": lambda entries: codec_names(entries.attributes),
    "timestamp_type": lambda entries: pa.array(timestamp_types(entries)),
    "is_transactional": _flag(batch.TRANSACTIONAL),
    "is_control": _flag(batch.CONTROL),
    "delete_horizon_ms": _delete_horizon,
    "last_sequence": _last_sequence,
}
