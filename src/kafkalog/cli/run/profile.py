"""The work of `kafkalog profile`: count with a progress bar, then a page with bars, or JSON."""

from __future__ import annotations

import json

import pyarrow as pa

import kafkalog
from kafkalog.log.report import ReadReport
from kafkalog.tasks.profile import profile as profile_task
from kafkalog.tasks.profile.result import Profile

from ..commands.profile import Request
from ..failure import warn
from ..render.escape import json_safe
from ..render.profile_page import ProfilePage
from ..render.progress import ReadProgress
from ..render.style import style_of
from ..render.summary import report_exit_code, summarise
from ..render.target import STDOUT, open_target


def show_profile(request: Request) -> int:
    """Count, write what was found; the exit code."""
    found = _profile(request)
    with open_target(STDOUT) as sink:
        if request.as_json:
            lines = [json_safe(line) for line in json.dumps(found.as_dict(), indent=2, ensure_ascii=False).split("\n")]
        else:
            lines = list(ProfilePage(found, style_of(sink), request.top).lines())
        sink.write("".join(line + "\n" for line in lines).encode())
    line = summarise(found.report)
    if line and not request.quiet:
        warn(line)
    return report_exit_code(found.report)


def _profile(request: Request) -> Profile:
    # Arrow's own allocator keeps what it once had: of compressed logs twice as much as is ever in use.
    pa.set_memory_pool(pa.system_memory_pool())
    logs = kafkalog.open(request.path)
    total = sum(partition.size for partition in logs.choose(request.topics, request.partitions))
    with ReadProgress(ReadReport(), total, wanted=not request.quiet) as progress:

        def show(report: ReadReport) -> None:
            progress.report = report
            progress.update()

        return profile_task(
            logs,
            topics=request.topics,
            partitions=request.partitions,
            top=request.top,
            quick=request.quick,
            on_damage=request.on_damage,
            now_ms=request.now,
            retention_ms=request.retention_ms,
            threads=request.threads,
            on_progress=show,
        )
