"""The data files of a lake table: their columns, types and places. Workers need only Arrow for this."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.errors import UsageError, path_text
from kafkalog.format.batch import NO_TIMESTAMP
from kafkalog.tables.schemas import find_table

from .ingest_options import RAW_TIMES, IngestOptions
from .layout import DAMAGED, FIRST_MS, GENERATION, LAST_MS, SUPERSEDED, DataFile
from .values import RAW

# In every engine a timestamp has the years 1 to 9999; the milliseconds of other times are kept here. No timestamp (-1) is null.
TIMESTAMP_RAW: Final = "timestamp_raw"
MILLISECONDS: Final = pa.timestamp("ms", "UTC")
TIMESTAMP: Final = pa.timestamp("us", "UTC")
REQUIRED: Final = ("topic", "partition", "offset")
COLUMNS_BEFORE_METADATA: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
DATA: Final = "data"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]")
RESERVED_NAMES: Final = ("catalog.db",)
LONGEST_NAME: Final = 200


def table_name(topic: str) -> str:
    """The name of a topic's table, and of its folder. Names that a folder of the target cannot have are marked by a digest."""
    shown = path_text(topic)
    if _PLAIN_NAME.fullmatch(shown) and len(shown) <= LONGEST_NAME and shown not in RESERVED_NAMES:
        return shown
    digest = hashlib.sha256(topic.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{_FOREIGN.sub('_', shown).lstrip('._')[: LONGEST_NAME - 17]}~{digest}"


def lake_schema(options: IngestOptions, value: pa.DataType | None) -> pa.Schema:
    """The columns of a table, in types that Iceberg and Delta both have. `value` is the type of decoded values."""
    records = find_table("records").schema(options.columns)
    stored = {field.name: lake_type(field.type) for field in records if field.name != RAW_TIMES}
    stored["topic"] = pa.string()
    stored["timestamp"] = TIMESTAMP
    if value is not None:
        stored["value"] = lake_type(value)
        stored[RAW] = pa.binary()
    if options.generation:
        stored[GENERATION] = pa.int32()
    stored[TIMESTAMP_RAW] = pa.int64()
    first = [name for name in COLUMNS_BEFORE_METADATA if name in stored]
    names = [*first, *(name for name in stored if name not in first)]
    return pa.schema([pa.field(name, stored[name], nullable=name not in REQUIRED) for name in names])


def lake_type(kind: pa.DataType) -> pa.DataType:
    """The type of a lake that holds every value of an Arrow type."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, lake_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(lake_type(kind.key_type), lake_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(lake_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_integer(kind):
        return pa.int32() if kind.bit_width < 32 else kind
    if pa.types.is_dictionary(kind):
        return lake_type(kind.value_type)
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def require_lake_names(kind: pa.DataType, path: str = "value") -> None:
    """UsageError for a struct whose names differ only in case, which tables cannot tell apart."""
    if pa.types.is_struct(kind):
        names = [each.name.lower() for each in kind]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise UsageError(f"{path} has fields whose names differ only in case: {path_text(min(twice))}; a lake table cannot")
        for each in kind:
            require_lake_names(each.type, f"{path}.{path_text(each.name)}")
    elif pa.types.is_list(kind):
        require_lake_names(kind.value_type, path)
    elif pa.types.is_map(kind):
        require_lake_names(kind.item_type, path)


@dataclass(frozen=True, order=True)
class Edit:
    """One run's part in one table: it makes the table's commit of this number. Its files carry both in their path."""

    table: str
    number: int
    run: str

    @property
    def name(self) -> str:
        return f"{self.number:020}-{self.run}"

    @property
    def inner(self) -> str:
        return f"{self.table}/{self.name}"

    @property
    def folders(self) -> tuple[str, str, str]:
        """Where its files are: records, damaged ranges, rows that a log no longer holds."""
        return f"{self.table}/{DATA}/{self.name}", f"{DAMAGED}/{self.inner}", f"{SUPERSEDED}/{self.inner}"


@dataclass(frozen=True, repr=False)
class LakeLayout:
    """Files of tables: written where they stay, since readers ask the table which of them count."""

    edits: Mapping[str, Edit]  # by topic, as the schemas
    schemas: Mapping[str, pa.Schema]

    def data_file(self, file: DataFile) -> tuple[str, str]:
        path = f"{self.edits[file.topic].folders[0]}/{file.attempt}-{file.number:06}.parquet"
        return path, path

    def damaged_file(self, group: str, attempt: str) -> tuple[str, str]:
        path = f"{DAMAGED}/{group}/{attempt}.parquet"
        return path, path

    def damage_group(self, topic: str) -> str:
        return self.edits[topic].inner

    def shaped(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns and types of the table."""
        schema = self.schemas[topic]
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns["timestamp"], columns[TIMESTAMP_RAW] = _lake_times(columns[RAW_TIMES])
        if "topic" in schema.names:
            columns["topic"] = pa.repeat(pa.scalar(path_text(topic), pa.string()), rows.num_rows)
        arrays = [_cast(columns[field.name], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)


def _lake_times(milliseconds: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Times as a lake has them, and the milliseconds of those that it cannot have."""
    bounds = pc.min_max(milliseconds)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or (low > NO_TIMESTAMP and high <= LAST_MS):
        return milliseconds.cast(MILLISECONDS).cast(TIMESTAMP), pa.nulls(len(milliseconds), pa.int64())
    none = pa.scalar(None, pa.int64())
    known = pc.if_else(pc.equal(milliseconds, NO_TIMESTAMP), none, milliseconds)
    inside = pc.and_(pc.greater_equal(known, FIRST_MS), pc.less_equal(known, LAST_MS))
    return pc.if_else(inside, known, none).cast(MILLISECONDS).cast(TIMESTAMP), pc.if_else(inside, none, known)
