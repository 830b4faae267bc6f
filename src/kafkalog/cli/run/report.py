"""The work of `kafkalog report`: count and check with a progress bar, write the page, choose the exit code."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.errors import ERROR, UsageError
from kafkalog.format.quantities import plural, size_text
from kafkalog.pages.report import Report
from kafkalog.pages.report import report as make_report

from ..commands.report import ReportRequest
from ..failure import warn
from ..render.escape import printable
from ..render.progress import ReadProgress
from ..render.summary import finish_read
from ..render.target import STDOUT, Sink, open_target, refuse_kafka_file
from .verify import findings_exit_code


def write_report(request: ReportRequest) -> int:
    """Make the report and write it; the exit code."""
    refuse_kafka_file("--output", request.output)
    if request.output == STDOUT and Sink(1, STDOUT).isatty():
        raise UsageError("a report is a page for a browser: give --output report.html, or pipe it into a program")
    found = _report(request)
    page = found.html.encode()
    with open_target(request.output) as sink:
        sink.write(page)
    if request.output != STDOUT and not request.quiet:
        warn(f"wrote a report of {_summary(found)}, {size_text(len(page))}, to {printable(request.output)}")
    left_out = finish_read(found.overview.profile.report, quiet=request.quiet)
    return left_out or (findings_exit_code(found.overview.checked, ERROR) if found.overview.checked is not None else 0)


def _summary(found: Report) -> str:
    overview = found.overview
    findings = "not checked" if overview.checked is None else plural(len(overview.checked), "finding")
    return f"{plural(len(overview.partitions), 'partition')}, {size_text(overview.size)}, {findings}"


def _report(request: ReportRequest) -> Report:
    # Arrow's own allocator does not return memory: for compressed logs it holds twice what is ever in use.
    pa.set_memory_pool(pa.system_memory_pool())
    with ReadProgress(0, wanted=not request.quiet) as progress:

        def follow(done: int, total: int) -> None:
            progress.total = total
            progress.report.kept_bytes = done
            progress.update()

        return make_report(
            request.paths,
            topics=request.topics,
            partitions=request.partitions,
            top=request.top,
            quick=request.quick,
            on_damage=request.on_damage,
            now_ms=request.now,
            threads=request.threads,
            on_progress=follow,
        )
