"""Records to append, from files or standard input: JSON lines, plain lines, CSV, Arrow, Parquet; as tables, some rows at a time.

Columns that count, in all of them: `key`, `value`, `timestamp_ms` or `timestamp`, `headers_raw` or `headers`, `partition`. The
others are ignored, so that what `kafkalog cat` writes can be read back.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.errors import StorageError, UsageError
from kafkalog.segment.columns import RAW_HEADERS_TYPE

from ..json_records import ENCODINGS, RecordText, iter_json_records

STDIN = "-"
FORMATS = ("json", "lines", "csv", "arrow", "parquet")
SUFFIXES = {
    ".jsonl": "json", ".ndjson": "json", ".json": "json", ".txt": "lines", ".csv": "csv",
    ".arrow": "arrow", ".arrows": "arrow", ".ipc": "arrow", ".feather": "arrow", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
COLUMNS = ("key", "value", "timestamp_ms", "timestamp", "headers_raw", "headers", "partition")
ROWS_AT_ONCE = 1 << 14
CSV_BLOCK = 4 << 20
ARROW_FILE = b"ARROW1"
Given: TypeAlias = str | os.PathLike[str] | pa.Table


@dataclass(frozen=True)
class SourceFile:
    """Where records come from: a path or `-`, its format, and what strings of text formats stand for."""

    path: str
    format: str
    encoding: str = "utf8"

    @property
    def name(self) -> str:
        return "standard input" if self.path == STDIN else self.path

    @property
    def size(self) -> int:
        return 0 if self.path == STDIN else os.stat(self.path).st_size

    def fingerprint(self) -> dict[str, object] | None:
        """What tells this content from another; None for standard input, of which nothing is known before it is read."""
        if self.path == STDIN:
            return None
        found = os.stat(self.path)
        return {"path": os.path.abspath(self.path), "size": found.st_size, "modified_ns": found.st_mtime_ns}


def source_file(path: str, format_name: str | None = None, encoding: str = "utf8") -> SourceFile:
    """The source at `path`, its format by its name where none is given; UsageError or StorageError if it cannot be one."""
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(f"unknown format {format_name!r}; allowed are {', '.join(FORMATS)}")
    if encoding not in ENCODINGS:
        raise UsageError(f"unknown encoding {encoding!r}; allowed are {', '.join(ENCODINGS)}")
    known = format_name or ("json" if path == STDIN else SUFFIXES.get(os.path.splitext(path)[1].lower()))
    if known is None:
        raise UsageError(f"{path}: its name does not tell what is in it; give --format, one of {', '.join(FORMATS)}")
    if path == STDIN and known == "parquet":
        raise UsageError("Parquet cannot be read from standard input, its description is at its end; give a file")
    if path != STDIN and not os.path.isfile(path):
        raise StorageError(f"{path}: no such file", file=path)
    return SourceFile(path, known, encoding)


def sources_of(given: Given | Sequence[Given], format_name: str | None, encoding: str) -> list[SourceFile | pa.Table]:
    """Paths and tables as what can be appended."""
    several = [given] if isinstance(given, str | os.PathLike | pa.Table) else given
    return [
        each if isinstance(each, pa.Table) else source_file(os.fspath(each), format_name, encoding) for each in several
    ]


def read_tables(source: SourceFile) -> Iterator[pa.Table]:
    """The records of a source, of which only the columns that count."""
    readers = {"json": _json, "lines": _lines, "csv": _csv, "arrow": _arrow, "parquet": _parquet}
    try:
        yield from readers[source.format](source)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{source.name}: not {source.format} that can be read: {error}") from None
    except OSError as error:
        raise StorageError(f"{source.name}: cannot be read: {error.strerror or error}", file=source.path) from error


@contextmanager
def _opened(source: SourceFile) -> Iterator[BinaryIO]:
    if source.path == STDIN:
        yield sys.stdin.buffer
        return
    with open(source.path, "rb") as file:
        yield file


def _json(source: SourceFile) -> Iterator[pa.Table]:
    with _opened(source) as lines:
        yield from iter_json_records(lines, source.name, source.encoding, ROWS_AT_ONCE)


def _lines(source: SourceFile) -> Iterator[pa.Table]:
    """Every line is a value, without its line break."""
    decode = ENCODINGS[source.encoding]
    with _opened(source) as lines:
        values: list[bytes] = []
        for number, line in enumerate(lines, 1):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                values.append(text if source.encoding == "utf8" else decode(text.decode("ascii")))
            except ValueError as error:
                raise UsageError(f"{source.name}, line {number}: not {source.encoding}: {error}") from None
            if len(values) == ROWS_AT_ONCE:
                yield pa.table({"value": pa.array(values, pa.binary())})
                values = []
        if values:
            yield pa.table({"value": pa.array(values, pa.binary())})


def _csv(source: SourceFile) -> Iterator[pa.Table]:
    """RFC 4180 with a line of names. An empty field is null, a pair of quotes is empty; headers are JSON."""
    import pyarrow.csv

    with _opened(source) as file:
        names = next(csv.reader([file.readline().decode("utf-8-sig", "replace")]), [])
        _require_columns(source, names)
        found = [name for name in COLUMNS if name in names]
        reader = pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=CSV_BLOCK),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(found, pa.binary()),
                include_columns=found,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                check_utf8=False,
            ),
        )
        number = 1
        for found in reader:
            yield _typed(source, pa.Table.from_batches([found]), number)
            number += found.num_rows


def _typed(source: SourceFile, table: pa.Table, first: int) -> pa.Table:
    """The text of CSV fields as what the columns hold; `first` is the number of the first record."""
    decode = ENCODINGS[source.encoding]
    texts = [RecordText(f"{source.name}, record {number}", decode) for number in range(first, first + table.num_rows)]
    readers: dict[str, tuple[str, pa.DataType, Callable[[RecordText, bytes | None], Any]]] = {
        "timestamp": ("timestamp_ms", pa.int64(), lambda text, field: text.timestamp(_number_or_text(field))),
        "timestamp_ms": ("timestamp_ms", pa.int64(), lambda text, field: text.timestamp(_number_or_text(field))),
        "partition": ("partition", pa.int32(), lambda text, field: text.partition(_number_or_text(field))),
        "headers": ("headers_raw", RAW_HEADERS_TYPE, lambda text, field: text.headers(field and text.json(field))),
        "headers_raw": ("headers_raw", RAW_HEADERS_TYPE, lambda text, field: text.headers(field and text.json(field))),
    }
    if source.encoding != "utf8":
        for name in ("key", "value"):
            readers[name] = name, pa.binary(), lambda text, field: text.content(field and field.decode("ascii", "replace"))
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in readers:
            columns[name] = column
            continue
        typed_name, kind, read = readers[name]
        fields = zip(texts, column.to_pylist(), strict=True)
        columns[typed_name] = pa.chunked_array([pa.array([read(text, field) for text, field in fields], kind)])
    return pa.table(columns)


def _number_or_text(field: bytes | None) -> int | str | None:
    if field is None:
        return None
    text = field.decode("utf-8", "replace")
    return int(text) if text.removeprefix("-").isdecimal() else text


def _arrow(source: SourceFile) -> Iterator[pa.Table]:
    """Arrow's IPC stream, or its file format."""
    import pyarrow.ipc

    with _opened(source) as file:
        if source.path != STDIN and file.read(len(ARROW_FILE)) == ARROW_FILE:
            stored = pyarrow.ipc.open_file(file)
            batches: Iterator[pa.RecordBatch] = (stored.get_batch(number) for number in range(stored.num_record_batches))
        else:
            if source.path != STDIN:
                file.seek(0)
            stored = pyarrow.ipc.open_stream(file)
            batches = iter(stored)
        _require_columns(source, stored.schema.names)
        for batch in batches:
            yield _chosen(pa.Table.from_batches([batch]))


