"""`kafkalog profile`: why is my disk full?"""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .shared_options import parse_time, partition_option, threads_option, topic_option
from .table import DAMAGE_MODES

WEEK_MS = 604_800_000

EPILOG = f"""
Bytes are those of batches as stored. The bytes of a batch are shared out among its records by the size of key, value and
headers. A key prefix ends with the first of : / . | - _ # in a key; where none comes early, it is the first 4 bytes.

Counted exactly: everything by topic, partition, codec and batch; up to 65536 keys, hours and producers, 16384 prefixes, 4096
header names; duplicates in partitions of up to 131072 keys. Beyond that, and for zstd in logs over 8 MiB, figures are
estimates, and how wrong they may be stands beside them. docs/profile.md says how they are made.

\b
Examples:
  kafkalog profile /var/lib/kafka/data
  kafkalog profile /var/lib/kafka/data --quick --top 3
  kafkalog profile orders-0 --json | jq '.compaction.duplicate_bytes'

{EXIT_CODES_TEXT}"""


@dataclass(frozen=True)
class Request:
    """The options of one `kafkalog profile`."""

    path: str
    topics: list[str] | None
    partitions: list[int] | None
    top: int
    quick: bool
    on_damage: str
    now: int | None
    retention_ms: int
    as_json: bool
    threads: int | None
    quiet: bool


@click.command(epilog=EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@topic_option
@partition_option
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="How many of each kind to name.")
@click.option(
    "--quick", is_flag=True, help="Headers and some batches only: nothing by key or header name, no duplicates, no ratio."
)
@click.option(
    "--on-damage",
    type=click.Choice(DAMAGE_MODES),
    default="skip",
    show_default=True,
    help="skip leaves damaged batches out; salvage also finds the next batch behind a broken length; strict ends there.",
)
@click.option(
    "--now", callback=parse_time, metavar="TIME", help="From when on timestamps are in the future.  [default: the time it is]"
)
@click.option(
    "--retention-ms",
    type=click.IntRange(0),
    default=WEEK_MS,
    show_default=True,
    metavar="N",
    help="The topics' retention.ms, for when segments with such timestamps go.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with all topics and partitions.")
@threads_option
@click.option("--quiet", is_flag=True, help="No progress and no summary on standard error; errors still.")
def profile(
    path: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    top: int,
    quick: bool,
    on_damage: str,
    now: int | None,
    retention_ms: int,
    as_json: bool,
    threads: int | None,
    quiet: bool,
) -> int:
    """Show where the bytes of the logs at PATH are, and what could be saved.

    PATH is a folder of log.dirs, a topic-partition folder, one segment file, or any of these as s3://bucket/folder.
    """
    from ..run.profile import show_profile

    chosen = list(topics) or None, list(partitions) or None
    return show_profile(Request(path, *chosen, top, quick, on_damage, now, retention_ms, as_json, threads, quiet))
