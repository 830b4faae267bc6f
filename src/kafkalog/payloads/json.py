"""JSON values into Arrow, parsed many at a time."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from kafkalog.errors import UsageError

FIELD = "v"
OPEN, CLOSE = pa.scalar(b'{"v":', pa.binary()), pa.scalar(b"}\n", pa.binary())
NOTHING = pa.scalar(b"", pa.binary())


class JsonDecoder:
    """Values that are JSON objects. Each is parsed inside an object of our own, on its own line.

    Broken ones cannot hide each other there: an unfinished value makes the whole text unreadable, and one that ends our object
    and opens another gives too many rows. Then the text is halved, until the broken values are alone.
    """

    def __init__(self, kind: pa.StructType, *, ignore_unknown: bool) -> None:
        self.type = kind
        self.options = arrow_json.ParseOptions(
            explicit_schema=pa.schema([(FIELD, _readable(kind))]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore" if ignore_unknown else "error",
        )

    def decode(self, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
        failed = np.zeros(len(values), np.bool_)
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if not len(there):
            return pa.nulls(len(values), self.type), failed
        present = values if len(there) == len(values) else values.drop_null()
        parts = list(self._parsed(present, failed, there))
        found = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
        if len(found) == len(values):
            return found, failed
        rows = np.full(len(values), -1, np.int64)
        rows[there] = np.arange(len(there))
        return found.take(pa.array(rows, mask=rows < 0)), failed

    def _parsed(self, values: pa.Array, failed: NDArray[np.bool_], rows: NDArray[np.intp]) -> list[pa.Array]:
        """The values in pieces, in order; `rows` says where they stand."""
        found = parse(values, self.options)
        if found is not None:
            found = found.cast(self.type)
            # JSON's null is a value like any other, but a row without fields would look like one that is missing.
            failed[rows[np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))]] = True
            return [found]
        if len(values) == 1:
            failed[rows] = True
            return [pa.nulls(1, self.type)]
        middle = len(values) // 2
        return [
            *self._parsed(values.slice(0, middle), failed, rows[:middle]),
            *self._parsed(values.slice(middle), failed, rows[middle:]),
        ]


def parse(values: pa.Array, options: arrow_json.ParseOptions) -> pa.Array | None:
    """All values, parsed; None if any of them does not parse."""
    text = pc.binary_join_element_wise(OPEN, values, CLOSE, NOTHING).buffers()[2]
    reading = arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(text), read_options=reading, parse_options=options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    return table.column(FIELD).combine_chunks()


def _readable(kind: pa.DataType) -> pa.DataType:
    """The type to parse with: Arrow reads a date only from a number, a time from text."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _readable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_readable(kind.value_type))
    return pa.timestamp("s") if pa.types.is_date(kind) else kind


def infer_type(sample: pa.Array) -> pa.StructType:
    """The fields of a sample of JSON objects; UsageError where there are none. What looks like a time stays a string.

    Of values that contradict each other, such as a number and a text in the same field, the first ones count.
    """
    options = arrow_json.ParseOptions(newlines_in_values=True)
    found = _inferred(sample.drop_null(), options)
    if not found:
        raise UsageError("no schema can be inferred: no value of the sample is a JSON object with fields; give a schema")
    merged = pa.schema([(FIELD, found[0])])
    for kind in found[1:]:
        with suppress(pa.ArrowTypeError, pa.ArrowInvalid):
            merged = pa.unify_schemas([merged, pa.schema([(FIELD, kind)])], promote_options="permissive")
    return _plain(merged.field(FIELD).type)


def _inferred(values: pa.Array, options: arrow_json.ParseOptions) -> list[pa.StructType]:
    if not len(values):
        return []
    found = parse(values, options)
    if found is None:
        if len(values) == 1:
            return []
        middle = len(values) // 2
        return _inferred(values.slice(0, middle), options) + _inferred(values.slice(middle), options)
    return [_without_times(found.type)] if pa.types.is_struct(found.type) and found.type.num_fields else []


def _without_times(kind: pa.DataType) -> pa.DataType:
    """The inferred type without guesses: what looks like a date is text."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_times(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _plain(kind: pa.DataType) -> pa.DataType:
    """What was always null is text. Objects that were always empty are left out: Parquet cannot store them."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _plain(field.type)) for field in kind]
        return pa.struct([(name, inner) for name, inner in fields if not _is_empty(inner)])
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return pa.string() if pa.types.is_null(kind) else kind


def _is_empty(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_empty(kind.value_type)
    return bool(pa.types.is_struct(kind) and not kind.num_fields)
