"""`kafkalog cat`: records from a range or from the end, once or as they come; those that match, with their payloads decoded."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
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
from kafkalog.tables.schemas import find_table

from .decoding import DECODED_FIELDS, PayloadDecoder, make_payload_decoder
from .matching import Match

__all__ = ["Cat", "Match", "make_payload_decoder"]

FIRST_SPAN = 64
WIDEN = 8  # compaction, aborted transactions and time ranges leave fewer records than offsets


class Cat:
    """Records of logs. `choices` are those of `Logs.read`, by the same names.

    `tail` asks for the last so many of each partition, of which `match` may leave some out. With `follow` it does not end.
    A `decoder` adds the columns `key_json` and `value_json`: null where there is nothing to decode, or it does not decode.
    `undecoded` counts the latter.
    """

    def __init__(
        self,
        logs: Logs,
        columns: Sequence[str],
        *,
        tail: int | None = None,
        follow: bool = False,
        match: Match | None = None,
        decoder: PayloadDecoder | None = None,
        report: ReadReport | None = None,
        **choices: Any,
    ) -> None:
        self.logs = logs
        self.columns = list(columns)
        self.tail = tail
        self.follow = follow
        self.match = match if match is not None and match.is_needed else None
        self.decoder = decoder
        self.report = report if report is not None else ReadReport()
        self.choices = choices
        self.undecoded = 0
        schema = find_table("records").schema(self.columns)
        self.schema = schema if decoder is None else pa.schema([*schema, *DECODED_FIELDS])

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The records; each batch is of one partition."""
        for batch in self._read():
            found = batch if self.match is None else self.match.only(batch)
            if found.num_rows:
                yield found if self.decoder is None else self._decoded(found, self.decoder)

    def _decoded(self, batch: pa.RecordBatch, decoder: PayloadDecoder) -> pa.RecordBatch:
        keys, values, failed = decoder(batch.column("key"), batch.column("value"))
        self.undecoded += failed
        return pa.RecordBatch.from_arrays([*batch.columns, keys, values], schema=self.schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        if self.follow:
            return self.logs.follow(self.columns, **self.choices, report=self.report, start_offsets=self._start_offsets())
        if self.tail is None:
            return iter(self.logs.read("records", self.columns, **self.choices, report=self.report))
        return self._read_tails()

    def _read_tails(self) -> Iterator[pa.RecordBatch]:
        start_offsets = self._start_offsets()
        for partition in self._chosen():
            choices = {**self._alike(), "start_offset": start_offsets[partition.folder]}
            yield from Logs(self.logs.path, [partition]).read("records", self.columns, **choices, report=self.report)

    def _chosen(self) -> list[Partition]:
        return self.logs.choose(self.choices.get("topics"), self.choices.get("partitions"))

    def _alike(self) -> dict[str, Any]:
        """The choices that apply to a single partition too."""
        return {name: choice for name, choice in self.choices.items() if name not in ("topics", "partitions")}

    def _start_offsets(self) -> dict[str, int]:
        """Where the last records of each partition begin, by its folder; empty if all are wanted."""
        if self.tail is None:
            return {}
        return {found.folder: tail_offset(self.logs.path, found, self.tail, self._alike()) for found in self._chosen()}


def tail_offset(path: str, partition: Partition, count: int, choices: dict[str, Any]) -> int:
    """The offset of the first of the last `count` records that the choices of `Logs.read` select."""
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
