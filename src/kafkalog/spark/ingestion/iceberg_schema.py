"""Iceberg's columns for Arrow's: types, the ids of fields, and bounds in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from kafkalog.errors import UsageError, path_text

from .lake_table import cannot_take
from .layout import EPOCH

FIELD_ID: Final = b"PARQUET:field_id"
_PRIMITIVES: Final = (
    (pa.types.is_boolean, BooleanType()),
    (pa.types.is_int64, LongType()),
    (pa.types.is_int32, IntegerType()),
    (pa.types.is_float32, FloatType()),
    (pa.types.is_float64, DoubleType()),
    (pa.types.is_string, StringType()),
    (pa.types.is_binary, BinaryType()),
    (pa.types.is_date, DateType()),
)


def iceberg_schema(schema: pa.Schema) -> Schema:
    """The columns of a new table; those at the top have the first ids."""
    numbers = count(len(schema) + 1)
    fields = [
        NestedField(number, field.name, _iceberg_type(field.type, numbers, field.name), required=not field.nullable)
        for number, field in enumerate(schema, 1)
    ]
    return Schema(*fields)


def _iceberg_type(kind: pa.DataType, numbers: count[int], path: str) -> IcebergType:
    if pa.types.is_struct(kind):
        ids = [next(numbers) for _ in range(kind.num_fields)]
        inner = [_iceberg_type(field.type, numbers, f"{path}.{field.name}") for field in kind]
        return StructType(*(NestedField(number, field.name, made) for number, field, made in zip(ids, kind, inner, strict=True)))
    if pa.types.is_list(kind):
        return ListType(next(numbers), _iceberg_type(kind.value_type, numbers, path), element_required=False)
    if pa.types.is_map(kind):
        key, value = next(numbers), next(numbers)
        inner_key, inner_value = (_iceberg_type(each, numbers, path) for each in (kind.key_type, kind.item_type))
        return MapType(key, inner_key, value, inner_value, value_required=False)
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return TimestampType() if kind.tz is None else TimestamptzType()
    for matches, made in _PRIMITIVES:
        if matches(kind):
            return made
    raise UsageError(f"{path_text(path)}: Iceberg has no type for {kind}")


def require_types(name: str, wanted: Schema, found: Schema) -> None:
    """SparkSourceError unless a table takes files with the columns wanted."""
    types = {field.name: field.field_type for field in found.fields}
    for field in wanted.fields:
        if field.name in types and not _is_same(field.field_type, types[field.name]):
            raise cannot_take(name, f"its column {path_text(field.name)} is {types[field.name]}, not {field.field_type}")
    missing = [field.name for field in found.fields if field.required and field.name not in wanted.column_names]
    if missing:
        raise cannot_take(name, f"its column {path_text(missing[0])} must not be null, and records have none such")


def _is_same(wanted: IcebergType, found: IcebergType) -> bool:
    """Whether types are the same except for the ids of fields."""
    if isinstance(wanted, StructType) and isinstance(found, StructType):
        fields = {field.name: field.field_type for field in found.fields}
        return all(field.name in fields and _is_same(field.field_type, fields[field.name]) for field in wanted.fields)
    if isinstance(wanted, ListType) and isinstance(found, ListType):
        return _is_same(wanted.element_type, found.element_type)
    if isinstance(wanted, MapType) and isinstance(found, MapType):
        return _is_same(wanted.key_type, found.key_type) and _is_same(wanted.value_type, found.value_type)
    return wanted == found


def with_field_ids(schema: pa.Schema, columns: Schema) -> pa.Schema:
    """The Arrow schema that writes the ids of the table's fields into Parquet."""
    return pa.schema([_with_id(field, columns.find_field(field.name)) for field in schema])


def _with_id(field: pa.Field, column: NestedField) -> pa.Field:
    made = pa.field(field.name, _typed(field.type, column.field_type), field.nullable)
    return made.with_metadata({FIELD_ID: str(column.field_id)})


def _typed(kind: pa.DataType, column: IcebergType) -> pa.DataType:
    if isinstance(column, StructType):
        fields = {each.name: each for each in column.fields}
        return pa.struct([_with_id(field, fields[field.name]) for field in kind])
    if isinstance(column, ListType):
        return pa.list_(_with_id(pa.field("element", kind.value_type), column.element_field))
    if isinstance(column, MapType):
        key = _with_id(pa.field("key", kind.key_type, nullable=False), column.key_field)
        return pa.map_(key, _with_id(pa.field("value", kind.item_type), column.value_field))
    return kind


def leaf_ids(columns: Schema) -> Mapping[str, int]:
    """The id of each column of a Parquet file, by its path there."""
    return dict(pair for field in columns.fields for pair in _leaves(field.name, field.field_id, field.field_type))


def _leaves(path: str, number: int, kind: IcebergType) -> Iterator[tuple[str, int]]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _leaves(f"{path}.{field.name}", field.field_id, field.field_type)
    elif isinstance(kind, ListType):
        yield from _leaves(f"{path}.list.element", kind.element_id, kind.element_type)
    elif isinstance(kind, MapType):
        yield from _leaves(f"{path}.key_value.key", kind.key_id, kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.value_id, kind.value_type)
    else:
        yield path, number


def bound_bytes(kind: PrimitiveType, value: Any) -> bytes:
    """A bound as Iceberg stores it."""
    if isinstance(value, datetime):
        value = (value - EPOCH) // timedelta(microseconds=1)
    return to_bytes(kind, value)
