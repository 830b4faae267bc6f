"""The work of `kafkalog groups`: read, then rows as text, or JSON."""

from __future__ import annotations

import kafkalog

from ..commands.groups import GroupsRequest
from ..render.escape import json_page
from ..render.groups_page import GroupsPage
from ..render.layout import style_of
from ..render.summary import finish_read
from ..render.target import STDOUT, open_target


def show_groups(request: GroupsRequest) -> int:
    """Write the groups at the paths; the exit code."""
    found = kafkalog.groups(request.paths, topics=request.topics, groups=request.groups, history=request.history)
    with open_target(STDOUT) as sink:
        if request.as_json:
            text = json_page(found.as_dict())
        else:
            by_partition = request.groups is not None or request.topics is not None
            text = "\n".join(GroupsPage(found, style_of(sink), by_partition=by_partition).lines())
        sink.write((text + "\n").encode())
    return finish_read(found.report, quiet=request.quiet)
