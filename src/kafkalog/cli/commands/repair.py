"""`kafkalog salvage`, `reindex` and `undelete`: the commands that write logs. None of them ever changes a .log file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kafkalog.errors import UsageError

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .shared_options import dry_run_option, json_by_partition_option, parse_time, partition_option, quiet_option, topic_option


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that the three have in common."""
    for option in reversed(
        (
            topic_option,
            partition_option,
            dry_run_option,
            click.option(
                "--index-interval-bytes",
                type=click.IntRange(1),
                metavar="N",
                help="index.interval.bytes of the topic.  [default: what its index files show, else 4096]",
            ),
            json_by_partition_option,
            quiet_option,
        )
    ):
        command = option(command)
    return command


SALVAGE_EPILOG = f"""\b
Beside DIR/<topic>-<partition> stand two journals, .salvage.jsonl and .salvage.txt: every byte range
that was left out with its reason, what was filled from where, and which offsets are lost. Records are
copied as stored. The partition appears when it is complete, or not at all; run again, the same command
finds its own work and changes nothing.

\b
Examples:
  kafkalog salvage /mnt/broken/data/orders-0 --out rescued
  kafkalog salvage broker1/orders-0 broker2/orders-0 broker3/orders-0 --out rescued
  kafkalog salvage /mnt/broken/data --topic orders --out rescued --dry-run

{EXIT_CODES_TEXT}"""


@click.command(epilog=SALVAGE_EPILOG)
@click.argument("paths", metavar="PATH...", shell_complete=complete_path, nargs=-1, required=True)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    shell_complete=complete_path,
    help="The folder that gets the partitions; none may be in it already.",
)
@click.option(
    "--fill-gaps",
    is_flag=True,
    help="With several replicas: fill missing offsets also where no damage is seen (a lost segment file). "
    "Not for compacted topics: what compaction removed would come back.",
)
@click.option(
    "--unverified",
    is_flag=True,
    help="Keep also intact batches between two damages that nothing tells from bytes inside a value.",
)
@shared_options
def salvage(paths: tuple[str, ...], **options: Any) -> int:
    """Make clean partitions out of damaged ones.

    Every intact batch is kept with its offsets, indexes are fresh, and PATH is only read. PATH is a partition's folder, a folder
    of log.dirs, or one segment file; several that hold the same partition are replicas, and what one of them lost is taken from
    another.
    """
    from ..run.repairs import run_salvage

    return run_salvage(list(paths), **_lists(options))


REINDEX_EPILOG = f"""\b
Rebuilt are .index, .timeindex, .txnindex, .snapshot and leader-epoch-checkpoint, byte for byte as
Kafka's own recovery rebuilds them; .log files are never touched. It ends at the first damage, where a
broker would cut the log and delete what follows: `kafkalog salvage` keeps that.

\b
Examples:
  kafkalog reindex /var/lib/kafka/data/orders-0 --in-place --dry-run
  kafkalog reindex /var/lib/kafka/data --topic orders --in-place
  kafkalog reindex orders-0 --out rebuilt

{EXIT_CODES_TEXT}"""


@click.command(epilog=REINDEX_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=complete_path,
    help="Write the files below this folder instead, without the logs.",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Replace the files where they are. Refused while a broker runs there; removes the clean-shutdown marker first.",
)
@click.option("--discard", is_flag=True, help="In place, do not keep what was there as <name>.broken-<time>.")
@click.option(
    "--now",
    callback=parse_time,
    metavar="TIME",
    help="The broker's time: producers silent for a day by then are forgotten, as recovery does.  [default: none is]",
)
@shared_options
def reindex(path: str, out: str | None, in_place: bool, **options: Any) -> int:
    """Rebuild what stands beside the logs of partitions.

    PATH is a partition's folder or a folder of log.dirs.
    """
    if (out is None) == (not in_place):
        raise UsageError("give either --out DIR or --in-place")
    from ..run.repairs import run_reindex

    return run_reindex(path, out=out, **_lists(options))


UNDELETE_EPILOG = f"""\b
Without --out it lists what is there. Brokers keep deleted segments for file.delete.delay.ms (a
minute), and all of it when they are stopped in time: stop the broker first.

\b
Examples:
  kafkalog undelete /var/lib/kafka/data
  kafkalog undelete /var/lib/kafka/data --topic orders --out rescued

{EXIT_CODES_TEXT}"""


@click.command(epilog=UNDELETE_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--out", metavar="DIR", shell_complete=complete_path, help="Copy them as clean partitions below this folder.")
@shared_options
def undelete(path: str, out: str | None, **options: Any) -> int:
    """Find deleted topics and segments that are still on the disk, and copy them.

    PATH is a folder of log.dirs or a partition's folder: topics in -delete folders, segments named .deleted.
    """
    from ..run.repairs import run_undelete

    return run_undelete(path, out, **_lists(options))


def _lists(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "topics": list(options["topics"]) or None, "partitions": list(options["partitions"]) or None}
