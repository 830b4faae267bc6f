"""`kafkalog recover`: what a broker does when it starts after a crash."""

from __future__ import annotations

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import LOSS_TEXT, PLACES_TEXT, ChangeOptions, maintenance_options, path_argument

NOTES = f"""
Recovery completes or undoes an interrupted compaction, checks every batch after the recovery point, cuts the log at the first
damage and deletes all segments after it, and rebuilds indexes, producer snapshots and leader epochs. `kafkalog salvage` keeps
what follows the damage; the plan shows how much that is. The exit code is 1 if intact batches were cut off.

{PLACES_TEXT}

{LOSS_TEXT} Without a terminal, whole batches are cut off only with --yes.
"""
EXAMPLES = (
    "kafkalog recover /var/lib/kafka/data --in-place --dry-run",
    "kafkalog recover orders-0 --out recovered --whole",
)


@click.command(
    cls=Command,
    help=f"Recover logs as a broker does when it starts after a crash.\n\n{LOCAL_PATH_TEXT}",
    notes=NOTES,
    examples=EXAMPLES,
)
@path_argument
@click.option("--whole", is_flag=True, help="Also check batches before the recovery point.")
@maintenance_options
def recover(path: str, change: ChangeOptions, whole: bool) -> int:
    from ..run.changes import run_recover

    return run_recover(path, change, whole=whole)
