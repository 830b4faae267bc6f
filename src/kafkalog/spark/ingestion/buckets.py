"""Records sorted by the day or hour of their timestamp, in UTC: the folders of a table that is partitioned by time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.format.batch import NO_TIMESTAMP

HOUR_MS: Final = 3_600_000
GRAIN_MS: Final = {"day": 24 * HOUR_MS, "hour": HOUR_MS}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# What a date can be: the years 1 to 9999.
FIRST_MS: Final = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
LAST_MS: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
# How Hive spells null; readers give it back as null.
UNKNOWN: Final = "__HIVE_DEFAULT_PARTITION__"
_NONE: Final = -(1 << 62)


def split_by_time(batch: pa.RecordBatch, grain: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The folders of the batch's records, such as `day=2026-01-31`, each with those records in order."""
    if not batch.num_rows:
        return
    milliseconds = _milliseconds(batch.column("timestamp"))
    lowest, highest = _buckets(np.array([milliseconds.min(), milliseconds.max()]), GRAIN_MS[grain]).tolist()
    if lowest == highest != _NONE:
        yield folder_of(lowest, grain), batch
        return
    numbers = _buckets(milliseconds, GRAIN_MS[grain])
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        first, last = int(rows[0]), int(rows[-1])
        whole = last - first + 1 == len(rows)
        yield folder_of(number, grain), batch.slice(first, len(rows)) if whole else batch.take(pa.array(rows))


def _milliseconds(times: pa.Array) -> NDArray[np.int64]:
    stored = times.cast(pa.int64())
    milliseconds: NDArray[np.int64] = (stored.fill_null(NO_TIMESTAMP) if stored.null_count else stored).to_numpy()
    return milliseconds


def _buckets(milliseconds: NDArray[np.int64], grain_ms: int) -> NDArray[np.int64]:
    """The number of the day or hour since 1970 of each time, `_NONE` where there is none."""
    known = (milliseconds != NO_TIMESTAMP) & (milliseconds >= FIRST_MS) & (milliseconds <= LAST_MS)
    numbers: NDArray[np.int64] = milliseconds // grain_ms
    return numbers if known.all() else np.where(known, numbers, _NONE)


@lru_cache(4096)
def folder_of(number: int, grain: str) -> str:
    if number == _NONE:
        return f"day={UNKNOWN}/hour={UNKNOWN}" if grain == "hour" else f"day={UNKNOWN}"
    moment = EPOCH + timedelta(milliseconds=number * GRAIN_MS[grain])
    day = f"day={moment.year:04}-{moment.month:02}-{moment.day:02}"
    return f"{day}/hour={moment.hour:02}" if grain == "hour" else day
