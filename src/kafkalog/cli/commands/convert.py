"""`kafkalog convert`: logs re-encoded in another format, codec or batch size."""

from __future__ import annotations

from typing import Any

import click

from .help import Command
from .shared_options import CODECS, PLACES_TEXT, index_interval_option, level_option, path_argument, place_options, require_place

NOTES = f"""
Offsets, gaps, timestamps and their types stay the same. Control batches and empty batches are not touched; batches that have a
producer id, or that compaction has removed records from, only change their codec. Messages of v0 and v1 become batches of
16 KiB, and each compressed set becomes one batch.

{PLACES_TEXT}
"""
EXAMPLES = (
    "kafkalog convert /var/lib/kafka/data --topic orders --in-place --dry-run",
    "kafkalog convert orders-0 --out new --codec zstd --batch-bytes 65536",
)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@path_argument
@click.option("--codec", type=click.Choice(CODECS), help="Recompress with this codec.  [default: the codec each batch has]")
@level_option
@click.option(
    "--batch-bytes", type=click.IntRange(1), metavar="N", help="Regroup records into batches of this size.  [default: as is]"
)
@index_interval_option
@place_options
def convert(path: str, **options: Any) -> int:
    """Re-encode logs: v0 and v1 as v2, another codec or batch size.

    PATH is a partition folder or a log directory (log.dirs); with --out it can also be a segment file or an s3:// URL.
    """
    from ..run.convert import run_convert

    return run_convert(path, **require_place(options))
