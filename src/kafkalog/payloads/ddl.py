"""Schemas as text: Spark's DDL (`id bigint, tags map<string,string>, at struct<x:double>`), or the JSON of `df.schema.json()`."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from kafkalog.errors import UsageError

from .bounds import MAX_DEPTH, check_schema_text, schema_too_deep

SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
ALIASES: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|[^\s<>(),:`]+|[<>(),:])")
NAMES: Final = {kind: name for name, kind in SIMPLE.items()}


def parse_schema(text: str) -> pa.StructType:
    """The fields of a schema; UsageError if it is not one."""
    if text.lstrip().startswith("{"):
        check_schema_text(text)
        try:
            found = json.loads(text)
        except ValueError as error:
            raise UsageError(f"the schema is not JSON: {error}") from None
        kind = _from_json(found, 1)
        if not pa.types.is_struct(kind):
            raise UsageError("the schema must be a struct: a JSON object with type and fields")
        return kind
    return _Parser(text).schema()


def spell_schema(kind: pa.StructType) -> str:
    """The type as DDL."""
    return ", ".join(f"{_quoted(field.name)} {_spell(field.type)}" for field in kind)


def _spell(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{_quoted(field.name)}:{_spell(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{_spell(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<string,{_spell(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return NAMES[kind]


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_]+", name) else "`" + name.replace("`", "``") + "`"


def _simple(name: str) -> pa.DataType:
    known = ALIASES.get(name.lower(), name.lower())
    if known not in SIMPLE:
        allowed = ", ".join((*SIMPLE, "decimal(p,s)", "array<...>", "map<string,...>", "struct<...>"))
        raise UsageError(f"unknown type {name!r} in the schema; allowed are {allowed}")
    return SIMPLE[known]


def _decimal(precision: int, scale: int) -> pa.DataType:
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise UsageError(f"decimal({precision},{scale}) is beyond decimal(38,38)")
    return pa.decimal128(precision, scale)


def _map(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    if not pa.types.is_string(key):
        raise UsageError(f"map<{_spell(key)},...>: the names in a JSON object are text; write map<string,...>")
    return pa.map_(key, value)


def _from_json(found: Any, depth: int) -> pa.DataType:
    """A type as `df.schema.json()` writes it."""
    if depth > MAX_DEPTH + 1:  # the content of the deepest objects and arrays
        raise schema_too_deep()
    if isinstance(found, str):
        number = re.fullmatch(r"decimal\((\d+),(\d+)\)", found)
        return _decimal(int(number[1]), int(number[2])) if number else _simple(found)
    if not isinstance(found, dict) or found.get("type") not in ("struct", "array", "map"):
        raise UsageError(f"not one of Spark's types: {json.dumps(found)[:200]}")
    try:
        if found["type"] == "array":
            return pa.list_(_from_json(found["elementType"], depth + 1))
        if found["type"] == "map":
            return _map(_from_json(found["keyType"], depth + 1), _from_json(found["valueType"], depth + 1))
        return pa.struct([(field["name"], _from_json(field["type"], depth + 1)) for field in found["fields"]])
    except (KeyError, TypeError) as error:
        raise UsageError(f"not a Spark schema: {error!r} is missing or wrong") from None


class _Parser:
    """Parses fields and types token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = TOKEN.findall(text)
        self.at = 0
        self.depth = 0
        if not self.tokens:
            raise UsageError("the schema is empty; an example: id bigint, name string")

    def schema(self) -> pa.StructType:
        kind = self._fields("")
        if self.at < len(self.tokens):
            raise self._error("the end")
        return kind

    def _fields(self, closing: str) -> pa.StructType:
        self._deeper()
        fields: dict[str, pa.DataType] = {}
        while True:
            name = self._next("the name of a field")
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self._peek() == ":":
                self._next(":")
            if name in fields:
                raise UsageError(f"the schema has the field {name!r} twice")
            fields[name] = self._type()
            if [token.lower() for token in self.tokens[self.at : self.at + 2]] == ["not", "null"]:
                self.at += 2  # a value may always be missing
            if self._peek() != ",":
                break
            self._next(",")
        if closing:
            self._expect(closing)
        self.depth -= 1
        return pa.struct(list(fields.items()))

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise schema_too_deep()

    def _type(self) -> pa.DataType:
        name = self._next("a type").lower()
        if name == "array":
            self._expect("<")
            self._deeper()
            inner = self._type()
            self.depth -= 1
            self._expect(">")
            return pa.list_(inner)
        if name == "map":
            self._expect("<")
            self._deeper()
            key = self._type()
            self._expect(",")
            value = self._type()
            self.depth -= 1
            self._expect(">")
            return _map(key, value)
        if name == "struct":
            self._expect("<")
            return self._fields(">")
        if name in ("decimal", "numeric", "dec"):
            return self._decimal()
        return _simple(name)

    def _decimal(self) -> pa.DataType:
        if self._peek() != "(":
            return _decimal(10, 0)
        self._expect("(")
        numbers = [self._number()]
        if self._peek() == ",":
            self._expect(",")
            numbers.append(self._number())
        self._expect(")")
        return _decimal(numbers[0], numbers[1] if len(numbers) > 1 else 0)

    def _number(self) -> int:
        token = self._next("a number")
        if not token.isdigit():
            raise self._error("a number", token)
        return int(token)

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _next(self, wanted: str) -> str:
        token = self._peek()
        if not token or (token in "<>()," and token != wanted):
            raise self._error(wanted)
        self.at += 1
        return str(token)

    def _expect(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise self._error(repr(wanted))
        self.at += 1

    def _error(self, wanted: str, found: str | None = None) -> UsageError:
        token = found or self._peek()
        return UsageError(f"the schema {self.text[:200]!r}: {wanted} expected, {repr(token) if token else 'its end'} found")
