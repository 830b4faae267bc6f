"""A few rows as aligned columns, for results that fit on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from .style import BOLD, Style
from .text import GAP, shorten, width_of


def grid(
    style: Style,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: frozenset[int] = frozenset({0}),
    flexible: frozenset[int] = frozenset(),
    fit: bool = False,
) -> list[str]:
    """Lines of text: columns in `left` begin together, the others end together. To `fit`, the `flexible` ones are shortened."""
    widths = [max(width_of(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    while fit and sum(widths) + len(GAP) * (len(widths) - 1) > style.width:
        widest = max(flexible, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= len(heads[widest]) or widths[widest] <= 8:
            break
        widths[widest] -= 1
    head, *lines = (_line(row, widths, left) for row in (heads, *rows))
    return [style.paint(head, BOLD), *lines]


def _line(row: Sequence[str], widths: Sequence[int], left: frozenset[int]) -> str:
    cells = []
    for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
        shown = cell if width_of(cell) <= width else shorten(cell, width)
        padding = " " * (width - width_of(shown))
        cells.append(shown + padding if at in left else padding + shown)
    return GAP.join(cells).rstrip()
