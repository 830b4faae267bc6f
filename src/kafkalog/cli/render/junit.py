"""Findings as a JUnit report: a test case for each partition and for the log directory itself."""

from __future__ import annotations

from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from kafkalog.log.checks.finding import Finding
from kafkalog.tasks.verify import Findings

from .escape import printable


def junit_report(found: Findings, fail_on: str) -> str:
    """The XML; what is milder than `fail_on` is output of its test case, not a failure."""
    grave = set(map(id, found.at_least(fail_on)))
    names = dict.fromkeys([*found.partitions, *map(_name, found)])
    by_name = {name: list(group) for name, group in groupby(found, key=_name)}
    cases = [_case(name, by_name.get(name, []), grave) for name in names]
    failed = len({_name(finding) for finding in found.at_least(fail_on)})
    suite = f'<testsuite name="kafkalog verify" tests="{len(cases)}" failures="{failed}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', suite, *cases, "</testsuite>"]) + "\n"


def _name(finding: Finding) -> str:
    return "log directory" if finding.topic is None else f"{finding.topic}-{finding.partition}"


def _case(name: str, findings: list[Finding], grave: set[int]) -> str:
    inside = []
    failures = [finding for finding in findings if id(finding) in grave]
    if failures:
        summary = f"{failures[0].reason}: {failures[0].about}"
        inside.append(f"<failure message={quoteattr(printable(summary))}>{_lines(failures)}</failure>")
    rest = [finding for finding in findings if id(finding) not in grave]
    if rest:
        inside.append(f"<system-out>{_lines(rest)}</system-out>")
    head = f'  <testcase classname="kafkalog.verify" name={quoteattr(printable(name))}'
    return f"{head}>{''.join(inside)}</testcase>" if inside else f"{head}/>"


def _lines(findings: list[Finding]) -> str:
    return "\n".join(escape(printable(_line(finding))) for finding in findings)


def _line(finding: Finding) -> str:
    at = "" if finding.position is None else f" at byte {finding.position}"
    parts = [f"{finding.severity} {finding.reason}: {finding.file}{at}"]
    parts += [f"expected {finding.expected}"] if finding.expected is not None else []
    parts += [f"found {finding.found}"] if finding.found is not None else []
    return "; ".join([*parts, finding.detail] if finding.detail else parts)
