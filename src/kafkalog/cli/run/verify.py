"""The work of `kafkalog verify`: check with a progress bar, write the findings, choose the exit code."""

from __future__ import annotations

import pyarrow as pa

import kafkalog
from kafkalog.log.report import ReadReport
from kafkalog.tables.rows import finding_rows, row_batches
from kafkalog.tables.schemas import FINDINGS
from kafkalog.tasks.verify import Findings
from kafkalog.tasks.verify import verify as verify_task

from ..commands.verify import Request
from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT, LIMIT
from ..render.findings import render
from ..render.junit import junit_report
from ..render.progress import ReadProgress
from ..render.summary import LIMIT_REASONS
from ..render.target import Sink, open_target, refuse_kafka_file
from ..render.writers import BINARY_FORMATS, open_writer

PIPE_WIDTH = 100
NARROWEST, WIDEST = 60, 120


def verify_logs(request: Request) -> int:
    """Check, write what was found; the exit code."""
    refuse_kafka_file("--output", request.output)
    if request.junit is not None:
        refuse_kafka_file("--junit", request.junit)
    found = _verify(request)
    with open_target(request.output) as sink:
        _write(request, found, sink)
    if request.junit is not None:
        with open_target(request.junit) as sink:
            sink.write(junit_report(found, request.fail_on).encode())
    return findings_exit_code(found, request.fail_on)


def _verify(request: Request) -> Findings:
    logs = kafkalog.open(request.path)
    total = sum(partition.size for partition in logs.choose(request.topics, request.partitions))
    with ReadProgress(ReadReport(), total, wanted=not request.quiet) as progress:

        def show(report: ReadReport) -> None:
            progress.report = report
            progress.update()

        return verify_task(logs, topics=request.topics, partitions=request.partitions, threads=request.threads, on_progress=show)


def _write(request: Request, found: Findings, sink: Sink) -> None:
    if request.format == "text":
        if found.findings or not request.quiet:
            sink.write(render(found, _width(sink), show_all=request.show_all).encode())
        return
    if request.format in BINARY_FORMATS and sink.isatty():
        raise kafkalog.UsageError(
            f"{request.format} is binary and not for a terminal: give --output FILE, or pipe it into a program"
        )
    schema: pa.Schema = FINDINGS.schema()
    writer = open_writer(request.format, sink, schema, "utf8")
    for batch in row_batches(finding_rows(found), schema):
        writer.write(batch)
    writer.finish()


def _width(sink: Sink) -> int:
    if not sink.isatty():
        return PIPE_WIDTH
    from rich.console import Console

    return min(max(Console().width, NARROWEST), WIDEST)


def findings_exit_code(found: Findings, fail_on: str) -> int:
    """What could not be read weighs most, then damage, then limits."""
    grave = {finding.reason for finding in found.at_least(fail_on)}
    if "unreadable" in grave:
        return INPUT_OUTPUT
    if grave - LIMIT_REASONS:
        return DAMAGE
    return LIMIT if grave else CLEAN
