"""How the report was made: what was read, what was left out, and how exact the numbers are."""

from __future__ import annotations

from kafkalog.format.markup import Child, element, joined
from kafkalog.format.quantities import plural, size_text
from kafkalog.pages.tables import Column, code, number, table
from kafkalog.tasks.overview.result import Overview

from .section import MINUTE, Section, command, time_text

MOST_ROWS = 100


def section(overview: Overview) -> Section:
    report = overview.profile.report
    parts: list[Child] = [element("p", line) for line in _lines(overview)]
    dropped = report.dropped[:MOST_ROWS]
    if dropped:
        columns = [Column("file"), Column("byte", True), Column("bytes", True), Column("reason"), Column("why")]
        rows = [[each.file, number(each.position), number(each.length), each.reason, each.message] for each in dropped]
        more = f"… and {len(report.dropped) - MOST_ROWS:,} more" if len(report.dropped) > MOST_ROWS else None
        parts.append(table("Byte ranges that were left out of the counts", columns, rows, more=more))
    if report.unread:
        parts.append(table("Files that could not be read", [Column("why")], [[each] for each in report.unread[:MOST_ROWS]]))
    return Section("made", "How this was made", joined(parts), "How it was made")


def _lines(overview: Overview) -> list[Child]:
    profile = overview.profile
    how = (
        "Headers of all batches were read; records were not decoded, and nothing was checked."
        if profile.quick
        else ("Every record was decoded and counted, and every file checked.")
    )
    lines: list[Child] = [
        f"{how} Times are UTC; the clock stood at {time_text(profile.now_ms, MINUTE)}.",
        "The bytes of a batch are divided among its records by the size of key, value and headers. Estimates state their bounds.",
    ]
    if profile.report.dropped:
        size = size_text(profile.report.dropped_bytes)
        lines.append(f"{plural(len(profile.report.dropped), 'damaged range')} of {size} could not be counted.")
    if profile.report.tails:
        lines.append(f"{plural(len(profile.report.tails), 'segment')} ended in an unfinished write, which is not damage.")
    lines.append(joined("The same on a terminal: ", code(command("kafkalog", "profile", *overview.paths[:1], "--full"))))
    return lines
