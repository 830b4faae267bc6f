"""`kafkalog verify`: what is wrong with these logs, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from ..render.target import STDOUT
from .shared_options import partition_option, threads_option, topic_option

SEVERITIES = ("error", "warning", "info")
FORMATS = ("text", "json", "csv", "arrow", "parquet")

EPILOG = f"""\b
Looked at: checksums and structure of every batch and record; offsets, leader epochs and the
sequence numbers of producers from entry to entry and segment to segment; .index, .timeindex and
.txnindex against the log; .snapshot files against a replay; checkpoints, partition.metadata and
meta.properties; files and folders that a broker left over. docs/verify.md lists every finding.

\b
Severities:
  error     something is not what was written, or contradicts itself
  warning   something is missing or odd that a broker would not explain
  info      no fault: leftovers, the tail of a log that was not closed

\b
Examples:
  kafkalog verify /var/lib/kafka/data
  kafkalog verify orders-0 --format json | jq -r '.reason' | sort | uniq -c
  kafkalog verify /var/lib/kafka/data --topic orders --junit verify.xml --quiet

{EXIT_CODES_TEXT}"""


@dataclass(frozen=True)
class Request:
    """The options of one `kafkalog verify`."""

    path: str
    topics: list[str] | None
    partitions: list[int] | None
    format: str
    output: str
    junit: str | None
    fail_on: str
    show_all: bool
    threads: int | None
    quiet: bool


@click.command(epilog=EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@topic_option
@partition_option
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="text is for people; the others are the table `findings`, a row for each.",
)
@click.option("--json", "format", flag_value="json", help="The same as --format json.")
@click.option(
    "--output",
    default=STDOUT,
    metavar="FILE",
    shell_complete=complete_path,
    help="A file instead of standard output (-).",
)
@click.option(
    "--junit",
    metavar="FILE",
    shell_complete=complete_path,
    help="Also write a JUnit report, a test case for each partition.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="The mildest severity that makes the exit code 1 and a JUnit test fail.",
)
@click.option("--all", "show_all", is_flag=True, help="Text: every finding, not only the first of a kind in a partition.")
@threads_option
@click.option("--quiet", is_flag=True, help="No progress on standard error, and no text if nothing is wrong.")
def verify(
    path: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    format: str,
    output: str,
    junit: str | None,
    fail_on: str,
    show_all: bool,
    threads: int | None,
    quiet: bool,
) -> int:
    """Check the logs at PATH: every file against itself and against the others.

    PATH is a folder of log.dirs, a topic-partition folder, one segment file, or any of these as s3://bucket/folder.
    """
    from ..run.verify import verify_logs

    chosen = list(topics) or None, list(partitions) or None
    return verify_logs(Request(path, *chosen, format, output, junit, fail_on, show_all, threads, quiet))
