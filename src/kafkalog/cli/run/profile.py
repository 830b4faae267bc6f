"""The work of `kafkalog profile`: count with a progress bar, then a page that fits a screen, all tables, or JSON."""

from __future__ import annotations

import pyarrow as pa

import kafkalog
from kafkalog.tasks.profile import profile as profile_task
from kafkalog.tasks.profile.result import Profile

from ..commands.profile import ProfileRequest
from ..render.escape import json_page
from ..render.layout import style_of
from ..render.profile_page import ProfilePage
from ..render.profile_screen import ProfileScreen
from ..render.progress import ReadProgress
from ..render.summary import finish_read
from ..render.target import STDOUT, open_target


def show_profile(request: ProfileRequest) -> int:
    """Profile the logs, write the result; the exit code."""
    found = _profile(request)
    with open_target(STDOUT) as sink:
        page = (ProfilePage if request.full else ProfileScreen)(found, style_of(sink), request.top)
        text = json_page(found.as_dict()) if request.as_json else "\n".join(page.lines())
        sink.write((text + "\n").encode())
    return finish_read(found.report, quiet=request.quiet)


def _profile(request: ProfileRequest) -> Profile:
    # Arrow's own allocator does not return memory: for compressed logs it holds twice what is ever in use.
    pa.set_memory_pool(pa.system_memory_pool())
    logs = kafkalog.open(request.paths, topic_ids=request.topic_ids)
    total = sum(partition.size for partition in logs.choose(request.topics, request.partitions))
    with ReadProgress(total, wanted=not request.quiet) as progress:
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
            on_progress=progress.follow,
        )
