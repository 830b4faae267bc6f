"""Formats and codecs, how well batches are compressed, and how full they are."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.format.quantities import size_text
from kafkalog.pages import charts
from kafkalog.pages.tables import Cell, Column, code, number, percent, share, size, table
from kafkalog.tasks.overview.result import FormatCount, Overview
from kafkalog.tasks.profile.result import Distribution

from .section import Section, topic_command

ABOUT = {0: "before Kafka 0.10", 1: "Kafka 0.10", 2: "Kafka 0.11 and newer"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MOST_TOPICS = 50


def section(overview: Overview) -> Section | None:
    if not overview.profile.total.batches:
        return None
    parts = [_formats(overview), _old_topics(overview), _codecs(overview), _ratios(overview), _fill(overview)]
    return Section("formats", "Formats, codecs and batches", joined(parts), "Formats")


def _formats(overview: Overview) -> Markup:
    total: dict[int, FormatCount] = {}
    for formats in overview.formats.values():
        for magic, count in formats.items():
            total.setdefault(magic, FormatCount()).add(count.bytes, count.batches, count.records)
    whole = sum(count.bytes for count in total.values())
    pieces = [(f"v{magic}", count.bytes, f"f{magic}") for magic, count in sorted(total.items())]
    columns = [
        Column("format"),
        Column("written by"),
        Column("size", True),
        Column("share"),
        Column("batches", True),
        Column("records", True),
    ]
    rows = [
        [
            f"v{magic}",
            ABOUT.get(magic, ""),
            size(count.bytes),
            share(count.bytes, whole),
            number(count.batches),
            number(count.records),
        ]
        for magic, count in sorted(total.items())
    ]
    return joined(_divided("format-share", "Bytes by format", pieces), table("Formats", columns, rows))


def _divided(name: str, title: str, pieces: Sequence[tuple[str, int, str]]) -> Markup:
    """A bar divided among (name, bytes, class), with its legend."""
    whole = sum(weight for _, weight, _ in pieces) or 1
    texts = [(kind, f"{text} {percent(weight / whole)}") for text, weight, kind in pieces]
    drawn = [(kind, weight, f"{text}: {size_text(weight)}") for text, weight, kind in pieces]
    chart = charts.stacked(name, title, ", ".join(text for _, text in texts), drawn)
    return element("figure", element("figcaption", title), chart, charts.legend(texts))


def _old_topics(overview: Overview) -> Child:
    old = {topic: formats for topic, formats in overview.formats.items() if {0, 1} & set(formats)}
    if not old:
        return element("p", "No topic is in the formats v0 or v1: nothing has to be converted for Kafka 4.", class_="calm")
    columns = [Column("topic"), Column("v0", True), Column("v1", True), Column("v2", True), Column("to convert")]
    rows = [
        [
            topic,
            *(size(formats[magic].bytes if magic in formats else 0) for magic in range(3)),
            code(topic_command("convert", overview, topic, "--out", "converted")),
        ]
        for topic, formats in list(old.items())[:MOST_TOPICS]
    ]
    more = f"… and {len(old) - MOST_TOPICS:,} more" if len(old) > MOST_TOPICS else None
    return table("Topics in old formats", columns, rows, more=more)


def _codecs(overview: Overview) -> Markup:
    found = overview.profile.codecs
    pieces = [(name, count.bytes, _codec_class(name)) for name, count in found.items()]
    columns = [
        Column("codec"),
        Column("size", True),
        Column("share"),
        Column("batches", True),
        Column("records", True),
        Column("compression", True),
    ]
    rows = [
        [
            name,
            size(count.bytes),
            share(count.bytes, overview.profile.total.bytes),
            number(count.batches),
            number(count.records),
            _ratio(count.ratio),
        ]
        for name, count in found.items()
    ]
    return joined(_divided("codec-share", "Bytes by codec", pieces), table("Codecs", columns, rows))


def _codec_class(name: str) -> str:
    return f"c{CODECS.index(name)}" if name in CODECS else "c7"


def _ratio(ratio: float | None) -> Cell:
    return Cell("–", 0) if ratio is None else Cell(f"{ratio:.2f}", round(ratio, 4))


def _ratios(overview: Overview) -> Child:
    measured = [(topic, count) for topic, count in overview.profile.topics.items() if count.ratio is not None]
    if not measured:
        return element("p", "Compression was not measured: a quick report decompresses nothing.", class_="note")
    best = max(count.ratio or 0 for _, count in measured)
    columns = [
        Column("topic"),
        Column("stored", True),
        Column("decompressed", True),
        Column("ratio", True),
        Column("of the best"),
    ]
    rows = [
        [topic, size(count.bytes), size(count.raw_bytes), _ratio(count.ratio), share(count.ratio or 0, best)]
        for topic, count in measured[:MOST_TOPICS]
    ]
    more = f"… and {len(measured) - MOST_TOPICS:,} smaller topics" if len(measured) > MOST_TOPICS else None
    return table("Compression by topic", columns, rows, more=more)


def _fill(overview: Overview) -> Markup:
    records, sizes = overview.profile.batch_records, overview.profile.batch_bytes
    return element(
        "div",
        distribution("Records in a batch", records, lambda value: f"{value:,}"),
        distribution("Size of a batch", sizes, size_text),
        class_="columns",
    )


def distribution(title: str, found: Distribution, text_of: object) -> Markup:
    """Batches by how full they are."""
    assert callable(text_of)
    columns = [Column("from"), Column("to"), Column("batches", True), Column("share"), Column("stored", True)]
    whole = sum(bucket.batches for bucket in found.buckets)
    rows = [
        [
            Cell(text_of(bucket.first), bucket.first),
            Cell(text_of(bucket.last), bucket.last),
            number(bucket.batches),
            share(bucket.batches, whole),
            size(bucket.bytes),
        ]
        for bucket in found.buckets
    ]
    caption = f"{title}: {text_of(round(found.mean, 1))} on average, {text_of(found.smallest)} to {text_of(found.largest)}"
    return table(caption, columns, rows)
