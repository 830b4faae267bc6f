"""What salvage, reindex and undelete share: do the work partition by partition, and report each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import click

from kafkalog.kernels._jit import announce_compilation
from kafkalog.log.report import ReadReport
from kafkalog.tasks.journal import SalvageResult, describe
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure

from ..failure import CLEAN, Failures
from ..render.escape import printable
from ..render.progress import ReadProgress
from ..render.summary import report_exit_code


class Reported(Protocol):
    """A result with a report of what was left out."""

    report: ReadReport


Result = TypeVar("Result", bound=Reported)


def run_repair(
    work: Callable[[Progress, OnFailure], Iterable[Result]],
    total: int,
    quiet: bool,
    as_json: bool,
    text: Callable[[Result], list[str]],
    as_dict: Callable[[Result], dict[str, Any]],
) -> int:
    """Do the work and report each partition; the gravest of their exit codes."""
    announce_compilation()
    counted = ReadReport()
    code = CLEAN
    with ReadProgress(counted, total, wanted=not quiet) as bar:

        def progress(size: int) -> None:
            counted.kept_bytes += size
            bar.update()

        failures = Failures(as_json=as_json, before_report=bar.hide)
        for result in work(progress, failures.add):
            click.echo(json.dumps(as_dict(result)) if as_json else "\n".join(map(printable, text(result))))
            code = max(code, report_exit_code(result.report))
    return max(code, failures.finish())


def describe_salvage(result: SalvageResult) -> list[str]:
    name, *facts = describe(result)
    return [f"{name}: {result.state}" + ("" if result.state == "not written" else f", {result.folder}"), *facts]


def salvage_as_dict(result: SalvageResult) -> dict[str, Any]:
    report = result.report.as_dict()
    del report["kept"]  # of the first replica alone; the result counts what was kept in all
    return {**asdict(result), "report": report}
