"""`kafkalog groups`: groups of consumers and their lag, from the disks of the brokers."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import json_option, listed, paths_argument, quiet_option, requested, topic_option

NOTES = """
From __consumer_offsets: give the log directories of all brokers, or a folder with them below, for all groups. Commits in
transactions count once these are committed. The lag is the number of offsets from the committed one to the end of the log, as far
as the log is on these disks; the lag in time is from the first record that was not committed to the newest one, by their
timestamps. A dash is what these disks do not say.

The same as tables: kafkalog table groups PATH, group_offsets, offset_commits.
"""
EXAMPLES = (
    "kafkalog groups /mnt/nodes",
    "kafkalog groups /mnt/nodes --group g-new --topic orders",
    "kafkalog groups /mnt/nodes --group g-tx --history",
)


@dataclass(frozen=True)
class GroupsRequest:
    """The options of one `kafkalog groups`."""

    paths: tuple[str, ...]
    groups: list[str] | None
    topics: list[str] | None
    history: bool
    as_json: bool
    quiet: bool


@click.command(
    cls=Command,
    help="Show groups of consumers, and how far each lags.\n\n"
    "PATH is a log directory (log.dirs) of any broker, or a folder with several below.",
    notes=NOTES,
    examples=EXAMPLES,
)
@paths_argument
@click.option(
    "--group", "groups", multiple=True, callback=listed, metavar="GROUP", help="Only this group, by partition; may be repeated."
)
@topic_option
@click.option("--history", is_flag=True, help="Every commit that is still there: aborted, pending and deleted ones too.")
@json_option("One JSON object")
@quiet_option
@requested(GroupsRequest)
def groups(request: GroupsRequest) -> int:
    from ..run.groups import show_groups

    return show_groups(request)
