"""Findings as text, by partition and kind with the advice once, and as a JUnit report with a test case per partition."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from kafkalog.errors import ERROR, INFO, SEVERITIES, WARNING
from kafkalog.log.checks.finding import Finding
from kafkalog.tasks.verdict import Verdict
from kafkalog.tasks.verify import Findings

from .escape import printable
from .layout import BOLD, DIM, RED, YELLOW, Style
from .next_steps import step_lines

SHOWN = 5  # of a kind in a partition
SEVERITY_WIDTH = max(map(len, SEVERITIES)) + 2
MARGIN = "  "
INDENT = MARGIN + " " * SEVERITY_WIDTH
FURTHER = INDENT + MARGIN
COLOURS = {ERROR: RED, WARNING: YELLOW, INFO: DIM}


def render(found: Findings, style: Style, *, show_all: bool = False) -> str:
    """The text of `kafkalog verify`, each line ended."""
    lines: list[str] = []
    for place, group in groupby(found, key=_partition_of):
        lines += [style.paint(place, BOLD), *_kinds(list(group), style, None if show_all else SHOWN), ""]
    lines += textwrap.wrap(_summary(found), style.width)
    for verdict in found.verdicts:
        lines += _verdict(verdict, style, verdict.path if len(found.verdicts) > 1 else "")
    return "".join(line + "\n" for line in lines)


def _partition_of(finding: Finding) -> str:
    if finding.topic is None:
        return printable(os.path.dirname(finding.file) or finding.file)
    return printable(finding.topic if finding.partition in (None, -1) else f"{finding.topic}-{finding.partition}")


def _kinds(findings: list[Finding], style: Style, shown: int | None) -> Iterator[str]:
    def kind(finding: Finding) -> tuple[int, str]:
        return SEVERITIES.index(finding.severity), finding.reason

    for _, group in groupby(sorted(findings, key=kind), key=kind):
        same = list(group)
        count = f" ({len(same)})" if len(same) > 1 else ""
        severity = same[0].severity
        first, *rest = _wrapped(f"{severity:<{SEVERITY_WIDTH}}{same[0].reason}{count}: {same[0].about}", MARGIN, style.width)
        yield from (first.replace(severity, style.paint(severity, COLOURS[severity]), 1), *rest)
        for finding in same[:shown]:
            yield from _wrapped(_one(finding), INDENT, style.width)
        if shown is not None and len(same) > shown:
            yield f"{INDENT}… and {len(same) - shown} more (--all shows them)"
        yield from _wrapped(f"→ {same[0].advice}", INDENT, style.width)


def _wrapped(text: str, margin: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=FURTHER, break_on_hyphens=False)


def _one(finding: Finding) -> str:
    """The place and what is wrong there."""
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
    kinds = ((found.errors, "error", ""), (found.warnings, "warning", ""), (found.info, "info", "info"))
    counts = ", ".join(_counted(len(group), *words) for group, *words in kinds if group)
    return f"{checked}: {counts or 'nothing is wrong'}."


def _verdict(verdict: Verdict, style: Style, path: str) -> Iterator[str]:
    """What the broker will do, and the commands to type; these are never broken into lines."""
    code = RED if verdict.starts is False else YELLOW if verdict.starts is None or verdict.partitions else ""
    yield ""
    of_path = f" of {path}" if path else ""
    text = printable(f"verdict{of_path}: {verdict.text}.")
    for line in textwrap.wrap(text, style.width, subsequent_indent=MARGIN, break_on_hyphens=False):
        yield style.paint(line, code)
    yield from step_lines(verdict.next_steps)


def _counted(count: int, word: str, several: str = "") -> str:
    return f"{count:,} {word if count == 1 else several or word + 's'}"  # unlike `plural`, with commas


def junit_report(found: Findings, fail_on: str) -> str:
    """The XML; findings less severe than `fail_on` are output of a test case, not a failure."""
    grave = set(map(id, found.at_least(fail_on)))
    names = dict.fromkeys([*found.partitions, *map(_case_name, found)])
    by_name = {name: list(group) for name, group in groupby(found, key=_case_name)}
    cases = [_case(name, by_name.get(name, []), grave) for name in names]
    failed = len({_case_name(finding) for finding in found.at_least(fail_on)})
    suite = f'<testsuite name="kafkalog verify" tests="{len(cases)}" failures="{failed}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', suite, *cases, "</testsuite>"]) + "\n"


def _case_name(finding: Finding) -> str:
    return "log directory" if finding.topic is None else f"{finding.topic}-{finding.partition}"


def _case(name: str, findings: list[Finding], grave: set[int]) -> str:
    inside = []
    failures = [finding for finding in findings if id(finding) in grave]
    if failures:
        summary = f"{failures[0].reason}: {failures[0].about}"
        inside.append(f"<failure message={quoteattr(printable(summary))}>{_junit_lines(failures)}</failure>")
    rest = [finding for finding in findings if id(finding) not in grave]
    if rest:
        inside.append(f"<system-out>{_junit_lines(rest)}</system-out>")
    head = f'  <testcase classname="kafkalog.verify" name={quoteattr(printable(name))}'
    return f"{head}>{''.join(inside)}</testcase>" if inside else f"{head}/>"


def _junit_lines(findings: list[Finding]) -> str:
    return "\n".join(escape(printable(_junit_line(finding))) for finding in findings)


def _junit_line(finding: Finding) -> str:
    at = "" if finding.position is None else f" at byte {finding.position}"
    parts = [f"{finding.severity} {finding.reason}: {finding.file}{at}"]
    parts += [f"expected {finding.expected}"] if finding.expected is not None else []
    parts += [f"found {finding.found}"] if finding.found is not None else []
    return "; ".join([*parts, finding.detail] if finding.detail else parts)
