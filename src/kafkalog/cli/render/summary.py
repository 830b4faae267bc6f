"""The report of a read: one line about what was left out, the report as JSON, the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kafkalog.errors import SegmentError
from kafkalog.format.quantities import plural
from kafkalog.log.report import Dropped, ReadReport

from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT, LIMIT, warn
from .escape import printable
from .target import open_target

RANGES_NAMED = 3
LIMIT_REASONS = {"batch-limit", "decompressed-limit", "record-limit", "headers-limit", "memory-limit"}


def report_exit_code(report: ReadReport) -> int:
    """The exit code of a read that reached its end: unreadable files come first, then damage, then limits."""
    if report.unread:
        return INPUT_OUTPUT
    if any(dropped.reason not in LIMIT_REASONS for dropped in report.dropped):
        return DAMAGE
    return LIMIT if report.dropped else CLEAN


def finish_read(report: ReadReport, *, quiet: bool) -> int:
    """Say what was left out, unless `quiet`; the exit code."""
    line = summarise(report)
    if line and not quiet:
        warn(line)
    return report_exit_code(report)


def summarise(report: ReadReport) -> str:
    """One line about what was left out and where; empty if nothing was."""
    parts = []
    if report.dropped:
        ranges = plural(len(report.dropped), "damaged range")
        parts.append(f"left out {ranges} of {report.dropped_bytes} bytes: {_places(report.dropped)}")
    if report.unread:
        parts.append(f"could not read: {'; '.join(report.unread[:RANGES_NAMED])}{_more(report.unread)}")
    if report.tails:
        size = sum(tail.length for tail in report.tails)
        parts.append(
            f"stopped before a tail of {size} bytes (not damage: still being written, or cut short): {_places(report.tails)}"
        )
    return printable("; ".join(parts))


def _places(ranges: Sequence[Dropped]) -> str:
    named = [f"{found.reason}, {found.length} bytes at byte {found.position} of {found.file}" for found in ranges[:RANGES_NAMED]]
    return "; ".join(named) + _more(ranges)


def _more(found: Sequence[object]) -> str:
    rest = len(found) - RANGES_NAMED
    return f"; and {rest} more (--report FILE lists them)" if rest > 0 else ""


def write_report(file: str, report: ReadReport, error: BaseException | None, code: int) -> None:
    """The report as a JSON file; `error` is what stopped the read, null if it reached its end."""
    ended: Any = None
    if isinstance(error, SegmentError):
        ended = vars(Dropped.of(error))
    elif error is not None:
        ended = {"message": str(error)}
    content = {"exit_code": code, **report.as_dict(), "error": ended}
    with open_target(file) as sink:
        sink.write((json.dumps(content, indent=2) + "\n").encode())
