"""`kafkalog cluster`: a cluster at a glance, from the disks of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import at_option, json_option, paths_argument, quiet_option, requested

NOTES = """
PATHs are log directories of a KRaft cluster (3.3 or later), or folders with several of them below; give those of all nodes, if
you have them. The state is that of the newest snapshot of __cluster_metadata and the log that follows it, of the newest copy. A
damaged copy is replaced by another one; without one the state ends before the damage, and the exit code is 1.

The same as tables: kafkalog table topics PATH, and configs, acls, brokers, quotas, credentials, features. Passwords and the
secrets of credentials are never shown.
"""
EXAMPLES = (
    "kafkalog cluster /mnt/nodes",
    "kafkalog cluster /mnt/nodes/b1/d1 /mnt/nodes/b2/d1 --json",
    "kafkalog cluster /mnt/nodes --at 120",
)


@dataclass(frozen=True)
class ClusterRequest:
    """The options of one `kafkalog cluster`."""

    paths: tuple[str, ...]
    at: int | None
    as_json: bool
    quiet: bool


@click.command(
    cls=Command,
    help="Show a cluster at a glance, from the disks of its nodes.\n\n"
    "PATH is a log directory (log.dirs) of any node, or a folder with several below.",
    notes=NOTES,
    examples=EXAMPLES,
)
@paths_argument
@at_option
@json_option("One JSON object")
@quiet_option
@requested(ClusterRequest)
def cluster(request: ClusterRequest) -> int:
    from ..run.cluster import show_cluster

    return show_cluster(request)
