"""When the records were produced: bytes and records by time."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.format.markup import Markup, element, joined, json_data
from kafkalog.format.quantities import moment_text, size_text, span_text
from kafkalog.pages import charts
from kafkalog.pages.charts import Bar
from kafkalog.pages.tables import Cell, Column, number, size, table
from kafkalog.tasks.overview.result import Moment, Overview

from .section import MINUTE, SECOND, Section, time_text

MOST_BARS = 180
ROWS = 60
TICKS = 5
TRIMMED = 0.005  # of the bytes at each end
MUCH_LONGER = 20  # than the rest, for ends to be left out of the chart


def section(overview: Overview) -> Section | None:
    timeline = overview.timeline
    if not timeline.moments:
        return None
    moments, left_out = _without_outliers(timeline.moments, timeline.span_ms)
    bars = binned(moments, timeline.span_ms, MOST_BARS)
    by = "records" if not overview.profile.quick else "batches"
    width = bars[1].start_ms - bars[0].start_ms if len(bars) > 1 else timeline.span_ms
    parts = [
        element("p", f"By the timestamps of {by}, in UTC; each bar is {span_text(width)}."),
        _chart("bytes", bars, width),
        _chart("records", bars, width),
        _notes(overview, left_out),
        json_data("timeline-data", _data(overview, bars[0].start_ms, bars[-1].start_ms + width)),
        _table(moments, timeline.span_ms),
    ]
    return Section("time", "Timeline", joined(parts))


def _data(overview: Overview, start: int, stop: int) -> dict[str, object]:
    """What the script draws when it looks closer."""
    moments = [[moment.start_ms, moment.bytes, moment.records] for moment in overview.timeline.moments]
    return {"span": overview.timeline.span_ms, "drawn": [start, stop], "moments": moments}


def binned(moments: Sequence[Moment], span_ms: int, most: int) -> list[Moment]:
    """The same in at most so many spans of equal length, empty ones included."""
    if not moments:
        return []
    first = moments[0].start_ms
    spans = (moments[-1].start_ms - first) // span_ms + 1
    width = -(-spans // most) * span_ms
    sums = [[0, 0] for _ in range(-(-spans * span_ms // width))]
    for moment in moments:
        at = sums[(moment.start_ms - first) // width]
        at[0] += moment.bytes
        at[1] += moment.records
    return [Moment(first + number * width, *each) for number, each in enumerate(sums)]


def _without_outliers(moments: Sequence[Moment], span_ms: int) -> tuple[Sequence[Moment], list[Moment]]:
    """A few records of another year would press all others into one bar: such ends are named instead of drawn."""
    slack = TRIMMED * sum(moment.bytes for moment in moments)
    start, stop = 0, len(moments)
    passed = 0.0
    while start < stop and (passed := passed + moments[start].bytes) <= slack:
        start += 1
    passed = 0.0
    while stop > start and (passed := passed + moments[stop - 1].bytes) <= slack:
        stop -= 1
    kept = moments[start:stop]
    if not kept:
        return moments, []
    length = kept[-1].start_ms - kept[0].start_ms + span_ms
    if moments[-1].start_ms - moments[0].start_ms + span_ms < MUCH_LONGER * length:
        return moments, []
    return kept, [*moments[:start], *moments[stop:]]


def _chart(what: str, bars: Sequence[Moment], width: int) -> Markup:
    is_bytes = what == "bytes"

    def text_of(value: float) -> str:
        return size_text(value) if is_bytes else f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"

    drawn = [
        Bar(
            moment.bytes if is_bytes else moment.records,
            f"{time_text(moment.start_ms)}: {size_text(moment.bytes)}, {moment.records:,} records",
        )
        for moment in bars
    ]
    highest = max(bars, key=lambda moment: moment.bytes if is_bytes else moment.records)
    description = (
        f"{time_text(bars[0].start_ms)} to {time_text(bars[-1].start_ms + width)}; most at {drawn[bars.index(highest)].title}."
    )
    ticks = _ticks(bars[0].start_ms, bars[-1].start_ms + width)
    name = "timeline-bytes" if is_bytes else "timeline-records"
    chart = charts.bar_chart(
        name,
        f"Stored {what} by time" if is_bytes else "Records by time",
        description,
        drawn,
        ticks,
        text_of,
        kind=what,
        height=190 if is_bytes else 140,
    )
    heading = element("figcaption", "Stored bytes" if is_bytes else "Records")
    return element("figure", heading, chart)


def _ticks(start: int, stop: int) -> list[tuple[float, str]]:
    form = "%H:%M:%S" if stop - start < 600_000 else MINUTE if stop - start < 40 * 86_400_000 else "%Y-%m-%d"
    if form == "%H:%M:%S":
        form = SECOND
    return [(at / TICKS, moment_text(start + (stop - start) * at // TICKS, form)) for at in range(TICKS + 1)]


def _notes(overview: Overview, left_out: Sequence[Moment]) -> Markup:
    notes = []
    if left_out:
        records = sum(moment.records for moment in left_out)
        ends = f"{time_text(left_out[0].start_ms, MINUTE)} to {time_text(left_out[-1].start_ms, MINUTE)}"
        notes.append(f"{records:,} records far from all others, {ends}, are not drawn.")
    if overview.timeline.untimed_records:
        notes.append(f"{overview.timeline.untimed_records:,} records have no timestamp.")
    return joined(element("p", note, class_="note") for note in notes)


def _table(moments: Sequence[Moment], span_ms: int) -> Markup:
    columns = [Column("from (UTC)", is_short=True), Column("bytes", True), Column("records", True)]
    bars = [moment for moment in binned(moments, span_ms, ROWS) if moment.records or moment.bytes]
    rows = [[Cell(time_text(each.start_ms), each.start_ms), size(each.bytes), number(each.records)] for each in bars]
    return element("details", element("summary", "The same as a table"), table("Bytes and records by time", columns, rows))
