"""Columns of the Spark source: its schemas, what a user's schema may request, and batches in exactly Spark's Arrow schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from kafkalog.errors import path_text
from kafkalog.log.report import Dropped
from kafkalog.tables.schemas import find_table

from .errors import BAD_SCHEMA, BAD_TIMESTAMP, NULL_VALUE, SparkSourceError, bad_option
from .offered import arrow_schema
from .options import METADATA_COLUMN, SourceOptions
from .splits import FileSlice

# Measured: fewer rows cost more in the JVM, more rows gain nothing and hold memory.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20

KAFKA_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
CORRUPT_TYPE: Final = "struct<file_path:string,position:bigint,length:bigint,reason:string,bytes:binary>"
METADATA_TYPE: Final = (
    "struct<file_path:string,file_name:string,file_size:bigint,file_block_start:bigint,file_block_length:bigint,"
    "file_modification_time:timestamp,batch_base_offset:bigint,codec:string,producer_id:bigint,leader_epoch:int>"
)
METADATA_NEEDS: Final = ("file", "base_offset", "codec", "producer_id", "leader_epoch")
# Types that a user's schema may give to a column of `records` besides its own.
VARIANTS: Final = {
    "key": ("string",),
    "value": ("string",),
    "timestamp": ("bigint", "timestamp_ntz"),
    "headers": ("map<string,binary>",),
}
MICROSECONDS: Final = pa.timestamp("us", tz="UTC")


def default_schema(options: SourceOptions) -> StructType:
    """The schema of a `load()` without `.schema(…)`."""
    _check_corrupt_column(options)
    columns = {column.name: column.type for column in find_table(options.table).columns if column.default}
    if options.table == "records":
        columns = {name: columns[name] for name in (*KAFKA_COLUMNS, *(["headers"] if options.include_headers else []))}
    schema = StructType([StructField(name, from_arrow_type(kind)) for name, kind in columns.items()])
    if options.include_metadata and options.table == "records":
        schema.add(StructField(METADATA_COLUMN, _parsed(METADATA_TYPE)))
    if options.mode == "PERMISSIVE":
        schema.add(StructField(options.corrupt_column, _parsed(CORRUPT_TYPE)))
    return schema


def _check_corrupt_column(options: SourceOptions) -> None:
    taken = [METADATA_COLUMN, *(column.name for column in find_table(options.table).columns)]
    if options.corrupt_column in taken:
        raise bad_option("columnNameOfCorruptRecord", options.corrupt_column, "the table has a column of that name")


def _parsed(text: str) -> DataType:
    """The type of a simple string, without Spark's parser, which needs a session."""
    names = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "binary": pa.binary(), "timestamp": MICROSECONDS}
    fields = [field.split(":") for field in text.removeprefix("struct<").removesuffix(">").split(",")]
    return StructType([StructField(name, from_arrow_type(names[kind])) for name, kind in fields])


