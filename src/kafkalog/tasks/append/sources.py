"""Records to append, from files or standard input: JSON lines, plain lines, CSV, Arrow, Parquet; as tables, some rows at a time.

Columns that are read, in all formats: `key`, `value`, `timestamp_ms` or `timestamp`, `headers_raw` or `headers`, `partition`. The
others are ignored, so that what `kafkalog cat` writes can be read back.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.errors import StorageError, UsageError
from kafkalog.segment.columns import RAW_HEADERS_TYPE
from kafkalog.storage import local_path

from ..json_records import ENCODINGS, RecordText, iter_json_records

STDIN = "-"
FORMATS = ("json", "lines", "csv", "arrow", "parquet")
LINE_FORMATS = ("json", "lines", "csv")  # those that grow by lines at their end
SUFFIXES = {
    ".jsonl": "json", ".ndjson": "json", ".json": "json", ".txt": "lines", ".csv": "csv",
    ".arrow": "arrow", ".arrows": "arrow", ".ipc": "arrow", ".feather": "arrow", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
COLUMNS = ("key", "value", "timestamp_ms", "timestamp", "headers_raw", "headers", "partition")
ROWS_AT_ONCE = 1 << 14
CSV_BLOCK = 4 << 20
BLOCK = 1 << 20
ARROW_FILE = b"ARROW1"
Given: TypeAlias = str | os.PathLike[str] | pa.Table


@dataclass(frozen=True)
class SourceFile:
    """Where records come from: a path or `-`, its format, and the encoding of strings in text formats."""

    path: str
    format: str
    encoding: str = "utf8"

    @property
    def name(self) -> str:
        return "standard input" if self.path == STDIN else self.path

    @property
    def size(self) -> int:
        return 0 if self.path == STDIN else os.stat(self.path).st_size

    @property
    def modified_ns(self) -> int:
        return 0 if self.path == STDIN else os.stat(self.path).st_mtime_ns

    def described(self) -> dict[str, object]:
        """What is known before it is read; hardly anything of standard input."""
        how: dict[str, object] = {"format": self.format, "encoding": self.encoding}
        if self.path == STDIN:
            return {"path": STDIN, **how}
        return {"path": os.path.abspath(self.path), "size": self.size, "modified_ns": self.modified_ns, **how}


def source_file(path: str, format_name: str | None = None, encoding: str = "utf8") -> SourceFile:
    """The source at `path`, its format by its name where none is given; UsageError or StorageError if it cannot be one."""
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(f"unknown format {format_name!r}; allowed are {', '.join(FORMATS)}")
    if encoding not in ENCODINGS:
        raise UsageError(f"unknown encoding {encoding!r}; allowed are {', '.join(ENCODINGS)}")
    path = path if path == STDIN else local_path(path)
    known = format_name or ("json" if path == STDIN else SUFFIXES.get(os.path.splitext(path)[1].lower()))
    if known is None:
        raise UsageError(f"{path}: its name does not say its format; give --format, one of {', '.join(FORMATS)}")
    if path == STDIN and known == "parquet":
        raise UsageError("Parquet cannot be read from standard input, its metadata is at its end; give a file")
    if path != STDIN and not os.path.isfile(path):
        what = "not a plain file; for a pipe, give - and make it standard input" if os.path.exists(path) else "no such file"
        raise StorageError(f"{path}: {what}", file=path)
    return SourceFile(path, known, encoding)


def sources_of(given: Given | Sequence[Given], format_name: str | None, encoding: str) -> list[SourceFile | pa.Table]:
    """Paths and tables as sources; UsageError for a table whose rows would all be nulls."""
    several = [given] if isinstance(given, str | os.PathLike | pa.Table) else given
    for table in (each for each in several if isinstance(each, pa.Table)):
        _require_columns("the table", table.column_names)
    return [each if isinstance(each, pa.Table) else source_file(os.fspath(each), format_name, encoding) for each in several]


def read_tables(source: SourceFile, content: Content | None = None, start: int = 0) -> Iterator[pa.Table]:
    """The records of a source, with the columns that are read; from the position `start` on, where a line begins.

    When all were read, `content` has seen every byte of it.
    """
    readers = {"json": _json, "lines": _lines, "csv": _csv, "arrow": _arrow, "parquet": _parquet}
    content = content or Content()
    try:
        if start:
            content.read_from(source.path, start)
        for table in readers[source.format](source, content):
            content.records += table.num_rows
            yield table
    except pa.ArrowInvalid as error:
        raise UsageError(f"{source.name}: cannot be read as {source.format}: {error}") from None
    except OSError as error:
        raise StorageError(f"{source.name}: cannot be read: {error.strerror or error}", file=source.path) from error


@contextmanager
def _opened(source: SourceFile, content: Content) -> Iterator[BinaryIO]:
    """The source from the position that `content` has reached."""
    with nullcontext(sys.stdin.buffer) if source.path == STDIN else open(source.path, "rb") as file:
        if content.size:
            file.seek(content.size)
        reader = io.BufferedReader(ContentReader(file, content), BLOCK)
        yield reader
        while reader.read(BLOCK):
            """Bytes after the last record are content too."""


def _place(source: SourceFile, content: Content) -> str:
    return f"{source.name} after byte {content.size}" if content.size else source.name


def _json(source: SourceFile, content: Content) -> Iterator[pa.Table]:
    place = _place(source, content)
    with _opened(source, content) as lines:
        yield from iter_json_records(lines, place, source.encoding, ROWS_AT_ONCE)


def _lines(source: SourceFile, content: Content) -> Iterator[pa.Table]:
    """Every line is a value, without its line break."""
    decode = ENCODINGS[source.encoding]
    place = _place(source, content)
    with _opened(source, content) as lines:
        values: list[bytes] = []
        for number, line in enumerate(lines, 1):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                values.append(text if source.encoding == "utf8" else decode(text.decode("ascii")))
            except ValueError as error:
                raise UsageError(f"{place}, line {number}: not {source.encoding}: {error}") from None
            if len(values) == ROWS_AT_ONCE:
                yield pa.table({"value": pa.array(values, pa.binary())})
                values = []
        if values:
            yield pa.table({"value": pa.array(values, pa.binary())})


def _csv(source: SourceFile, content: Content) -> Iterator[pa.Table]:
    """RFC 4180 with a line of names. An empty field is null, a pair of quotes is empty; headers are JSON."""
    import pyarrow.csv

    first_line = _first_line(source) if content.size else None
    with _opened(source, content) as file:
        heading = file.readline() if first_line is None else first_line
        names = next(csv.reader([heading.decode("utf-8-sig", "replace")]), [])
        _require_columns(source.name, names)
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


def _first_line(source: SourceFile) -> bytes:
    with open(source.path, "rb") as file:
        return file.readline()


def _typed(source: SourceFile, table: pa.Table, first: int) -> pa.Table:
    """CSV fields converted to the types of their columns; `first` is the number of the first record."""
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


def _arrow(source: SourceFile, content: Content) -> Iterator[pa.Table]:
    """Arrow's IPC stream, or its file format."""
    import pyarrow.ipc

    if source.path != STDIN and _is_arrow_file(source):
        with open(source.path, "rb") as whole, pyarrow.ipc.open_file(whole) as stored:
            _require_columns(source.name, stored.schema.names)
            for number in range(stored.num_record_batches):
                content.position = source.size * (number + 1) // stored.num_record_batches
                yield _chosen(pa.Table.from_batches([stored.get_batch(number)]))
        content.read_from(source.path)
        return
    with _opened(source, content) as file:
        stream = pyarrow.ipc.open_stream(file)
        _require_columns(source.name, stream.schema.names)
        for batch in stream:
            yield _chosen(pa.Table.from_batches([batch]))