def _parquet(source: SourceFile) -> Iterator[pa.Table]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(source.path) as stored:
        names = stored.schema_arrow.names
        _require_columns(source, names)
        found = [name for name in COLUMNS if name in names]
        for group in range(stored.num_row_groups):  # of several at once Arrow holds all
            for batch in stored.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=found):
                yield pa.Table.from_batches([batch])


def _require_columns(source: SourceFile, names: Sequence[str]) -> None:
    twice = [name for name in COLUMNS if list(names).count(name) > 1]
    if twice:
        raise UsageError(f"{source.name}: column {twice[0]} is there twice")
    if "key" not in names and "value" not in names:
        there = ", ".join(map(repr, names[:10]))
        raise UsageError(f"{source.name}: neither a column key nor a column value; there are: {there}")


def _chosen(table: pa.Table) -> pa.Table:
    return table.select([name for name in COLUMNS if name in table.column_names])


def with_timestamps(table: pa.Table, now_ms: int, *, keep: bool) -> pa.Table:
    """The records with a timestamp each: their own where they have one and `keep`, else `now_ms`."""
    name = next((name for name in ("timestamp_ms", "timestamp") if name in table.column_names), None)
    own = table.column(name) if name is not None and keep else None
    if own is None or pa.types.is_null(own.type):
        times = pa.chunked_array([pa.repeat(pa.scalar(now_ms, pa.int64()), table.num_rows)])
    else:
        if pa.types.is_timestamp(own.type):
            own = own.cast(pa.timestamp("ms", own.type.tz), safe=False).cast(pa.int64())
        missing = pc.or_kleene(pc.is_null(own), pc.equal(own, -1))
        times = pc.if_else(missing, pa.scalar(now_ms, pa.int64()), own)
    others = [column for column in table.column_names if column not in ("timestamp_ms", "timestamp")]
    return table.select(others).append_column("timestamp_ms", times)
