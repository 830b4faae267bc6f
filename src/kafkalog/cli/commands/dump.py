"""`kafkalog dump`: what Kafka's DumpLogSegments prints, line for line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT

# Written out here because the task needs NumPy, which no help text should load; a test compares them.
STYLES = ("4.3", "0.8")
DECODERS = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

EPILOG = f"""\b
Files: .log .checkpoint (KRaft) .index .timeindex .txnindex .snapshot. An index is checked
against the .log beside it; what does not fit is listed on standard error after all files.

\b
Lines are those of DumpLogSegments of Kafka 4.3, byte for byte, and so is the exit code 0
where that tool ends well. Where it dies of an uncaught exception, dump ends there with an
error. On a terminal, characters that are not printable are shown as \\x1b.

\b
Examples:
  kafkalog dump --files orders-0/00000000000000000000.log --print-data-log
  kafkalog dump --files 00000000000000000000.index,00000000000000000000.timeindex
  kafkalog dump --cluster-metadata-decoder --files __cluster_metadata-0/00000000000000000000.log

{EXIT_CODES_TEXT}"""


def _file_names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    if not all(names):
        raise click.BadParameter(f"{value!r} has an empty name: write --files FILE,FILE")
    return names


def _decoder_class(name: str, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    text = f"Class that decodes {what}: StringDecoder, IntegerDecoder or LongDecoder of org.apache.kafka.tools.api."
    return click.option(f"--{name}-decoder-class", is_flag=False, flag_value=STRING_DECODER, metavar="[CLASS]", help=text)


@click.command(epilog=EPILOG)
@click.option(
    "--files",
    required=True,
    callback=_file_names,
    metavar="FILE,FILE",
    shell_complete=complete_path,
    help="What to dump.",
)
@click.option("--print-data-log", is_flag=True, help="Print keys and values too. Any decoder means this.")
@click.option("--deep-iteration", is_flag=True, help="Print records, not only batches. --print-data-log means this.")
@click.option("--skip-record-metadata", is_flag=True, help="Only keys and values of records; control records are left out.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing their entries.")
@click.option("--index-sanity-check", is_flag=True, help="Only the check that a broker makes of an index when it starts.")
@click.option(
    "--max-message-size",
    type=click.IntRange(0),
    metavar="SIZE",
    help="Largest batch that an index entry is checked against, in bytes; with --style 0.8 the largest message.  "
    "[default: 5242880; 0.8: none]",
)
@click.option("--max-bytes", type=click.IntRange(0), metavar="SIZE", help="Read only so many bytes of each log.")
@_decoder_class("key", "keys")
@_decoder_class("value", "values")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records of __cluster_metadata and KRaft snapshots.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Decode records of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state.")
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default=STYLES[0],
    show_default=True,
    help="0.8: the lines of Kafka 0.8, and what its tool took for the end of a file.",
)
def dump(**options: Any) -> int:
    """Print what is in log files, as kafka-dump-log does."""
    from ..run.dump import write_dump

    return write_dump(options)
