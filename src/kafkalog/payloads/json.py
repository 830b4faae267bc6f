"""JSON values into Arrow, parsed many at a time.

Arrow's JSON reader has no maps, so it gets lists of pairs, which become maps afterwards:

    {"tags": {"a": 1}}   with   tags map<string,bigint>   is read as   {"tags": [{"key": "a", "value": 1}]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from kafkalog.errors import UsageError
from kafkalog.format.quantities import plural

from .bounds import MAX_FIELDS, count_fields, too_deep, without_escapes

FIELD = "v"
OPEN, CLOSE = pa.scalar(b'{"v":', pa.binary()), pa.scalar(b"}\n", pa.binary())
NAME = re.compile(rb'"([^"]*)"\s*:')
NOTHING = pa.scalar(b"", pa.binary())
# A schema is inferred from the first values of a sample: up to this many bytes, and this many fields in everything parsed for it.
SAMPLE_BYTES = 16 << 20
SAMPLE_FIELDS = 100_000


class JsonDecoder:
    """Values that are JSON objects. Each is parsed inside an object of our own, on its own line.

    So broken values cannot hide each other: an unfinished value makes the whole text unparsable, and one that closes our object
    and opens another gives too many rows. The text is then halved until each broken value is alone. A value that is nested too
    deeply (`bounds`) does not reach the parser.
    """

    def __init__(self, kind: pa.StructType, *, ignore_unknown: bool) -> None:
        self.type = kind
        self.has_maps = has_map(kind)
        self.paired = paired_type(kind)
        self.options = arrow_json.ParseOptions(
            explicit_schema=pa.schema([(FIELD, _readable(self.paired))]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore" if ignore_unknown else "error",
        )

    def __repr__(self) -> str:
        return f"JsonDecoder({plural(self.type.num_fields, 'field')})"

    def decode(self, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
        failed = too_deep(values)
        if failed.any():
            values = pc.if_else(pa.array(failed), pa.scalar(None, values.type), values)
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if not len(there):
            return pa.nulls(len(values), self.type), failed
        present = values if len(there) == len(values) else values.drop_null()
        if self.has_maps:
            present = paired_values(present, self.type)
        parts = list(self._parsed(present, failed, there))
        found = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
        if len(found) == len(values):
            return found, failed
        rows = np.full(len(values), -1, np.int64)
        rows[there] = np.arange(len(there))
        return found.take(pa.array(rows, mask=rows < 0)), failed

    def _parsed(self, values: pa.Array, failed: NDArray[np.bool_], rows: NDArray[np.intp]) -> list[pa.Array]:
        """The values in pieces, in order; `rows` are their row numbers."""
        found = parse(values, self.options)
        if found is not None:
            found = with_maps(found.cast(self.paired), self.type)
            # JSON's null is a value like any other, but as a row without fields it would look like a missing one.
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
    """All values, parsed; None if one of them does not parse."""
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
    """The fields of a sample of JSON objects; UsageError if there are none. What looks like a time stays a string.

    Where values contradict each other, such as a number and a text in the same field, the first ones count; likewise where all of
    them together have too many fields.
    """
    merged, parsed_fields = None, 0
    for kind in _inferred(_leading(_in_utf8(sample.drop_null())), arrow_json.ParseOptions(newlines_in_values=True)):
        merged = kind if merged is None else _merged(merged, kind)
        parsed_fields += count_fields(kind)
        if parsed_fields > SAMPLE_FIELDS:
            break
    if merged is None:
        raise UsageError(
            "no schema can be inferred: no value of the sample is a JSON object with fields, "
            f"at most {MAX_FIELDS} of them; pass a schema"
        )
    return _plain(merged)


def _merged(first: pa.StructType, second: pa.StructType) -> pa.StructType:
    """The fields of both, or only those of the first if they contradict each other or are too many."""
    try:
        both = pa.unify_schemas([pa.schema([(FIELD, kind)]) for kind in (first, second)], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return first
    found = both.field(FIELD).type
    return found if count_fields(found) <= MAX_FIELDS else first


def _leading(sample: pa.Array) -> pa.Array:
    """The values to infer from: the first SAMPLE_BYTES of those that are neither too deep nor too large."""
    sample = sample.filter(pc.less_equal(pc.binary_length(sample), SAMPLE_BYTES))
    sample = sample.filter(pa.array(~too_deep(sample)))
    sizes = np.cumsum(pc.binary_length(sample).to_numpy(zero_copy_only=False).astype(np.int64))
    return sample.slice(0, int(np.searchsorted(sizes, SAMPLE_BYTES, side="right")))


def _in_utf8(values: pa.Array) -> pa.Array:
    """The values that are UTF-8, as names of fields have to be."""
    try:
        values.cast(pa.string())
        return values
    except pa.ArrowInvalid:
        return pa.array([value for value in values.to_pylist() if _is_utf8(value)], values.type)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inferred(values: pa.Array, options: arrow_json.ParseOptions) -> Iterator[pa.StructType]:
    """The types of these values, parsed as many together as possible."""
    if not len(values):
        return
    found = parse(values, options) if _may_be_parsed(values) else None
    if found is not None and count_fields(found.type) <= MAX_FIELDS:
        if pa.types.is_struct(found.type) and found.type.num_fields:
            yield _without_times(found.type)
    elif len(values) > 1:
        middle = len(values) // 2
        yield from _inferred(values.slice(0, middle), options)
        yield from _inferred(values.slice(middle), options)


def _may_be_parsed(values: pa.Array) -> bool:
    """Whether these values have few enough fields to be parsed together: every field has a colon after its name."""
    most = pc.sum(pc.count_substring(values, ":")).as_py()
    if MAX_FIELDS < most <= SAMPLE_FIELDS:
        return len({name for value in values.to_pylist() for name in NAME.findall(without_escapes(value))}) <= MAX_FIELDS
    return bool(most <= MAX_FIELDS)


def _without_times(kind: pa.DataType) -> pa.DataType:
    """The inferred type without Arrow's guesses: what looks like a date is text."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_times(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with text for what was always null, and without objects that were always empty: Parquet cannot store them."""
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


