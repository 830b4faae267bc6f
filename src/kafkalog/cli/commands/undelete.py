"""`kafkalog undelete`: deleted topics and segments that are still on disk."""

from __future__ import annotations

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import RepairOptions, out_option, path_argument, repair_options

NOTES = """
Finds topics in -delete folders and segments named .deleted. Without --out it only lists them. A broker removes deleted files
after file.delete.delay.ms (one minute): stop it first, and what is still there stays.
"""
EXAMPLES = (
    "kafkalog undelete /var/lib/kafka/data",
    "kafkalog undelete /var/lib/kafka/data --topic orders --out rescued",
)


@click.command(
    cls=Command,
    help=f"Find deleted topics and segments still on disk and copy them.\n\n{LOCAL_PATH_TEXT}",
    notes=NOTES,
    examples=EXAMPLES,
)
@path_argument
@out_option("Copy them as clean partitions under this folder.")
@repair_options
def undelete(path: str, out: str | None, repair: RepairOptions) -> int:
    from ..run.undelete import run_undelete

    return run_undelete(path, out, repair)
