"""What a data file holds, as its footer says: counts, sizes and bounds of its columns, for the commit of a lake table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from .layout import NO_BUCKET


@dataclass(frozen=True)
class ColumnStatistics:
    """What a file says of one column: bytes, values, and where they were counted nulls and bounds."""

    size: int
    values: int
    nulls: int | None
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class FileStatistics:
    """What a table's commit says of a data file besides its path: `bucket` is its day or hour since 1970, and its rows are sorted
    by partition and offset, or not."""

    topic: str
    bucket: int
    is_sorted: bool
    row_groups: tuple[int, ...]
    columns: Mapping[str, ColumnStatistics]

    @property
    def is_timed(self) -> bool:
        return self.bucket != NO_BUCKET


def statistics_of(topic: str, bucket: int, is_sorted: bool, metadata: pq.FileMetaData) -> FileStatistics:
    """The statistics of a file that was just written."""
    columns: dict[str, list[Any]] = {}
    offsets = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(each) for each in range(group.num_columns)]
        offsets.append(min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks))
        for chunk in chunks:
            columns.setdefault(chunk.path_in_schema, []).append(chunk)
    return FileStatistics(topic, bucket, is_sorted, tuple(offsets), {name: _column(chunks) for name, chunks in columns.items()})


def _column(chunks: Sequence[Any]) -> ColumnStatistics:
    size, values = sum(each.total_compressed_size for each in chunks), sum(each.num_values for each in chunks)
    found = [each.statistics for each in chunks if each.is_stats_set]
    if len(found) < len(chunks):
        return ColumnStatistics(size, values, None)
    nulls = sum(each.null_count for each in found) if all(each.has_null_count for each in found) else None
    bounded = [each for each in found if each.has_min_max]
    if not bounded or any(not each.has_min_max and each.num_values for each in found):
        return ColumnStatistics(size, values, nulls)
    return ColumnStatistics(size, values, nulls, min(each.min for each in bounded), max(each.max for each in bounded))
