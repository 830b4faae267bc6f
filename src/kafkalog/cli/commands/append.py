"""`kafkalog append`: records from files or standard input into partitions."""

from __future__ import annotations

from typing import Any

import click

from ..completion import complete_path
from ..manual import EXIT_CODES_TEXT
from .change import CODECS
from .shared_options import parse_settings, parse_time, quiet_option

FORMATS = ("json", "lines", "csv", "arrow", "parquet")
ENCODINGS = ("utf8", "hex", "base64")

EPILOG = f"""\b
Sources (by the ending of their names, or --format):
  json     JSON lines as `kafkalog cat --format json` writes them: objects with key, value, timestamp,
           headers; bytes that are no text as {{"base64": "..."}}. Any other JSON is a value itself
  lines    every line is a value
  csv      a line of names, then records; an empty field is null, "" is empty, headers are JSON
  arrow    Arrow's IPC stream or file; parquet: Parquet. Columns as of the table `records`
Names that count: key, value, timestamp or timestamp_ms, headers or headers_raw, partition.

\b
A record with a key goes to the partition where Kafka's own clients would send it; without one, to the
same as the record before it until a batch is full, then to the next. What a partition held stays as it is,
and offsets go on at its end. No broker may run there.

\b
A partition that is new appears when it is complete. In one that is there, a crash leaves whole batches, as
under a broker; run again, the same command goes on after them. A record that cannot be appended (a line
that is no JSON, say) ends it with nothing appended. With --transactional, readers of committed records
see all or nothing.

\b
A file is appended once: it is known again by its content, whatever its time, the other options and what was
appended since. The same content under another name or through a pipe may be other records, so it is
refused, and so is a file that has grown: --only-new appends its new lines, --again all of it.

\b
Examples:
  kafkalog append orders.jsonl --to data/orders-0
  kafkalog cat old/orders-0 --format json | kafkalog append - --to new --topic orders --partitions 4
  kafkalog append a.parquet b.parquet --to data --topic orders --codec zstd --idempotent

{EXIT_CODES_TEXT}"""


@click.command(epilog=EPILOG)
@click.argument("sources", metavar="SOURCE...", shell_complete=complete_path, nargs=-1, required=True)
@click.option(
    "--to",
    required=True,
    metavar="FOLDER",
    shell_complete=complete_path,
    help="A partition's folder; with --topic, the folder above.",
)
@click.option("--topic", metavar="TOPIC", help="Append to all partitions of this topic.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="With --topic: how many.  [default: as found, or 1]")
@click.option(
    "--partitioner",
    type=click.Choice(("key", "record")),
    default="key",
    show_default=True,
    help="Choose the partition by the key, or take the number that each record names.",
)
@click.option("--format", "source_format", type=click.Choice(FORMATS), help="[default: by name; of - json]")
@click.option(
    "--encoding",
    type=click.Choice(ENCODINGS),
    default="utf8",
    show_default=True,
    help="What strings stand for in json, lines and csv.",
)
@click.option("--codec", type=click.Choice(CODECS), default="none", show_default=True, help="Compress with this one.")
@click.option("--level", type=int, metavar="N", help="The codec's level.  [default: Kafka's]")
@click.option(
    "--batch-bytes",
    type=click.IntRange(1),
    default=16_384,
    show_default=True,
    metavar="N",
    help="Batches are no larger before compression, unless a record is.",
)
@click.option(
    "--timestamps",
    type=click.Choice(("record", "now")),
    default="record",
    show_default=True,
    help="The record's own, where it has one; or the time of now for all.",
)
@click.option("--magic", type=click.Choice(("0", "1", "2")), default="2", show_default=True, help="The message format.")
@click.option("--idempotent", is_flag=True, help="Write as an idempotent producer: ids, epochs and sequence numbers.")
@click.option("--transactional", is_flag=True, help="Write one transaction per partition, and the marker that ends it.")
@click.option(
    "--end",
    type=click.Choice(("commit", "abort", "open")),
    default="commit",
    show_default=True,
    help="With --transactional: how it ends.",
)
@click.option("--producer-id", type=click.IntRange(0), metavar="N", help="[default: a new one, far above those of brokers]")
@click.option("--producer-epoch", type=click.IntRange(0, 32_767), default=0, metavar="N", help="[default: 0]")
@click.option("--leader-epoch", type=click.IntRange(0), metavar="N", help="[default: the latest one of each partition, or 0]")
@click.option(
    "--config",
    multiple=True,
    callback=parse_settings,
    metavar="NAME=VALUE",
    help="A setting of the topic by Kafka's name, such as segment.bytes=104857600; may be given again.",
)
@click.option("--now", callback=parse_time, metavar="TIME", help="The time to go by.  [default: this machine's]")
@click.option("--again", is_flag=True, help="Append also what was appended before, or after another append was interrupted.")
@click.option("--only-new", is_flag=True, help="Of a file of lines that has grown since it was appended, append the new lines.")
@click.option("--dry-run", is_flag=True, help="Read the sources, say what would go where, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object instead of text.")
@quiet_option
def append(sources: tuple[str, ...], **options: Any) -> int:
    """Append records to a partition, or to a topic by Kafka's own partitioner.

    SOURCE is a file, or - for standard input; several are appended in their order.
    """
    from ..run.append import run_append

    return run_append(list(sources), **options)
