"""Results as small HTML tables, which notebooks show in place of a `repr`. Names and values stay text, whatever they hold."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .printable import printable

ROWS_SHOWN = 50
TEXT_SHOWN = 400
RIGHT = ' style="text-align:right;padding:2px 8px"'
LEFT = ' style="text-align:left;padding:2px 8px"'

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
    head = "".join(f"<th{LEFT}>{_text(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:ROWS_SHOWN])
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    rest = f"<p>and {hidden} more</p>" if hidden else ""
    remark = f"<p>{escape(printable(note))}</p>" if note else ""
    steps = "".join(f"<p>{_text(why)}</p><pre>{escape(printable(command))}</pre>" for why, command in commands)
    return f"<div><p><b>{_text(title)}</b></p>{table}{rest}{remark}{steps}</div>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, int):
        return f"<td{RIGHT}>{cell}</td>"
    return f"<td{LEFT}>{'' if cell is None else _text(cell)}</td>"


def _text(text: str) -> str:
    shown = printable(text)
    return escape(shown if len(shown) <= TEXT_SHOWN else f"{shown[:TEXT_SHOWN]}…")
