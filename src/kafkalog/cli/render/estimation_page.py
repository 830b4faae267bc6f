"""Sizes of records as text: the sums, a table by format, codec and batch size, and when v2 becomes smaller."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kafkalog.format.quantities import plural
from kafkalog.tasks.estimate import Estimation, Sum, TurningPoint

from .escape import printable
from .layout import BOLD, Style, grid


def estimation_page(found: Estimation, style: Style) -> Iterator[str]:
    yield printable(f"{plural(found.record_count, 'record')}: {found.about}")
    yield ""
    yield style.paint("How large is one?", BOLD)
    for name, sums in found.sums.items():
        for number, each in enumerate(sums):
            front = f"  {name}: " if number == 0 else " " * (len(name) + 4)
            yield from _wrapped(each, style.width, front)
    yield ""
    yield from grid(style, *_table(found), left=frozenset({0, 1}))
    yield ""
    yield from map(_turning_line, found.turning_points)
    if found.headers_dropped:
        yield f"v0 and v1 have no headers: {found.headers_dropped} bytes are left out there"


def _wrapped(each: Sum, width: int, front: str) -> list[str]:
    """A sum, with lines broken between its terms."""
    text = str(each).replace(" ", "\u00a0").replace("\u00a0+\u00a0", " +\u00a0")
    lines = textwrap.wrap(text, width, initial_indent=front, subsequent_indent=" " * len(front))
    return [line.replace("\u00a0", " ") for line in lines]


def _table(found: Estimation) -> tuple[list[str], list[list[str]]]:
    """One row per format and codec, one column per batch size."""
    columns = found.batch_sizes
    heads = ["format", "codec", *(f"{size} a batch" for size in columns), "per record"]
    sizes = {(size.magic, size.codec, size.batch_records): size.bytes for size in found.sizes}
    rows = []
    for magic, codec in dict.fromkeys((size.magic, size.codec) for size in found.sizes):
        cells = [sizes[magic, codec, records] for records in columns]
        rows.append([f"v{magic}", codec, *map(str, cells), f"{cells[-1] / found.record_count:.1f}"])
    return heads, rows


def _turning_line(point: TurningPoint) -> str:
    if point.records is None:
        return f"v2 is never smaller than v{point.magic}, in batches of up to 1000 such records"
    batch = f"{plural(point.records, 'record')} a batch"
    return f"v2 is smaller than v{point.magic} from {batch} on: {point.v2_bytes} bytes instead of {point.other_bytes}"
