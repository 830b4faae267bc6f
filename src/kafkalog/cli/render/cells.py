"""The values of Arrow columns as text, JSON or CSV, a column at a time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from .escape import json_string, printable

Cells = list[str]
Encode = Callable[[bytes], str]

NULL_TEXT = "null"
EMPTY_TEXT = '""'
# A spreadsheet runs a cell that begins with one of these as a formula (OWASP, "CSV Injection").
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _utf8(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


# How bytes are written in text and CSV.
TEXT_ENCODINGS: dict[str, Encode] = {"utf8": _utf8, "hex": bytes.hex, "base64": _base64}


def _utf8_json(data: bytes) -> str:
    try:
        return json_string(data.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{_base64(data)}"}}'


JSON_ENCODINGS: dict[str, Encode] = {
    "utf8": _utf8_json,
    "hex": lambda data: f'"{data.hex()}"',
    "base64": lambda data: f'"{_base64(data)}"',
}


def text_cells(column: pa.Array, encoding: str, longest: int | None = None) -> Cells:
    """The column as text with every character printable; of bytes only the first `longest`, if given."""
    encode = TEXT_ENCODINGS[encoding]

    def show(value: Any) -> str:
        if value is None:
            return NULL_TEXT
        if isinstance(value, bytes):
            value = encode(value if longest is None else value[:longest])
        elif isinstance(value, list):
            value = ", ".join(map(show_element, value))
        return printable(value) if value else EMPTY_TEXT

    def show_element(value: Any) -> str:
        if isinstance(value, dict):
            return f"{show(value['key'])}={show(value['value'])}"
        return str(value)

    if is_flexible(column.type):
        return [show(value) for value in column.to_pylist()]
    return [NULL_TEXT if value is None else value for value in _plain(column)]


def csv_cells(column: pa.Array, encoding: str, *, escape: bool, safe: bool = False) -> Cells:
    """The column as RFC 4180 fields: null is an empty field, an empty value is a pair of quotes.

    With `safe`, an apostrophe precedes text that a spreadsheet would run as a formula; numbers stay as they are.
    """
    encode = TEXT_ENCODINGS[encoding]
    shown = printable if escape else str
    guarded = _as_text if safe else str

    def field(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, list):
            value = json_list(value, encoding)
        return quote_csv(shown(guarded(encode(value) if isinstance(value, bytes) else value)))

    if is_flexible(column.type):
        return [field(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        return [guarded(value or "") for value in _plain(column)]  # years beyond four digits have a sign
    return [value or "" for value in _plain(column)]


def _as_text(text: str) -> str:
    return "'" + text if text.startswith(FORMULA_STARTS) else text


def quote_csv(text: str) -> str:
    if text and not any(mark in text for mark in '",\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def json_cells(column: pa.Array, encoding: str) -> Cells:
    """The column as JSON values."""
    kind = column.type
    if pa.types.is_binary(kind):
        encode = JSON_ENCODINGS[encoding]
        return ["null" if value is None else encode(value) for value in column.to_pylist()]
    if pa.types.is_string(kind):
        return ["null" if value is None else json_string(value) for value in column.to_pylist()]
    if pa.types.is_list(kind):
        return ["null" if value is None else json_list(value, encoding) for value in column.to_pylist()]
    quote = '"' if pa.types.is_timestamp(kind) else ""
    return ["null" if value is None else f"{quote}{value}{quote}" for value in _plain(column)]


def json_list(values: Iterable[Any], encoding: str) -> str:
    return "[" + ",".join(_json_element(value, encoding) for value in values) + "]"


def _json_element(value: Any, encoding: str) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f'"{name}":{_json_element(part, encoding)}' for name, part in value.items()) + "}"
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return JSON_ENCODINGS[encoding](value)
    return json_string(value) if isinstance(value, str) else str(value)


def is_flexible(kind: pa.DataType) -> bool:
    """Whether values can have any length: bytes, text and lists."""
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_list(kind))


def _plain(column: pa.Array) -> list[str | None]:
    """Numbers, truth values and times, which need no escaping."""
    if pa.types.is_boolean(column.type):
        return [None if value is None else str(value).lower() for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        return _times(column)
    return [None if value is None else str(value) for value in column.to_pylist()]


def _times(column: pa.Array) -> list[str | None]:
    """ISO 8601 in UTC. NumPy writes any 64-bit count of milliseconds; Python's `datetime` ends at the year 9999."""
    stored = column.view(pa.int64()).to_pylist()  # a cast would load all of Arrow's compute functions
    times = np.array([0 if value is None else value for value in stored], "datetime64[ms]")
    texts = np.datetime_as_string(times, unit="ms").tolist()
    return [None if value is None else _signed_year(text) + "Z" for text, value in zip(texts, stored, strict=True)]


def _signed_year(text: str) -> str:
    return "+" + text if text.find("-") > 4 else text
