"""JSON text indented, coloured and wrapped, with its numbers, escapes and order as they were written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import chop_cells

from .escape import json_safe
from .layout import Style, width_of

INDENT = 2
NAME, STRING, NUMBER, WORD, MARK = "34;1", "32", "36", "35", ""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

Piece = tuple[str, str]  # text and the code of its colour


def pretty_lines(text: str, style: Style, *, indent: int, wraps: bool) -> Iterator[str]:
    """The lines of a JSON text, each at least `indent` columns in; `wraps`: none is wider than the style."""
    for depth, pieces in _lines(_TOKEN.findall(text)):
        front = " " * (indent + INDENT * depth)
        room = max(style.width - len(front), 1) if wraps else None
        yield from painted(pieces, style, front, room)


def painted(pieces: Sequence[Piece], style: Style, front: str, room: int | None) -> Iterator[str]:
    """The pieces as a line after `front`, or as several where there is not enough room; the later ones stand further in."""
    line, left, start = "", room, front
    for text, code in pieces:
        for number, part in enumerate(_parts(text, left, room)):
            if number:
                yield start + line
                line, start, left = "", f"{front}{' ' * INDENT}", None if room is None else max(room - INDENT, 1)
            line += style.paint(part, code) if code else part
            left = None if left is None else left - width_of(part)
    yield start + line


def _parts(text: str, left: int | None, room: int | None) -> list[str]:
    """The text cut so that the first part fits into what is left of a line, and the others into lines of their own."""
    if left is None or room is None or width_of(text) <= left:
        return [text]
    first = chop_cells(text, left)[0] if left > 0 and width_of(text) > room - INDENT else ""
    rest = text[len(first) :]
    return [first, *chop_cells(rest, max(room - INDENT, 1))]


def _lines(tokens: list[str]) -> Iterator[tuple[int, list[Piece]]]:
    """Depth and pieces of each line."""
    depth = 0
    line: list[Piece] = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token in ("{", "["):
            line.append((token, MARK))
            if following not in ("}", "]"):
                yield depth, line
                depth, line = depth + 1, []
        elif token in ("}", "]"):
            if at and tokens[at - 1] not in ("{", "["):
                yield depth, line
                depth, line = depth - 1, []
            line.append((token, MARK))
        elif token == ",":
            line.append((token, MARK))
            yield depth, line
            line = []
        elif token == ":":
            line.append((": ", MARK))
        else:
            line.append((json_safe(token), _code(token, is_name=following == ":")))
    if line:
        yield depth, line


def _code(token: str, *, is_name: bool) -> str:
    if token.startswith('"'):
        return NAME if is_name else STRING
    return WORD if token in ("true", "false", "null") else NUMBER
