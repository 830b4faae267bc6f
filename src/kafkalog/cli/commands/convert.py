"""`kafkalog convert`: re-encode logs in another format, codec or batch size."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import (
    CODECS,
    PLACES_TEXT,
    ChangeOptions,
    change_options,
    index_interval_option,
    level_option,
    path_argument,
    requested,
)
from .values import Number

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


@dataclass(frozen=True)
class ConvertRequest:
    """The options of one `kafkalog convert`."""

    path: str
    codec: str | None
    level: int | None
    batch_bytes: int | None
    index_interval_bytes: int | None
    change: ChangeOptions


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@path_argument
@click.option("--codec", type=click.Choice(CODECS), help="Recompress with this codec.  [default: the codec each batch has]")
@level_option
@click.option("--batch-bytes", type=Number(1), metavar="N", help="Regroup records into batches of this size.  [default: as is]")
@index_interval_option
@change_options()
@requested(ConvertRequest)
def convert(request: ConvertRequest) -> int:
    """Re-encode logs: v0 and v1 as v2, another codec or batch size.

    PATH is a partition folder or a log directory (log.dirs); with --out it can also be a segment file or an s3:// URL.
    """
    from ..run.convert import run_convert

    return run_convert(request)
