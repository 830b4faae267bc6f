"""`kafkalog convert`, `compact`, `retain`, `truncate` and `recover`: logs changed in place, or in a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kafkalog.errors import UsageError

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .shared_options import (
    dry_run_option,
    json_by_partition_option,
    parse_settings,
    parse_time,
    partition_option,
    quiet_option,
    topic_option,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

PLACES_TEXT = """\b
Without --in-place PATH is only read, and the new partition below DIR appears when it is complete, or not
at all. In place no broker may run there; the clean-shutdown marker goes first, so that the next broker
looks at everything again, and a crash leaves the old or the new, which the same command completes. Run
again, a command finds its own work and changes nothing. A partition that cannot be changed is named, and
the others have their turn."""

LOSS_TEXT = """\b
In place, on a terminal, it asks before records go; --yes answers."""


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all of them have."""
    for option in reversed(
        (
            click.option("--out", metavar="DIR", shell_complete=complete_path, help="Write new partitions below this folder."),
            click.option("--in-place", is_flag=True, help="Change the partitions where they are."),
            topic_option,
            partition_option,
            dry_run_option,
            json_by_partition_option,
            quiet_option,
        )
    ):
        command = option(command)
    return command


config_option = click.option(
    "--config",
    multiple=True,
    callback=parse_settings,
    metavar="NAME=VALUE",
    help="A setting of the topic by Kafka's name, such as segment.bytes=104857600; may be given again.",
)
yes_option = click.option("--yes", is_flag=True, help="With --in-place: delete records without a question.")
now_option = click.option("--now", callback=parse_time, metavar="TIME", help="The time to go by.  [default: this machine's]")


CONVERT_EPILOG = f"""\b
Offsets, gaps, timestamps and their types stay. Control batches and empty batches are not touched; of
batches with a producer, and of those from which compaction took records, only the codec changes.
Messages of v0 and v1 become batches of 16 KiB, their compressed sets a batch each.

{PLACES_TEXT}

\b
Examples:
  kafkalog convert /var/lib/kafka/data --topic orders --in-place --dry-run
  kafkalog convert old/orders-0 --out new --codec zstd --batch-bytes 65536

{EXIT_CODES_TEXT}"""


