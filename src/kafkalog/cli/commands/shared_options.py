"""Options that several commands share: the same thing has the same name, and the same help, everywhere.

A block of options reaches its command as one object (`grouped`), and so do all options of a command that has many (`requested`):
what `commands` hands to `run` is typed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import click

from kafkalog.errors import UsageError

from ..render.target import STDOUT
from .values import Number, complete_path, complete_topic, parse_names, parse_settings, parse_time, without_notices

# Written out here because the tables need Arrow, which no help text should load; a test compares them.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DAMAGE_MODES = ("strict", "skip", "salvage")
ENCODINGS = ("utf8", "hex", "base64")
TEXT_ERRORS = ("strict", "replace")
FORMATS = ("text", "json", "csv", "arrow", "parquet")
ISOLATIONS = ("read_uncommitted", "read_committed")

PLACES_TEXT = """\
With --out, PATH is only read, and each new partition appears under DIR once it is complete, or not at all. With --in-place, the
broker must be stopped. The clean-shutdown marker is removed first, so that the broker checks everything when it starts; after a
crash either the old or the new files are there, and the same command finishes the job. Running a command twice does no harm: what
is done stays as it is. A partition that fails is reported, and the others are still processed."""

LOSS_TEXT = "With --in-place on a terminal, the command asks before it deletes records; --yes answers."

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def combined(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which help shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def grouped(kind: type, name: str, *options: Decorator) -> Decorator:
    """Several options as one decorator; the command gets them as one `kind`, which has fields of these names, called `name`."""
    names = kind.__annotations__.keys()

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            block = kind(**{key: values.pop(key) for key in names if key in values})
            return command(**values, **{name: block})

        return combined(*options)(call)

    return decorate


def requested(kind: type) -> Decorator:
    """The command gets all its arguments and options as one `kind`, which has fields of these names."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            return command(kind(**values))

        return call

    return decorate


def listed(context: click.Context, parameter: click.Parameter, value: tuple[Any, ...]) -> list[Any] | None:
    """The values of an option that may be repeated, or None if it was not given."""
    return list(value) or None


def choice_option(name: str, choices: tuple[str, ...], text: str, *, default: str | None = None, field: str = "") -> Decorator:
    """One of `choices`; the first is the default, unless another is given. `field` is what the command calls it."""
    names = [name, field] if field else [name]
    return click.option(*names, type=click.Choice(choices), default=default or choices[0], show_default=True, help=text)


path_argument = click.argument("path", metavar="PATH", shell_complete=complete_path)
paths_argument = click.argument("paths", metavar="PATH...", shell_complete=complete_path, nargs=-1, required=True)
sources_argument = click.argument("sources", metavar="SOURCE...", shell_complete=complete_path, nargs=-1, required=True)

topic_option = click.option(
    "--topic",
    "topics",
    multiple=True,
    callback=listed,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Only this topic; may be repeated.",
)
partition_option = click.option(
    "--partition",
    "partitions",
    multiple=True,
    callback=listed,
    type=int,
    metavar="N",
    help="Only this partition; may be repeated.",
)
topic_id_option = click.option(
    "--topic-id",
    "topic_ids",
    multiple=True,
    callback=listed,
    metavar="ID",
    help="With several PATHs where a topic was created again: the id of the one that is meant; may be repeated.",
)
threads_option = click.option(
    "--threads", type=Number(1), metavar="N", help="Number of decoding threads.  [default: number of cores, at most 4]"
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    callback=without_notices,
    help="No progress, hints or summary on standard error; errors still appear.",
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
    type=Number(1),
    metavar="N",
    help="The topic's index.interval.bytes.  [default: inferred from its index files, else 4096]",
)
isolation_option = choice_option(
    "--isolation", ISOLATIONS, "read_committed leaves out aborted records and stops at the last stable offset."
)
registry_prefix_option = click.option(
    "--registry-prefix", is_flag=True, help="With --decode json or avro: values start with a schema registry's five bytes."
)
at_option = click.option(
    "--at",
    type=Number(0),
    metavar="OFFSET",
    help="The cluster right after the record at this offset of its metadata log.  [default: the end of the log]",
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


def require_place(out: str | None, *, in_place: bool) -> None:
    """UsageError unless exactly one of --out and --in-place was given."""
    if (out is None) != in_place:
        raise UsageError("give either --out DIR (writes a copy) or --in-place (requires a stopped broker)")


@dataclass(frozen=True)
class ChangeOptions:
    """Which partitions a command changes, where, and how it reports; `now`, `yes` and `config` where a command has them."""

    out: str | None
    in_place: bool
    topics: list[str] | None
    partitions: list[int] | None
    dry_run: bool
    as_json: bool
    quiet: bool
    now: int | None = None
    yes: bool = False
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_place(self.out, in_place=self.in_place)


def change_options(*further: Decorator) -> Decorator:
    """The options of a command that changes logs, as `change: ChangeOptions`; help shows `further` ones before."""
    return grouped(
        ChangeOptions,
        "change",
        *further,
        out_option("Write new partitions under this folder."),
        click.option("--in-place", is_flag=True, help="Change the partitions where they are."),
        topic_option,
        partition_option,
        dry_run_option,
        json_option("One JSON object per partition"),
        quiet_option,
    )


maintenance_options = change_options(config_option, now_option, yes_option)


@dataclass(frozen=True)
class RepairOptions:
    """Which partitions a command repairs, and how it reports."""

    topics: list[str] | None
    partitions: list[int] | None
    dry_run: bool
    index_interval_bytes: int | None
    as_json: bool
    quiet: bool


repair_options = grouped(
    RepairOptions,
    "repair",
    topic_option,
    partition_option,
    dry_run_option,
    index_interval_option,
    json_option("One JSON object per partition"),
    quiet_option,
)


class ReadChoices(TypedDict):
    """What to read: keywords of `Logs.read`."""

    topics: list[str] | None
    partitions: list[int] | None
    start_offset: int | None
    stop_offset: int | None
    start_time: int | None
    stop_time: int | None
    isolation: str
    on_damage: str
    include_control: bool
    neighbours: bool
    allow_disorder: bool
    skip_io_errors: bool
    threads: int | None


read_options = grouped(
    ReadChoices,
    "choices",
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
    isolation_option,
    choice_option(
        "--on-damage",
        DAMAGE_MODES,
        "strict stops at the first damage, after all rows before it; skip leaves damaged batches out; salvage also "
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


@dataclass(frozen=True)
class RowOptions:
    """How rows are written, and where."""

    limit: int | None
    format: str
    encoding: str
    text: tuple[str, ...] | None
    text_errors: str
    csv_safe: bool
    output: str
    report: str | None
    quiet: bool


row_options = grouped(
    RowOptions,
    "rows",
    click.option("--limit", type=Number(0), metavar="N", help="At most this many rows."),
    format_options("How rows are written; see below."),
    choice_option("--encoding", ENCODINGS, "How keys, values and other bytes are written in text, json and csv."),
    click.option(
        "--text",
        callback=parse_names,
        metavar="A,B",
        help="With --format arrow or parquet: key, value or both as text columns (UTF-8) instead of bytes.",
    ),
    choice_option("--text-errors", TEXT_ERRORS, "What --text does with bytes that are not UTF-8: stop, or put U+FFFD there."),
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
