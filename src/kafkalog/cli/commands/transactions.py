"""`kafkalog transactions`: committed, aborted and open ones, and the one that holds consumers back."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import PATHS_TEXT, Command
from .shared_options import (
    json_option,
    now_option,
    partition_option,
    paths_argument,
    quiet_option,
    requested,
    topic_id_option,
    topic_option,
)

# Written out here because the task needs NumPy, which no help text should load; a test compares them.
STATES = ("open", "aborted", "committed")

NOTES = """
Read from batch headers and markers. A read_committed consumer stops at the last stable offset (LSO): where the first open
transaction starts, or else the end of the log. A transaction that has been open for more than 15 minutes (the broker's
transaction.max.timeout.ms) is hanging: its coordinator no longer knows it, and only the abort command ends it.
"""
EXAMPLES = (
    "kafkalog transactions /var/lib/kafka/data",
    "kafkalog transactions payments-0 --state aborted --state open",
    "kafkalog transactions /var/lib/kafka/data --topic payments --json",
)


@dataclass(frozen=True)
class TransactionsRequest:
    """The options of one `kafkalog transactions`."""

    paths: tuple[str, ...]
    topic_ids: list[str] | None
    topics: list[str] | None
    partitions: list[int] | None
    states: tuple[str, ...]
    now: int | None
    bootstrap_server: str
    as_json: bool
    quiet: bool


@click.command(
    cls=Command,
    help=f"Show transactions, and which one holds consumers back.\n\n{PATHS_TEXT}",
    notes=NOTES,
    examples=EXAMPLES,
)
@paths_argument
@topic_id_option
@topic_option
@partition_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    help="List transactions in this state; may be repeated.  [default: open; all with --json]",
)
@now_option
@click.option(
    "--bootstrap-server",
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Server to write into the abort command.",
)
@json_option("One JSON object with partitions and their transactions")
@quiet_option
@requested(TransactionsRequest)
def transactions(request: TransactionsRequest) -> int:
    from ..run.transactions import show_transactions

    return show_transactions(request)
