"""The stream reader of the source: `spark.readStream.format("kafkalog").load(path)`. Its decisions are in `microbatch`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
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

from .errors import BAD_OPTION, SparkSourceError, coded
from .microbatch import MicroBatches, Offsets, from_json, origins_of_json, to_json
from .options import SourceOptions
from .read_plan import first_parts
from .session import planned_cores
from .source import SplitPartition, read_partition
from .splits import Part, Split

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.kernels.cache import PackedKernels


def _offsets(written: Any) -> Offsets:
    """The offsets that Spark recorded for a stream; SparkSourceError if another kind of source recorded them."""
    try:
        return from_json(written)
    except (AttributeError, TypeError, ValueError):
        raise SparkSourceError(
            BAD_OPTION,
            f"option checkpointLocation: it holds {json.dumps(written)}, not offsets of topics such as "
            '{"orders": {"0": 23}}; give this query a checkpoint of its own',
        ) from None


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver as long as its query; tasks get a copy that only reads."""

    kernels: PackedKernels | None = None

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        from .columns import Projection

        self.options = options
        self.projection = Projection.of(schema, options)
        self.stream = MicroBatches(options)

    def initialOffset(self) -> dict[str, Any]:
        with coded():
            return self.stream.settled(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options. Spark has none for several at once; it only matters that it is not `ReadAllAvailable`."""
        admission = self.options.admission
        if admission.max_offsets is not None:
            return ReadMaxRows(admission.max_offsets)
        if admission.max_bytes is not None:
            return ReadMaxBytes(admission.max_bytes)
        return ReadMinRows(admission.min_offsets) if admission.min_offsets is not None else ReadAllAvailable()

    def _initial(self) -> dict[str, Any]:
        start = self.stream.initial_offsets()
        return to_json(start, self.stream.origins(start, {}, {}))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with coded():
            return self.stream.settled(lambda: self._latest(start, limit))

    def _latest(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        read, origins = _offsets(start), origins_of_json(start)
        begin = self.stream.resumed(read, origins)
        end = self.stream.latest_offsets(begin, limited=not isinstance(limit, ReadAllAvailable))
        held = {key: origin for key, origin in origins.items() if begin.get(key) == read.get(key)}
        return to_json(end, self.stream.origins(end, begin, held))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        with coded():
            return to_json(self.stream.available_offsets())

    def prepareForTriggerAvailableNow(self) -> None:
        with coded():
            self.stream.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with coded():
            return [SplitPartition(split) for split in self.stream.settled(lambda: self._plan(start, end))]

    def _plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[Split]:
        begin = self.stream.resumed(_offsets(start), origins_of_json(start))
        return self.stream.plan(begin, _offsets(end), planned_cores(self.options))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.projection, self.options, self.kernels)

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get. Spark asks for it once, in another process than for the offsets of micro-batches."""
        from .shipped_kernels import kernels_for_read

        parts: list[Part] = []
        with suppress(Exception):  # the micro-batch raises it
            parts = first_parts(self.options)
        kernels = kernels_for_read(parts, self.projection, self.options)
        return {"options": self.options, "projection": self.projection, "kernels": kernels}

    def commit(self, end: dict[str, Any]) -> None:
        with coded():
            self.stream.commit(_offsets(end))
