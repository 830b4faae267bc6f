"""HTML and SVG from elements: every text and every attribute is escaped here, so what comes from a disk stays text."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

from .printable import printable

LONGEST = 400
# Elements without content or an end.
EMPTY = frozenset({"br", "col", "hr", "input", "meta"})

Child = Any  # Markup, text, a number, None, or several of these


class Markup(str):
    """HTML that is escaped already."""

    __slots__ = ()


def escaped(value: object) -> Markup:
    """A value as text or attribute of a page."""
    return value if isinstance(value, Markup) else Markup(html.escape(printable(str(value))))


def shortened(value: object) -> Markup:
    """A value as text of a page; the end of a very long one is left out."""
    text = str(value)
    return escaped(value if isinstance(value, Markup) or len(text) <= LONGEST else text[:LONGEST] + "…")


def joined(*children: Child) -> Markup:
    """Children one after the other; None is nothing."""
    return Markup("".join(_parts(children)))


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str | int | float):
            yield shortened(child)
        else:
            yield from _parts(child)


def element(tag: str, *children: Child, **attributes: object) -> Markup:
    """An element. `class_` is the attribute class and `data_sort` data-sort; None and False leave an attribute out."""
    head = tag + "".join(map(_attribute, attributes.items()))
    return Markup(f"<{head}>") if tag in EMPTY else Markup(f"<{head}>{joined(*children)}</{tag}>")


def _attribute(item: tuple[str, object]) -> str:
    name, value = item[0].rstrip("_").replace("_", "-"), item[1]
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'


def json_data(identifier: str, content: object) -> Markup:
    """Data for the page's script. It ends no element and begins no comment: `<`, `>` and `&` are JSON escapes in it."""
    text = json.dumps(content, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{escaped(identifier)}">{text}</script>')
