"""`kafkalog salvage`: clean copies of damaged partitions."""

from __future__ import annotations

import click

from .help import Command
from .shared_options import RepairOptions, out_option, repair_options
from .values import complete_path

NOTES = """
Two journals next to DIR/<topic>-<partition>, .salvage.jsonl and .salvage.txt, list every byte range that was left out and why,
what was filled in from which replica, and which offsets are lost. Records are copied as stored. A partition appears once it
is complete, or not at all; running the same command again changes nothing.
"""
EXAMPLES = (
    "kafkalog salvage /mnt/broken/data/orders-0 --out rescued",
    "kafkalog salvage /mnt/broken/data --topic orders --out rescued --dry-run",
    "kafkalog salvage broker1/orders-0 broker2/orders-0 --out rescued",
)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.argument("paths", metavar="PATH...", shell_complete=complete_path, nargs=-1, required=True)
@out_option("The folder for the new partitions; it must not contain them yet.", required=True)
@click.option(
    "--fill-gaps",
    is_flag=True,
    help="With several replicas: also fill missing offsets where there is no damage (a lost segment file). Not for compacted "
    "topics: it would bring back what compaction removed.",
)
@click.option(
    "--unverified",
    is_flag=True,
    help="Also keep intact batches between two damaged places, which may be bytes inside a value.",
)
@repair_options
def salvage(paths: tuple[str, ...], out: str, fill_gaps: bool, unverified: bool, repair: RepairOptions) -> int:
    """Copy all intact batches of damaged partitions.

    Every intact batch keeps its offsets, indexes are rebuilt, and PATH is only read. PATH is a partition folder, a log
    directory (log.dirs), or a segment file. Several paths with the same partition are replicas: batches that one has lost are
    taken from another.
    """
    from ..run.salvage import run_salvage

    return run_salvage(paths, out, repair, fill_gaps=fill_gaps, unverified=unverified)
