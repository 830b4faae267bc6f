"""The stream reader of the source: `spark.readStream.format("kafkalog").load(path)`. What it decides is in `microbatch`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from .errors import coded
from .microbatch import MicroBatches, from_json, to_json
from .options import SourceOptions
from .partition import SplitPartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as its query on the driver; tasks get a copy that only reads."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        from .columns import Projection

        self.options = options
        self.projection = Projection.of(schema, options)
        self.stream = MicroBatches(options)

    def initialOffset(self) -> dict[str, Any]:
        with coded():
            return to_json(self.stream.initial_offsets())

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options. Spark has none for several at once: what counts is that it is not `ReadAllAvailable`."""
        admission = self.options.admission
        if admission.max_offsets is not None:
            return ReadMaxRows(admission.max_offsets)
        if admission.max_bytes is not None:
            return ReadMaxBytes(admission.max_bytes)
        return ReadMinRows(admission.min_offsets) if admission.min_offsets is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with coded():
            return to_json(self.stream.latest_offsets(from_json(start), limited=not isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        with coded():
            return to_json(self.stream.available_offsets())

    def prepareForTriggerAvailableNow(self) -> None:
        with coded():
            self.stream.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with coded():
            return [SplitPartition(split) for split in self.stream.plan(from_json(start), from_json(end))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.projection, self.options)

    def commit(self, end: dict[str, Any]) -> None:
        self.stream.commit(from_json(end))
