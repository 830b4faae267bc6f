"""`kafkalog verify`: what is wrong with logs, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import PATHS_TEXT, Command
from .shared_options import (
    choice_option,
    format_options,
    output_option,
    partition_option,
    paths_argument,
    requested,
    threads_option,
    topic_option,
)
from .values import complete_path, without_notices

SEVERITIES = ("error", "warning", "info")

NOTES = """
Checks the checksum and structure of every batch and record; offsets, leader epochs and producers' sequence numbers from entry to
entry and segment to segment; .index, .timeindex and .txnindex files against the log; .snapshot files against a replay;
checkpoints, partition.metadata and meta.properties; and files and folders that a broker left over. docs/verify.md lists every
finding. Nothing is written, and a broker may be running.

The verdict says what a broker that starts there will do. To find out, the logs are loaded in memory by Kafka's rules, with the
clean-shutdown file and the recovery points that are there. With --json it is the last line.
"""
TERMS = {
    "Severities": {
        "error": "Something is not what was written, or contradicts itself.",
        "warning": "Something is missing or odd, and no broker would have left it so.",
        "info": "Nothing is wrong: leftovers, the tail of a log that was not closed.",
    }
}
EXAMPLES = (
    "kafkalog verify /var/lib/kafka/data",
    "kafkalog verify orders-0 --json",
    "kafkalog verify /var/lib/kafka/data --topic orders --junit verify.xml --quiet",
)


@dataclass(frozen=True)
class VerifyRequest:
    """The options of one `kafkalog verify`."""

    paths: tuple[str, ...]
    topics: list[str] | None
    partitions: list[int] | None
    format: str
    output: str
    junit: str | None
    fail_on: str
    show_all: bool
    threads: int | None
    quiet: bool


@click.command(
    cls=Command,
    help=f"Check every file of the logs and report what is wrong.\n\n{PATHS_TEXT}",
    notes=NOTES,
    terms=TERMS,
    examples=EXAMPLES,
)
@paths_argument
@topic_option
@partition_option
@format_options("text is for people; the others write the table `findings`, one row each.")
@output_option
@click.option(
    "--junit",
    metavar="FILE",
    shell_complete=complete_path,
    help="Also write a JUnit report with one test case per partition.",
)
@choice_option(
    "--fail-on", SEVERITIES, "Findings of this severity or worse make the exit code 1 and a JUnit test fail.", default="warning"
)
@click.option(
    "--all", "show_all", is_flag=True, help="Text: show every finding, not only the first five of a kind in a partition."
)
@threads_option
@click.option(
    "--quiet",
    "-q",
    is_flag=True,
    callback=without_notices,
    help="No progress on standard error, and no text if nothing is wrong.",
)
@requested(VerifyRequest)
def verify(request: VerifyRequest) -> int:
    from ..run.verify import verify_logs

    return verify_logs(request)
