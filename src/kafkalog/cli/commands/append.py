"""`kafkalog append`: records from files or standard input into partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import click

from .help import Command
from .shared_options import (
    CODECS,
    ENCODINGS,
    choice_option,
    config_option,
    dry_run_option,
    json_option,
    level_option,
    now_option,
    quiet_option,
    requested,
    sources_argument,
)
from .values import Number, complete_path

FORMATS = ("json", "lines", "csv", "arrow", "parquet")

NOTES = """
Columns and fields that are used: key, value, timestamp or timestamp_ms, headers or headers_raw, partition.

A record with a key goes to the partition that Kafka's own clients would choose. A record without one goes to the same
partition as the record before it until a batch is full, then to the next. Existing records are not touched; new offsets start
at the end of the log. The broker must be stopped.

A new partition appears once it is complete. In an existing one, a crash leaves whole batches, as it does with a broker; run the
same command again and it continues after them. If a record cannot be appended (a line that is not JSON, for example), nothing
is appended. With --transactional, read_committed consumers see all records or none.

A file is appended only once: kafkalog recognises it by its content, not by its time, and whatever was appended since. The same
content under another name or through a pipe may be different records, so it is refused, and so is a file that has grown:
--only-new appends its new lines, --again appends all of it.
"""
TERMS = {
    "Source formats (by file name, or --format)": {
        "json": "JSON lines as `kafkalog cat --json` writes them: objects with key, value, timestamp, headers; bytes that are "
        'not text are {"base64": "..."}. Any other JSON is a value itself, an object without key and value, too.',
        "lines": "Every line is a value.",
        "csv": 'A line of names, then records. An empty field is null, "" is empty, headers are JSON.',
        "arrow": "Arrow's IPC stream or file, with the columns of the table `records`.",
        "parquet": "Parquet, with the same columns.",
    }
}
EXAMPLES = (
    "kafkalog append orders.jsonl --to data/orders-0",
    "kafkalog append a.parquet b.parquet --to data --topic orders --codec zstd",
    "kafkalog cat orders-0 --json | kafkalog append - --to new --topic orders",
)


@dataclass(frozen=True)
class AppendRequest:
    """The options of one `kafkalog append`."""

    sources: tuple[str, ...]
    to: str
    topic: str | None
    partitions: int | None
    partitioner: str
    source_format: str | None
    encoding: str
    codec: str
    level: int | None
    batch_bytes: int
    timestamps: str
    magic: str
    idempotent: bool
    transactional: bool
    end: str
    producer_id: int | None
    producer_epoch: int
    leader_epoch: int | None
    config: Mapping[str, str]
    now: int | None
    again: bool
    only_new: bool
    dry_run: bool
    as_json: bool
    quiet: bool


@click.command(cls=Command, notes=NOTES, terms=TERMS, examples=EXAMPLES)
@sources_argument
@click.option(
    "--to",
    required=True,
    metavar="FOLDER",
    shell_complete=complete_path,
    help="The partition folder to append to; with --topic, the log directory.",
)
@click.option("--topic", metavar="TOPIC", help="Append to all partitions of this topic.")
@click.option(
    "--partitions",
    type=Number(1),
    metavar="N",
    help="With --topic: how many partitions it has.  [default: as many as there are, or 1]",
)
@choice_option("--partitioner", ("key", "record"), "Choose the partition by key, or use the partition number in each record.")
@click.option(
    "--format", "source_format", type=click.Choice(FORMATS), help="Format of the sources.  [default: by file name; json for -]"
)
@choice_option("--encoding", ENCODINGS, "How strings in json, lines and csv encode bytes.")
@choice_option("--codec", CODECS, "Compress batches with this codec.")
@level_option
@click.option(
    "--batch-bytes",
    type=Number(1),
    default=16_384,
    show_default=True,
    metavar="N",
    help="Largest batch before compression; a larger record gets a batch of its own.",
)
@choice_option("--timestamps", ("record", "now"), "Each record's own timestamp where it has one, or the current time for all.")
@choice_option("--magic", ("0", "1", "2"), "Message format version.", default="2")
@click.option("--idempotent", is_flag=True, help="Write as an idempotent producer, with producer id, epoch and sequence numbers.")
@click.option("--transactional", is_flag=True, help="Write one transaction per partition, with the marker that ends it.")
@choice_option("--end", ("commit", "abort", "open"), "With --transactional: how the transaction ends.")
@click.option(
    "--producer-id",
    type=Number(0),
    metavar="N",
    help="Producer id of the new batches.  [default: a new one, far above those of brokers]",
)
@click.option(
    "--producer-epoch", type=Number(0, 32_767), default=0, show_default=True, metavar="N", help="Epoch of that producer."
)
@click.option(
    "--leader-epoch",
    type=Number(0),
    metavar="N",
    help="Leader epoch of the new batches.  [default: the latest of each partition, or 0]",
)
@config_option
@now_option
@click.option("--again", is_flag=True, help="Append a source again, or despite another append that was interrupted.")
@click.option("--only-new", is_flag=True, help="Append only the lines that were added to a file since it was last appended.")
@dry_run_option
@json_option("One JSON object")
@quiet_option
@requested(AppendRequest)
def append(request: AppendRequest) -> int:
    """Append records from files to a partition or topic.

    SOURCE is a file, or - for standard input; several are appended in the order given.
    """
    from ..run.append import run_append

    return run_append(request)
