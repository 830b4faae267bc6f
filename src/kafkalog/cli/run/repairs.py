"""The frame of salvage, reindex and undelete: repair partition by partition, and report each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import click

from kafkalog.log.report import ReadReport
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure
from kafkalog.tasks.totals import Total

from ..commands.shared_options import RepairOptions
from ..failure import CLEAN, Failures
from ..render.escape import printable
from ..render.next_steps import total_lines
from ..render.progress import ReadProgress
from ..render.summary import report_exit_code


class Reported(Protocol):
    """A result with a report of what was left out."""

    report: ReadReport


Result = TypeVar("Result", bound=Reported)


def run_repair(
    work: Callable[[Progress, OnFailure], Iterable[Result]],
    total: int,
    repair: RepairOptions,
    text: Callable[[Result], list[str]],
    as_dict: Callable[[Result], dict[str, Any]],
    add_up: Callable[[list[Result]], Total],
) -> int:
    """Do the work, report each partition and all of them; the highest of their exit codes."""
    code = CLEAN
    results = []
    with ReadProgress(total, wanted=not repair.quiet) as bar:
        failures = Failures(as_json=repair.as_json, before_report=bar.hide)
        for result in work(bar.advance, failures.add):
            click.echo(json.dumps(as_dict(result)) if repair.as_json else "\n".join(map(printable, text(result))))
            code = max(code, report_exit_code(result.report))
            results.append(result)
    if results and not repair.as_json and (lines := total_lines(add_up(results), len(results))):
        click.echo(lines)
    return max(code, failures.finish(len(results)))
