"""`kafkalog ingest`: log folders into Parquet tables."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from kafkalog.errors import UsageError

from ..completion import complete_path
from ..failure import CLEAN, DAMAGE, warn
from ..manual import EXIT_CODES_TEXT
from ..render.escape import printable
from ..run.spark_log import spark_log
from .shared_options import topic_option

if TYPE_CHECKING:
    from kafkalog.spark.ingestion.manifest import Gap
    from kafkalog.spark.ingestion.summary import IngestSummary

MEBIBYTE = 1 << 20
PARTITIONS_NAMED = 20
# Written out here because no help text should load more than it needs; a test compares them.
GRAINS = ("day", "hour")
ISOLATIONS = ("read_uncommitted", "read_committed")
DAMAGE_RULES = ("set-aside", "fail")
LOSS_RULES = ("fail", "continue")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
PAYLOADS = ("json", "avro")
DEFAULT_MASTER = "local[*]"

EPILOG = f"""\b
The result is read with spark.read.parquet(TARGET), DuckDB, Polars or pandas: one folder for each topic and
day, and files named after their first record:
  TARGET/topic=orders/day=2026-01-31/orders-0-00000000000000004711.parquet
Damaged batches are rows of TARGET/_damaged; TARGET/_kafkalog holds the log of commits.
To write to s3:// needs boto3: pip install 'kafkalog[s3]'

\b
Examples:
  kafkalog ingest /var/lib/kafka/data /lake/kafka --topic orders
  kafkalog ingest /disk1/kafka /disk2/kafka s3://lake/kafka --by hour --master spark://spark:7077
  kafkalog ingest backup/ tables/ --master none --value json --schema orders.ddl

{EXIT_CODES_TEXT}"""


def parse_pairs(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE, given any number of times."""
    pairs = {}
    for text in value:
        name, found, content = text.partition("=")
        if not found or not name:
            raise click.BadParameter(f"{text!r} is no NAME=VALUE")
        pairs[name] = content
    return pairs


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that give the tables their shape."""
    for option in reversed(
        (
            click.option(
                "--by", type=click.Choice(GRAINS), default=GRAINS[0], show_default=True, help="Folders by day or hour, UTC."
            ),
            click.option("--headers", is_flag=True, help="Keep the headers of records, too."),
            click.option("--metadata", is_flag=True, help="Keep producer, epoch, codec, file and position of each record, too."),
            click.option(
                "--codec", type=click.Choice(CODECS), default=CODECS[0], show_default=True, help="Compression of Parquet files."
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
                help="Size at which a Parquet file is ended and the next one begins.",
            ),
        )
    ):
        command = option(command)
    return command


def value_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what values are."""
    for option in reversed(
        (
            click.option("--value", type=click.Choice(PAYLOADS), help="Decode values into columns of a struct."),
            click.option(
                "--schema",
                type=click.File("r", encoding="utf-8"),
                metavar="FILE",
                help="Their schema: for json Spark DDL or df.schema.json(), by default that of a sample; for avro its own.",
            ),
            click.option("--registry-prefix", is_flag=True, help="Avro values have five bytes of a schema registry in front."),
            click.option("--keep-raw", is_flag=True, help="Keep the bytes of all values, not only of those that do not decode."),
        )
    ):
        command = option(command)
    return command