def _is_arrow_file(source: SourceFile) -> bool:
    with open(source.path, "rb") as file:
        return file.read(len(ARROW_FILE)) == ARROW_FILE


def _parquet(source: SourceFile, content: Content) -> Iterator[pa.Table]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(source.path) as stored:
        names = stored.schema_arrow.names
        _require_columns(source.name, names)
        found = [name for name in COLUMNS if name in names]
        for group in range(stored.num_row_groups):  # of several at once Arrow holds all
            for batch in stored.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=found):
                rows = content.records + batch.num_rows
                content.position = source.size * rows // max(rows, stored.metadata.num_rows)
                yield pa.Table.from_batches([batch])
    content.read_from(source.path)


def _require_columns(source: str, names: Sequence[str]) -> None:
    twice = [name for name in COLUMNS if list(names).count(name) > 1]
    if twice:
        raise UsageError(f"{source}: column {twice[0]} occurs twice")
    if "key" not in names and "value" not in names:
        there = ", ".join(map(repr, names[:10]))
        raise UsageError(f"{source}: neither a column key nor a column value; there are: {there}")


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


class Content:
    """The bytes of a source so far, counted and digested; `digests` has the digests at the sizes in `marks`."""

    def __init__(self, marks: Iterable[int] = ()) -> None:
        self.size = 0
        self.position = 0  # how far its records were read; Parquet is digested only when all of them were
        self.records = 0
        self.digests: dict[int, str] = {}
        self._marks = sorted(set(marks))
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def update(self, data: memoryview) -> None:
        while self._marks and self._marks[0] <= self.size + len(data):
            mark = self._marks.pop(0)
            wanted = mark - self.size
            self._add(data[:wanted])
            self.digests[mark] = self.digest
            data = data[wanted:]
        self._add(data)

    def _add(self, data: memoryview) -> None:
        self._hash.update(data)
        self.size += len(data)
        self.position = max(self.position, self.size)

    def read_from(self, path: str, size: int | None = None) -> None:
        """Read a file, or so many bytes of it."""
        buffer = memoryview(bytearray(BLOCK))
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer[: BLOCK if size is None else min(BLOCK, size - self.size)]):
                self.update(buffer[:count])


class ContentReader(io.RawIOBase):
    """Reads a file, and adds every byte to `content`."""

    def __init__(self, file: BinaryIO, content: Content) -> None:
        super().__init__()
        self._read_into: Any = getattr(file, "readinto1", None) or file.readinto  # type: ignore[attr-defined]
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._read_into(buffer) or 0
        self._content.update(memoryview(buffer)[:count])
        return count
