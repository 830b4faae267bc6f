"""The work of `kafkalog cluster`: read, then a page of text, or JSON."""

from __future__ import annotations

import kafkalog

from ..commands.cluster import ClusterRequest
from ..failure import DAMAGE, warn
from ..render.cluster_page import ClusterPage
from ..render.escape import json_page, printable
from ..render.layout import style_of
from ..render.summary import finish_read
from ..render.target import STDOUT, open_target


def show_cluster(request: ClusterRequest) -> int:
    """Write the cluster at the paths; the exit code."""
    found = kafkalog.cluster(request.paths, at=request.at)
    with open_target(STDOUT) as sink:
        text = json_page(found.as_dict()) if request.as_json else "\n".join(ClusterPage(found, style_of(sink)).lines())
        sink.write((text + "\n").encode())
    if not request.quiet and not found.is_complete:
        warn(f"the state ends at offset {found.image.offset}, before damage: give the disks of another node, too")
    if not request.quiet and found.problems and found.is_complete:
        warn(printable(f"a damaged copy was not used: {found.problems[0]}"))
    return finish_read(found.report, quiet=request.quiet) or (0 if found.is_complete else DAMAGE)
