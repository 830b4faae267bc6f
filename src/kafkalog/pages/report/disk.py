"""What is on the disk: a treemap of topics, partitions and segments, and the same as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkalog.format.markup import Child, Markup, element, joined, json_data
from kafkalog.format.printable import printable
from kafkalog.format.quantities import offsets_text, plural, size_text
from kafkalog.pages import charts
from kafkalog.pages.tables import Cell, Column, number, share, size, table
from kafkalog.pages.treemap import Area, squarified
from kafkalog.tasks.overview.result import Overview, PartitionView, SegmentView

from .section import MINUTE, Section, colour_of, command, middle_cut, more_rows, time_text

WIDTH, HEIGHT = 1120, 460
HEAD = 15  # of a topic or partition that has room for its name
LETTER = 7.0
LEAST_AREA = 24.0  # square pixels; what is smaller is drawn as one rest
LEAST_SEGMENT_AREA = 160.0
MOST_TOPICS, MOST_PARTITIONS, MOST_SEGMENTS = 1000, 2500, 100
MOST_SEGMENTS_IN_DATA = 20_000


def section(overview: Overview) -> Section:
    treemap = element("div", _treemap(overview), class_="treemap", id="treemap-box")
    parts = joined(
        element("p", "Areas are sizes of segment files. Colours tell topics apart; tables below have the same numbers."),
        treemap,
        _topics(overview),
        _partitions(overview),
        _segments(overview),
        _deleted(overview),
        json_data("treemap-data", _data(overview)),
    )
    return Section("disk", "What is on this disk", parts, "Disk")


# The treemap


def _treemap(overview: Overview) -> Markup:
    colours = colour_of(overview)
    topics = [(topic, found, sum(each.size for each in found)) for topic, found in overview.topics.items()]
    topics = [each for each in topics if each[2]]
    largest = f"the largest is {topics[0][0]} with {size_text(topics[0][2])}" if topics else "all are empty"
    description = f"{plural(len(overview.topics), 'topic')} of {size_text(overview.size)} together; {largest}."
    areas = squarified([weight for _, _, weight in topics], Area(0, 0, WIDTH, HEIGHT))
    drawn: list[Child] = []
    kept, rest = _large_enough(topics, areas)
    for (topic, found, weight), area in kept:
        drawn.append(_topic(topic, found, weight, area, colours[topic]))
    drawn.append(_rest(rest, "topic"))
    return charts.svg("treemap", "Topics, partitions and segments by size", description, WIDTH, HEIGHT, drawn, class_="chart")


def _topic(topic: str, found: list[PartitionView], weight: int, area: Area, colour: str) -> Markup:
    title = element("title", f"{topic}: {size_text(weight)} in {plural(len(found), 'partition')}")
    frame = charts.rect(area.x, area.y, area.width, area.height, title, class_=f"topic {colour}")
    has_head = _fits(topic, area)
    inner = area.inner(1.5, HEAD if has_head else 0)
    full = sorted((each for each in found if each.size), key=lambda each: -each.size)
    kept, rest = _large_enough([(each, [each], each.size) for each in full], squarified([each.size for each in full], inner))
    inside = [_partition(each[0], place, colour) for each, place in kept]
    name = charts.label(area.x + 5, area.y + 12.5, _short(topic, area.width), class_="name") if has_head else None
    return element("g", frame, name, inside, _rest(rest, "partition"))


def _partition(found: PartitionView, area: Area, colour: str) -> Markup:
    title = f"{found}: {size_text(found.size)}, {plural(len(found.segments), 'segment')}, {found.count.records:,} records"
    frame = charts.rect(area.x, area.y, area.width, area.height, element("title", title), class_=f"partition {colour}")
    full = sorted((each for each in found.segments if each.size), key=lambda each: -each.size)
    text = str(found.partition) if found.partition >= 0 else found.topic
    name = charts.label(area.x + 4, area.y + 12, text, class_="name") if _fits(text, area) else None
    inner = area.inner(1.5, HEAD if name is not None else 0)
    if len(full) < 2 or inner.width * inner.height / len(full) < LEAST_SEGMENT_AREA:
        return element("g", frame, name)
    places = squarified([each.size for each in full], inner)
    return element("g", frame, name, [_segment(each, place) for each, place in zip(full, places, strict=True)])


def _segment(found: SegmentView, area: Area) -> Markup:
    title = f"segment {found.base_offset}: {size_text(found.size)}, {time_text(found.last_timestamp_ms, MINUTE)}"
    return charts.rect(area.x, area.y, area.width, area.height, element("title", title), class_="segment")


def _large_enough(things: Sequence[tuple], areas: Sequence[Area]) -> tuple[list[tuple], list[tuple]]:  # type: ignore[type-arg]
    """Those that can be seen, with their areas, and the rest."""
    pairs = list(zip(things, areas, strict=True))
    count = next((at for at, (_, area) in enumerate(pairs) if area.width * area.height < LEAST_AREA), len(pairs))
    return pairs[:count], pairs[count:]


def _rest(rest: Sequence[tuple], noun: str) -> Child:  # type: ignore[type-arg]
    """The smaller ones as one area: that which the layout gave them together."""
    if not rest:
        return None
    areas = [area for _, area in rest]
    left, top = min(area.x for area in areas), min(area.y for area in areas)
    right, low = max(area.x + area.width for area in areas), max(area.y + area.height for area in areas)
    title = f"{plural(len(rest), f'smaller {noun}')}: {size_text(sum(each[2] for each, _ in rest))}"
    return charts.rect(left, top, right - left, low - top, element("title", title), class_="rest")


def _fits(text: str, area: Area) -> bool:
    return area.height > HEAD + 4 and area.width > min(len(text), 4) * LETTER + 8


def _short(text: str, width: float) -> str:
    room = int((width - 8) / LETTER)
    return text if len(text) <= room else middle_cut(text, max(room, 2))


def _data(overview: Overview) -> list[object]:
    """What the script draws when it zooms in: topics with partitions with segments, the largest segments only."""
    sizes = sorted((each.size for found in overview.partitions for each in found.segments), reverse=True)
    least = sizes[MOST_SEGMENTS_IN_DATA] if len(sizes) > MOST_SEGMENTS_IN_DATA else 0
    return [
        [_safe(topic), [[str(each.partition), each.size, _segment_data(each, least)] for each in found]]
        for topic, found in overview.topics.items()
    ]


def _segment_data(found: PartitionView, least: int) -> list[list[object]]:
    return [[str(each.base_offset), each.size] for each in found.segments if each.size > least]


def _safe(text: str) -> str:
    return printable(text)


# The tables


def _topics(overview: Overview) -> Markup:
    columns = [
        Column("topic"),
        Column("size", True),
        Column("share"),
        Column("partitions", True),
        Column("segments", True),
        Column("records", True),
        Column("formats"),
        Column("compression", True),
    ]
    topics = list(overview.topics.items())
    rows = [_topic_row(overview, topic, found) for topic, found in topics[:MOST_TOPICS]]
    more = more_rows(len(rows), len(topics), command("kafkalog", "ls", *overview.paths[:1]))
    return table("Topics", columns, rows, more=more, filtered=True)


def _topic_row(overview: Overview, topic: str, found: list[PartitionView]) -> list[Cell | Child]:
    count = overview.profile.topics.get(topic)
    weight = sum(each.size for each in found)
    ratio = None if count is None else count.ratio
    return [
        topic,
        size(weight),
        share(weight, overview.size),
        number(len(found)),
        number(sum(len(each.segments) for each in found)),
        number(0 if count is None else count.records),
        ", ".join(f"v{magic}" for magic in sorted(overview.formats.get(topic, {}))),
        _ratio(ratio),
    ]


def _ratio(ratio: float | None) -> Cell:
    return Cell("–", 0) if ratio is None else Cell(f"{ratio:.2f}", round(ratio, 4))


def _partitions(overview: Overview) -> Markup:
    columns = [
        Column("partition"),
        Column("size", True),
        Column("on disk", True),
        Column("segments", True),
        Column("offsets", is_short=True),
        Column("records", True),
        Column("first (UTC)", is_short=True),
        Column("last (UTC)", is_short=True),
        Column("compression", True),
    ]
    largest = sorted(overview.partitions, key=lambda each: (-each.size, each.topic, each.partition))
    rows = list(_partition_rows(largest[:MOST_PARTITIONS]))
    more = more_rows(len(rows), len(largest), command("kafkalog", "ls", *overview.paths[:1]))
    return table("Partitions", columns, rows, more=more, filtered=True)


def _partition_rows(partitions: Sequence[PartitionView]) -> Iterator[list[Cell | Child]]:
    for found in partitions:
        yield [
            str(found),
            size(found.size),
            size(found.disk_size),
            number(len(found.segments)),
            Cell(offsets_text(found.start_offset, found.end_offset).removeprefix("offsets "), found.start_offset),
            number(found.count.records),
            Cell(time_text(found.first_timestamp_ms, MINUTE), found.first_timestamp_ms),
            Cell(time_text(found.last_timestamp_ms, MINUTE), found.last_timestamp_ms),
            _ratio(found.count.ratio),
        ]


def _segments(overview: Overview) -> Markup:
    columns = [
        Column("segment"),
        Column("size", True),
        Column("indexes", True),
        Column("batches", True),
        Column("records", True),
        Column("first (UTC)", is_short=True),
        Column("last (UTC)", is_short=True),
    ]
    pairs = [(found, segment) for found in overview.partitions for segment in found.segments]
    pairs.sort(key=lambda pair: (-pair[1].size, pair[1].file))
    rows = [
        [
            f"{found} / {segment.base_offset}",
            size(segment.size),
            size(segment.index_bytes),
            number(segment.batches),
            number(segment.records),
            Cell(time_text(segment.first_timestamp_ms, MINUTE), segment.first_timestamp_ms),
            Cell(time_text(segment.last_timestamp_ms, MINUTE), segment.last_timestamp_ms),
        ]
        for found, segment in pairs[:MOST_SEGMENTS]
    ]
    more = more_rows(len(rows), len(pairs), command("kafkalog", "table", "segments", *overview.paths[:1]))
    return table("The largest segments", columns, rows, more=more)


def _deleted(overview: Overview) -> Child:
    if not overview.deleted:
        return None
    columns = [Column("folder"), Column("what"), Column("files", True), Column("size", True)]
    what = {"delete": "deleted topic", "files": "files waiting to be deleted or renamed", "stray": "stray", "future": "future"}
    found = overview.deleted
    rows = [[each.folder, what.get(each.state, each.state), number(each.files), size(each.bytes)] for each in found[:100]]
    more = more_rows(len(rows), len(found), command("kafkalog", "undelete", *overview.paths[:1]))
    return table("Deleted, and not gone yet", columns, rows, more=more)
