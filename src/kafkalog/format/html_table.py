"""Results as small HTML tables, which notebooks show in place of a `repr`. Names and values stay text, whatever they hold."""

from __future__ import annotations

from collections.abc import Sequence

from .markup import Markup, element, escaped, shortened

ROWS_SHOWN = 50
RIGHT, LEFT = (f"text-align:{side};padding:2px 8px" for side in ("right", "left"))

Cell = str | int | None


def html_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    more: int = 0,
    note: str = "",
    commands: Sequence[tuple[str, str]] = (),
) -> str:
    """A title and a table of the first rows, and how many more there are: of `rows`, and those that were not even made (`more`).

    Numbers are aligned right, None is an empty cell. Below come a note, and commands to type with what each is for.
    """
    hidden = max(len(rows) - ROWS_SHOWN, 0) + more
    head = element("thead", element("tr", [element("th", shortened(name), style=LEFT) for name in heads]))
    body = element("tbody", [element("tr", [_cell(cell) for cell in row]) for row in rows[:ROWS_SHOWN]])
    return element(
        "div",
        element("p", element("b", shortened(title))),
        element("table", head, body) if rows else None,
        element("p", f"and {hidden} more") if hidden else None,
        element("p", escaped(note)) if note else None,
        [(element("p", shortened(why)), element("pre", escaped(command))) for why, command in commands],
    )


def _cell(cell: Cell) -> Markup:
    return element("td", "" if cell is None else shortened(cell), style=RIGHT if isinstance(cell, int) else LEFT)
