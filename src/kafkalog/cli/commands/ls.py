"""`kafkalog ls`: what is in a log directory."""

from __future__ import annotations

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .shared_options import topic_option

EPILOG = f"""
Without --deep only the first entry of each segment and the last of each partition are looked at: time range, formats and
codecs are those of these. Size is that of the .log files; "on disk" what all files take in blocks, index files and leftovers
too, which is less than their sizes where they are sparse, as preallocated ones are. The ratio is what all entries would be
without compression to what they are: ~ marks an estimate, from up to 16 places spread over a partition; with --deep all is
decompressed, and it is exact. Leftovers are files with .deleted, .cleaned, .swap or .tmp, and folders with -delete, -future or
-stray.

\b
Examples:
  kafkalog ls /var/lib/kafka/data
  kafkalog ls /var/lib/kafka/data --by partition --topic orders --deep
  kafkalog ls /var/lib/kafka/data --formats
  kafkalog ls s3://bucket/backup --json

{EXIT_CODES_TEXT}"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--by", type=click.Choice(("topic", "partition")), default="topic", show_default=True, help="What a row is.")
@topic_option
@click.option("--deep", is_flag=True, help="Read everything: batches, records, exact ratio; times, formats and codecs of all.")
@click.option("--formats", is_flag=True, help="Bytes and records in v0, v1 and v2: what to convert; reads all headers.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, by partition, with every leftover and problem.")
@click.option("--quiet", is_flag=True, help="No progress and no hints on standard error.")
def ls(path: str, by: str, topics: tuple[str, ...], deep: bool, formats: bool, as_json: bool, quiet: bool) -> int:
    """List the topics and partitions at PATH, at a glance.

    PATH is a folder of log.dirs, a topic-partition folder, one segment file, or any of these as s3://bucket/folder.
    """
    from ..run.ls import show_listing

    return show_listing(path, by, topics, deep=deep, formats=formats, as_json=as_json, quiet=quiet)
