"""`kafkalog transactions`: which are open, and what holds consumers back."""

from __future__ import annotations

from typing import Any

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .shared_options import parse_time, partition_option, topic_option

# Written out here because the task needs NumPy, which no help text should load; a test compares them.
STATES = ("open", "aborted", "committed")

EPILOG = f"""
Read from batch headers and markers. A read_committed consumer stops at the last stable offset (LSO): where the first open
transaction begins, else the end. One that has been open longer than 15 minutes (a broker's transaction.max.timeout.ms) is
hanging: its coordinator has forgotten it, and only the abort command ends it.

\b
Examples:
  kafkalog transactions /var/lib/kafka/data
  kafkalog transactions payments-0 --state aborted --state open
  kafkalog transactions /var/lib/kafka/data --topic payments --json

{EXIT_CODES_TEXT}"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@topic_option
@partition_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    help="List transactions in this state; may be given again.  [default: open; all with --json]",
)
@click.option("--now", callback=parse_time, metavar="TIME", help="What ages are counted to.  [default: the time it is]")
@click.option(
    "--bootstrap-server", default="localhost:9092", show_default=True, metavar="HOST:PORT", help="For the abort command."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object: partitions with their transactions.")
def transactions(path: str, **options: Any) -> int:
    """Show the transactions of the logs at PATH.

    PATH is a folder of log.dirs, a topic-partition folder, one segment file, or any of these as s3://bucket/folder.
    """
    from ..run.transactions import show_transactions

    return show_transactions(path, **options)
