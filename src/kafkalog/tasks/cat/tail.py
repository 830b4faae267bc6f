"""The last records: of each partition, or of each topic, whose partitions are then put together by time.

A record counts as no older than those before it in its partition: an event that arrived late is among the last ones, and what is
left out of a partition is always its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.errors import Limits
from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.log.segments import end_offset
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.tables.logs import Logs

FIRST_SPAN = 64
WIDEN = 8  # compaction, aborted transactions and time ranges leave fewer records than offsets


@dataclass(frozen=True)
class Tail:
    """The last `count` records of each topic, or of each partition."""

    count: int
    each_partition: bool = False


@dataclass(frozen=True)
class Ending:
    """The last records of a partition, and the offset after them."""

    partition: Partition
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]  # empty unless they were asked for
    end: int

    def last(self, count: int) -> Ending:
        first = max(len(self.offsets) - count, 0)
        return Ending(self.partition, self.offsets[first:], self.timestamps[first:], self.end)

    @property
    def start(self) -> int:
        return int(self.offsets[0]) if len(self.offsets) else self.end


def tails(path: str, partitions: list[Partition], tail: Tail, choices: dict[str, Any]) -> list[Ending]:
    """The last records that the choices of `Logs.read` select, of all the partitions, in their order."""
    topics: dict[str, list[Partition]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(partition)
    endings: dict[str, Ending] = {}
    for found in topics.values():
        alone = tail.each_partition or len(found) == 1
        columns = ["offset"] if alone else ["offset", "timestamp_ms"]
        several = [_ending(path, partition, tail.count, columns, choices) for partition in found]
        for ending in several if alone else _newest(several, tail.count):
            endings[ending.partition.folder] = ending
    return [endings[partition.folder] for partition in partitions]


def _newest(endings: list[Ending], count: int) -> list[Ending]:
    """Of the last records of a topic's partitions the `count` newest."""
    kept = np.zeros(len(endings), np.int64)
    which = time_order(endings)[:, 0][-count:] if count else np.empty(0, np.int64)
    np.add.at(kept, which, 1)
    return [ending.last(number) for ending, number in zip(endings, kept.tolist(), strict=True)]


def time_order(endings: Iterable[Ending]) -> NDArray[np.int64]:
    """Rows of (which ending, which record of it): by time, then by partition and offset."""
    found = list(endings)
    sizes = [len(ending.offsets) for ending in found]
    which = np.repeat(np.arange(len(found)), sizes)
    times = [np.maximum.accumulate(ending.timestamps) for ending in found]
    numbers = np.repeat([ending.partition.partition for ending in found], sizes)
    rows = np.concatenate([np.arange(size) for size in sizes]) if found else np.empty(0, np.int64)
    order = np.lexsort((rows, which, numbers, np.concatenate(times) if times else which))
    return np.stack([which[order], rows[order]], axis=1).astype(np.int64)


def tail_offset(path: str, partition: Partition, count: int, choices: dict[str, Any]) -> int:
    """The offset of the first of the last `count` records that the choices of `Logs.read` select."""
    return _ending(path, partition, count, ["offset"], choices).start


def _ending(path: str, partition: Partition, count: int, columns: list[str], choices: dict[str, Any]) -> Ending:
    limits = choices.get("limits") or Limits()
    partition = with_finished_segments(partition, limits)
    first = max(partition.start_offset, choices.get("start_offset") or 0)
    stop_offset = choices.get("stop_offset")
    end = end_offset(partition, limits)
    if stop_offset is not None:
        end = min(end, stop_offset)
    span = max(count, FIRST_SPAN)
    alone = Logs(path, [partition])
    while True:
        start = max(end - span, first)
        reader = alone.read("records", columns, **{**choices, "start_offset": start}, report=ReadReport())
        offsets, timestamps, after = _last(reader, count)
        if len(offsets) >= count or start == first:
            return Ending(partition, offsets, timestamps, max(end, first) if after is None else after)
        span *= WIDEN


def _last(batches: pa.RecordBatchReader, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int | None]:
    """The last `count` offsets, their timestamps if these are read, and the offset after them; None if there is no record."""
    last = [np.empty(0, np.int64) for _ in batches.schema]
    after = None
    for batch in batches:
        after = int(batch.column("offset")[-1].as_py()) + 1 if batch.num_rows else after
        if count:
            last = [np.concatenate([held, column.to_numpy()])[-count:] for held, column in zip(last, batch.columns, strict=True)]
    return last[0], last[1] if len(last) > 1 else np.empty(0, np.int64), after
