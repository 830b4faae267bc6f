"""Options that several commands share: the same thing has the same name, and the same help, everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kafkalog.errors import UsageError

from ..completion import complete_path, complete_topic
from ..render.target import STDOUT
from .values import parse_settings, parse_time

# Written out here because the tables need Arrow, which no help text should load; a test compares them.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DAMAGE_MODES = ("strict", "skip", "salvage")
ENCODINGS = ("utf8", "hex", "base64")
FORMATS = ("text", "json", "csv", "arrow", "parquet")
ISOLATIONS = ("read_uncommitted", "read_committed")

PLACES_TEXT = """\
With --out, PATH is only read, and each new partition appears under DIR once it is complete, or not at all. In-place commands
require a stopped broker: they remove the clean-shutdown marker first, so that the next broker checks everything, and after a
crash either the old or the new files are there, and the same command finishes the job. Running a command again changes nothing
that is already done. A partition that fails is reported, and the others are still processed."""

LOSS_TEXT = "With --in-place on a terminal, the command asks before it deletes records; --yes answers."

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def combined(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which help shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


path_argument = click.argument("path", metavar="PATH", shell_complete=complete_path)
sources_argument = click.argument("sources", metavar="SOURCE...", shell_complete=complete_path, nargs=-1, required=True)

topic_option = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Only this topic; may be repeated.",
)
partition_option = click.option(
    "--partition", "partitions", multiple=True, type=int, metavar="N", help="Only this partition; may be repeated."
)
threads_option = click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="Threads that decode.  [default: number of cores, at most 4]"
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
quiet_option = click.option(
    "--quiet", "-q", is_flag=True, help="No progress, hints or summary on standard error; errors still appear."
)
now_option = click.option(
    "--now", callback=parse_time, metavar="TIME", help="Use this as the current time.  [default: the machine's clock]"
)
yes_option = click.option("--yes", is_flag=True, help="With --in-place: delete records without asking.")
config_option = click.option(
    "--config",
    multiple=True,
    callback=parse_settings,
    metavar="NAME=VALUE",
    help="A topic setting by Kafka's name, such as segment.bytes=104857600; may be repeated.",
)
index_interval_option = click.option(
    "--index-interval-bytes",
    type=click.IntRange(1),
    metavar="N",
    help="The topic's index.interval.bytes.  [default: inferred from its index files, else 4096]",
)
level_option = click.option("--level", type=int, metavar="N", help="Compression level.  [default: Kafka's]")


def json_option(what: str) -> Decorator:
    """--json, with what its output is."""
    return click.option("--json", "as_json", is_flag=True, help=f"{what} instead of text.")


def format_options(what: str) -> Decorator:
    """--format, and --json for the format that most programs want."""
    return combined(
        click.option("--format", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help=what),
        click.option("--json", "format", flag_value="json", help="Same as --format json."),
    )


def out_option(what: str, *, required: bool = False) -> Decorator:
    """--out DIR: the folder of an output that is several files."""
    return click.option("--out", required=required, metavar="DIR", shell_complete=complete_path, help=what)


output_option = click.option(
    "--output",
    "-o",
    default=STDOUT,
    metavar="FILE",
    shell_complete=complete_path,
    help="Write to this file; it appears once it is complete, and not at all after an error.  [default: standard output]",
)

place_options = combined(
    out_option("Write new partitions under this folder."),
    click.option("--in-place", is_flag=True, help="Change the partitions where they are."),
    topic_option,
    partition_option,
    dry_run_option,
    json_option("One JSON object per partition"),
    quiet_option,
)
repair_options = combined(
    topic_option,
    partition_option,
    dry_run_option,
    index_interval_option,
    json_option("One JSON object per partition"),
    quiet_option,
)

read_options = combined(
    topic_option,
    partition_option,
    click.option("--start-offset", type=int, metavar="N", help="First offset to read."),
    click.option("--stop-offset", type=int, metavar="N", help="Stop before this offset."),
    click.option(
        "--start-time",
        callback=parse_time,
        metavar="TIME",
        help="Earliest timestamp: ISO 8601 with a time zone, or ms since 1970.",
    ),
    click.option("--stop-time", callback=parse_time, metavar="TIME", help="Only timestamps before this one."),
    click.option(
        "--isolation",
        type=click.Choice(ISOLATIONS),
        default=ISOLATIONS[0],
        show_default=True,
        help="read_committed leaves out aborted records and stops at the last stable offset.",
    ),
    click.option(
        "--on-damage",
        type=click.Choice(DAMAGE_MODES),
        default=DAMAGE_MODES[0],
        show_default=True,
        help="strict stops at the first damage, after all rows before it; skip leaves damaged batches out; salvage also "
        "resynchronises after a corrupt length field.",
    ),
    click.option("--include-control", is_flag=True, help="Include transaction markers and other control records."),
    click.option(
        "--neighbours",
        is_flag=True,
        help="Treat the log as never compacted: missing offsets and wrong leader epochs count as damage.",
    ),
    click.option("--allow-disorder", is_flag=True, help="Read entries whose offsets or leader epochs go backwards."),
    click.option(
        "--skip-io-errors",
        is_flag=True,
        help="Skip blocks of 4 KiB that the device cannot read and count them as damage; not with --on-damage strict.",
    ),
    threads_option,
)
row_options = combined(
    click.option("--limit", type=click.IntRange(0), metavar="N", help="At most this many rows."),
    format_options("How rows are written; see below."),
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
        help="With --format csv: put an apostrophe before text that starts with = + - @, a tab or a line break, so that no "
        "spreadsheet runs it as a formula. Such text no longer reads back as it was.",
    ),
    output_option,
    click.option(
        "--report",
        metavar="FILE",
        shell_complete=complete_path,
        help="Write which byte ranges were kept and which left out, as JSON.",
    ),
    quiet_option,
)


def as_lists(options: dict[str, Any]) -> dict[str, Any]:
    """The options with topics and partitions as lists, or None where none was given."""
    return {**options, "topics": list(options["topics"]) or None, "partitions": list(options["partitions"]) or None}


def require_place(options: dict[str, Any]) -> dict[str, Any]:
    """The same, after making sure that there is exactly one of --out and --in-place."""
    if (options["out"] is None) != options["in_place"]:
        raise UsageError("give either --out DIR (writes a copy) or --in-place (requires a stopped broker)")
    return as_lists(options)
