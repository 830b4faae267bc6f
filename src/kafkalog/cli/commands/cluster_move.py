"""`kafkalog cluster move`: single topics of one cluster, moved into another that is stopped."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import dry_run_option, json_option, quiet_option, requested
from .values import Number, by_topic, complete_path, complete_topic

HELP = """\
Move single topics into another cluster that is stopped.

DISK is a log directory (one of log.dirs) of the cluster that the topics are from, or a folder with log directories up to three
folders below: disks of brokers that are stopped, or a backup of them. They are only read.
"""
NOTES = """
The partitions are copied into the log directories after --into, the best copy of each, with the same offsets; the cluster's
metadata get the topics with their ids, their settings and leader epochs. Give the log directories of all controllers (each needs
the new records), and of those brokers that the topics go to; a topic gets as many replicas as it had, if there are as many
brokers. Topics without a retention of their own keep everything, because the defaults of the other brokers may delete it.

Refused, with what to do: a broker or controller that is running; metadata that are damaged, differ between controllers, or are of
a later release; a topic of that name or id that is there already (--as gives another one).

Committed offsets, ACLs and quotas are not moved: the plan says which groups have committed some, and how to see them.

The metadata come last, so a cluster that is started after a kill does not know the topics yet. The same command goes on; when all
is done, it does nothing.
"""
EXAMPLES = (
    "kafkalog cluster move b1/d1 b2/d1 --topic orders --into /mnt/new --dry-run",
    "kafkalog cluster move cluster-backup --topic orders --into /mnt/new --yes",
    "kafkalog cluster move b1 --topic orders --as orders=old --into /mnt/new --yes",
)


@dataclass(frozen=True)
class MoveRequest:
    """The arguments and options of the command."""

    disks: tuple[str, ...]
    into: tuple[str, ...]
    topics: tuple[str, ...]
    names: dict[str, str]
    replicas: int | None
    metadata: tuple[str, ...]
    config: str | None
    topic_id: dict[str, str]
    prefer: str | None
    missing_empty: bool
    yes: bool
    dry_run: bool
    as_json: bool
    quiet: bool


@click.command(name="cluster move", cls=Command, help=HELP, notes=NOTES, examples=EXAMPLES)
@click.argument("disks", metavar="DISK...", nargs=-1, required=True, shell_complete=complete_path)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Move this topic; may be repeated.",
)
@click.option(
    "--into",
    multiple=True,
    required=True,
    metavar="DIR",
    shell_complete=complete_path,
    help="A log directory of the other cluster, or a folder with several below; may be repeated.",
)
@click.option("--as", "names", multiple=True, callback=by_topic, metavar="TOPIC=NAME", help="Give a topic another name there.")
@click.option("--replicas", type=Number(1), metavar="N", help="Replicas of each partition.  [default: as before]")
@click.option(
    "--metadata",
    multiple=True,
    metavar="PATH",
    help="An older copy of the metadata of the cluster that the topics are from, for their settings; may be repeated.",
)
@click.option("--config", metavar="FILE", help="Settings of topics: a properties file with lines TOPIC/KEY=VALUE.")
@click.option("--topic-id", multiple=True, callback=by_topic, metavar="TOPIC=ID", help="Of two topics of one name, this one.")
@click.option("--prefer", type=click.Choice(("stray", "live")), help="Of two topics of one name, the one with such folders.")
@click.option("--missing-empty", is_flag=True, help="Begin partitions empty of which no copy is left.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option("The plan and the result as one JSON object")
@quiet_option
@requested(MoveRequest)
def cluster_move(request: MoveRequest) -> int:
    from ..run.cluster_move import run_cluster_move

    return run_cluster_move(request)
