"""Records as JSON lines, written from Arrow columns into one byte array.

Bytes become a JSON string if they are UTF-8, otherwise {"base64": "..."}: nothing is lost. Characters that are not printable are
escaped, so that a line is safe on a terminal.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._jit import copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .layout import Offsets32, Texts, readonly
from .text import find_character, put_byte, put_integer

# How bytes are written. RAW: they already are JSON text.
TEXT, HEX, BASE64, RAW = range(4)

_WORDS = (
    ',"timestamp":',
    ',"timestampType":',
    ',"key":',
    ',"value":',
    ',"headers":[',
    "]}\n",
    "null",
    '{"base64":"',
    '"}',
)
TIMESTAMP_WORD, TYPE_WORD, KEY_WORD, VALUE_WORD, HEADERS_WORD, END_WORD, NULL_WORD, BASE64_WORD, BASE64_END_WORD = range(9)

WORD_ROOM = 32

# The longest line without its prefix, its bytes and its headers; the longest header without its bytes.
FIXED_BYTES = 256
HEADER_BYTES = 64
LONGEST_ESCAPE = 6  # \\u001b, for one byte

QUOTE, BACKSLASH, COMMA, OPENING, CLOSING, LETTER_U, PADDING = (ord(each) for each in '"\\,[]u=')
NOT_UTF8 = -1

ODD = 0  # the form of a byte that is not printable ASCII


def _byte_forms() -> NDArray[np.int64]:
    """A byte in a JSON string: two bytes, the first one lowest, and above them how many of these count."""
    forms = np.full(256, ODD, np.int64)
    plain = np.arange(0x20, 0x7F)
    forms[plain] = plain | 1 << 16
    for byte in (QUOTE, BACKSLASH):
        forms[byte] = BACKSLASH | byte << 8 | 2 << 16
    return forms


def _short_escapes() -> Bytes:
    """The letter after the backslash for control characters that have one, otherwise 0."""
    letters = np.zeros(0x80, np.uint8)
    for character, letter in zip("\b\t\n\f\r", "btnfr", strict=True):
        letters[ord(character)] = ord(letter)
    return letters


class JsonTables(NamedTuple):
    """Lookup tables of the kernel. Each word has WORD_ROOM bytes, so that it is copied without a call.

    `unprintable` has a flag for each code point, or none if all bytes are ASCII.
    """

    words: Bytes
    word_sizes: Ints
    forms: Ints
    letters: Bytes
    hex_digits: Bytes
    base64_digits: Bytes
    unprintable: Bytes


@cache
def json_tables(*, ascii_only: bool) -> JsonTables:
    """The tables for columns of ASCII, or of anything."""
    words = _as_bytes("".join(word.ljust(WORD_ROOM) for word in _WORDS).encode())
    word_sizes = np.array([len(word) for word in _WORDS])
    code_points = range(0 if ascii_only else 0x110000)
    flags = bytes(not chr(code_point).isprintable() for code_point in code_points)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    digits = _as_bytes(b"0123456789abcdef"), _as_bytes(alphabet)
    tables = (words, word_sizes, _byte_forms(), _short_escapes(), *digits, _as_bytes(flags))
    return JsonTables(*map(readonly, tables))


def _as_bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


class RecordTexts(NamedTuple):
    """The columns of records. `headers` has an element per record and one more; the header columns one per header."""

    offsets: Ints
    timestamps: Ints
    timestamp_types: Offsets32
    keys: Texts
    values: Texts
    headers: Offsets32
    header_keys: Texts
    header_values: Texts


@inline
def _put_word(out: Bytes, at: Int, tables: JsonTables, word: Int) -> Int:
    copy_bytes(tables.words, WORD_ROOM * word, out, at, WORD_ROOM)
    return at + tables.word_sizes[word]


@inline
def _put_escape(out: Bytes, at: Int, unit: Int, hex_digits: Bytes) -> Int:
    """A UTF-16 unit as \\uXXXX."""
    out[at] = BACKSLASH
    out[at + 1] = LETTER_U
    for digit in range(4):
        out[at + 2 + digit] = hex_digits[(unit >> (12 - 4 * digit)) & 0xF]
    return at + 6


@inline
def _code_point(data: Bytes, at: Int, size: Int) -> Int:
    """The code point of a well-formed character."""
    value = np.int64(data[at])
    if size == 1:
        return value
    value &= 0x7F >> size
    for number in range(1, size):
        value = (value << 6) | (np.int64(data[at + number]) & 0x3F)
    return value


@kernel
def _put_odd_string(out: Bytes, at: Int, data: Bytes, start: Int, stop: Int, tables: JsonTables) -> Int:
    """The rest of a string, from its first byte that is not printable ASCII; NOT_UTF8 if it is not text."""
    while start < stop:
        byte = np.int64(data[start])
        size, well_formed = find_character(data, start, stop)
        if not well_formed:
            return NOT_UTF8
        code_point = _code_point(data, start, size)
        if byte < 0x80:
            form = tables.forms[byte]
            if form != ODD:
                out[at] = form & 0xFF
                out[at + 1] = (form >> 8) & 0xFF
                at += form >> 16
            elif tables.letters[byte]:
                out[at] = BACKSLASH
                out[at + 1] = tables.letters[byte]
                at += 2
            else:
                at = _put_escape(out, at, byte, tables.hex_digits)
        elif not tables.unprintable[code_point]:
            for index in range(size):
                out[at + index] = data[start + index]
            at += size
        elif code_point < 0x10000:
            at = _put_escape(out, at, code_point, tables.hex_digits)
        else:
            at = _put_escape(out, at, 0xD800 + ((code_point - 0x10000) >> 10), tables.hex_digits)
            at = _put_escape(out, at, 0xDC00 + ((code_point - 0x10000) & 0x3FF), tables.hex_digits)
        start += size
    return at


@inline
def _put_string(out: Bytes, at: Int, data: Bytes, start: Int, stop: Int, tables: JsonTables) -> Int:
    """A JSON string; NOT_UTF8 if it is not text.

    Quotes are frequent (values are often JSON themselves), so there is no branch for them: two bytes are always written.
    """
    forms = tables.forms
    at = put_byte(out, at, QUOTE)
    source, target = np.uint64(start), np.uint64(at)
    end = np.uint64(stop)
    while source < end:
        form = forms[np.uint64(data[source])]
        if form == ODD:
            break
        out[target] = form & 0xFF
        out[target + np.uint64(1)] = (form >> 8) & 0xFF
        target += np.uint64(form >> 16)
        source += np.uint64(1)
    at = np.int64(target)
    if source < end:
        at = _put_odd_string(out, at, data, np.int64(source), stop, tables)
        if at == NOT_UTF8:
            return at
    return put_byte(out, at, QUOTE)


@kernel
def _put_hex(out: Bytes, at: Int, data: Bytes, start: Int, stop: Int, digits: Bytes) -> Int:
    for index in range(start, stop):
        byte = np.int64(data[index])
        out[at] = digits[byte >> 4]
        out[at + 1] = digits[byte & 0xF]
        at += 2
    return at


@kernel
def _put_base64(out: Bytes, at: Int, data: Bytes, start: Int, stop: Int, digits: Bytes) -> Int:
    while start < stop:
        taken = min(stop - start, 3)
        group = np.int64(data[start]) << 16
        if taken > 1:
            group |= np.int64(data[start + 1]) << 8
        if taken > 2:
            group |= np.int64(data[start + 2])
        for digit in range(4):
            out[at + digit] = digits[(group >> (18 - 6 * digit)) & 0x3F] if digit <= taken else PADDING
        at += 4
        start += taken
    return at


@inline
def _put_bytes(out: Bytes, at: Int, column: Texts, row: Int, how: Int, tables: JsonTables) -> Int:
    """The value of a row as JSON."""
    offsets, valid, data = column
    if valid.shape[0] and not valid[row]:
        return _put_word(out, at, tables, NULL_WORD)
    start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
    if how == RAW:
        copy_bytes(data, start, out, at, stop - start)
        return at + stop - start
    if how == TEXT:
        after = _put_string(out, at, data, start, stop, tables)
        if after != NOT_UTF8:
            return after
        at = _put_word(out, at, tables, BASE64_WORD)
        at = _put_base64(out, at, data, start, stop, tables.base64_digits)
        return _put_word(out, at, tables, BASE64_END_WORD)
    at = put_byte(out, at, QUOTE)
    if how == HEX:
        at = _put_hex(out, at, data, start, stop, tables.hex_digits)
    else:
        at = _put_base64(out, at, data, start, stop, tables.base64_digits)
    return put_byte(out, at, QUOTE)


@inline
def _size(column: Texts, first: Int, last: Int) -> Int:
    return np.int64(column.offsets[last]) - np.int64(column.offsets[first])


@kernel
def write_json_lines(
    columns: RecordTexts,
    row: Int,
    rows: Int,
    prefix: Bytes,
    key_how: Int,
    value_how: Int,
    how: Int,
    tables: JsonTables,
    out: Bytes,
) -> tuple[Int, Int]:
    """(row after the last one written, bytes written). `prefix` is each line up to its offset; `how` is that of headers.

    It ends early if the room might run out. Then flush what was written and call again, or call with more room.
    """
    offsets, timestamps, types, keys, values, headers, header_keys, header_values = columns
    at = np.int64(0)
    while row < rows:
        first, last = np.int64(headers[row]), np.int64(headers[row + 1])
        size = _size(keys, row, row + 1) + _size(values, row, row + 1)
        size += _size(header_keys, first, last) + _size(header_values, first, last)
        needed = FIXED_BYTES + prefix.shape[0] + LONGEST_ESCAPE * size + HEADER_BYTES * (last - first)
        if needed > out.shape[0] - at:
            break
        copy_bytes(prefix, 0, out, at, prefix.shape[0])
        at = put_integer(out, at + prefix.shape[0], offsets[row])
        at = put_integer(out, _put_word(out, at, tables, TIMESTAMP_WORD), timestamps[row])
        at = put_integer(out, _put_word(out, at, tables, TYPE_WORD), np.int64(types[row]))
        at = _put_bytes(out, _put_word(out, at, tables, KEY_WORD), keys, row, key_how, tables)
        at = _put_bytes(out, _put_word(out, at, tables, VALUE_WORD), values, row, value_how, tables)
        at = _put_word(out, at, tables, HEADERS_WORD)
        for header in range(first, last):
            at = put_byte(out, at, OPENING) if header == first else put_byte(out, put_byte(out, at, COMMA), OPENING)
            at = _put_bytes(out, at, header_keys, header, how, tables)
            at = _put_bytes(out, put_byte(out, at, COMMA), header_values, header, how, tables)
            at = put_byte(out, at, CLOSING)
        at = _put_word(out, at, tables, END_WORD)
        row += 1
    return row, at
