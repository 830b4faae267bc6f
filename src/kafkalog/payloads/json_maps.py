"""JSON objects as maps. Arrow's reader of JSON has none, so it gets lists of pairs, which become maps afterwards.

{"tags": {"a": 1}}   with   tags map<string,bigint>   is read as   {"tags": [{"key": "a", "value": 1}]}
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

KEY, VALUE = "key", "value"
_encode_text: Final = json.encoder.encode_basestring_ascii

Write = Callable[[Any], str]


class _NotAnObject(Exception):
    """Something else stands where a map should."""


class _Literal(str):
    """A number as it is written: no digit is lost on the way."""


class _Object(list[tuple[str, Any]]):
    """The fields of an object in order, also those that come twice."""


_parser: Final = json.JSONDecoder(object_pairs_hook=_Object, parse_float=_Literal, parse_int=_Literal, parse_constant=_Literal)


def has_map(kind: pa.DataType) -> bool:
    """Whether a map is anywhere in the type."""
    return bool(pa.types.is_map(kind)) or any(has_map(kind.field(at).type) for at in range(kind.num_fields))


def paired_type(kind: pa.DataType) -> pa.DataType:
    """The same with a list of pairs for each map."""
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([(KEY, pa.string()), (VALUE, paired_type(kind.item_type))]))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, paired_type(field.type)) for field in kind])
    return pa.list_(paired_type(kind.value_type)) if pa.types.is_list(kind) else kind


def paired_values(values: pa.Array, kind: pa.StructType) -> pa.Array:
    """The values with a list of pairs for each object that is a map; what is no JSON, or no object there, becomes JSON's null."""
    write = _writer(kind)

    def rewritten(value: bytes) -> bytes:
        try:
            return write(_parser.decode(value.decode())).encode()
        except (ValueError, RecursionError, _NotAnObject):
            return b"null"

    return pa.array([rewritten(value) for value in values.to_pylist()], pa.binary())


def _writer(kind: pa.DataType) -> Write:
    """What writes values of this type as text, made once for all of them."""
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
        # Of a key that comes twice, the last one: a map has it once.
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
    """Anything, as it was."""
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
