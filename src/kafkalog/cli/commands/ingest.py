"""`kafkalog ingest`: from log folders to tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO, TypedDict

import click

from kafkalog.errors import UsageError

from .help import Command, Option
from .shared_options import (
    choice_option,
    dry_run_option,
    grouped,
    isolation_option,
    json_option,
    registry_prefix_option,
    requested,
    topic_option,
)
from .values import Number, complete_path, parse_pairs, without_notices

# Written out here because no help text should load more than it needs; a test compares them.
GRAINS = ("day", "hour")
DAMAGE_RULES = ("set-aside", "fail")
LOSS_RULES = ("fail", "continue")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
PAYLOADS = ("json", "avro")
TABLE_FORMATS = ("parquet", "iceberg", "delta")

NOTES = """
Read the result with spark.read.parquet(TARGET), DuckDB, Polars or pandas. There is one folder for each topic and day, and each
file is named after its first record, as in TARGET/topic=orders/day=2026-01-31/orders-0-00000000000000004711.parquet. With --as
iceberg or delta each topic is a table in TARGET/TOPIC, of which readers see whole runs only: pip install 'kafkalog[iceberg]' or
'kafkalog[delta]'. Damaged batches are rows of TARGET/_damaged; TARGET/_kafkalog contains how far each partition has come. To
write to s3://, install boto3: pip install 'kafkalog[s3]'.
"""
EXAMPLES = (
    "kafkalog ingest /var/lib/kafka/data /lake/kafka --topic orders",
    "kafkalog ingest /disk1/kafka /disk2/kafka /lake/kafka --as iceberg --by hour",
    "kafkalog ingest backup tables --master none --decode json --schema orders.ddl",
)


def _content(context: click.Context, parameter: click.Parameter, value: TextIO | None) -> str | None:
    if value is None:
        return None
    try:
        return value.read()
    except UnicodeDecodeError:
        raise click.BadParameter(f"{value.name!r} is not UTF-8 text") from None


class IngestChoices(TypedDict):
    """Keywords of `kafkalog.spark.ingest`."""

    by: str
    headers: bool
    metadata: bool
    codec: str
    level: int | None
    value: str | None
    schema: str | None
    registry_prefix: bool
    keep_raw: bool
    isolation: str
    on_damage: str
    on_data_loss: str
    table_format: str
    table: str | None
    catalog: str | None
    catalog_properties: dict[str, str]
    namespace: str
    dry_run: bool


@dataclass(frozen=True)
class IngestRequest:
    """The options of one `kafkalog ingest`."""

    sources: tuple[str, ...]
    target: str
    topics: list[str] | None
    file_size: int
    source_options: dict[str, str]
    master: str | None
    conf: dict[str, str]
    as_json: bool
    quiet: bool
    choices: IngestChoices


choice_options = grouped(
    IngestChoices,
    "choices",
    choice_option("--as", TABLE_FORMATS, "The format of the tables.", field="table_format"),
    click.option("--table", metavar="NAME", help="With --as iceberg or delta: one table of this name for all topics."),
    click.option(
        "--catalog",
        metavar="NAME",
        help="With --as iceberg: a catalog of PyIceberg's configuration.  [default: TARGET/catalog.db]",
    ),
    click.option(
        "--catalog-property",
        "catalog_properties",
        multiple=True,
        callback=parse_pairs,
        metavar="NAME=VALUE",
        help="A property of that catalog, such as uri=http://localhost:8181.",
    ),
    click.option(
        "--namespace", default="kafka", show_default=True, metavar="NAME", help="With --as iceberg: the namespace of the tables."
    ),
    choice_option("--by", GRAINS, "One folder per day or per hour (UTC)."),
    click.option("--headers", is_flag=True, help="Also keep the headers of records."),
    click.option("--metadata", is_flag=True, help="Also keep producer, epoch, codec, file and position of each record."),
    choice_option("--codec", CODECS, "Compression of the Parquet files."),
    click.option(
        "--level",
        type=int,
        metavar="N",
        help="Level of zstd (-100 to 22) or gzip (1 to 9); zstd level 1 halves the size.  [default: -7 for zstd]",
    ),
    click.option(
        "--file-size",
        type=Number(1),
        default=256,
        show_default=True,
        metavar="MIB",
        help="Start a new Parquet file at this size.",
    ),
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
        callback=_content,
        metavar="FILE",
        help="With --decode: the schema. For json: Spark DDL or df.schema.json(), inferred if not given; for avro: Avro's own.",
    ),
    registry_prefix_option,
    click.option(
        "--keep-raw", is_flag=True, help="With --decode: keep the bytes of all values, not only of those that cannot be decoded."
    ),
    isolation_option,
    choice_option(
        "--on-damage", DAMAGE_RULES, "set-aside puts damaged batches into TARGET/_damaged and continues; fail ingests nothing."
    ),
    choice_option(
        "--on-data-loss",
        LOSS_RULES,
        "What to do when records were deleted before they were ingested, or were ingested and then truncated, or the "
        "topic was created again.",
    ),
    click.option(
        "--option",
        "source_options",
        multiple=True,
        callback=parse_pairs,
        metavar="NAME=VALUE",
        help="An option of the Spark source, such as startingTimestamp or subscribePattern; docs/spark.md lists them.",
    ),
    click.option(
        "--master",
        metavar="MASTER",
        help="Where to run: local[*], spark://..., or none for threads without Spark.  [default: local[*], or none if Spark is "
        "not installed]",
    ),
    click.option("--conf", multiple=True, callback=parse_pairs, metavar="NAME=VALUE", help="A setting of the Spark session."),
    dry_run_option,
)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.argument("sources", metavar="SOURCE...", shell_complete=complete_path, nargs=-1)
@click.argument("target", metavar="TARGET", shell_complete=complete_path)
@topic_option
@choice_options
@json_option("The summary as JSON")
@click.option("--quiet", "-q", is_flag=True, callback=without_notices, help="No progress and no summary, only errors.")
@requested(IngestRequest)
def ingest(request: IngestRequest) -> int:
    """Ingest new records into Parquet or lake tables, exactly once.

    Each SOURCE is a log directory (log.dirs), a partition folder, a segment file, or an s3:// URL of any of these; the tables are
    written under TARGET. The next run continues where this one ended. If a run is killed, the next one completes or undoes it: no
    record is lost and none is ingested twice.
    """
    if not request.sources:
        raise UsageError("give SOURCE and TARGET: kafkalog ingest /var/lib/kafka/data /lake/kafka")
    choices = request.choices
    if choices["value"] is None and (choices["schema"] is not None or choices["registry_prefix"] or choices["keep_raw"]):
        raise UsageError("--schema, --registry-prefix and --keep-raw need --decode json or --decode avro")
    from ..run.ingest import run_ingest

    return run_ingest(request)
