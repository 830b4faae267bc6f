"""`kafkalog truncate`: cut off the end of logs, as a follower does."""

from __future__ import annotations

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import LOSS_TEXT, PLACES_TEXT, ChangeOptions, change_options, config_option, path_argument, yes_option
from .values import Number

NOTES = f"""
A batch that contains the offset is removed as a whole, so the log may end earlier; the plan shows where. Leader epochs, producer
snapshots and the checkpoints of the log directory are updated to match.

{PLACES_TEXT}

{LOSS_TEXT}
"""
EXAMPLES = (
    "kafkalog truncate orders-0 --to-offset 4000 --out shorter",
    "kafkalog truncate data/orders-0 --to-offset 4000 --in-place --dry-run",
)


@click.command(cls=Command, help=f"Truncate logs to an offset.\n\n{LOCAL_PATH_TEXT}", notes=NOTES, examples=EXAMPLES)
@path_argument
@click.option("--to-offset", type=Number(0), required=True, metavar="N", help="The log end offset afterwards.")
@change_options(config_option, yes_option)
def truncate(path: str, change: ChangeOptions, to_offset: int) -> int:
    from ..run.changes import run_truncate

    return run_truncate(path, change, to_offset)
