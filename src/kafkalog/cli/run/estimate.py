"""The work of `kafkalog estimate`: measure, then sums and a table as text, or JSON."""

from __future__ import annotations

import json
import sys

from kafkalog.tasks.estimate import RECORD_LIMIT, Estimation, estimate_sizes, estimate_table, read_records
from kafkalog.tasks.json_records import read_json_records

from ..commands.estimate import EstimateRequest
from ..failure import CLEAN
from ..render.estimation_page import estimation_page
from ..render.layout import style_of
from ..render.target import STDOUT, open_target

STDIN = "-"


def show_estimation(request: EstimateRequest) -> int:
    """Write the sizes; the exit code."""
    found = _estimate(request)
    with open_target(STDOUT) as sink:
        if request.as_json:
            sink.write((json.dumps(found.as_dict(), indent=2) + "\n").encode())
        else:
            sink.write("".join(line + "\n" for line in estimation_page(found, style_of(sink))).encode())
    return CLEAN


def _estimate(request: EstimateRequest) -> Estimation:
    if request.path is None:
        return estimate_sizes(
            count=request.count or 1,
            key_size=request.key_size,
            value_size=request.value_size,
            headers=request.headers,
            interval_ms=1 if request.interval_ms is None else request.interval_ms,
            batch_sizes=request.batch_sizes,
        )
    limit = request.limit or RECORD_LIMIT
    from_stdin = request.path == STDIN
    name = "standard input" if from_stdin else request.path
    table = read_json_records(sys.stdin.buffer, name, limit) if from_stdin else read_records(request.path, limit)
    about = name + (f", the first {limit}" if table.num_rows == limit else "")
    return estimate_table(table, about, codec_names=request.codec_names, batch_sizes=request.batch_sizes)
