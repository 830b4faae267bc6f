"""A split on its way to a task, for batch and stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from .options import SourceOptions
from .splits import Split

if TYPE_CHECKING:
    import pyarrow as pa

    from .columns import Projection


@dataclass
class SplitPartition(InputPartition):
    """A split as Spark hands it to a task."""

    split: Split


def read_partition(partition: InputPartition | None, projection: Projection, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a split."""
    from .task_reading import read_split

    # Spark makes a task without a split where there is nothing to read.
    split = partition.split if isinstance(partition, SplitPartition) else Split()
    return read_split(split, projection, options)
