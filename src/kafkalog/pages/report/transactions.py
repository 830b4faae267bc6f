"""Transactions along the offsets of their partitions, and the producers of the log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.format.quantities import plural
from kafkalog.log.transactions import Transaction
from kafkalog.pages import charts
from kafkalog.pages.tables import Cell, Column, code, number, share, size, table
from kafkalog.tasks.overview.result import STATES, Overview, TransactionAxis
from kafkalog.tasks.transactions import abort_command

from .records import ranking_note
from .section import Section, command, middle_cut, more_rows, time_text

MOST_DRAWN, MOST_ROWS = 40, 100
NAME_WIDTH, LANE, GAP = 190, 8, 14
MOST_LETTERS = 26
AXIS = charts.WIDTH - NAME_WIDTH - charts.RIGHT


def section(overview: Overview) -> Section | None:
    found = overview.transactions
    if not found:
        return None
    parts = [_axes(found), _partitions(overview, found), _open(found), _aborted(found)]
    return Section("transactions", "Transactions", joined(parts))


def producers(overview: Overview) -> Section | None:
    """The section of producers."""
    ranking = overview.profile.producers
    if not any(item.name is not None for item in ranking.items):
        return None
    columns = [Column("producer id"), Column("transactional id"), Column("bytes", True), Column("share"), Column("records", True)]
    names = overview.profile.transactional_ids
    rows = [
        [
            Cell("none" if item.name is None else str(item.name), -1 if item.name is None else int(item.name)),
            names.get(int(item.name), "") if item.name is not None else "",
            size(item.bytes),
            share(item.bytes, overview.profile.total.bytes),
            number(item.records),
        ]
        for item in ranking.items
    ]
    body = table("Producers by bytes; “none” are not idempotent", columns, rows, more=ranking_note(ranking))
    return Section("producers", "Producers", body)


def _axes(found: list[TransactionAxis]) -> Markup:
    drawn = found[:MOST_DRAWN]
    row = 3 * LANE + GAP
    height = len(drawn) * row + 18
    total = {state: sum(axis.counts[state] for axis in found) for state in STATES}
    description = ", ".join(f"{total[state]:,} {state}" for state in STATES) + f" in {plural(len(found), 'partition')}."
    lanes = [_axis(axis, number * row) for number, axis in enumerate(drawn)]
    chart = charts.svg(
        "transactions-chart",
        "Transactions along the offsets of each partition",
        description,
        charts.WIDTH,
        height,
        lanes,
        class_="chart",
    )
    caption = element("figcaption", "Committed, aborted and open transactions by offset; a line marks the last stable offset")
    return element("figure", caption, chart, charts.legend([(state, f"{state} {total[state]:,}") for state in STATES]))


def _axis(axis: TransactionAxis, top: float) -> Markup:
    name = f"{axis.topic}-{axis.partition}"
    short = middle_cut(name, MOST_LETTERS)
    counts = ", ".join(f"{axis.counts[state]:,} {state}" for state in STATES)
    ground = charts.rect(
        NAME_WIDTH,
        top,
        AXIS,
        3 * LANE,
        element("title", f"{name}: offsets {axis.start_offset} to {axis.end_offset}; {counts}"),
        class_="ground",
    )
    lanes = [
        charts.strip(axis.bins[state], top + lane * LANE, LANE - 1, AXIS, state, NAME_WIDTH) for lane, state in enumerate(STATES)
    ]
    span = max(axis.end_offset - axis.start_offset, 1)
    at = NAME_WIDTH + AXIS * min(max((axis.last_stable_offset - axis.start_offset) / span, 0), 1)
    stable = element("line", x1=charts.shown(at), x2=charts.shown(at), y1=top - 2, y2=top + 3 * LANE + 2, class_="stable")
    texts = [
        charts.label(0, top + 2 * LANE, short, class_="name"),
        charts.label(NAME_WIDTH, top + 3 * LANE + 10, f"{axis.start_offset:,}", class_="axis small"),
        charts.label(NAME_WIDTH + AXIS, top + 3 * LANE + 10, f"{axis.end_offset:,}", class_="axis small end"),
    ]
    return element("g", ground, lanes, stable, texts)


def _partitions(overview: Overview, found: list[TransactionAxis]) -> Markup:
    columns = [
        Column("partition"),
        Column("committed", True),
        Column("aborted", True),
        Column("open", True),
        Column("last stable offset", True),
        Column("end offset", True),
        Column("waiting", True),
    ]
    rows = [
        [
            f"{axis.topic}-{axis.partition}",
            *(number(axis.counts[state]) for state in STATES),
            number(axis.last_stable_offset),
            number(axis.end_offset),
            number(max(axis.end_offset - axis.last_stable_offset, 0)),
        ]
        for axis in found[:MOST_ROWS]
    ]
    more = more_rows(len(rows), len(found), command("kafkalog", "transactions", *overview.paths[:1]))
    return table("Transactions by partition", columns, rows, more=more)


def _open(found: list[TransactionAxis]) -> Child:
    listed = [(axis, transaction) for axis in found for transaction in axis.open][:MOST_ROWS]
    if not listed:
        return element("p", "No transaction is open.", class_="calm")
    rows = [
        [*row, code(abort_command(axis.topic, axis.partition, transaction, "localhost:9092"))]
        for (axis, transaction), row in zip(listed, _rows(listed), strict=True)
    ]
    columns = [*_columns(), Column("to abort it on a running cluster")]
    return table("Open transactions", columns, rows)


def _aborted(found: list[TransactionAxis]) -> Child:
    listed = [(axis, transaction) for axis in found for transaction in axis.aborted][:MOST_ROWS]
    return table("Aborted transactions, the largest of each partition", _columns(), _rows(listed)) if listed else None


def _columns() -> list[Column]:
    return [
        Column("partition"),
        Column("producer", True),
        Column("offsets", is_short=True),
        Column("began (UTC)", is_short=True),
        Column("batches", True),
        Column("records", True),
        Column("bytes", True),
    ]


def _rows(listed: list[tuple[TransactionAxis, Transaction]]) -> Iterator[list[Cell | Child]]:
    for axis, found in listed:
        yield [
            f"{axis.topic}-{axis.partition}",
            Cell(str(found.producer_id), found.producer_id),
            Cell(f"{found.first_offset} to {found.last_offset}", found.first_offset),
            Cell(time_text(found.first_timestamp_ms), found.first_timestamp_ms),
            number(found.batch_count),
            number(found.record_count),
            size(found.size),
        ]
