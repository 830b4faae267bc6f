"""The work of `kafkalog cat`: what to read, by the options, and a writer for the records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

import kafkalog
from kafkalog.errors import StorageError, UsageError
from kafkalog.format.quantities import plural
from kafkalog.log.reading import DEFAULT_THREADS
from kafkalog.tables.schemas import find_table
from kafkalog.tables.text_columns import TextColumns
from kafkalog.tasks.cat import Cat, Match, Tail, make_payload_decoder
from kafkalog.tasks.cat.decoding import PayloadDecoder, internal_topic_decoders

from ..commands.cat import AUTO, NONE, CatRequest
from ..commands.shared_options import ReadChoices
from ..failure import warn
from ..render import record_lines, record_pages
from ..render.cells import TEXT_ENCODINGS
from ..render.target import STDOUT, Sink
from ..render.text import TextWriter
from ..render.writers import BINARY_FORMATS, Writer, open_writer
from .rows import Output, write_batches

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
# Text omits the type of timestamps, and headers unless --headers is given.
TEXT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
# People look for values: where there is no room, these columns are left out first.
LEAST = ("topic", "timestamp", "partition", "headers")


def write_records(request: CatRequest) -> int:
    """Write the requested records; the exit code."""
    _check(request)
    output = Output(request.rows, request.choices["on_damage"], all_shown_by="--pretty or --format json")
    output.check()
    match = Match(request.key, request.grep, request.pattern)
    logs = kafkalog.open(request.paths, topic_ids=request.topic_ids)
    partitions = logs.choose(request.choices["topics"], request.choices["partitions"])
    decoders = _decoders(request, {found.topic for found in partitions})
    cat = Cat(
        logs,
        _columns(request),
        tail=_tail(request),
        follow=request.follow,
        match=match,
        decoders=decoders,
        text=TextColumns(request.rows.text or (), request.rows.text_errors),
        **_choices(request),
    )
    size = sum(found.size for found in partitions) if cat.tail is None else 0
    with closing(cat.batches()) as batches:
        code = write_batches(
            output, batches, lambda sink: _open_writer(request, sink, cat), cat.report, size, follow=request.follow
        )
    if not request.rows.quiet:
        for line in _remarks(request, cat):
            warn(line)
    return code


def _remarks(request: CatRequest, cat: Cat) -> Iterator[str]:
    """What the records themselves do not show."""
    if isinstance(cat.decoders, Mapping) and request.decode is None:
        yield f"{' and '.join(sorted(cat.decoders))} decoded; --decode none shows the stored bytes"
    if cat.undecoded:
        kind = f" as {request.decode}" if request.decode not in (None, AUTO) else ""
        yield f"could not decode {plural(cat.undecoded, 'record')}{kind}; shown as stored"
        if cat.schema_id is not None and request.decode in ("json", "avro") and not request.registry_prefix:
            yield f"values begin as a schema registry's serializers write them (schema id {cat.schema_id}): try --registry-prefix"
    if cat.is_complete and cat.match is not None and cat.seen:
        yield f"{cat.matched} of {'the last ' if cat.tail else ''}{plural(cat.seen, 'record')} matched"
    elif cat.is_complete and not cat.seen and (cat.tail is None or cat.tail.count):
        bounds = (request.choices["start_offset"], request.choices["stop_offset"])
        times = (request.choices["start_time"], request.choices["stop_time"])
        is_bounded = any(bound is not None for bound in (*bounds, *times))
        yield "no records between these offsets and times" if is_bounded else "no records"


def _tail(request: CatRequest) -> Tail | None:
    if request.tail is not None:
        return Tail(request.tail)
    return None if request.tail_each is None else Tail(request.tail_each, each_partition=True)


def _check(request: CatRequest) -> None:
    if request.tail is not None and request.tail_each is not None:
        raise UsageError("--tail counts records of a topic, --tail-each of each partition: give one of them")
    if request.pretty and request.rows.format != "text":
        raise UsageError(f"--pretty is for text, not for --format {request.rows.format}; indented JSON lines: pipe them into jq")
    if request.decode not in (None, NONE) and request.rows.format in BINARY_FORMATS:
        raise UsageError(
            f"--decode produces text, and --format {request.rows.format} has keys and values as bytes: use json, csv or text"
        )
    if request.follow and request.rows.format == "parquet":
        raise UsageError("--follow never ends, and a Parquet file is readable only when it is finished: use --format arrow")
    if request.follow and request.rows.output != STDOUT:
        raise UsageError("--follow never ends, and --output FILE appears only at the end: redirect standard output instead")


def _columns(request: CatRequest) -> tuple[str, ...]:
    """The columns to read."""
    if request.rows.format == "json":
        return record_lines.COLUMNS
    if request.pretty:
        return (*record_pages.COLUMNS, "headers") if request.headers else record_pages.COLUMNS
    if request.rows.format in BINARY_FORMATS:
        return COLUMNS
    shown = TEXT_COLUMNS if request.rows.format == "text" else COLUMNS[:-1]
    return (*shown, "headers") if request.headers else shown


def _choices(request: CatRequest) -> ReadChoices:
    """What to read. Writing JSON takes longer than reading records, so half of the cores are left to it."""
    if request.rows.format != "json" or request.choices["threads"] is not None:
        return request.choices
    return {**request.choices, "threads": max(1, min(len(os.sched_getaffinity(0)), DEFAULT_THREADS) // 2)}


def _decoders(request: CatRequest, topics: set[str]) -> PayloadDecoder | Mapping[str, PayloadDecoder] | None:
    """One for all, or by topic; None if nothing is to be decoded."""
    kind = request.decode or (AUTO if _is_for_people(request) else NONE)
    if kind in (AUTO, NONE):
        if request.schema is not None or request.registry_prefix:
            raise UsageError("--schema needs --decode avro, and --registry-prefix needs --decode avro or json")
        return (internal_topic_decoders(topics) or None) if kind == AUTO else None
    assert request.decode is not None
    return make_payload_decoder(request.decode, schema=_schema_text(request.schema), registry_prefix=request.registry_prefix)


def _is_for_people(request: CatRequest) -> bool:
    on_terminal = request.rows.output == STDOUT and Sink(1, STDOUT).isatty()
    return request.rows.format == "text" and (request.pretty or on_terminal)


def _schema_text(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not an Avro schema: not UTF-8") from None
    except OSError as error:
        raise StorageError(f"{file}: cannot read: {error.strerror}", file=file) from error


def _open_writer(request: CatRequest, sink: Sink, cat: Cat) -> Writer:
    if request.pretty:
        return record_pages.RecordPageWriter(sink, request.rows.encoding)
    if request.rows.format == "json":
        return record_lines.RecordLineWriter(sink, request.rows.encoding)
    if cat.decoders is None:
        return open_writer(
            request.rows.format, sink, cat.schema, request.rows.encoding, csv_safe=request.rows.csv_safe, least=LEAST
        )
    return _DecodedWriter(request, sink, find_table("records").schema(_columns(request)))


class _DecodedWriter:
    """Text or CSV with decoded JSON instead of keys and values."""

    def __init__(self, request: CatRequest, sink: Sink, schema: pa.Schema) -> None:
        self.encode = TEXT_ENCODINGS[request.rows.encoding]
        fields = [pa.field(field.name, pa.string()) if field.name in ("key", "value") else field for field in schema]
        self.schema = pa.schema(fields)
        self.writer = open_writer(
            request.rows.format, sink, self.schema, request.rows.encoding, csv_safe=request.rows.csv_safe, least=LEAST
        )

    @property
    def left_out(self) -> Sequence[str]:
        """The columns that did not fit on the terminal."""
        return self.writer.left_out if isinstance(self.writer, TextWriter) else ()

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [self._shown(batch, name) for name in self.schema.names]
        self.writer.write(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def flush(self) -> None:
        self.writer.flush()

    def finish(self) -> None:
        self.writer.finish()

    def _shown(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        column = batch.column(name)
        if name not in ("key", "value"):
            return column
        texts = [
            text if text is not None or content is None else self.encode(content)
            for content, text in zip(column.to_pylist(), batch.column(f"{name}_json").to_pylist(), strict=True)
        ]
        return pa.array(texts, pa.string())
