"""`kafkalog cat`: the records of logs, as text or for another program."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import PATHS_TEXT, Command
from .shared_options import (
    ReadChoices,
    RowOptions,
    choice_option,
    paths_argument,
    read_options,
    registry_prefix_option,
    requested,
    row_options,
    topic_id_option,
)
from .values import Number

# Written out here because the tasks need Arrow, which no help text should load; a test compares them.
AUTO, NONE = "auto", "none"
DECODERS = (
    AUTO,
    NONE,
    "consumer-offsets",
    "transaction-state",
    "cluster-metadata",
    "share-group-state",
    "remote-log-metadata",
    "json",
    "avro",
)
PATTERNS = ("text", "hex", "regex")

NOTES = """
--decode shows keys and values as JSON. What cannot be decoded is shown as it is and counted at the end. The default is auto for
text on a terminal and for --pretty, otherwise none.

The records of a topic have an order within each partition only. --tail compares timestamps; a record counts as no older than
those before it in its partition. With --key and --grep it is the last N that are searched.
"""
TERMS = {
    "Formats": {
        "text": "For people: aligned columns, shortened to the width of a terminal. Characters that are not printable are "
        'escaped (\\x1b); null and "" stand for null and empty.',
        "json": "JSON lines with topic, partition, offset, timestamp (ms since 1970), timestampType (-1 none, 0 CreateTime, 1 "
        "LogAppendTime), key, value, headers ([[key, value], ...]). With --encoding utf8, bytes are a string if they are valid "
        'UTF-8, else {"base64": "..."}.',
        "csv": 'RFC 4180. A null is an empty field, an empty value is "". Spreadsheets run text that starts with = + - @ as a '
        "formula: use --csv-safe for those.",
        "arrow": "Arrow's IPC stream.",
        "parquet": "Parquet.",
    }
}
EXAMPLES = (
    "kafkalog cat /var/lib/kafka/data --topic orders --tail 10 --pretty",
    "kafkalog cat orders-0 --grep failed --start-time 2026-01-31T00:00:00Z --json",
    "kafkalog cat orders-0 --key 'user-[0-9]+' --pattern regex --follow",
)


@dataclass(frozen=True)
class CatRequest:
    """The options of one `kafkalog cat`."""

    paths: tuple[str, ...]
    topic_ids: list[str] | None
    tail: int | None
    tail_each: int | None
    follow: bool
    key: str | None
    grep: str | None
    pattern: str
    decode: str | None
    schema: str | None
    registry_prefix: bool
    headers: bool
    pretty: bool
    choices: ReadChoices
    rows: RowOptions


@click.command(
    cls=Command,
    help=f"Print records as text, JSON, CSV, Arrow or Parquet.\n\n{PATHS_TEXT}",
    notes=NOTES,
    terms=TERMS,
    examples=EXAMPLES,
)
@paths_argument
@topic_id_option
@click.option("--tail", type=Number(0), metavar="N", help="Only the last N records of each topic, by time.")
@click.option("--tail-each", type=Number(0), metavar="N", help="Only the last N records of each partition.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing what a running broker appends, until Ctrl-C.")
@click.option("--key", metavar="PATTERN", help="Only records with this key; with --pattern regex, keys that contain a match.")
@click.option("--grep", metavar="PATTERN", help="Only records whose value contains this; with --tail, among the last N.")
@choice_option(
    "--pattern", PATTERNS, "What --key and --grep are: text, bytes in hexadecimal, or regular expressions (RE2, on bytes)."
)
@click.option(
    "--decode",
    type=click.Choice(DECODERS),
    metavar="KIND",
    help=f"Decode keys and values and show them as JSON; KIND is one of {', '.join(DECODERS)}. auto: Kafka's internal topics.",
)
@click.option("--schema", type=click.Path(), metavar="FILE", help="With --decode avro: the schema that values were written with.")
@registry_prefix_option
@click.option("--headers", is_flag=True, help="Show headers in text and csv too; the other formats always have them.")
@click.option("--pretty", is_flag=True, help="Text with one record below the other, and JSON values indented.")
@read_options
@row_options
@requested(CatRequest)
def cat(request: CatRequest) -> int:
    from ..run.cat import write_records

    return write_records(request)
