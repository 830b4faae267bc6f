"""`kafkalog cluster rebuild`: a cluster whose metadata is lost, brought back from its brokers' disks."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import dry_run_option, json_option, quiet_option, requested
from .values import Number, by_topic, complete_path

HELP = """\
Bring back a cluster whose metadata is lost, or move one.

DISK is a log directory (one of log.dirs) of a broker that is stopped, or a folder with log directories up to three folders below.
Give all disks of all nodes that are left. They are only read: below --out appears a folder for each node, with log directories
that real brokers open, and a journal of everything that was decided (cluster.rebuild.jsonl).
"""
NOTES = """
Known from the disks themselves: topics with their ids, partitions, where each replica is, which copies are complete, leader
epochs, offsets and members of groups, transactions, producer ids. Settings of topics, ACLs, SCRAM credentials and quotas are only
in the metadata: they come back if a copy of it, however old, is on one of the disks or is given with --metadata. Topics whose
settings are unknown keep everything (retention.ms=-1) until you set them again, because a broker would delete what is older than
a week right after its start. Folders that a broker renamed to -stray get their names back.

The plan says what is known and from where, what is lost, and what was chosen and why. What only you can decide is an obstacle:
nothing is written before all are answered. A run that was killed leaves the disks as they were; the same command goes on.

With --in-place nothing is copied: bootstrap.checkpoint is replaced, __cluster_metadata-0 and -stray folders are renamed, and the
command asks before it does so.

With --node all disks become one new node, one copy of each partition: with --cluster-id, a backup becomes a test cluster that
nobody can mistake for the original.
"""
EXAMPLES = (
    "kafkalog cluster rebuild /mnt/b1/d1 /mnt/b2/d1 --out rebuilt --dry-run",
    "kafkalog cluster rebuild /mnt/b1 /mnt/b2 --out new --config topics.properties",
    "kafkalog cluster rebuild cluster-backup --out test-cluster --node 1",
)


@dataclass(frozen=True)
class RebuildRequest:
    """The arguments and options of the command."""

    disks: tuple[str, ...]
    out: str | None
    in_place: bool
    yes: bool
    metadata: tuple[str, ...]
    config: str | None
    release: str | None
    controller: tuple[int, ...]
    topic_id: dict[str, str]
    prefer: str | None
    missing_empty: bool
    node: int | None
    cluster_id: str | None
    dry_run: bool
    as_json: bool
    quiet: bool


@click.command(name="cluster rebuild", cls=Command, help=HELP, notes=NOTES, examples=EXAMPLES)
@click.argument("disks", metavar="DISK...", nargs=-1, required=True, shell_complete=complete_path)
@click.option("--out", metavar="DIR", help="Make the new log directories below this folder.")
@click.option("--in-place", is_flag=True, help="Change the metadata on the disks themselves; no log is touched.")
@click.option("--yes", is_flag=True, help="With --in-place: do not ask.")
@click.option(
    "--metadata",
    multiple=True,
    metavar="PATH",
    help="An older copy of the metadata: a log directory with __cluster_metadata-0, or a .checkpoint file; may be repeated.",
)
@click.option("--config", metavar="FILE", help="Settings of topics: a properties file with lines TOPIC/KEY=VALUE.")
@click.option("--release", metavar="X.Y", help="Kafka's release, if no disk says it.  [default: as the disks were formatted]")
@click.option("--controller", multiple=True, type=Number(0), metavar="N", help="Make a disk for controller N; may be repeated.")
@click.option("--topic-id", multiple=True, callback=by_topic, metavar="TOPIC=ID", help="Of two topics of one name, this one.")
@click.option("--prefer", type=click.Choice(("stray", "live")), help="Of two topics of one name, the one with such folders.")
@click.option("--missing-empty", is_flag=True, help="Begin partitions empty of which no copy is left.")
@click.option("--node", type=Number(0), metavar="N", help="Put all disks into one new node, with one copy of each partition.")
@click.option("--cluster-id", metavar="ID", help="A new id for the cluster.")
@dry_run_option
@json_option("The plan and the result as one JSON object")
@quiet_option
@requested(RebuildRequest)
def cluster_rebuild(request: RebuildRequest) -> int:
    from ..run.cluster_rebuild import run_cluster_rebuild

    return run_cluster_rebuild(request)
