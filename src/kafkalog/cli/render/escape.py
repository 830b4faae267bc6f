"""Untrusted text made safe for a terminal: keys, values, topics, file names and error messages can contain anything.

A character that is not `str.isprintable` (control characters, escape sequences, direction marks, zero-width ones, lone
surrogates) is shown as its escape: `\\x1b`, `\\u202e`, `\\udcff`. Real backslashes stay as they are.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any

from kafkalog.format.printable import NOT_ASCII_PRINTABLE
from kafkalog.format.printable import printable as printable


def printable_lines(text: str) -> str:
    """`text` with its line breaks kept."""
    return "\n".join(map(printable, text.split("\n")))


def json_string(text: str) -> str:
    """`text` as a JSON string, as safe: unprintable characters are JSON escapes, so nothing is lost."""
    return json_safe(encode_basestring(text))


def json_safe(text: str) -> str:
    """JSON text without line breaks, with unprintable characters escaped; JSON has these only in strings."""
    return text if text.isprintable() else NOT_ASCII_PRINTABLE.sub(_json_escaped, text)


def json_page(content: Any) -> str:
    """`content` as indented JSON that is safe for a terminal."""
    return "\n".join(map(json_safe, json.dumps(content, indent=2, ensure_ascii=False).split("\n")))


def _json_escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
