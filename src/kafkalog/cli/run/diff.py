"""The work of `kafkalog diff`: compare with a progress bar, write the differences, choose the exit code."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import kafkalog
from kafkalog.log.comparison.difference import Difference
from kafkalog.log.report import ReadReport
from kafkalog.tasks.diff import Comparison
from kafkalog.tasks.diff import diff as diff_task

from ..commands.diff import DiffRequest
from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT, LIMIT
from ..render.comparison_page import comparison_lines
from ..render.escape import json_safe
from ..render.layout import style_of
from ..render.progress import ReadProgress
from ..render.summary import LIMIT_REASONS
from ..render.target import STDOUT, open_target


def show_differences(request: DiffRequest) -> int:
    """Write what is different; the exit code."""
    found = _compare(request)
    with open_target(STDOUT) as sink:
        if request.as_json:
            rows = [difference_as_dict(row) for row in found]
            lines = [json_safe(json.dumps(row, ensure_ascii=False)) for row in (*rows, {"comparison": found.as_dict()})]
        else:
            lines = list(comparison_lines(found, style_of(sink), show_all=request.show_all))
        sink.write("".join(line + "\n" for line in lines).encode(errors="backslashreplace"))
    return exit_code_of(found)


def _compare(request: DiffRequest) -> Comparison:
    sides = [kafkalog.open(path) for path in (request.a, request.b)]
    report = ReadReport()
    with ReadProgress(sum(found.size for logs in sides for found in logs.partitions), wanted=not request.quiet) as progress:

        def follow(size: int) -> None:
            report.kept_bytes = size
            progress.follow(report)

        return diff_task(
            *sides,
            topics=request.topics,
            partitions=request.partitions,
            compacted=request.compacted,
            threads=request.threads,
            on_progress=follow,
        )


def difference_as_dict(row: Difference) -> dict[str, Any]:
    """The row as plain values."""
    facts = {"kind": row.kind, "is_explained": row.is_explained, "explained_by": row.explained_by or None, "about": row.about}
    return {**asdict(row), **facts}


def exit_code_of(found: Comparison) -> int:
    """Unreadable files come first, then differences that nothing explains, then limits."""
    reasons = {row.reason for row in found.unexplained}
    if "unreadable" in reasons:
        return INPUT_OUTPUT
    if reasons - LIMIT_REASONS:
        return DAMAGE
    return LIMIT if reasons else CLEAN
