"""Keys and sizes: how large keys and values are, which keys, prefixes and headers have most of the bytes."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.format.quantities import size_text
from kafkalog.pages.tables import Cell, Column, number, share, size, table
from kafkalog.tasks.overview.result import Overview, Sizes
from kafkalog.tasks.profile.result import Item, Ranking

from .section import Section


def section(overview: Overview) -> Section | None:
    profile = overview.profile
    if profile.quick or not profile.total.records:
        return None
    sizes = element("div", _sizes("Keys", overview.key_sizes), _sizes("Values", overview.value_sizes), class_="columns")
    parts = [
        sizes,
        _ranking(overview, "Heaviest keys", "key", profile.keys, _text),
        _ranking(overview, "Heaviest key prefixes", "prefix", profile.key_prefixes, _text),
        _ranking(overview, "Headers", "header", profile.headers, _text),
    ]
    return Section("records", "Keys and sizes", joined(parts))


def _sizes(noun: str, found: Sizes) -> Markup:
    if not found.records:
        return element("p", f"{noun}: no record has one.", class_="note")
    columns = [Column("from"), Column("to"), Column("records", True), Column("share")]
    rows = [
        [
            Cell(size_text(bucket.first), bucket.first),
            Cell(size_text(bucket.last), bucket.last),
            number(bucket.records),
            share(bucket.records, found.records),
        ]
        for bucket in found.buckets
    ]
    mean = f"{size_text(found.mean)} on average, {size_text(found.smallest)} to {size_text(found.largest)}"
    return table(f"{noun} by size: {mean}", columns, rows)


def _ranking(overview: Overview, title: str, head: str, found: Ranking, text_of: Callable[[Item], Child]) -> Child:
    if not found.items:
        return None
    has_topics = found.items[0].topic is not None
    columns = [
        Column(head),
        *([Column("topic")] if has_topics else []),
        Column("bytes", True),
        Column("share"),
        Column("records", True),
    ]
    rows = [
        [
            text_of(item),
            *([item.topic] if has_topics else []),
            size(item.bytes),
            share(item.bytes, overview.profile.total.bytes),
            number(item.records),
        ]
        for item in found.items
    ]
    return table(title, columns, rows, more=ranking_note(found))


def ranking_note(found: Ranking) -> str | None:
    """How exact a ranking is, and how much of it is not shown."""
    if found.distinct is None:
        return f"The heaviest of very many; any of them may have {size_text(found.error_bytes)} more."
    return f"… and {found.distinct - len(found.items):,} more" if found.distinct > len(found.items) else None


def _text(item: Item) -> Child:
    assert isinstance(item.name, bytes)
    text = item.name.decode("utf-8", "backslashreplace")
    if not text:
        return element("span", "empty", class_="muted")
    return text if item.size <= len(item.name) else text + "…"