@click.command(epilog=CONVERT_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--codec", type=click.Choice(CODECS), help="Compress with this one.  [default: what each batch has]")
@click.option("--level", type=int, metavar="N", help="The codec's level.  [default: Kafka's]")
@click.option(
    "--batch-bytes", type=click.IntRange(1), metavar="N", help="Put records into batches of this size.  [default: as they are]"
)
@click.option(
    "--index-interval-bytes",
    type=click.IntRange(1),
    metavar="N",
    help="index.interval.bytes of the topic.  [default: what its index files show, else 4096]",
)
@place_options
def convert(path: str, **options: Any) -> int:
    """Write logs anew: v0 and v1 messages as v2, another codec, other batches.

    PATH is a partition's folder or a folder of log.dirs; with --out also one segment file, or any of these as s3://bucket/folder.
    """
    from ..run.changes import run_convert

    return run_convert(path, **_settled(options))


COMPACT_EPILOG = f"""\b
As Kafka's own cleaner: the first and last offset of each batch stay, tombstones and transaction markers
go when delete.retention.ms is over, records of aborted transactions go, and the newest segment is not
touched unless --roll closes it first. It begins where the cleaner's checkpoint says that the log is
clean, and takes as many passes as the map of keys needs.

{PLACES_TEXT}

\b
Examples:
  kafkalog compact /var/lib/kafka/data --topic users --in-place --dry-run
  kafkalog compact users-0 --out compacted --roll --config delete.retention.ms=0

{EXIT_CODES_TEXT}"""


@click.command(epilog=COMPACT_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--whole", is_flag=True, help="Begin at the start of the log, whatever is clean already.")
@click.option("--roll", is_flag=True, help="Close the newest segment first, so that its records are compacted too.")
@click.option(
    "--map-bytes",
    type=click.IntRange(1 << 16),
    default=128 << 20,
    show_default=True,
    metavar="N",
    help="Memory for the latest offset of each key, 24 bytes each (log.cleaner.dedupe.buffer.size).",
)
@config_option
@now_option
@place_options
def compact(path: str, **options: Any) -> int:
    """Keep the last record of each key.

    PATH is a partition's folder or a folder of log.dirs.
    """
    from ..run.changes import run_compact

    return run_compact(path, **_settled(options))


RETAIN_EPILOG = f"""\b
Nothing goes by default: give retention.ms, retention.bytes, an offset, or several of them. Segments go as
a whole, the oldest first; with --start-offset the log begins at that offset, also inside of a segment, as
after Kafka's DeleteRecords: log-start-offset-checkpoint says so.

{PLACES_TEXT}

{LOSS_TEXT}

\b
Examples:
  kafkalog retain /var/lib/kafka/data --topic logs --config retention.ms=86400000 --in-place --dry-run
  kafkalog retain orders-0 --start-offset 125000 --out kept

{EXIT_CODES_TEXT}"""


@click.command(epilog=RETAIN_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--start-offset", type=click.IntRange(0), metavar="N", help="Delete all records before this offset.")
@config_option
@now_option
@yes_option
@place_options
def retain(path: str, **options: Any) -> int:
    """Delete what need not be kept, by time, size or offset.

    PATH is a partition's folder or a folder of log.dirs.
    """
    from ..run.changes import run_retain

    return run_retain(path, **_settled(options))


TRUNCATE_EPILOG = f"""\b
A batch that holds the offset goes as a whole, so that the log may end before it; the plan says where. Leader
epochs, producer snapshots and the checkpoints of the log directory follow.

{PLACES_TEXT}

{LOSS_TEXT}

\b
Examples:
  kafkalog truncate orders-0 --to-offset 125000 --out cut
  kafkalog truncate /var/lib/kafka/data/orders-0 --to-offset 125000 --in-place --dry-run

{EXIT_CODES_TEXT}"""


@click.command(epilog=TRUNCATE_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--to-offset", type=click.IntRange(0), required=True, metavar="N", help="Where the log is to end.")
@config_option
@yes_option
@place_options
def truncate(path: str, **options: Any) -> int:
    """Cut off the end of logs.

    PATH is a partition's folder or a folder of log.dirs.
    """
    from ..run.changes import run_truncate

    return run_truncate(path, **_settled(options))


RECOVER_EPILOG = f"""\b
What a broker does at its start after a crash: complete or undo what compaction left half-way, check every
batch after the recovery point, cut the log at the first damage and delete all segments after it, and
rebuild indexes, producer snapshots and leader epochs. `kafkalog salvage` keeps what follows damage; the
plan says how much that is.

{PLACES_TEXT}

{LOSS_TEXT} Without a terminal it cuts off whole
batches only with --yes.

\b
Examples:
  kafkalog recover /var/lib/kafka/data --in-place --dry-run
  kafkalog recover orders-0 --out recovered --whole

{EXIT_CODES_TEXT}"""


@click.command(epilog=RECOVER_EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--whole", is_flag=True, help="Check also what lies before the recovery point.")
@config_option
@now_option
@yes_option
@place_options
def recover(path: str, **options: Any) -> int:
    """Bring logs to a state that a broker opens, as it would do itself.

    PATH is a partition's folder or a folder of log.dirs. The exit code is 1 if something was cut off.
    """
    from ..run.changes import run_recover

    return run_recover(path, **_settled(options))


def _settled(options: dict[str, Any]) -> dict[str, Any]:
    if (options["out"] is None) != options["in_place"]:
        raise UsageError("give either --out DIR or --in-place")
    return {**options, "topics": list(options["topics"]) or None, "partitions": list(options["partitions"]) or None}
