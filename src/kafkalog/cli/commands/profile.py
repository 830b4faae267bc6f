"""`kafkalog profile`: what fills the disk."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import PATHS_TEXT, Command
from .shared_options import (
    DAMAGE_MODES,
    choice_option,
    json_option,
    partition_option,
    paths_argument,
    quiet_option,
    requested,
    threads_option,
    topic_id_option,
    topic_option,
)
from .values import Number, parse_time

WEEK_MS = 604_800_000

NOTES = """
Sizes are those of batches as stored. The bytes of a batch are divided among its records in proportion to the size of key, value
and headers. A key prefix ends at the first of : / . | - _ # in a key, or after 4 bytes if none of these is near the start.

Everything by topic, partition, codec and batch is exact, and so are up to 65536 keys, hours and producers, 16384 prefixes, 4096
header names, and duplicates in partitions of up to 131072 keys. Beyond that, and for zstd in logs over 8 MiB, the numbers are
estimates, shown with their error. docs/profile.md explains how they are made.
"""
EXAMPLES = (
    "kafkalog profile /var/lib/kafka/data",
    "kafkalog profile /var/lib/kafka/data --quick --full --top 3",
    "kafkalog profile orders-0 --json",
)


@dataclass(frozen=True)
class ProfileRequest:
    """The options of one `kafkalog profile`."""

    paths: tuple[str, ...]
    topic_ids: list[str] | None
    topics: list[str] | None
    partitions: list[int] | None
    top: int
    full: bool
    quick: bool
    on_damage: str
    now: int | None
    retention_ms: int
    as_json: bool
    threads: int | None
    quiet: bool


@click.command(
    cls=Command,
    help=f"Show what fills the disk and how much could be saved.\n\n{PATHS_TEXT}",
    notes=NOTES,
    examples=EXAMPLES,
)
@paths_argument
@topic_id_option
@topic_option
@partition_option
@click.option("--top", type=Number(1), default=10, show_default=True, metavar="N", help="Rows to show of each kind, at most.")
@click.option("--full", is_flag=True, help="Text: every table. Without it, one page that fits the screen.")
@click.option(
    "--quick",
    is_flag=True,
    help="Read only headers and a few batches: nothing by key or header name, no duplicates, no compression ratio.",
)
@choice_option(
    "--on-damage",
    DAMAGE_MODES,
    "skip leaves damaged batches out; salvage also resynchronises after a corrupt length field; strict stops there.",
    default="skip",
)
@click.option(
    "--now", callback=parse_time, metavar="TIME", help="Timestamps after this are in the future.  [default: the machine's clock]"
)
@click.option(
    "--retention-ms",
    type=Number(0),
    default=WEEK_MS,
    show_default=True,
    metavar="N",
    help="The topics' retention.ms: decides when segments with timestamps in the future are deleted.",
)
@json_option("One JSON object with all topics and partitions")
@threads_option
@quiet_option
@requested(ProfileRequest)
def profile(request: ProfileRequest) -> int:
    from ..run.profile import show_profile

    return show_profile(request)