@click.command(epilog=EPILOG)
@click.argument("sources", metavar="SOURCE...", shell_complete=complete_path, nargs=-1, required=True)
@click.argument("target", metavar="TARGET", shell_complete=complete_path)
@topic_option
@table_options
@value_options
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default=ISOLATIONS[0],
    show_default=True,
    help="read_committed leaves out aborted records and ends at the last stable offset.",
)
@click.option(
    "--on-damage",
    type=click.Choice(DAMAGE_RULES),
    default=DAMAGE_RULES[0],
    show_default=True,
    help="set-aside puts damaged batches into TARGET/_damaged and goes on; fail takes nothing.",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(LOSS_RULES),
    default=LOSS_RULES[0],
    show_default=True,
    help="When records are gone that were not taken yet, or that were: truncated, or the topic created again.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    callback=parse_pairs,
    metavar="NAME=VALUE",
    help="An option of the Spark source, such as startingTimestamp or subscribePattern; see docs/spark.md.",
)
@click.option(
    "--master",
    metavar="MASTER",
    help="Where it runs: local[*], spark://..., or none: threads, no Spark.  [default: local[*], or none without Spark]",
)
@click.option("--conf", multiple=True, callback=parse_pairs, metavar="NAME=VALUE", help="A setting of the Spark session.")
@click.option("--dry-run", is_flag=True, help="Say what would be taken, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@click.option("--quiet", is_flag=True, help="No progress and no summary; errors still.")
def ingest(sources: tuple[str, ...], target: str, **options: Any) -> int:
    """Take what is new in the logs at SOURCE into Parquet tables under TARGET, exactly once.

    SOURCE is what other commands call PATH. A second run goes on where the first one ended. A run that was killed is completed
    or undone by the next one: no record is lost and none comes twice.
    """
    own = {name: options.pop(name) for name in ("topics", "options", "file_size", "as_json", "quiet", "schema")}
    if options["value"] is None and (own["schema"] or options["registry_prefix"] or options["keep_raw"]):
        raise UsageError("--schema, --registry-prefix and --keep-raw need --value json or --value avro")
    from kafkalog.spark import ingest as run

    # Whoever has settings for Spark wants Spark.
    options["master"] = options["master"] or (DEFAULT_MASTER if options["conf"] else None)
    alone = (options["master"] or "").startswith("none")
    with nullcontext() if alone else spark_log(), TaskProgress(quiet=own["quiet"]) as progress:
        summary = run(
            sources,
            target,
            options=_source_options(own["options"], own["topics"]),
            file_bytes=own["file_size"] * MEBIBYTE,
            schema=own["schema"].read() if own["schema"] else None,
            on_progress=progress.update,
            notices=progress,
            **{**options, "conf": {"spark.ui.showConsoleProgress": "false", **options["conf"]}},
        )
    if own["as_json"]:
        click.echo(json.dumps(summary.as_dict(), indent=2))
    elif not own["quiet"]:
        click.echo(printable_summary(summary))
    return DAMAGE if summary.damaged_ranges else CLEAN


def _source_options(options: dict[str, str], topics: tuple[str, ...]) -> dict[str, str]:
    if not topics:
        return options
    if any(name.lower() == "subscribe" for name in options):
        raise UsageError("--topic and --option subscribe=... say the same; give one of the two")
    return {**options, "subscribe": ",".join(topics)}


def printable_summary(summary: IngestSummary) -> str:
    """The summary for people."""
    if summary.commit is None and not summary.dry_run:
        return "\n".join([f"nothing new for {printable(summary.target)}", *_postponed(summary)])
    lines = [_head(summary)]
    for part in summary.partitions[:PARTITIONS_NAMED]:
        count = f"  {part.records:,} records" if part.records >= 0 else ""
        lines.append(f"  {printable(part.topic)}-{part.partition}: offsets {part.start_offset} to {part.stop_offset}{count}")
    if len(summary.partitions) > PARTITIONS_NAMED:
        lines.append(f"  and {len(summary.partitions) - PARTITIONS_NAMED} more partitions (--json lists them)")
    for gap in summary.gaps:
        lines.append(f"  {gap.reason}: {printable(gap.topic)}-{gap.partition}: {_gap_text(gap)}")
    lines += _postponed(summary)
    if summary.superseded:
        lines.append(f"moved to _superseded, since their logs no longer hold them: {summary.superseded:,} rows")
    if summary.damaged_ranges:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(summary.damaged_reasons.items()))
        lines.append(f"set aside in _damaged: {summary.damaged_ranges} ranges of {summary.damaged_bytes:,} bytes ({reasons})")
    if summary.undecoded:
        lines.append(f"not decoded, kept as bytes in value_raw: {summary.undecoded:,} values")
    if not summary.dry_run:
        rates = f"{summary.records_per_second:,.0f} records/s, {summary.bytes_per_second / 1e6:,.0f} MB/s of log"
        lines.append(f"{summary.seconds:.1f} s: {rates}")
    return "\n".join(lines)


def _postponed(summary: IngestSummary) -> list[str]:
    """A line for each partition that changed too fast."""
    why = "left to the next run: the broker kept replacing its files while they were read"
    return [f"  {printable(name)}: {why}" for name in summary.postponed]


def _gap_text(gap: Gap) -> str:
    if gap.reason == "removed":
        return f"offsets {gap.start_offset} to {gap.stop_offset - 1} were gone before they were taken"
    if gap.reason == "truncated":
        return f"offsets {gap.start_offset} to {gap.stop_offset - 1} were taken, and are no longer in the log"
    return f"was taken up to offset {gap.start_offset}; another log begins at {gap.stop_offset}, taken as the next generation"


def _head(summary: IngestSummary) -> str:
    target = printable(summary.target)
    if summary.dry_run:
        return f"would take {summary.log_bytes:,} bytes of {len(summary.partitions)} partitions into {target}"
    return (
        f"commit {summary.commit} of {target}: {summary.records:,} records of {len(summary.partitions)} partitions, "
        f"{summary.log_bytes:,} bytes of log into {summary.files} files of {summary.parquet_bytes:,} bytes"
    )


class TaskProgress:
    """How long Spark takes to start, then how many tasks have ended, on one line of a terminal's standard error.

    The line is gone at the end; how long the start took stays.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.wanted = not quiet and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.shown = False
        self.is_started = threading.Event()
        self.clock: threading.Thread | None = None

    def update(self, done: int, total: int) -> None:
        self._show(f"ingest: {done} of {total} tasks")

    def starting(self, master: str) -> None:
        """Spark is starting: the seconds count up until it has."""
        if not self.wanted:
            return
        line = f"ingest: starting Spark ({printable(master)})"
        self._show(line)

        def count() -> None:
            seconds = 0
            while not self.is_started.wait(1.0):
                seconds += 1
                self._show(f"{line}, {seconds} s")

        self.clock = threading.Thread(target=count, name="kafkalog-starting", daemon=True)
        self.clock.start()

    def started(self, master: str, seconds: float) -> None:
        if not self.wanted:
            return
        self._stop_clock()
        self._clear()
        warn(f"Spark ({printable(master)}) started in {seconds:.1f} s")

    def without_spark(self, text: str) -> None:
        if not self.quiet:
            warn(text)

    def _stop_clock(self) -> None:
        self.is_started.set()
        if self.clock is not None:
            self.clock.join()

    def _show(self, line: str) -> None:
        if self.wanted:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
            self.shown = True

    def _clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = False

    def __enter__(self) -> TaskProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop_clock()
        self._clear()
