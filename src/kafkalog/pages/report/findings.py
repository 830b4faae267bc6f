"""The findings of a check, with their places and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby

from kafkalog.errors import SEVERITIES
from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.format.quantities import plural
from kafkalog.log.checks.finding import Finding
from kafkalog.pages.tables import Cell, Column, code, number, table
from kafkalog.tasks.overview.result import Overview

from .section import Section, command, more_rows

MOST_ROWS = 500
REBUILT_BY_REINDEX = ("index-mismatch", "index-missing", "file-format", "snapshot-mismatch", "orphan")
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")
MOST_OF_A_KIND = 5  # of one reason in one partition


def section(overview: Overview) -> Section | None:
    if overview.checked is None:
        return None
    found = overview.checked
    checked = (
        f"{plural(len(found.partitions), 'partition')}, {found.batch_count:,} batches and {found.record_count:,} records were "
        f"checked, with their indexes, snapshots and checkpoints."
    )
    if not len(found):
        return Section("findings", "Findings", element("p", checked, " Nothing is wrong.", class_="calm"))
    parts = [element("p", checked), _kinds(list(found)), _places(overview, list(found))]
    return Section("findings", "Findings", joined(parts))


def _kinds(findings: Sequence[Finding]) -> Markup:
    columns = [
        Column("severity", is_short=True),
        Column("reason", is_short=True),
        Column("what it means", is_wide=True),
        Column("found", True),
        Column("what to do", is_wide=True),
    ]
    ordered = sorted(findings, key=lambda found: (SEVERITIES.index(found.severity), found.reason))
    rows: list[list[Cell | Child]] = []
    for (severity, reason), group in groupby(ordered, key=lambda found: (found.severity, found.reason)):
        same = list(group)
        rows.append([_severity(severity), reason, same[0].about, number(len(same)), same[0].advice])
    return table("Kinds of findings", columns, rows)


def _severity(severity: str) -> Cell:
    return Cell(element("span", severity, class_=f"severity {severity}"), SEVERITIES.index(severity))


def _places(overview: Overview, findings: Sequence[Finding]) -> Markup:
    columns = [
        Column("severity", is_short=True),
        Column("reason", is_short=True),
        Column("partition"),
        Column("file", is_wide=True),
        Column("byte", True),
        Column("offsets", is_short=True),
        Column("details, and what to type next", is_wide=True),
    ]
    listed = list(_listed(findings))
    rows = [_row(found) for found in listed[:MOST_ROWS]]
    more = more_rows(len(rows), len(findings), command("kafkalog", "verify", *overview.paths[:1], "--all"))
    return table("Findings by place", columns, rows, more=more, filtered=True)


def _listed(findings: Sequence[Finding]) -> Iterator[Finding]:
    """The gravest first; of each kind in a partition only a few."""
    seen: dict[tuple[object, ...], int] = {}
    for found in sorted(findings, key=lambda found: SEVERITIES.index(found.severity)):
        kind = (found.topic, found.partition, found.reason)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= MOST_OF_A_KIND:
            yield found


def _row(found: Finding) -> list[Cell | Child]:
    partition = (
        "log directory" if found.topic is None else found.topic if found.partition is None else f"{found.topic}-{found.partition}"
    )
    several = found.last_offset is not None and found.base_offset is not None and found.last_offset > found.base_offset
    offsets = (
        f"{found.base_offset} to {found.last_offset}" if several else "–" if found.base_offset is None else str(found.base_offset)
    )
    details = [f"{word} {text}" for word, text in (("expected", found.expected), ("found", found.found)) if text is not None]
    return [
        _severity(found.severity),
        found.reason,
        partition,
        found.file.rsplit("/", 1)[-1],
        Cell("–", -1) if found.position is None else number(found.position),
        Cell(offsets, -1 if found.base_offset is None else found.base_offset),
        Cell(joined("; ".join([*details, found.detail] if found.detail else details), element("div", code(_next(found))))),
    ]


def _next(found: Finding) -> str:
    """The command that repairs it, shows its bytes, or checks the file again."""
    folder = os.path.dirname(found.file) or found.file
    if found.position is not None and found.file.endswith(".log"):
        return command("kafkalog", "explain", found.file, "--position", str(found.position))
    if "://" in found.file:
        return command("kafkalog", "verify", folder)
    if found.reason in REBUILT_BY_REINDEX and found.file.endswith(INDEX_SUFFIXES):
        return command("kafkalog", "reindex", folder, "--in-place")
    if found.reason == "leftover" and found.file.endswith("-delete"):
        return command("kafkalog", "undelete", folder)
    if found.reason == "foreign-folder":
        return command("mv", "--", found.file, f"{folder}.{os.path.basename(found.file)}")
    return command("kafkalog", "verify", folder)
