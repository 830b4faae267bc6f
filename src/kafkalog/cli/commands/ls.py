"""`kafkalog ls`: what is in a log directory."""

from __future__ import annotations

import click

from .help import PATHS_TEXT, Command
from .shared_options import choice_option, json_option, paths_argument, quiet_option, topic_option

NOTES = """
Without --deep, only the first entry of each segment and the last of each partition are read: time range, formats and codecs come
from these entries. "size" is the size of the .log files; "on disk" counts the disk blocks of all files, including indexes and
leftovers (less than their size if they are sparse, as preallocated files are). "ratio" is the uncompressed size divided by the
stored size: ~ marks an estimate from up to 16 samples per partition; --deep decompresses everything for the exact ratio.
Leftovers are .deleted, .cleaned, .swap and .tmp files, and -delete, -future and -stray folders.
"""
EXAMPLES = (
    "kafkalog ls /var/lib/kafka/data",
    "kafkalog ls /var/lib/kafka/data --by partition --topic orders --deep",
    "kafkalog ls s3://bucket/backup --json",
)


@click.command(
    cls=Command,
    help=f"List topics and partitions with sizes, offsets and times.\n\n{PATHS_TEXT}",
    notes=NOTES,
    examples=EXAMPLES,
)
@paths_argument
@choice_option("--by", ("topic", "partition"), "One row for each.")
@topic_option
@click.option(
    "--deep", is_flag=True, help="Read everything: count batches and records, exact ratio, all times, formats and codecs."
)
@click.option("--formats", is_flag=True, help="Bytes and records in v0, v1 and v2: what is left to convert. Reads all headers.")
@json_option("One JSON object by partition, with every leftover and problem,")
@quiet_option
def ls(paths: tuple[str, ...], by: str, topics: list[str] | None, deep: bool, formats: bool, as_json: bool, quiet: bool) -> int:
    from ..run.ls import show_listing

    return show_listing(paths, by, topics, deep=deep, formats=formats, as_json=as_json, quiet=quiet)
