"""The work behind `kafkalog estimate`: measure, then sums and a table as text, or JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from kafkalog.tasks.estimate import RECORD_LIMIT, Estimation, Sum, TurningPoint, estimate_sizes, estimate_table, read_records
from kafkalog.tasks.json_records import read_json_records

from ..failure import CLEAN
from ..render.escape import printable
from ..render.grid import grid
from ..render.style import BOLD, Style, style_of
from ..render.target import STDOUT, open_target


def show_estimation(path: str | None, sizes: dict[str, Any], options: dict[str, Any], *, as_json: bool) -> int:
    """Write the sizes; the exit code."""
    found = _estimate(path, sizes, options)
    with open_target(STDOUT) as sink:
        if as_json:
            sink.write((json.dumps(found.as_dict(), indent=2) + "\n").encode())
        else:
            sink.write("".join(line + "\n" for line in _page(found, style_of(sink))).encode())
    return CLEAN


def _estimate(path: str | None, sizes: dict[str, Any], options: dict[str, Any]) -> Estimation:
    if path is None:
        return estimate_sizes(**sizes, batch_sizes=options["batch_sizes"])
    limit = options["limit"] or RECORD_LIMIT
    from_stdin = path == "-"
    table = read_json_records(sys.stdin.buffer, "standard input", limit) if from_stdin else read_records(path, limit)
    about = ("standard input" if from_stdin else path) + (f", the first {limit}" if table.num_rows == limit else "")
    return estimate_table(table, about, codec_names=options["codec_names"], batch_sizes=options["batch_sizes"])


def _page(found: Estimation, style: Style) -> Iterator[str]:
    yield printable(f"{found.record_count} record{'s' * (found.record_count > 1)}: {found.about}")
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
    """A sum on as many lines as it takes, broken between its terms."""
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
    batch = f"{point.records} record{'s' * (point.records > 1)} a batch"
    return f"v2 is smaller than v{point.magic} from {batch} on: {point.v2_bytes} bytes against {point.other_bytes}"
