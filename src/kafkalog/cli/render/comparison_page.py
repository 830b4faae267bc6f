"""A comparison as text: differences by partition and reason, what nothing explains first, then the verdict."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from kafkalog.format.quantities import plural
from kafkalog.log.comparison.difference import SIDES, Difference, Spot
from kafkalog.tasks.diff import ComparedCopy, ComparedPartition, Comparison

from .escape import printable
from .layout import BOLD, DIM, RED, Style
from .next_steps import MARGIN, step_lines

SHOWN = 5  # of a reason in a partition
NARROWEST, WIDEST = 60, 120
INDENT = MARGIN * 2
ALONE = "partitions that only one side has"


def comparison_lines(found: Comparison, style: Style, *, show_all: bool = False) -> Iterator[str]:
    """The lines of `kafkalog diff`."""
    width = min(max(style.width, NARROWEST), WIDEST)
    if not found.is_same:
        yield from _wrapped(f"a: {found.a}", "", width)
        yield from _wrapped(f"b: {found.b}", "", width)
        yield ""
    shown = None if show_all else SHOWN
    if found.alone:
        yield style.paint(ALONE, BOLD)
        yield from _reasons(found.alone, style, width, shown)
        yield ""
    for partition in found.partitions:
        if partition.differences:
            yield style.paint(printable(str(partition)), BOLD)
            yield from _copies(partition, width)
            yield from _reasons(partition.differences, style, width, shown)
            if partition.left_out:
                yield from _wrapped(f"{partition.left_out} more differences are only counted", INDENT, width)
            yield ""
    yield from _wrapped(f"verdict: {found.text}", "", width)
    yield from step_lines(found.next_steps)


def _copies(partition: ComparedPartition, width: int) -> Iterator[str]:
    for name, copy in zip(SIDES, (partition.a, partition.b), strict=True):
        yield from _wrapped(f"{name}: {_copy(copy)}", MARGIN, width)
    yield from _wrapped(f"{plural(partition.equal_batches, 'batch is', 'batches are')} the same", MARGIN, width)


def _copy(copy: ComparedCopy) -> str:
    offsets = f"offsets {copy.start_offset} to {copy.end_offset - 1}" if copy.end_offset > copy.start_offset else "empty"
    epoch = f", leader epoch {copy.leader_epoch}" if copy.leader_epoch >= 0 else ""
    return f"{offsets}{epoch}, {plural(copy.batch_count, 'batch', 'batches')}"


def _reasons(rows: Sequence[Difference], style: Style, width: int, shown: int | None) -> Iterator[str]:
    def kind(row: Difference) -> tuple[bool, str, str]:
        return row.is_explained, row.reason, row.side

    for (is_explained, reason, side), group in groupby(sorted(rows, key=kind), key=kind):
        same = list(group)
        count = f" ({len(same)})" if len(same) > 1 else ""
        mark = f"explained by {same[0].explained_by}" if is_explained else "unexplained"
        where = f" in {side}" if side and same[0].kind != "partition" else ""
        first, *rest = _wrapped(f"{mark}: {reason}{where}{count}: {same[0].about}", MARGIN, width)
        yield from (first.replace(mark, style.paint(mark, DIM if is_explained else RED), 1), *rest)
        for row in same[:shown]:
            yield from _wrapped("; ".join(_parts(row)), INDENT, width)
        if shown is not None and len(same) > shown:
            yield f"{INDENT}… and {len(same) - shown} more (--all shows them)"


def _parts(row: Difference) -> Iterator[str]:
    if row.kind == "partition":
        yield f"{row.topic}-{row.partition}"
    if row.first_offset is not None:
        several = row.last_offset is not None and row.last_offset > row.first_offset
        yield f"offsets {row.first_offset} to {row.last_offset}" if several else f"offset {row.first_offset}"
    counts = [plural(row.batch_count, "batch", "batches")] if row.batch_count else []
    counts += [plural(row.record_count, "record")] if row.record_count else []
    if counts:
        yield ", ".join(counts)
    for name, spot in zip(SIDES, (row.a, row.b), strict=True):
        if spot is not None:
            yield f"{name}: {_place(spot)}"
    yield from _byte(row)
    if row.detail:
        yield row.detail


def _place(spot: Spot) -> str:
    epoch = f", leader epoch {spot.leader_epoch}" if spot.leader_epoch >= 0 else ""
    return f"{os.path.basename(spot.file)} at byte {spot.position} ({spot.length} bytes{epoch})"


def _byte(row: Difference) -> Iterator[str]:
    """Where the two batches begin to differ, as places in both files."""
    if row.byte is None or row.a is None or row.b is None:
        return
    if row.byte_a is None or row.byte_b is None:
        yield f"one ends after byte {row.byte}, where both are the same"
        return
    places = row.a.position + row.byte, row.b.position + row.byte
    yield f"first differing byte: {places[0]} in a ({row.byte_a:#04x}), {places[1]} in b ({row.byte_b:#04x})"


def _wrapped(text: str, margin: str, width: int) -> list[str]:
    further = margin + MARGIN
    return textwrap.wrap(printable(text), width, initial_indent=margin, subsequent_indent=further, break_on_hyphens=False)
