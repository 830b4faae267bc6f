"""The data source `kafkalog` of Spark: `spark.read.format("kafkalog").load(path)`, and the same with `readStream`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .errors import coded
from .options import SourceOptions, for_batch, for_stream, parse_options
from .read_plan import plan_splits
from .session import freeze_garbage, planned_cores
from .splits import Split

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.kernels.cache import PackedKernels

    from .columns import Projection
    from .streaming import KafkaLogStreamReader


class KafkaLogDataSource(DataSource):
    """Kafka's log files as a table in Spark; options and columns are those of Spark's own Kafka source.

    Name: `kafkalog`. Registered automatically where kafkalog is installed, else with
    `spark.dataSource.register(KafkaLogDataSource)`. The options are listed in docs/spark.md.

        spark.read.format("kafkalog").option("subscribe", "orders").load("/var/lib/kafka/data")
        spark.readStream.format("kafkalog").option("subscribe", "orders").load("/var/lib/kafka/data")
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.parsed = parse_options(options)
        freeze_garbage()

    @classmethod
    def name(cls) -> str:
        return "kafkalog"

    def schema(self) -> StructType:
        from .columns import default_schema  # loads Arrow, NumPy and Numba: too much for a mere look-up of sources

        return default_schema(self.parsed)

    def reader(self, schema: StructType) -> KafkaLogReader:
        return KafkaLogReader(for_batch(self.parsed), schema)

    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:
        from .streaming import KafkaLogStreamReader

        return KafkaLogStreamReader(for_stream(self.parsed), schema)


class KafkaLogReader(DataSourceReader):
    """Plans on the driver; tasks get a copy that only reads."""

    kernels: PackedKernels | None = None
    _splits: list[Split] | None = None

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        from .columns import Projection

        self.options = options
        self.projection = Projection.of(schema, options)

    def partitions(self) -> list[InputPartition]:
        splits = self._planned()
        freeze_garbage()
        return [SplitPartition(split) for split in splits]

    def _planned(self) -> list[Split]:
        if self._splits is None:
            with coded():
                self._splits = plan_splits(self.options, planned_cores(self.options))
        return self._splits

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get. Spark asks for it before it asks for the partitions."""
        from .shipped_kernels import kernels_for_read

        splits: list[Split] = []
        with suppress(Exception):  # `partitions` raises it
            splits = self._planned()
        parts = (part for split in splits for part in split.parts)
        kernels = kernels_for_read(parts, self.projection, self.options)
        return {"options": self.options, "projection": self.projection, "kernels": kernels}

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.projection, self.options, self.kernels)


@dataclass(repr=False)
class SplitPartition(InputPartition):
    """A split as Spark passes it to a task."""

    split: Split

    def __repr__(self) -> str:
        return f"SplitPartition({self.split!r})"


def read_partition(
    partition: InputPartition | None, projection: Projection, options: SourceOptions, kernels: PackedKernels | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, read with the kernels that came with the job."""
    if kernels is not None:
        kernels.unpack()
    from .task_reading import read_split

    # Spark starts a task without a split if there is nothing to read.
    split = partition.split if isinstance(partition, SplitPartition) else Split()
    return read_split(split, projection, options)
