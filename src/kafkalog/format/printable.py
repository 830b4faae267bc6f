"""Untrusted text made safe to show: keys, topics, file names and error messages can contain anything.

A character that is not `str.isprintable` (control characters, escape sequences, direction marks, zero-width ones, lone
surrogates) is shown as its escape: `\\x1b`, `\\u202e`, `\\udcff`. Real backslashes stay as they are.
"""

from __future__ import annotations

import re

# Nearly every value is printable ASCII; others take the slow path, character by character.
NOT_ASCII_PRINTABLE = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """`text` with every character that is not printable escaped."""
    return text if text.isprintable() else NOT_ASCII_PRINTABLE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
