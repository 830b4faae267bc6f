"""Findings as text for people: by partition, then by kind, with the advice once."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from kafkalog.errors import SEVERITIES
from kafkalog.log.checks.finding import Finding
from kafkalog.tasks.verify import Findings

from .escape import printable

SHOWN = 5  # of a kind in a partition
SEVERITY_WIDTH = max(map(len, SEVERITIES)) + 2


def render(found: Findings, width: int, *, show_all: bool = False) -> str:
    """The text of `kafkalog verify`, each line ended."""
    lines: list[str] = []
    for place, group in groupby(found, key=_partition_of):
        lines += [place, *_kinds(list(group), width, None if show_all else SHOWN), ""]
    lines += textwrap.wrap(_summary(found), width)
    return "".join(line + "\n" for line in lines)


def _partition_of(finding: Finding) -> str:
    if finding.topic is None:
        return printable(os.path.dirname(finding.file) or finding.file)
    return printable(finding.topic if finding.partition in (None, -1) else f"{finding.topic}-{finding.partition}")


def _kinds(findings: list[Finding], width: int, shown: int | None) -> Iterator[str]:
    def kind(finding: Finding) -> tuple[int, str]:
        return SEVERITIES.index(finding.severity), finding.reason

    for _, group in groupby(sorted(findings, key=kind), key=kind):
        same = list(group)
        count = f" ({len(same)})" if len(same) > 1 else ""
        yield from _wrapped(f"{same[0].severity:<{SEVERITY_WIDTH}}{same[0].reason}{count}: {same[0].about}", "  ", width)
        for finding in same[:shown]:
            yield from _wrapped(_one(finding), " " * SEVERITY_WIDTH + "  ", width)
        if shown is not None and len(same) > shown:
            yield f"{'':{SEVERITY_WIDTH + 2}}… and {len(same) - shown} more (--all shows them)"
        yield from _wrapped(f"→ {same[0].advice}", " " * SEVERITY_WIDTH + "  ", width)


def _wrapped(text: str, margin: str, width: int) -> list[str]:
    further = margin + " " * 2
    return textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=further, break_on_hyphens=False)


def _one(finding: Finding) -> str:
    """Where, and what is wrong there, on one line if it is wide enough."""
    return printable("; ".join(_parts(finding)))


def _parts(finding: Finding) -> Iterator[str]:
    where = os.path.basename(finding.file)
    if finding.position is not None:
        where += f" at byte {finding.position}"
        if finding.length:
            where += f" ({finding.length} bytes)"
    yield where
    if finding.base_offset is not None:
        several = finding.last_offset is not None and finding.last_offset > finding.base_offset
        yield f"offsets {finding.base_offset} to {finding.last_offset}" if several else f"offset {finding.base_offset}"
    if finding.expected is not None:
        yield f"expected {finding.expected}"
    if finding.found is not None:
        yield f"found {finding.found}"
    if finding.detail:
        yield finding.detail


def _summary(found: Findings) -> str:
    checked = (
        f"{_counted(len(found.partitions), 'partition')}, {_counted(found.batch_count, 'batch', 'batches')}, "
        f"{_counted(found.record_count, 'record')} in {found.log_bytes:,} bytes checked"
    )
    kinds = ((found.errors, "error"), (found.warnings, "warning"), (found.notes, "note"))
    return f"{checked}: {_listed(_counted(len(group), word) for group, word in kinds if group) or 'nothing is wrong'}."


def _counted(count: int, word: str, several: str = "") -> str:
    return f"{count:,} {word if count == 1 else several or word + 's'}"


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)
