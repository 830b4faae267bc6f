"""The stream reader of the source: `spark.readStream.format("kafkalog").load(path)`. Its decisions are in `microbatch`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from .errors import BAD_OPTION, SparkSourceError, coded
from .microbatch import MicroBatches, Offsets, from_json, origins_of_json, to_json
from .offered import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from .options import SourceOptions
from .read_plan import first_parts
from .session import planned_cores
from .source import SplitPartition, read_partition
from .splits import Part, Split

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.kernels.cache import PackedKernels

LOGGER = logging.getLogger("kafkalog.spark")


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
    _reached: dict[str, Any] | None = None  # the end of the last micro-batch
    _is_said = False

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

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """The end of the next micro-batch. Where Spark does not limit micro-batches, it passes neither start nor limit."""
        with coded():
            if start is None:
                self._say_that_nothing_limits()
            found = start if start is not None else self._reached or self.initialOffset()
            self._reached = self.stream.settled(lambda: self._latest(found, limit))
            return self._reached

    def _say_that_nothing_limits(self) -> None:
        # With Trigger.AvailableNow such a Spark ends after one micro-batch: what a limit left would wait for the next run.
        if not self._is_said and self.options.admission.given:
            LOGGER.warning(
                "%s without effect: this Spark (before 4.2) cannot limit the micro-batches of a Python source, so each one "
                "reads all that is there",
                " and ".join(self.options.admission.given),
            )
        self._is_said = True

    def _latest(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        read, origins = _offsets(start), origins_of_json(start)
        begin = self.stream.resumed(read, origins)
        limited = limit is not None and not isinstance(limit, ReadAllAvailable)
        end = self.stream.latest_offsets(begin, limited=limited, may_be_last=limit is None)
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
            splits = self.stream.settled(lambda: self._plan(start, end))
        # When a query is restarted, Spark first asks for what is between its last offset and its last offset.
        self._reached = end
        return [SplitPartition(split) for split in splits]

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
