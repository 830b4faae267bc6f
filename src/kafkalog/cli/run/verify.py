"""The work of `kafkalog verify`: check with a progress bar, write the findings, choose the exit code."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

import kafkalog
from kafkalog.tables.rows import finding_rows, row_batches
from kafkalog.tables.schemas import FINDINGS
from kafkalog.tasks.verify import Findings
from kafkalog.tasks.verify import verify as verify_task

from ..commands.verify import VerifyRequest
from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT, LIMIT
from ..render.findings import junit_report, render
from ..render.layout import style_of
from ..render.progress import ReadProgress
from ..render.summary import LIMIT_REASONS
from ..render.target import Sink, open_target, refuse_kafka_file
from ..render.writers import open_writer, refuse_terminal

NARROWEST, WIDEST = 60, 120


def verify_logs(request: VerifyRequest) -> int:
    """Check the logs, write the findings; the exit code."""
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


def _verify(request: VerifyRequest) -> Findings:
    logs = kafkalog.open(request.paths)
    total = sum(partition.size for place in logs.places for partition in place.live)
    with ReadProgress(total, wanted=not request.quiet) as progress:
        return verify_task(
            logs,
            topics=request.topics,
            partitions=request.partitions,
            threads=request.threads,
            on_progress=progress.follow,
        )


def _write(request: VerifyRequest, found: Findings, sink: Sink) -> None:
    if request.format == "text":
        if found.findings or not request.quiet:
            own = style_of(sink)
            style = replace(own, width=min(max(own.width, NARROWEST), WIDEST))
            sink.write(render(found, style, show_all=request.show_all).encode())
        return
    refuse_terminal(request.format, sink)
    schema: pa.Schema = FINDINGS.schema()
    writer = open_writer(request.format, sink, schema, "utf8")
    for batch in row_batches(finding_rows(found), schema):
        writer.write(batch)
    writer.finish()
    if request.format == "json":
        verdicts = [verdict.as_dict() for verdict in found.verdicts]
        last = {"verdicts": verdicts} if len(request.paths) > 1 else {"verdict": verdicts[0] if verdicts else None}
        sink.write((json.dumps(last) + "\n").encode())


def findings_exit_code(found: Findings, fail_on: str) -> int:
    """Unreadable files come first, then damage, then limits."""
    grave = {finding.reason for finding in found.at_least(fail_on)}
    if "unreadable" in grave:
        return INPUT_OUTPUT
    if grave - LIMIT_REASONS:
        return DAMAGE
    return LIMIT if grave else CLEAN
