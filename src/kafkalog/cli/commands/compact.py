"""`kafkalog compact`: what Kafka's log cleaner does."""

from __future__ import annotations

import click

from .help import LOCAL_PATH_TEXT, Command
from .shared_options import LOSS_TEXT, PLACES_TEXT, ChangeOptions, maintenance_options, path_argument
from .values import Number

NOTES = f"""
Follows the rules of Kafka's own cleaner: the first and last offset of each batch stay, tombstones and transaction markers are
removed once delete.retention.ms has passed, records of aborted transactions are removed, and the newest segment is not touched
unless --roll closes it first. Compaction starts where the cleaner's checkpoint says the clean part of the log ends, and takes as
many passes as the map of keys needs. Records without a key are deleted, as Kafka's cleaner does: only topics that were never
compacted have them (and the log of the KRaft controller).

{PLACES_TEXT}

{LOSS_TEXT} Records without a key are left out of a copy only after the
same question; without a terminal, only with --yes.
"""
EXAMPLES = (
    "kafkalog compact /var/lib/kafka/data --topic users --in-place --dry-run",
    "kafkalog compact users-0 --out new --roll --config delete.retention.ms=0",
)


@click.command(cls=Command, help=f"Keep only the latest record of each key.\n\n{LOCAL_PATH_TEXT}", notes=NOTES, examples=EXAMPLES)
@path_argument
@click.option("--whole", is_flag=True, help="Start at the beginning of the log, even if part of it is already clean.")
@click.option("--roll", is_flag=True, help="Close the newest segment first, so that its records are compacted too.")
@click.option(
    "--map-bytes",
    type=Number(1 << 16),
    default=128 << 20,
    show_default=True,
    metavar="N",
    help="Memory for the latest offset of each key, 24 bytes each (log.cleaner.dedupe.buffer.size).",
)
@maintenance_options
def compact(path: str, change: ChangeOptions, whole: bool, roll: bool, map_bytes: int) -> int:
    from ..run.changes import run_compact

    return run_compact(path, change, whole=whole, roll=roll, map_bytes=map_bytes)
