"""`kafkalog report`: what is on a disk, as one HTML file."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import (
    DAMAGE_MODES,
    choice_option,
    now_option,
    output_option,
    partition_option,
    quiet_option,
    requested,
    threads_option,
    topic_option,
)
from .values import Number, complete_path

NOTES = """
The page shows topics, partitions and segments by size, bytes and records by time, formats and codecs, compression and how full
batches are, keys and sizes, transactions, producers, leader epochs, what zstd and compaction would save, and every finding of
`kafkalog verify` with the command to type next. It is one file that loads nothing: it opens without a network, and names, keys
and values from the disk are only ever text in it. Without JavaScript everything is there except zoom, sorting and filters.

The logs are read twice, to count and to check; --quick reads headers and a few batches, and checks nothing. Nothing is written
to PATH, and a broker may be running. The exit code is 1 if there is damage; the report is written all the same, unless
--on-damage strict stopped it.
"""
EXAMPLES = (
    "kafkalog report /var/lib/kafka/data -o report.html",
    "kafkalog report /disk1/kafka /disk2/kafka -o broker1.html",
    "kafkalog report /var/lib/kafka/data --topic orders --quick -o orders.html",
)


@dataclass(frozen=True)
class ReportRequest:
    """The options of one `kafkalog report`."""

    paths: tuple[str, ...]
    topics: list[str] | None
    partitions: list[int] | None
    top: int
    quick: bool
    on_damage: str
    now: int | None
    output: str
    threads: int | None
    quiet: bool


@click.command(
    cls=Command,
    help="Write what is on a disk as one HTML page.\n\n"
    "PATH is a log directory, a partition folder or a segment file, here or in an object store (s3://bucket/...).",
    notes=NOTES,
    examples=EXAMPLES,
)
@click.argument("paths", metavar="PATH...", shell_complete=complete_path, nargs=-1, required=True)
@topic_option
@partition_option
@click.option(
    "--top", type=Number(1), default=50, show_default=True, metavar="N", help="Rows to show of keys, producers and headers."
)
@click.option("--quick", is_flag=True, help="Read only headers and a few batches: nothing by key, and no findings.")
@choice_option(
    "--on-damage",
    DAMAGE_MODES,
    "skip leaves damaged batches out; salvage also resynchronises after a corrupt length field; strict stops there.",
    default="skip",
)
@now_option
@output_option
@threads_option
@quiet_option
@requested(ReportRequest)
def report(request: ReportRequest) -> int:
    from ..run.report import write_report

    return write_report(request)
