"""The work of `kafkalog cat`: what to read, by the options, and a writer for the records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

import kafkalog
from kafkalog.errors import StorageError, UsageError
from kafkalog.format.quantities import plural
from kafkalog.log.reading import DEFAULT_THREADS
from kafkalog.tables.schemas import find_table
from kafkalog.tasks.cat import Cat, Match, make_payload_decoder
from kafkalog.tasks.cat.decoding import PayloadDecoder

from ..commands.cat import CatRequest
from ..commands.shared_options import ReadChoices
from ..failure import warn
from ..render import record_lines
from ..render.cells import TEXT_ENCODINGS
from ..render.target import STDOUT, Sink
from ..render.text import TextWriter
from ..render.writers import BINARY_FORMATS, Writer, open_writer
from .rows import Output, write_batches

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
# Text omits the type of timestamps, and headers unless --headers is given.
TEXT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


def write_records(request: CatRequest) -> int:
    """Write the requested records; the exit code."""
    _check(request)
    output = Output(request.rows, request.choices["on_damage"], has_columns=False)
    output.check()
    match = Match(request.key, request.grep, request.pattern)
    decoder = _decoder(request)
    logs = kafkalog.open(request.path)
    partitions = logs.choose(request.choices["topics"], request.choices["partitions"])
    cat = Cat(
        logs,
        _columns(request),
        tail=request.tail,
        follow=request.follow,
        match=match,
        decoder=decoder,
        **_choices(request),
    )
    size = sum(found.size for found in partitions) if request.tail is None else 0
    with closing(cat.batches()) as batches:
        code = write_batches(output, batches, lambda sink: _open_writer(request, sink), cat.report, size, follow=request.follow)
    if cat.undecoded and not request.rows.quiet:
        warn(f"could not decode {plural(cat.undecoded, 'record')} as {request.decode}; shown as stored")
    return code


def _check(request: CatRequest) -> None:
    if request.decode is not None and request.rows.format in BINARY_FORMATS:
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
    if request.rows.format in BINARY_FORMATS:
        return COLUMNS
    shown = TEXT_COLUMNS if request.rows.format == "text" else COLUMNS[:-1]
    return (*shown, "headers") if request.headers else shown


def _choices(request: CatRequest) -> ReadChoices:
    """What to read. Writing JSON takes longer than reading records, so half of the cores are left to it."""
    if request.rows.format != "json" or request.choices["threads"] is not None:
        return request.choices
    return {**request.choices, "threads": max(1, min(len(os.sched_getaffinity(0)), DEFAULT_THREADS) // 2)}


def _decoder(request: CatRequest) -> PayloadDecoder | None:
    if request.decode is None:
        if request.schema is not None or request.registry_prefix:
            raise UsageError("--schema and --registry-prefix need --decode avro")
        return None
    return make_payload_decoder(request.decode, schema=_schema_text(request.schema), registry_prefix=request.registry_prefix)


def _schema_text(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not an Avro schema: not UTF-8") from None
    except OSError as error:
        raise StorageError(f"{file}: cannot read: {error.strerror}", file=file) from error


def _open_writer(request: CatRequest, sink: Sink) -> Writer:
    if request.rows.format == "json":
        return record_lines.RecordLineWriter(sink, request.rows.encoding)
    schema = find_table("records").schema(_columns(request))
    if request.decode is None:
        return open_writer(request.rows.format, sink, schema, request.rows.encoding, csv_safe=request.rows.csv_safe)
    return _DecodedWriter(request, sink, schema)


class _DecodedWriter:
    """Text or CSV with decoded JSON instead of keys and values."""

    def __init__(self, request: CatRequest, sink: Sink, schema: pa.Schema) -> None:
        self.encode = TEXT_ENCODINGS[request.rows.encoding]
        fields = [pa.field(field.name, pa.string()) if field.name in ("key", "value") else field for field in schema]
        self.schema = pa.schema(fields)
        self.writer = open_writer(request.rows.format, sink, self.schema, request.rows.encoding, csv_safe=request.rows.csv_safe)

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
