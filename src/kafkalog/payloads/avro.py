"""Avro values into Arrow, read with the schema they were written with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.errors import UsageError

from .bounds import MAX_DEPTH, MAX_FIELDS, check_schema_text, schema_too_deep

PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
LOGICAL: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
# What fastavro's reader raises for bytes that do not follow the schema: ends, indices of unions and enums, text, times, sizes.
UNREADABLE: Final = (EOFError, LookupError, ValueError, ArithmeticError, MemoryError, RecursionError)


class AvroDecoder:
    """Values of one Avro schema."""

    def __init__(self, schema: str) -> None:
        self.parsed, self.read = _prepared(schema)
        self.type = _column(self.parsed, {}).type

    def __repr__(self) -> str:
        return f"AvroDecoder({str(self.type)[:80]})"

    def decode(self, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
        failed = np.zeros(len(values), np.bool_)
        rows: list[Any] = [None] * len(values)
        for row, value in enumerate(values.to_pylist()):
            if value is not None:
                failed[row] = not self._decode_one(value, rows, row)
        try:
            return pa.array(rows, self.type), failed
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return self._one_by_one(rows, failed)

    def _decode_one(self, value: bytes, rows: list[Any], row: int) -> bool:
        stream = io.BytesIO(value)
        try:
            found = self.read(stream, self.parsed)
        except UNREADABLE:
            return False
        if stream.tell() != len(value):
            return False
        rows[row] = found
        return True

    def _one_by_one(self, rows: list[Any], failed: NDArray[np.bool_]) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Leave out only the values that are valid in Avro but not in Arrow, such as a time out of range."""
        for row, value in enumerate(rows):
            try:
                pa.array([value], self.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                rows[row], failed[row] = None, True
        return pa.array(rows, self.type), failed


def _prepared(schema: str) -> tuple[Any, Callable[[io.BytesIO, Any], Any]]:
    try:
        import fastavro
    except ImportError:
        raise UsageError("Avro values need fastavro: pip install 'kafkalog[avro]'") from None
    check_schema_text(schema)
    try:
        return fastavro.parse_schema(_without_uuids(json.loads(schema))), fastavro.schemaless_reader
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise UsageError(f"not an Avro schema: {type(error).__name__}: {error}") from None


def _without_uuids(schema: Any) -> Any:
    """The schema with uuids as text: fastavro would make objects of them, for which Arrow has no type."""
    if isinstance(schema, list):
        return [_without_uuids(each) for each in schema]
    if isinstance(schema, dict):
        return {name: _without_uuids(each) for name, each in schema.items() if (name, each) != ("logicalType", "uuid")}
    return schema


def spell_schema(schema: str) -> str:
    check_schema_text(schema)
    try:
        return json.dumps(json.loads(schema), sort_keys=True)
    except ValueError as error:
        raise UsageError(f"not an Avro schema: {error}") from None


class _Column(NamedTuple):
    """The Arrow type of an Avro type, its levels and fields, and whether its values may take no bytes at all."""

    type: pa.DataType
    depth: int = 0
    fields: int = 0
    may_be_empty: bool = False


def _column(schema: Any, named: dict[str, _Column]) -> _Column:
    """The column of an Avro type; UsageError if it has none, such as a union of two types, or if it is too deep or too wide.

    A type that is named once and used twice is counted twice, on every level, so a short schema can have any number of fields.
    """
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return _Column(PRIMITIVES[schema], may_be_empty=schema == "null")
        if schema in named:
            return named[schema]
        raise UsageError(f"the Avro type {schema} is used inside itself, or unknown: it has no fixed columns")
    kind = schema["type"]
    if isinstance(kind, list | dict):
        return _column(kind, named)
    found = _complex(schema, kind, named)
    if found.depth > MAX_DEPTH:
        raise schema_too_deep()
    if found.fields > MAX_FIELDS:
        raise UsageError(f"the schema has more than {MAX_FIELDS} fields, counting each use of a named type")
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _complex(schema: dict[str, Any], kind: str, named: dict[str, _Column]) -> _Column:
    logical = schema.get("logicalType", "")
    if logical == "decimal":
        return _Column(_decimal(schema.get("precision", 0), schema.get("scale", 0)))
    if (kind, logical) in LOGICAL:
        return _Column(LOGICAL[kind, logical])
    if kind in ("record", "error"):
        return _record({field["name"]: _column(field["type"], named) for field in schema["fields"]})
    if kind == "array":
        item = _column(schema["items"], named)
        if item.may_be_empty:
            raise UsageError("an array of values that take no bytes: a few bytes could claim any number of them")
        return _Column(pa.list_(item.type), item.depth + 1, item.fields + 1)
    if kind == "map":
        item = _column(schema["values"], named)
        return _Column(pa.map_(pa.string(), item.type), item.depth + 1, item.fields + 1)
    if kind == "enum":
        return _Column(pa.string())
    return _Column(pa.binary(), may_be_empty=not schema.get("size")) if kind == "fixed" else _column(kind, named)


def _record(columns: dict[str, _Column]) -> _Column:
    kinds = columns.values()
    return _Column(
        pa.struct([(name, column.type) for name, column in columns.items()]),
        1 + max((column.depth for column in kinds), default=0),
        len(columns) + sum(column.fields for column in kinds),
        all(column.may_be_empty for column in kinds),
    )


def _decimal(precision: int, scale: int) -> pa.DataType:
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise UsageError(f"the Avro decimal({precision},{scale}) is not between decimal(1,0) and decimal(38,38)")
    return pa.decimal128(precision, scale)


def _union(branches: list[Any], named: dict[str, _Column]) -> _Column:
    present = [branch for branch in branches if branch != "null"]
    if len(present) != 1:
        raise UsageError(f"a union of {len(present)} types has no single column: {json.dumps(branches)[:200]}")
    return _column(present[0], named)._replace(may_be_empty=False)  # the number of the branch takes a byte
