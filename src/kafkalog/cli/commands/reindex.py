"""`kafkalog reindex`: rebuild index, snapshot and checkpoint files from the logs."""

from __future__ import annotations

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import RepairOptions, out_option, path_argument, repair_options, require_place
from .values import parse_time

NOTES = """
Rebuilds .index, .timeindex, .txnindex, .snapshot and leader-epoch-checkpoint files, byte for byte as Kafka's own recovery does;
.log files are never touched. It stops at the first damage, where a broker would cut the log and delete what follows: `kafkalog
salvage` keeps that.
"""
EXAMPLES = (
    "kafkalog reindex /var/lib/kafka/data --topic orders --in-place --dry-run",
    "kafkalog reindex orders-0 --out rebuilt",
)


@click.command(
    cls=Command,
    help=f"Rebuild index, snapshot and checkpoint files from the logs.\n\n{LOCAL_PATH_TEXT}",
    notes=NOTES,
    examples=EXAMPLES,
)
@path_argument
@out_option("Write the rebuilt files, without the logs, under this folder.")
@click.option(
    "--in-place",
    is_flag=True,
    help="Replace the files where they are. Refused while a broker is running; removes the clean-shutdown marker first.",
)
@click.option("--discard", is_flag=True, help="With --in-place: do not keep the old files as <name>.broken-<time>.")
@click.option(
    "--now",
    callback=parse_time,
    metavar="TIME",
    help="Drop producers that wrote nothing in the day before this time, as recovery does.  [default: keep all]",
)
@repair_options
def reindex(path: str, out: str | None, in_place: bool, discard: bool, now: int | None, repair: RepairOptions) -> int:
    require_place(out, in_place=in_place)
    from ..run.reindex import run_reindex

    return run_reindex(path, out, repair, discard=discard, now_ms=now)
