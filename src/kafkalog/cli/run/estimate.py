"""The work of `kafkalog estimate`: measure, then sums and a table as text, or JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from kafkalog.tasks.estimate import RECORD_LIMIT, Estimation, estimate_sizes, estimate_table, read_records
from kafkalog.tasks.json_records import read_json_records

from ..failure import CLEAN
from ..render.estimation_page import estimation_page
from ..render.style import style_of
from ..render.target import STDOUT, open_target


def show_estimation(path: str | None, sizes: dict[str, Any], options: dict[str, Any], *, as_json: bool) -> int:
    """Write the sizes; the exit code."""
    found = _estimate(path, sizes, options)
    with open_target(STDOUT) as sink:
        if as_json:
            sink.write((json.dumps(found.as_dict(), indent=2) + "\n").encode())
        else:
            sink.write("".join(line + "\n" for line in estimation_page(found, style_of(sink))).encode())
    return CLEAN


def _estimate(path: str | None, sizes: dict[str, Any], options: dict[str, Any]) -> Estimation:
    if path is None:
        return estimate_sizes(**sizes, batch_sizes=options["batch_sizes"])
    limit = options["limit"] or RECORD_LIMIT
    from_stdin = path == "-"
    table = read_json_records(sys.stdin.buffer, "standard input", limit) if from_stdin else read_records(path, limit)
    about = ("standard input" if from_stdin else path) + (f", the first {limit}" if table.num_rows == limit else "")
    return estimate_table(table, about, codec_names=options["codec_names"], batch_sizes=options["batch_sizes"])
