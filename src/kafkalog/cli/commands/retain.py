"""`kafkalog retain`: what Kafka's retention and DeleteRecords do."""

from __future__ import annotations

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import LOSS_TEXT, PLACES_TEXT, ChangeOptions, maintenance_options, path_argument
from .values import Number

NOTES = f"""
Nothing is deleted by default: give retention.ms, retention.bytes, --start-offset, or several of them. Whole segments are deleted,
oldest first. With --start-offset the log starts at exactly that offset, even inside a segment, as after Kafka's DeleteRecords:
log-start-offset-checkpoint records it.

{PLACES_TEXT}

{LOSS_TEXT}
"""
EXAMPLES = (
    "kafkalog retain orders-0 --start-offset 4000 --out kept",
    "kafkalog retain data --config retention.ms=86400000 --in-place --dry-run",
)


@click.command(
    cls=Command, help=f"Delete old records by time, size or offset.\n\n{LOCAL_PATH_TEXT}", notes=NOTES, examples=EXAMPLES
)
@path_argument
@click.option("--start-offset", type=Number(0), metavar="N", help="Delete all records before this offset.")
@maintenance_options
def retain(path: str, change: ChangeOptions, start_offset: int | None) -> int:
    from ..run.changes import run_retain

    return run_retain(path, change, start_offset)
