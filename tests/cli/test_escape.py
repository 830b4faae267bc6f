"""No byte of a log, no file name and no message reaches a terminal raw."""

from __future__ import annotations

import base64
import json
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.cli.failure import describe
from kafkalog.cli.render.cells import JSON_ENCODINGS, TEXT_ENCODINGS, quote_csv
from kafkalog.cli.render.escape import json_string, printable, printable_lines
from kafkalog.errors import CorruptBatch, StorageError, UsageError

DANGEROUS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# In chunks that never hold both halves of a surrogate pair, which JSON would join.
EVERY_CODE_POINT = ["".join(map(chr, range(start, start + 1024))) for start in range(0, sys.maxunicode + 1, 1024)]


def is_safe(text: str) -> bool:
    return not any(unicodedata.category(character) in DANGEROUS for character in text)


def test_no_code_point_gets_through_that_is_not_printable() -> None:
    assert sum(map(len, EVERY_CODE_POINT)) == 1_114_112
    for chunk in EVERY_CODE_POINT:
        assert printable(chunk).isprintable()
        assert is_safe(printable(chunk))
        unchanged = "".join(filter(str.isprintable, chunk))
        assert printable(unchanged) == unchanged


def test_every_code_point_survives_json_and_is_safe_in_it() -> None:
    for chunk in EVERY_CODE_POINT:
        quoted = json_string(chunk)
        assert quoted.isprintable()
        assert json.loads(quoted) == chunk


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\u200b\ufeff", "\\u200b\\ufeff"),
        ("Größe 日本 🎉 \\n", "Größe 日本 🎉 \\n"),
    ],
)
def test_unprintable_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@settings(max_examples=1000)
@given(st.binary(max_size=200))
def test_random_bytes_are_safe_as_text_and_exact_as_json(data: bytes) -> None:
    for encode in TEXT_ENCODINGS.values():
        assert is_safe(printable(encode(data)))
    found = json.loads(JSON_ENCODINGS["utf8"](data))
    if isinstance(found, str):
        assert found.encode() == data
    else:
        assert base64.b64decode(found["base64"]) == data


@settings(max_examples=300)
@given(st.text(max_size=50))
def test_error_messages_hold_nothing_that_is_not_printable(name: str) -> None:
    for error in (StorageError(name), UsageError(name), CorruptBatch("crc", file=name, position=3), ValueError(name)):
        assert all(line.isprintable() for line in describe(error).split("\n"))
        assert len(describe(error).split("\n")) <= 3


def test_a_message_keeps_its_own_line_breaks_only() -> None:
    assert printable_lines("first\nsecond\x1b") == "first\nsecond\\x1b"
    assert describe(StorageError("bad\nname: no such file")).split("\n")[0] == "bad\\nname: no such file"


@pytest.mark.parametrize(("text", "field"), [("", '""'), ("a", "a"), ('a"b', '"a""b"'), ("a,b", '"a,b"'), ("a\nb", '"a\nb"')])
def test_csv_fields_are_quoted_as_rfc_4180_says(text: str, field: str) -> None:
    assert quote_csv(text) == field
