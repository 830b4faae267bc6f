"""`kafkalog explain`: every byte of a batch or file, and the field it belongs to."""

from __future__ import annotations

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT

EPILOG = f"""
Each line has the byte position, the bytes in hex, the field's name and value, and a note why they are so. Positions of
decompressed bytes count from the first of them. A line with ! says what does not fit; the exit code is then 1.

\b
Examples:
  kafkalog explain orders-0/00000000000000000000.log --offset 42
  kafkalog explain orders-0 --offset 42 --json
  kafkalog explain orders-0/00000000000000000000.log --position 4096 --count 3
  kafkalog explain orders-0/00000000000000000000.timeindex

{EXIT_CODES_TEXT}"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE", shell_complete=complete_path)
@click.option("--offset", type=int, metavar="N", help="The entry with this offset; FILE may then be a partition's folder.")
@click.option("--position", type=int, metavar="N", help="The entry with this byte of the file, or what begins there.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="So many entries.  [default: 1 of a log, 1000 of an index]")
@click.option("--full", is_flag=True, help="Long values and their bytes in full.")
@click.option("--json", "as_json", is_flag=True, help="The tree of fields as one JSON object, in full.")
def explain(path: str, offset: int | None, position: int | None, count: int | None, full: bool, as_json: bool) -> int:
    """Show every byte of a batch or message in FILE, and the field it belongs to.

    FILE is a .log (the first entry, unless an offset or position says which), .index, .timeindex, .txnindex or .snapshot file, a
    checkpoint, partition.metadata, meta.properties, quorum-state or .kafka_cleanshutdown. Damage is shown as far as one can see.
    """
    if offset is not None and position is not None:
        raise click.UsageError("--offset and --position exclude each other")
    from ..render.fields import show_explanation

    return show_explanation(path, offset, position, count, full=full, as_json=as_json)
