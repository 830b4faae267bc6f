"""`kafkalog cat`: records from a range or from the end, once or as they come; those that match, with their payloads decoded."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.payloads.registry import likely_schema_id
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import find_table
from kafkalog.tables.text_columns import TextColumns

from .decoding import DECODED_FIELDS, PayloadDecoder, make_payload_decoder
from .matching import Match
from .tail import Ending, Tail, tail_offset, tails, time_order

__all__ = ["Cat", "Match", "Tail", "make_payload_decoder", "tail_offset"]

# So many of the last records of a topic are put in the order of their times; they wait in memory until all have been read.
ORDERED_RECORDS = 10_000
ORDERED_BYTES = 64 << 20


class Cat:
    """Records of logs. `choices` are those of `Logs.read`, by the same names.

    `tail` asks for the last so many, of which `match` may leave some out. With `follow` it does not end.
    `decoders` (by topic, or one for all) add the columns `key_json` and `value_json`: null where there is nothing to decode, or
    where that fails. `text` columns are for those who decode nothing. `undecoded` counts what did not decode, `seen` and
    `matched` the records; `is_complete` once all have been read. `schema_id`: what did not decode first looked as if a schema
    registry's prefix preceded it.
    """

    def __init__(
        self,
        logs: Logs,
        columns: Sequence[str],
        *,
        tail: Tail | None = None,
        follow: bool = False,
        match: Match | None = None,
        decoders: PayloadDecoder | Mapping[str, PayloadDecoder] | None = None,
        text: TextColumns | None = None,
        report: ReadReport | None = None,
        **choices: Any,
    ) -> None:
        self.logs = logs
        self.columns = list(columns)
        self.tail = tail
        self.follow = follow
        self.match = match if match is not None and match.is_needed else None
        self.decoders = decoders
        self.text = text if text is not None and text.names else None
        self.report = report if report is not None else ReadReport()
        self.choices = choices
        self.undecoded = self.seen = self.matched = 0
        self.is_complete = False
        self.schema_id: int | None = None
        self._stored = find_table("records").schema(self.columns)
        self.schema = self.text.schema(self._stored) if self.text is not None else self._stored
        if decoders is not None:
            self.schema = pa.schema([*self.schema, *DECODED_FIELDS])

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The records; each batch is of one partition."""
        for batch in self._read():
            self.seen += batch.num_rows
            found = batch if self.match is None else self.match.only(batch)
            self.matched += found.num_rows
            if found.num_rows:
                yield self._shown(found)
        self.is_complete = True

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.decoders is not None:
            return self._decoded(batch, self.decoders)
        return batch if self.text is None else self.text.convert(batch, self.report)

    def _decoded(self, batch: pa.RecordBatch, decoders: PayloadDecoder | Mapping[str, PayloadDecoder]) -> pa.RecordBatch:
        decoder = decoders.get(batch.column("topic")[0].as_py()) if isinstance(decoders, Mapping) else decoders
        if decoder is None:
            texts = [pa.nulls(batch.num_rows, field.type) for field in DECODED_FIELDS]
        else:
            *texts, failed = decoder(batch.column("key"), batch.column("value"))
            self.undecoded += failed
            if failed and self.undecoded == failed:
                self.schema_id = likely_schema_id(batch.column("value").filter(texts[1].is_null()))
        return pa.RecordBatch.from_arrays([*batch.columns, *texts], schema=self.schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        if self.tail is None:
            return (
                self._follow({})
                if self.follow
                else iter(self.logs.read("records", self.columns, **self.choices, report=self.report))
            )
        endings = tails(self.logs.path, self._chosen(), self.tail, self._alike())
        if self.follow:
            return self._follow({ending.partition.folder: ending.start for ending in endings})
        return self._read_tails(endings, by_time=not self.tail.each_partition)

    def _follow(self, start_offsets: dict[str, int]) -> Iterator[pa.RecordBatch]:
        return self.logs.follow(self.columns, **self.choices, report=self.report, start_offsets=start_offsets)

    def _read_tails(self, endings: list[Ending], *, by_time: bool) -> Iterator[pa.RecordBatch]:
        topic: list[Ending] = []
        for ending in endings:
            if topic and (topic[0].partition.topic != ending.partition.topic or not by_time):
                yield from self._read_topic(topic)
                topic = []
            topic.append(ending)
        if topic:
            yield from self._read_topic(topic)

    def _read_topic(self, endings: list[Ending]) -> Iterator[pa.RecordBatch]:
        """The last records of a topic, by time if there are not too many."""
        if len(endings) < 2 or sum(len(ending.offsets) for ending in endings) > ORDERED_RECORDS:
            for ending in endings:
                yield from self._from(ending)
            return
        held: list[list[pa.RecordBatch]] = [[] for _ in endings]
        size = 0
        batches = ((number, batch) for number, ending in enumerate(endings) for batch in self._from(ending))
        for number, batch in batches:
            held[number].append(batch)
            size += batch.nbytes
            if size > ORDERED_BYTES:
                break
        is_whole = [sum(batch.num_rows for batch in several) for several in held] == [len(ending.offsets) for ending in endings]
        if is_whole and size <= ORDERED_BYTES:
            yield from _by_time([pa.Table.from_batches(several, self._stored) for several in held], endings)
            return
        for several in held:
            yield from several
        for _, batch in batches:
            yield batch

    def _from(self, ending: Ending) -> Iterator[pa.RecordBatch]:
        choices = {**self._alike(), "start_offset": ending.start}
        yield from Logs(self.logs.path, [ending.partition]).read("records", self.columns, **choices, report=self.report)

    def _chosen(self) -> list[Partition]:
        return self.logs.choose(self.choices.get("topics"), self.choices.get("partitions"))

    def _alike(self) -> dict[str, Any]:
        """The choices that apply to a single partition too."""
        return {name: choice for name, choice in self.choices.items() if name not in ("topics", "partitions")}


def _by_time(tables: list[pa.Table], endings: list[Ending]) -> Iterator[pa.RecordBatch]:
    """The rows in the order of time; each batch is a run of rows of one partition."""
    order = time_order(endings)
    run_starts = [0, *((order[1:, 0] != order[:-1, 0]).nonzero()[0] + 1).tolist()]
    for start, stop in zip(run_starts, [*run_starts[1:], len(order)], strict=True):
        which, row = order[start].tolist()
        yield from tables[which].slice(row, stop - start).to_batches()
