"""Tables of a page: a caption, columns that can be sorted, and a last row that says what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkalog.format.markup import Child, Markup, element, escaped
from kafkalog.format.quantities import size_text

SHARE_WIDTH = 90


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and what it is sorted by where that is something else."""

    shown: Child
    sort: float | int | str | None = None


@dataclass(frozen=True)
class Column:
    """A column; numbers are aligned to the right, and sort from the largest.

    Short texts, such as times, stay on one line; wide ones get room.
    """

    head: str
    is_number: bool = False
    is_short: bool = False
    is_wide: bool = False


def number(value: int | float | None) -> Cell:
    """A count with commas."""
    return Cell("–", -1) if value is None else Cell(f"{value:,}", value)


def size(value: int) -> Cell:
    """A number of bytes; the exact one is its title."""
    return Cell(element("span", size_text(value), title=f"{value:,} bytes"), value)


def share(part: int | float, whole: int | float) -> Cell:
    """A bar with its percentage."""
    ratio = part / whole if whole else 0.0
    return Cell((bar(ratio), element("span", percent(ratio), class_="share")), ratio)


def percent(ratio: float) -> str:
    if 0 < ratio < 0.0005:
        return "< 0.1 %"
    return f"{100 * ratio:.1f} %" if 0 < ratio < 0.0995 else f"{100 * ratio:.0f} %"


def bar(ratio: float) -> Markup:
    """A bar of that share of its width; the text next to it says the same."""
    width = max(round(SHARE_WIDTH * min(ratio, 1.0), 1), 1 if ratio > 0 else 0)
    inside = element("rect", class_="full", width=width, height=10)
    return element("svg", inside, class_="bar", width=SHARE_WIDTH, height=10, aria_hidden="true")


def code(text: str) -> Markup:
    """A command to type; a line that is too long breaks between its words."""
    words = [element("span", escaped(word)) for word in text.split(" ")]
    return element("code", Markup(" ".join(words)), class_="command")


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell | Child]],
    *,
    more: Child = None,
    filtered: bool = False,
) -> Markup:
    """A table that scrolls within the page; `filtered` ones get a field to filter their rows by."""
    heads = [
        element("th", column.head, scope="col", class_=_class_of(column), data_kind="number" if column.is_number else "text")
        for column in columns
    ]
    body = [element("tr", [_cell(cell, column) for cell, column in zip(row, columns, strict=True)]) for row in rows]
    rest = None if more is None else element("p", more, class_="more")
    content = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", heads)),
        element("tbody", body),
        data_filtered=filtered,
    )
    scrolled = element("div", content, class_="scroll", tabindex=0, role="group", aria_label=caption)
    return element("div", scrolled, rest, class_="tabled")


def _class_of(column: Column) -> str | None:
    return "n" if column.is_number else "s" if column.is_short else "w" if column.is_wide else None


def _cell(cell: Cell | Child, column: Column) -> Markup:
    found = cell if isinstance(cell, Cell) else Cell(cell)
    return element("td", found.shown, class_=_class_of(column), data_sort=found.sort)


def facts(items: Iterable[tuple[str, Child]]) -> Markup:
    """A list of names and values."""
    return element("dl", [element("div", element("dt", name), element("dd", value)) for name, value in items], class_="facts")
