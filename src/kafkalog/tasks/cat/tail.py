"""Where the last records of a partition begin, found from its end: what lies before is not read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.errors import Limits
from kafkalog.log.headers import end_offset
from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.tables.logs import Logs

FIRST_SPAN = 64
WIDEN = 8  # compaction, aborted transactions and time ranges leave fewer records than offsets


def tail_offset(path: str, partition: Partition, count: int, choices: dict[str, Any]) -> int:
    """The offset of the last record but `count` - 1 among those that the choices of `Logs.read` leave."""
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
        reader = alone.read("records", ["offset"], **{**choices, "start_offset": start}, report=ReadReport())
        offsets = _last(reader, count)
        if len(offsets) >= count or start == first:
            return int(offsets[0]) if len(offsets) else max(end, first)
        span *= WIDEN


def _last(batches: pa.RecordBatchReader, count: int) -> NDArray[np.int64]:
    """The last `count` offsets."""
    last: NDArray[np.int64] = np.empty(0, np.int64)
    for batch in batches:
        last = np.concatenate([last, batch.column("offset").to_numpy()])[-count:] if count else last
    return last
