"""Follow partitions as a running broker appends to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from kafkalog.errors import SegmentChanged, StorageError

from .folders import find_partitions
from .headers import end_offset
from .partition import Partition
from .reading import ReadOptions
from .report import ReadReport

ReadBatches = Callable[[Partition, ReadOptions, ReadReport], Iterator[pa.RecordBatch]]


def follow_partitions(
    partitions: Sequence[Partition], options: ReadOptions, read: ReadBatches, poll_seconds: float, stop: Callable[[], bool] | None
) -> Iterator[pa.RecordBatch]:
    """What is there now, then what comes, partition by partition in each round."""
    start = options.record_range.start_offset
    positions = [start] * len(partitions)
    while True:
        found = False
        for number, partition in enumerate(partitions):
            for batch, following in _new_batches(partition, positions[number], options, read):
                found = True
                yield batch
                positions[number] = following
        if stop is not None and stop():
            return
        if not found:
            time.sleep(poll_seconds)


def _new_batches(
    partition: Partition, start_offset: int, options: ReadOptions, read: ReadBatches
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches from `start_offset` on, each with the offset to go on from."""
    try:
        current = find_partitions(partition.store, partition.folder)[0]
        stop_offset = min(end_offset(current, options.limits), options.record_range.stop_offset)
        if stop_offset <= start_offset:
            return
        record_range = replace(options.record_range, start_offset=start_offset, stop_offset=stop_offset)
        for batch in read(current, replace(options, record_range=record_range), ReadReport()):
            yield batch, stop_offset
    except (SegmentChanged, StorageError):
        return
