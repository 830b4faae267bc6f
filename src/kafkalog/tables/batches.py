"""The `batches` table: headers only, unless a column asks for more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.errors import path_text
from kafkalog.format import batch
from kafkalog.format.sequence import MAX_SEQUENCE, NO_SEQUENCE
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints
from kafkalog.log.batches import BatchHeaders, read_batches
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.segment.columns import codec_names, timestamp_types, validity
from kafkalog.segment.constant import Constants

from .schemas import record_batch

STORED: dict[str, tuple[int, Any]] = {
    "position": (scan.POSITION, np.int64),
    "size": (scan.SIZE, np.int64),
    "magic": (scan.MAGIC, np.int8),
    "last_offset": (scan.LAST_OFFSET, np.int64),
    "crc": (scan.CRC, np.int64),
    "base_timestamp_ms": (scan.BASE_TIMESTAMP, np.int64),
    "max_timestamp_ms": (scan.MAX_TIMESTAMP, np.int64),
    "producer_id": (scan.PRODUCER_ID, np.int64),
    "producer_epoch": (scan.PRODUCER_EPOCH, np.int16),
    "base_sequence": (scan.BASE_SEQUENCE, np.int32),
    "leader_epoch": (scan.LEADER_EPOCH, np.int32),
}


def batch_batches(
    partitions: Iterable[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[pa.RecordBatch]:
    """The entries of the partitions, as stored."""
    constants = Constants()
    for found in read_batches(partitions, options, report):
        arrays = [_column(found, name, constants) for name in schema.names]
        yield record_batch(arrays, schema, found.fields.shape[1])


def _column(found: BatchHeaders, name: str, constants: Constants) -> pa.Array:
    rows = found.fields.shape[1]
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
        row, dtype = STORED[name]
        return pa.array(found.fields[row].astype(dtype, copy=False))
    return DERIVED[name](found.fields)


def _nullable(values: NDArray[Any], valid: NDArray[np.bool_]) -> pa.Array:
    bitmap, nulls = validity(valid.astype(np.uint8))
    array = pa.array(values)
    return pa.Array.from_buffers(array.type, len(values), [bitmap, array.buffers()[1]], nulls)


def _record_count(fields: Ints) -> pa.Array:
    return _nullable(fields[scan.COUNT].astype(np.int32), fields[scan.MAGIC] == 2)


def _delete_horizon(fields: Ints) -> pa.Array:
    flagged = (fields[scan.ATTRIBUTES] & batch.DELETE_HORIZON != 0) & (fields[scan.MAGIC] == 2)
    return _nullable(fields[scan.BASE_TIMESTAMP], flagged)


def _last_sequence(fields: Ints) -> pa.Array:
    base = fields[scan.BASE_SEQUENCE]
    last = (base + fields[scan.LAST_OFFSET] - fields[scan.BASE_OFFSET]) & MAX_SEQUENCE
    return pa.array(np.where(base < 0, NO_SEQUENCE, last).astype(np.int32))


def _flag(mask: int) -> Callable[[Ints], pa.Array]:
    return lambda fields: pa.array((fields[scan.ATTRIBUTES] & mask != 0) & (fields[scan.MAGIC] == 2))


DERIVED: dict[str, Callable[[Ints], pa.Array]] = {
    "record_count": _record_count,
    "codec": lambda fields: codec_names(fields[scan.ATTRIBUTES]),
    "timestamp_type": lambda fields: pa.array(timestamp_types(fields)),
    "is_transactional": _flag(batch.TRANSACTIONAL),
    "is_control": _flag(batch.CONTROL),
    "delete_horizon_ms": _delete_horizon,
    "last_sequence": _last_sequence,
}
