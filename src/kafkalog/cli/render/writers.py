"""Writers of Arrow batches in five formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from kafkalog.errors import UsageError

from .cells import csv_cells, json_cells, quote_csv
from .escape import json_string
from .target import Sink
from .text import TextWriter

FORMATS = ("text", "json", "csv", "arrow", "parquet")
BINARY_FORMATS = ("arrow", "parquet")

LINES_PER_WRITE = 1000
# Parquet is read by row group: large enough to compress and skip well, small enough to hold in memory.
ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 32 << 20


class Writer(Protocol):
    """Writes batches in one format; `finish` ends it."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None:
        """Write the rows that are still held, if the format can."""
        ...

    def finish(self) -> None:
        """Write the rows that are still held, and the end of the format."""
        ...


def open_writer(
    name: str, sink: Sink, schema: pa.Schema, encoding: str, *, csv_safe: bool = False, least: Sequence[str] = ()
) -> Writer:
    """A writer of the format of that name; where text does not fit a terminal, the `least` columns go first."""
    if name == "text":
        return TextWriter(sink, schema, encoding, least=least)
    if name == "json":
        return JsonWriter(sink, schema, encoding)
    if name == "csv":
        return CsvWriter(sink, schema, encoding, safe=csv_safe)
    return ArrowWriter(sink, schema) if name == "arrow" else ParquetWriter(sink, schema)


def refuse_terminal(name: str, sink: Sink) -> None:
    """UsageError if a binary format would be written to a terminal."""
    if name in BINARY_FORMATS and sink.isatty():
        raise UsageError(f"{name} is binary and not for a terminal: give --output FILE, or pipe it into a program")


def slices(batch: pa.RecordBatch, rows: int) -> Iterable[pa.RecordBatch]:
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


class JsonWriter:
    """JSON lines: one object per row."""

    def __init__(self, sink: Sink, schema: pa.Schema, encoding: str) -> None:
        self.sink = sink
        self.encoding = encoding
        names = (json_string(name).replace("%", "%%") for name in schema.names)
        self.template = "{" + ",".join(f"{name}:%s" for name in names) + "}\n"

    def write(self, batch: pa.RecordBatch) -> None:
        for part in slices(batch, LINES_PER_WRITE):
            columns = [json_cells(column, self.encoding) for column in part.columns]
            self.sink.write("".join([self.template % row for row in zip(*columns, strict=True)]).encode())

    def flush(self) -> None:
        """Nothing is held."""

    def finish(self) -> None:
        """Nothing is held."""


class CsvWriter:
    """RFC 4180 with a line of column names. On a terminal, unprintable characters are escaped; `safe` is for spreadsheets."""

    def __init__(self, sink: Sink, schema: pa.Schema, encoding: str, *, safe: bool = False) -> None:
        self.sink = sink
        self.safe = safe
        self.encoding = encoding
        self.escape = sink.isatty()
        sink.write((",".join(map(quote_csv, schema.names)) + "\r\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        for part in slices(batch, LINES_PER_WRITE):
            columns = [csv_cells(column, self.encoding, escape=self.escape, safe=self.safe) for column in part.columns]
            self.sink.write("".join([",".join(row) + "\r\n" for row in zip(*columns, strict=True)]).encode())

    def flush(self) -> None:
        """Nothing is held."""

    def finish(self) -> None:
        """Nothing is held."""


class ArrowWriter:
    """Arrow's IPC stream."""

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        self.stream = pa.ipc.new_stream(sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self.stream.write_batch(batch)

    def flush(self) -> None:
        """Nothing is held."""

    def finish(self) -> None:
        self.stream.close()


class ParquetWriter:
    """Parquet, compressed with zstd; batches are gathered into row groups."""

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        self.schema = schema
        self.file = pa.parquet.ParquetWriter(sink, schema, compression="zstd")
        self.held: list[pa.RecordBatch] = []
        self.held_rows = self.held_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.held.append(batch)
        self.held_rows += batch.num_rows
        self.held_bytes += batch.nbytes
        if self.held_rows >= ROW_GROUP_ROWS or self.held_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def flush(self) -> None:
        """Nothing: tiny row groups make a poor file, and it cannot be read before its end anyway."""

    def _write_row_group(self) -> None:
        if self.held:
            self.file.write_table(pa.Table.from_batches(self.held, self.schema), row_group_size=ROW_GROUP_ROWS)
        self.held.clear()
        self.held_rows = self.held_bytes = 0

    def finish(self) -> None:
        self._write_row_group()
        self.file.close()
