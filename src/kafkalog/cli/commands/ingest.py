"""`kafkalog ingest`: log folders into Parquet tables."""

from __future__ import annotations

from typing import Any

import click

from kafkalog.errors import UsageError

from ..completion import complete_path
from .help import Command, Option
from .shared_options import combined, dry_run_option, json_option, sources_argument, topic_option
from .values import parse_pairs

# Written out here because no help text should load more than it needs; a test compares them.
GRAINS = ("day", "hour")
ISOLATIONS = ("read_uncommitted", "read_committed")
DAMAGE_RULES = ("set-aside", "fail")
LOSS_RULES = ("fail", "continue")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
PAYLOADS = ("json", "avro")

NOTES = """
Read the result with spark.read.parquet(TARGET), DuckDB, Polars or pandas. There is one folder for each topic and day, and each
file is named after its first record, as in TARGET/topic=orders/day=2026-01-31/orders-0-00000000000000004711.parquet. Damaged
batches are rows of TARGET/_damaged; TARGET/_kafkalog holds the log of commits. To write to s3://, install boto3:
pip install 'kafkalog[s3]'.
"""
EXAMPLES = (
    "kafkalog ingest /var/lib/kafka/data /lake/kafka --topic orders",
    "kafkalog ingest /disk1/kafka /disk2/kafka s3://lake/kafka --by hour",
    "kafkalog ingest backup tables --master none --decode json --schema orders.ddl",
)

table_options = combined(
    click.option(
        "--by", type=click.Choice(GRAINS), default=GRAINS[0], show_default=True, help="One folder per day or hour, in UTC."
    ),
    click.option("--headers", is_flag=True, help="Also keep the headers of records."),
    click.option("--metadata", is_flag=True, help="Also keep producer, epoch, codec, file and position of each record."),
    click.option(
        "--codec", type=click.Choice(CODECS), default=CODECS[0], show_default=True, help="Compression of the Parquet files."
    ),
    click.option(
        "--level",
        type=int,
        metavar="N",
        help="Level of zstd (-100 to 22) or gzip (1 to 9); zstd at 1 is half the size.  [default: -7 for zstd]",
    ),
    click.option(
        "--file-size",
        type=click.IntRange(1),
        default=256,
        show_default=True,
        metavar="MIB",
        help="Start a new Parquet file at this size.",
    ),
)
value_options = combined(
    click.option(
        "--decode",
        "value",
        cls=Option,
        old=["--value"],
        type=click.Choice(PAYLOADS),
        help="Decode values into the columns of a struct.",
    ),
    click.option(
        "--schema",
        type=click.File("r", encoding="utf-8"),
        metavar="FILE",
        help="With --decode: the schema. For json Spark DDL or df.schema.json(), inferred if not given; for avro its own.",
    ),
    click.option("--registry-prefix", is_flag=True, help="With --decode avro: values start with a schema registry's five bytes."),
    click.option(
        "--keep-raw", is_flag=True, help="With --decode: keep the bytes of all values, not only of those that cannot be decoded."
    ),
)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@sources_argument
@click.argument("target", metavar="TARGET", shell_complete=complete_path)
@topic_option
@table_options
@value_options
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default=ISOLATIONS[0],
    show_default=True,
    help="read_committed leaves out aborted records and stops at the last stable offset.",
)
@click.option(
    "--on-damage",
    type=click.Choice(DAMAGE_RULES),
    default=DAMAGE_RULES[0],
    show_default=True,
    help="set-aside puts damaged batches into TARGET/_damaged and continues; fail ingests nothing.",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(LOSS_RULES),
    default=LOSS_RULES[0],
    show_default=True,
    help="What to do when records were deleted before they were ingested, or were ingested and then truncated, or the topic was "
    "created again.",
)
@click.option(
    "--option",
    "source_options",
    multiple=True,
    callback=parse_pairs,
    metavar="NAME=VALUE",
    help="An option of the Spark source, such as startingTimestamp or subscribePattern; docs/spark.md lists them.",
)
@click.option(
    "--master",
    metavar="MASTER",
    help="Where to run: local[*], spark://..., or none for threads without Spark.  [default: local[*], or none if Spark is not "
    "installed]",
)
@click.option("--conf", multiple=True, callback=parse_pairs, metavar="NAME=VALUE", help="A setting of the Spark session.")
@dry_run_option
@json_option("The summary as JSON")
@click.option("--quiet", "-q", is_flag=True, help="No progress and no summary; errors still appear.")
def ingest(sources: tuple[str, ...], target: str, **options: Any) -> int:
    """Ingest new records into Parquet tables, exactly once.

    Each SOURCE is a log directory (log.dirs), a partition folder, a segment file, or an s3:// URL of any of these; the tables are
    written under TARGET. The next run continues where this one ended. If a run is killed, the next one completes or undoes it: no
    record is lost and none is ingested twice.
    """
    if options["value"] is None and (options["schema"] or options["registry_prefix"] or options["keep_raw"]):
        raise UsageError("--schema, --registry-prefix and --keep-raw need --decode json or --decode avro")
    schema = options.pop("schema")
    from ..run.ingest import run_ingest

    return run_ingest(sources, target, schema=schema.read() if schema else None, **options)
