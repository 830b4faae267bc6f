"""`kafkalog explain`: every byte of a batch or file, and the field it belongs to."""

from __future__ import annotations

import click

from .help import Command
from .shared_options import json_option, quiet_option
from .values import Number, complete_path

NOTES = """
Each line has the byte position, the bytes in hex, the field's name and value, and a note that explains it. Positions of
decompressed bytes start at 0. A line that starts with ! says what is wrong; the exit code is then 1.
"""
EXAMPLES = (
    "kafkalog explain orders-0 --offset 42",
    "kafkalog explain orders-0/00000000000000000000.log --position 4096 --count 3",
    "kafkalog explain orders-0/00000000000000000000.timeindex --json",
)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.argument("path", metavar="FILE", shell_complete=complete_path)
@click.option("--offset", type=int, metavar="N", help="The entry with this offset; FILE may then be a partition folder.")
@click.option("--position", type=int, metavar="N", help="The entry that contains this byte position, or that starts there.")
@click.option("--count", type=Number(1), metavar="N", help="Number of entries.  [default: 1 of a log, 1000 of an index]")
@click.option("--full", is_flag=True, help="Show long values and their bytes in full.")
@json_option("The tree of fields as one JSON object, in full,")
@quiet_option
def explain(
    path: str, offset: int | None, position: int | None, count: int | None, full: bool, as_json: bool, quiet: bool
) -> int:
    """Show every byte of a batch or file and what it means.

    FILE is a .log file (its first entry is shown, unless --offset or --position is given), an .index, .timeindex,
    .txnindex or .snapshot file, a checkpoint, partition.metadata, meta.properties, quorum-state or .kafka_cleanshutdown. Damaged
    files are shown as far as they can be read.
    """
    if offset is not None and position is not None:
        raise click.UsageError("--offset and --position exclude each other: give one of them")
    from ..run.explain import show_explanation

    return show_explanation(path, offset, position, count, full=full, as_json=as_json, quiet=quiet)
