"""A few rows as aligned columns, for results that fit on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from .style import BOLD, Style
from .text import GAP, NARROWEST_TEXT, shorten, width_of


def grid(
    style: Style,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: frozenset[int] = frozenset({0}),
    flexible: int | None = None,
) -> list[str]:
    """Lines of text: columns in `left` begin together, the others end together. The `flexible` one is shortened to fit."""
    widths = _widths(heads, rows)
    if flexible is not None:
        excess = max(_total(widths) - style.width, 0)
        widths[flexible] = max(widths[flexible] - excess, min(widths[flexible], NARROWEST_TEXT))
    head, *lines = (_line(row, widths, left) for row in (heads, *rows))
    return [style.paint(head, BOLD), *lines]


def least_width(heads: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: int) -> int:
    """The columns that the lines take when the flexible one is as narrow as it may be."""
    widths = _widths(heads, rows)
    widths[flexible] = min(widths[flexible], NARROWEST_TEXT)
    return _total(widths)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(width_of(cell) for cell in column) for column in zip(heads, *rows, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(row: Sequence[str], widths: Sequence[int], left: frozenset[int]) -> str:
    cells = []
    for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
        shown = cell if width_of(cell) <= width else shorten(cell, width)
        padding = " " * (width - width_of(shown))
        cells.append(shown + padding if at in left else padding + shown)
    return GAP.join(cells).rstrip()
