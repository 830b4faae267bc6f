"""`kafkalog cat`: the records of logs, as text or for another program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .table import output_options, read_options

# Written out here because the tasks need Arrow, which no help text should load; a test compares them.
DECODERS = (
    "consumer-offsets",
    "transaction-state",
    "cluster-metadata",
    "share-group-state",
    "remote-log-metadata",
    "json",
    "avro",
)
PATTERNS = ("text", "hex", "regex")

EPILOG = f"""\b
Formats:
  text     aligned columns; on a terminal shortened to its width. Characters that are not
           printable are escaped (\\x1b); null and "" stand for null and empty. For people
  json     JSON lines of topic, partition, offset, timestamp (ms since 1970), timestampType
           (-1 none, 0 CreateTime, 1 LogAppendTime), key, value, headers ([[key, value], ...]).
           With --encoding utf8, bytes are a string if they are UTF-8, else {{"base64": "..."}}
  csv      RFC 4180. A null is an empty field, an empty value is "". A spreadsheet takes what
           begins with = + - @ for a formula: use --csv-safe for one
  arrow    Arrow's IPC stream
  parquet  Parquet

\b
A decoder makes JSON of keys and values; what it cannot decode stays as it is, and is counted.

\b
Examples:
  kafkalog cat /var/lib/kafka/data --topic orders --tail 10
  kafkalog cat orders-0 --grep '"status":"failed"' --start-time 2026-01-31T00:00:00Z --format json
  kafkalog cat orders-0 --key 'user-[0-9]+$' --pattern regex --follow
  kafkalog cat /var/lib/kafka/data --topic __consumer_offsets --decode consumer-offsets

{EXIT_CODES_TEXT}"""


@dataclass(frozen=True)
class Request:
    """The options of one `kafkalog cat`."""

    path: str
    tail: int | None
    follow: bool
    key: str | None
    grep: str | None
    pattern: str
    decode: str | None
    schema: str | None
    registry_prefix: bool
    headers: bool
    limit: int | None
    format: str
    encoding: str
    csv_safe: bool
    output: str
    report: str | None
    quiet: bool
    choices: dict[str, Any]  # what `Logs.read` takes by the same names


OWN = tuple(name for name in Request.__dataclass_fields__ if name not in ("path", "choices"))


@click.command(epilog=EPILOG)
@click.argument("path", metavar="PATH", shell_complete=complete_path)
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N records of each partition.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what a running broker appends, until Ctrl-C.")
@click.option("--key", metavar="PATTERN", help="Only records with this key; as a regular expression, with it in the key.")
@click.option("--grep", metavar="PATTERN", help="Only records with this in the value; with --tail, those among the last N.")
@click.option(
    "--pattern",
    type=click.Choice(PATTERNS),
    default=PATTERNS[0],
    show_default=True,
    help="What --key and --grep are: text, bytes in hexadecimal, or regular expressions (RE2, on bytes).",
)
@click.option("--decode", type=click.Choice(DECODERS), help="Show keys and values of this kind as JSON.")
@click.option("--schema", type=click.Path(), metavar="FILE", help="With --decode avro: the schema that values were written with.")
@click.option("--registry-prefix", is_flag=True, help="With --decode avro: five bytes of a schema registry precede each value.")
@click.option("--headers", is_flag=True, help="Show headers in text and csv too; the other formats always have them.")
@read_options
@output_options
def cat(path: str, **options: Any) -> int:
    """Write the records of the logs at PATH.

    PATH is a folder of log.dirs, a topic-partition folder, one segment file, or any of these as s3://bucket/folder.
    """
    own = {name: options.pop(name) for name in OWN}
    for several in ("topics", "partitions"):
        options[several] = list(options[several]) or None
    from ..run.cat import write_records

    return write_records(Request(path, choices=options, **own))