# Maps

KEY, VALUE = "key", "value"
_encode_text: Final = json.encoder.encode_basestring_ascii

Write = Callable[[Any], str]


class _NotAnObject(Exception):
    """Something else where a map should be."""


class _Literal(str):
    """A number as it is written, so that no digit is lost."""


class _Object(list[tuple[str, Any]]):
    """The fields of an object in order, repeated ones included."""


_parser: Final = json.JSONDecoder(object_pairs_hook=_Object, parse_float=_Literal, parse_int=_Literal, parse_constant=_Literal)


def has_map(kind: pa.DataType) -> bool:
    """Whether the type contains a map on any level."""
    return bool(pa.types.is_map(kind)) or any(has_map(kind.field(at).type) for at in range(kind.num_fields))


def paired_type(kind: pa.DataType) -> pa.DataType:
    """The same type with a list of pairs for each map."""
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([(KEY, pa.string()), (VALUE, paired_type(kind.item_type))]))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, paired_type(field.type)) for field in kind])
    return pa.list_(paired_type(kind.value_type)) if pa.types.is_list(kind) else kind


def paired_values(values: pa.Array, kind: pa.StructType) -> pa.Array:
    """The values with a list of pairs for each map; what is not JSON, or has no object there, becomes JSON's null."""
    write = _writer(kind)

    def rewritten(value: bytes) -> bytes:
        try:
            return write(_parser.decode(value.decode())).encode()
        except (ValueError, RecursionError, _NotAnObject):
            return b"null"

    return pa.array([rewritten(value) for value in values.to_pylist()], pa.binary())


def _writer(kind: pa.DataType) -> Write:
    """A function that writes values of this type as text."""
    if pa.types.is_map(kind):
        return _map_writer(_writer(kind.item_type))
    if pa.types.is_struct(kind):
        return _object_writer({field.name: _writer(field.type) for field in kind})
    return _list_writer(_writer(kind.value_type)) if pa.types.is_list(kind) else _write_plain


def _map_writer(write_item: Write) -> Write:
    def write(value: Any) -> str:
        if value is None:
            return "null"
        if not isinstance(value, _Object):
            raise _NotAnObject
        # The last one of a repeated key: a map has it once.
        pairs = [f'{{"{KEY}":{_encode_text(name)},"{VALUE}":{write_item(item)}}}' for name, item in dict(value).items()]
        return f"[{','.join(pairs)}]"

    return write


def _object_writer(known: dict[str, Write]) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, _Object):
            return _write_plain(value)
        fields = [f"{_encode_text(name)}:{known.get(name, _write_plain)(item)}" for name, item in value]
        return f"{{{','.join(fields)}}}"

    return write


def _list_writer(write_item: Write) -> Write:
    def write(value: Any) -> str:
        is_list = isinstance(value, list) and not isinstance(value, _Object)
        return f"[{','.join(map(write_item, value))}]" if is_list else _write_plain(value)

    return write


def _write_plain(value: Any) -> str:
    """Any value, unchanged."""
    if isinstance(value, _Literal):
        return value
    if isinstance(value, str):
        return _encode_text(value)
    if isinstance(value, _Object):
        return _write_object(value)
    if isinstance(value, list):
        return _write_list(value)
    return "null" if value is None else "true" if value else "false"


_write_object: Final = _object_writer({})
_write_list: Final = _list_writer(_write_plain)


def with_maps(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of `paired_type(kind)` as one of `kind`."""
    if not has_map(kind):
        return array
    if pa.types.is_struct(kind):
        children = [with_maps(array.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, with_maps(array.values, kind.value_type), mask=array.is_null()).cast(kind)
    keys, items = array.values.field(0), with_maps(array.values.field(1), kind.item_type)
    return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null()).cast(kind)
