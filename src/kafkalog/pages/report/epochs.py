"""Leader epochs: which offsets each leader wrote."""

from __future__ import annotations

from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.pages import charts
from kafkalog.pages.tables import Cell, Column, number, table
from kafkalog.tasks.overview.result import EpochSpan, Overview, PartitionView

from .section import Section, command, middle_cut, more_rows

MOST_DRAWN, MOST_ROWS = 30, 200
NAME_WIDTH, ROW = 190, 22
MOST_LETTERS = 26
AXIS = charts.WIDTH - NAME_WIDTH - charts.RIGHT


def section(overview: Overview) -> Section | None:
    found = [each for each in overview.partitions if set(each.epochs) - {-1}]
    if not found:
        return None
    found.sort(key=lambda each: (-len(_known(each)), -each.size, each.topic, each.partition))
    several = [each for each in found if len(_known(each)) > 1]
    parts = [_chart(several) if several else None, _table(overview, found)]
    return Section("epochs", "Leader epochs", joined(parts), "Epochs")


def _known(found: PartitionView) -> list[EpochSpan]:
    """The epochs that batches name; transaction markers of old brokers name none."""
    return sorted((each for each in found.epochs.values() if each.epoch >= 0), key=lambda each: each.first_offset)


def _chart(found: list[PartitionView]) -> Markup:
    drawn = found[:MOST_DRAWN]
    lanes = [_lane(each, number * ROW) for number, each in enumerate(drawn)]
    most = drawn[0]
    description = f"{len(found):,} partitions had several leaders; {most} had most, {len(_known(most))}."
    chart = charts.svg(
        "epochs-chart",
        "Leader epochs along the offsets of each partition",
        description,
        charts.WIDTH,
        len(drawn) * ROW,
        lanes,
        class_="chart",
    )
    return element("figure", element("figcaption", "Leader epochs by offset, where there were several"), chart)


def _lane(found: PartitionView, top: float) -> Markup:
    name = str(found)
    short = middle_cut(name, MOST_LETTERS)
    span = max(found.end_offset - found.start_offset, 1)
    drawn: list[Child] = []
    for at, epoch in enumerate(_known(found)):
        left = min(max((epoch.first_offset - found.start_offset) / span, 0), 1)
        right = min(max((epoch.last_offset + 1 - found.start_offset) / span, 0), 1)
        title = element("title", _span_text(epoch))
        drawn.append(
            charts.rect(
                NAME_WIDTH + AXIS * left, top + 3, max(AXIS * (right - left), 1), ROW - 7, title, class_=f"epoch e{at % 2}"
            )
        )
        if AXIS * (right - left) > 8 * len(str(epoch.epoch)) + 6:
            drawn.append(charts.label(NAME_WIDTH + AXIS * left + 4, top + 15, str(epoch.epoch), class_="name"))
    return element("g", charts.label(0, top + 15, short, class_="name"), drawn)


def _span_text(epoch: EpochSpan) -> str:
    return f"epoch {epoch.epoch}: offsets {epoch.first_offset} to {epoch.last_offset}, {epoch.records:,} records"


def _table(overview: Overview, found: list[PartitionView]) -> Markup:
    columns = [
        Column("partition"),
        Column("epoch", True),
        Column("offsets"),
        Column("batches", True),
        Column("records", True),
    ]
    listed = [(each, epoch) for each in found for epoch in sorted(each.epochs.values(), key=lambda each: each.first_offset)]
    rows = [
        [
            str(each),
            Cell("none" if epoch.epoch < 0 else str(epoch.epoch), epoch.epoch),
            Cell(f"{epoch.first_offset} to {epoch.last_offset}", epoch.first_offset),
            number(epoch.batches),
            number(epoch.records),
        ]
        for each, epoch in listed[:MOST_ROWS]
    ]
    more = more_rows(len(rows), len(listed), command("kafkalog", "table", "epochs", *overview.paths[:1]))
    return table("Leader epochs of the batches", columns, rows, more=more)