@dataclass(frozen=True)
class Projection:
    """The columns of a query: which columns of the table they need, and how they become what Spark expects."""

    schema: StructType
    table: str
    corrupt_column: str
    has_corrupt_column: bool
    needed: tuple[str, ...]
    fails_fast: bool = True

    @classmethod
    def of(cls, schema: StructType, options: SourceOptions) -> Projection:
        """The projection of a schema; SparkSourceError for columns or types that the table does not have."""
        if not len(schema):
            raise SparkSourceError(BAD_SCHEMA, "the schema is empty; name at least one column, such as 'offset long'")
        _check_corrupt_column(options)
        allowed = allowed_types(options)
        needed: dict[str, None] = {}
        for field in schema:
            kind = field.dataType.simpleString()
            if field.name not in allowed:
                raise SparkSourceError(
                    BAD_SCHEMA, f"table {options.table} has no column {field.name!r}; there are {', '.join(allowed)}"
                )
            if kind not in allowed[field.name]:
                raise SparkSourceError(
                    BAD_SCHEMA, f"column {field.name} cannot be {kind}; allowed is {' or '.join(allowed[field.name])}"
                )
            if schema.names.count(field.name) > 1:
                raise SparkSourceError(BAD_SCHEMA, f"the schema has the column {field.name} twice")
            needed.update(dict.fromkeys(_needs(field.name, kind, options)))
        has_corrupt_column = options.corrupt_column in schema.names
        fails_fast = options.mode == "FAILFAST"
        return cls(schema, options.table, options.corrupt_column, has_corrupt_column, tuple(needed), fails_fast)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.schema if not field.nullable)

    def batches(self, found: pa.RecordBatch, slices: dict[str, FileSlice]) -> Iterator[pa.RecordBatch]:
        """The batch in pieces of the size that suits Spark."""
        if not found.num_rows:
            return
        target = self.arrow_schema
        arrays = [self._column(found, field, slices) for field in target]
        whole = self._checked(pa.RecordBatch.from_arrays(arrays, schema=target))
        # Of equal size, not large ones with a small one at the end.
        count = max(round(whole.num_rows / BATCH_ROWS), -(-whole.nbytes // BATCH_BYTES), 1)
        step = -(-whole.num_rows // count)
        for start in range(0, whole.num_rows, step):
            yield whole.slice(start, step)

    def corrupt_batch(self, rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
        """One row for each damaged range, null except in the column that describes it."""
        target = self.arrow_schema
        found = list(rows)
        arrays = [
            pa.array(found, field.type) if field.name == self.corrupt_column else pa.nulls(len(found), field.type)
            for field in target
        ]
        return self._checked(pa.RecordBatch.from_arrays(arrays, schema=target))

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name in self._required:
            if batch.column(name).null_count:
                raise SparkSourceError(NULL_VALUE, f"column {name} is NOT NULL in the schema, but has a null in the log")
        return batch

    def _column(self, found: pa.RecordBatch, field: pa.Field, slices: dict[str, FileSlice]) -> pa.Array:
        if self.table == "records" and field.name == METADATA_COLUMN:
            return _metadata(found, field.type, slices)
        if field.name == self.corrupt_column:
            return pa.nulls(found.num_rows, field.type)
        if self.table == "records" and field.name == "timestamp":
            return _timestamps(found, field.type, self.fails_fast)
        column = found.column(field.name)
        if column.type == field.type:
            return column
        if pa.types.is_map(field.type):
            return _as_map(column, field.type)
        if pa.types.is_string(field.type) and pa.types.is_binary(column.type):
            return _as_text(column)
        return column.cast(field.type)


def allowed_types(options: SourceOptions) -> dict[str, tuple[str, ...]]:
    """Every column that a schema may name, with its allowed types."""
    own: dict[str, tuple[str, ...]] = {
        column.name: (from_arrow_type(column.type).simpleString(),) for column in find_table(options.table).columns
    }
    if options.table == "records":
        own = {name: (*kinds, *VARIANTS.get(name, ())) for name, kinds in own.items()}
        own[METADATA_COLUMN] = (METADATA_TYPE,)
    own[options.corrupt_column] = (CORRUPT_TYPE,)
    return own


def _needs(name: str, kind: str, options: SourceOptions) -> tuple[str, ...]:
    """The columns of the table that one of Spark's needs."""
    known = {column.name for column in find_table(options.table).columns}
    if options.table == "records" and name == METADATA_COLUMN:
        return METADATA_NEEDS
    if options.table == "records" and name == "timestamp" and kind == "bigint":
        return ("timestamp_ms",)
    return (name,) if name in known else ()


def _timestamps(found: pa.RecordBatch, kind: pa.DataType, fails_fast: bool) -> pa.Array:
    if pa.types.is_integer(kind):
        return found.column("timestamp_ms")
    stored = found.column("timestamp")
    if fails_fast and stored.null_count:
        raise _bad_timestamp(found, stored)
    times = stored.cast(MICROSECONDS)
    return times if kind == MICROSECONDS else times.cast(pa.int64()).cast(kind)


def _bad_timestamp(found: pa.RecordBatch, stored: pa.Array) -> SparkSourceError:
    """Spark's own source, too, fails on a time that 64-bit microseconds cannot hold."""
    row = stored.is_null().to_pylist().index(True)
    cells = {name: found.column(name)[row].as_py() for name in ("topic", "partition", "offset") if name in found.schema.names}
    record = ", ".join(f"{name} {cell}" for name, cell in cells.items()) or "a record"
    return SparkSourceError(
        BAD_TIMESTAMP,
        f'{record}: its timestamp is out of range for Spark; .schema("timestamp bigint, …") reads it as it is stored, '
        "mode=PERMISSIVE reads it as null",
    )


def _as_text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode(errors="replace") for value in column.to_pylist()]
        return pa.array(texts, pa.string())


def _as_map(headers: pa.Array, kind: pa.MapType) -> pa.Array:
    """Headers as a map; of headers with the same key the last one stays, because a map in Spark has each key once."""
    rows = [None if row is None else list({pair["key"]: pair["value"] for pair in row}.items()) for row in headers.to_pylist()]
    return pa.array(rows, kind)


def _metadata(found: pa.RecordBatch, kind: pa.StructType, slices: dict[str, FileSlice]) -> pa.Array:
    """Records of one batch come from one file."""
    rows = found.num_rows
    piece = slices[found.column("file")[0].as_py()]
    constants = {
        "file_path": path_text(piece.path),
        "file_name": path_text(piece.path.rpartition("/")[2]),
        "file_size": piece.size,
        "file_block_start": piece.start,
        "file_block_length": piece.bytes,
        "file_modification_time": piece.mtime_ns // 1000,
    }
    arrays = []
    for field in kind:
        if field.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), rows))
        else:
            arrays.append(found.column("base_offset" if field.name == "batch_base_offset" else field.name).cast(field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def corrupt_row(dropped: Dropped, content: bytes | None) -> dict[str, Any]:
    return {
        "file_path": path_text(dropped.file),
        "position": dropped.position,
        "length": dropped.length,
        "reason": dropped.reason,
        "bytes": content,
    }
