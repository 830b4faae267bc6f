"""`kafkalog table`: any table of any log, in any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from ..render.target import STDOUT
from .shared_options import parse_names, parse_time, partition_option, require_known, threads_option, topic_option

# Written out here because the schemas need Arrow, which no help text should load; a test compares them.
TABLES = ("records", "batches", "segments", "index_entries", "transactions", "producers", "epochs", "findings")
ISOLATIONS = ("read_uncommitted", "read_committed")
DAMAGE_MODES = ("strict", "skip", "salvage")
FORMATS = ("text", "json", "csv", "arrow", "parquet")
ENCODINGS = ("utf8", "hex", "base64")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

EPILOG = f"""\b
Tables:
  records         what a consumer would see
  batches         batches and v0/v1 entries as stored, from their headers
  segments        segment files, with leftovers
  index_entries   entries of .index, .timeindex and .txnindex files
  transactions    committed, aborted and open transactions
  producers       producer state, of .snapshot files and replayed
  epochs          leader epochs, of the checkpoint and seen in batches
  findings        what `kafkalog verify` finds wrong

\b
Formats:
  text     aligned columns; on a terminal shortened to its width. Characters that are not
           printable are escaped (\\x1b); null and "" stand for null and empty. For people
  json     JSON lines. With --encoding utf8, bytes are a string if they are UTF-8, else
           {{"base64": "..."}}: nothing is lost
  csv      RFC 4180. A null is an empty field, an empty value is ""; headers are JSON. With
           --encoding utf8, bytes that are not UTF-8 become \\xNN; hex and base64 keep them exact.
           A spreadsheet takes what begins with = + - @ for a formula: use --csv-safe for one
  arrow    Arrow's IPC stream, with the types of the table
  parquet  Parquet, with the types of the table

\b
Examples:
  kafkalog table records /var/lib/kafka/data --topic orders --start-time 2026-01-31T00:00:00Z
  kafkalog table batches orders-0 --columns position,size,codec,crc_valid --format csv
  kafkalog table records orders-0 --on-damage salvage --format parquet --output orders.parquet

{EXIT_CODES_TEXT}"""


@dataclass(frozen=True)
class Request:
    """The options of one `kafkalog table`."""

    name: str
    path: str
    format: str
    output: str
    columns: tuple[str, ...] | None
    limit: int | None
    encoding: str
    csv_safe: bool
    report: str | None
    quiet: bool
    choices: dict[str, Any]  # what `Logs.read` takes by the same names


def complete_table(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in TABLES if name.startswith(incomplete)]


def read_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what to read."""
    for option in reversed(
        (
            topic_option,
            partition_option,
            click.option("--start-offset", type=int, metavar="N", help="First offset."),
            click.option("--stop-offset", type=int, metavar="N", help="First offset not wanted any more."),
            click.option(
                "--start-time",
                callback=parse_time,
                metavar="TIME",
                help="Earliest timestamp: ISO 8601 with a zone, or ms since 1970.",
            ),
            click.option("--stop-time", callback=parse_time, metavar="TIME", help="First timestamp not wanted any more."),
            click.option(
                "--isolation",
                type=click.Choice(ISOLATIONS),
                default=ISOLATIONS[0],
                show_default=True,
                help="read_committed leaves out aborted records and ends at the last stable offset.",
            ),
            click.option(
                "--on-damage",
                type=click.Choice(DAMAGE_MODES),
                default=DAMAGE_MODES[0],
                show_default=True,
                help="strict ends at the first damage, after all rows before it; skip leaves damaged batches out; "
                "salvage also finds the next batch behind a broken length.",
            ),
            click.option("--include-control", is_flag=True, help="Show transaction markers and other control records."),
            click.option(
                "--neighbours", is_flag=True, help="Take the log as never compacted: missing offsets and wrong epochs are damage."
            ),
            click.option("--allow-disorder", is_flag=True, help="Read entries whose offsets or leader epochs go back."),
            click.option(
                "--skip-io-errors",
                is_flag=True,
                help="Go on where the device cannot read, 4 KiB at a time; what lies there counts as damage. Not with strict.",
            ),
            threads_option,
        )
    ):
        command = option(command)
    return command


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how rows are written, and where."""
    for option in reversed(
        (
            click.option("--limit", type=click.IntRange(0), metavar="N", help="At most this many rows."),
            click.option(
                "--format",
                type=click.Choice(FORMATS),
                default=FORMATS[0],
                show_default=True,
                help="How rows are written; see below.",
            ),
            click.option(
                "--encoding",
                type=click.Choice(ENCODINGS),
                default=ENCODINGS[0],
                show_default=True,
                help="How keys, values and other bytes are written in text, json and csv.",
            ),
            click.option(
                "--csv-safe",
                is_flag=True,
                help="With --format csv: an apostrophe before text that begins with = + - @, a tab or a line end, so that no "
                "spreadsheet runs it as a formula. Such text no longer reads back as it was.",
            ),
            click.option(
                "--output",
                default=STDOUT,
                metavar="FILE",
                shell_complete=complete_path,
                help="A file instead of standard output (-). It appears when it is complete, and not at all after an error.",
            ),
            click.option(
                "--report",
                metavar="FILE",
                shell_complete=complete_path,
                help="Write what was kept and left out, byte range by byte range, as JSON.",
            ),
            click.option("--quiet", is_flag=True, help="No progress, notes or summary on standard error; errors still."),
        )
    ):
        command = option(command)
    return command


@click.command(epilog=EPILOG)
@click.argument("name", metavar="TABLE", shell_complete=complete_table)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--columns", callback=parse_names, metavar="A,B", help="Columns, in this order; see docs/tables.md.")
@read_options
@output_options
def table(name: str, path: str, **options: Any) -> int:
    """Write TABLE of the logs at PATH.

    PATH is a folder of log.dirs, a topic-partition folder, one segment file, or any of these as s3://bucket/folder.
    """
    require_known("table", name, TABLES)
    own = {key: options.pop(key) for key in ("format", "output", "columns", "limit", "encoding", "csv_safe", "report", "quiet")}
    for several in ("topics", "partitions"):
        options[several] = list(options[several]) or None
    from ..run.table import write_table

    return write_table(Request(name, path, choices=options, **own))
