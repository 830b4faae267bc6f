"""Text on a terminal: its width and colours, the columns that a text takes, and a few rows as aligned columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from .target import Sink

PIPE_WIDTH, PIPE_HEIGHT = 100, 40
BOLD, DIM, RED, YELLOW = "1", "2", "31", "33"
GAP = "  "
# A column of text on a terminal is not made narrower than this.
NARROWEST_TEXT = 12
ELLIPSIS = "…"


@dataclass(frozen=True)
class Style:
    """How to write for one output: `width` columns, with colours or without; `height` lines are a screen."""

    width: int
    coloured: bool
    height: int = PIPE_HEIGHT

    def paint(self, text: str, code: str) -> str:
        """`text` with escape codes around it; they take no columns, so lay out first."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.coloured and text and code else text


def style_of(sink: Sink) -> Style:
    """The style of an output: that of its terminal, or plain text."""
    if not sink.isatty():
        return Style(PIPE_WIDTH, coloured=False)
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    coloured = bool(console.color_system) and not os.environ.get("NO_COLOR")
    return Style(console.width, coloured, console.height)


def width_of(text: str) -> int:
    """The columns that `text` takes on a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def shorten(text: str, width: int, *, keep_end: bool = False) -> str:
    """`text` cut to `width` columns, with an ellipsis where something is missing."""
    if keep_end:
        return ELLIPSIS + text[len(text) - width + 1 :]
    return set_cell_size(text, width - 1).rstrip(" ") + ELLIPSIS


def shorten_middle(text: str, width: int) -> str:
    """`text` cut to `width` columns in its middle: the ends of names are what distinguishes them."""
    if width_of(text) <= width:
        return text
    front = (width - 1) // 2
    end = set_cell_size(text[::-1], width - 1 - front).rstrip(" ")[::-1]
    return set_cell_size(text, front).rstrip(" ") + ELLIPSIS + end


def grid(
    style: Style,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: frozenset[int] = frozenset({0}),
    flexible: int | None = None,
) -> list[str]:
    """Aligned lines of text; columns in `left` are left-aligned, the `flexible` one is shortened in the middle to fit."""
    widths = _widths(heads, rows)
    if flexible is not None:
        excess = max(_total(widths) - style.width, 0)
        widths[flexible] = max(widths[flexible] - excess, min(widths[flexible], NARROWEST_TEXT))
    head, *lines = (_line(row, widths, left) for row in (heads, *rows))
    return [style.paint(head, BOLD), *lines]


def least_width(heads: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: int, narrowest: int = NARROWEST_TEXT) -> int:
    """The width of the lines with the flexible column as narrow as it may be."""
    widths = _widths(heads, rows)
    widths[flexible] = min(widths[flexible], narrowest)
    return _total(widths)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(width_of(cell) for cell in column) for column in zip(heads, *rows, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(row: Sequence[str], widths: Sequence[int], left: frozenset[int]) -> str:
    cells = []
    for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
        shown = shorten_middle(cell, width)
        padding = " " * (width - width_of(shown))
        cells.append(shown + padding if at in left else padding + shown)
    return GAP.join(cells).rstrip()
