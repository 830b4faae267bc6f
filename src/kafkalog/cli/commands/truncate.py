"""`kafkalog truncate`: the end of logs cut off, as a follower does."""

from __future__ import annotations

from typing import Any

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import LOSS_TEXT, PLACES_TEXT, config_option, path_argument, place_options, require_place, yes_option

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
@click.option("--to-offset", type=click.IntRange(0), required=True, metavar="N", help="The log end offset afterwards.")
@config_option
@yes_option
@place_options
def truncate(path: str, **options: Any) -> int:
    from ..run.truncate import run_truncate

    return run_truncate(path, **require_place(options))
