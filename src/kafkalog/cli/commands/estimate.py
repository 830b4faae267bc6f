"""`kafkalog estimate`: how large records are in each format."""

from __future__ import annotations

from typing import Any

import click

from kafkalog.errors import UsageError

from ..completion import complete_path
from .help import Command
from .shared_options import CODECS, json_option
from .values import parse_names, parse_numbers, require_known

NOTES = """
Without a codec, the size of v0 and v1 messages does not depend on the batch size. Compressed sizes need real content: batches
are made from the records at PATH and measured. v0 and v1 have no headers, so headers are left out there.
"""
EXAMPLES = (
    "kafkalog estimate --count 100 --value-size 170 --headers 8:16",
    "kafkalog estimate records.jsonl --batch 1,100 --codec none,zstd",
    "kafkalog estimate orders-0/00000000000000000000.log --json",
)


def parse_headers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[tuple[int, int], ...]:
    """Sizes of keys and values, as 8:16,4:0."""
    pairs = [pair.partition(":") for pair in (value or "").split(",") if pair]
    if not all(key.isascii() and key.isdigit() and content.isascii() and content.isdigit() for key, _, content in pairs):
        raise click.BadParameter(f"{value!r}: write the size of each header's key and value, as 8:16,4:0")
    return tuple((int(key), int(content)) for key, _, content in pairs)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.argument("path", metavar="[PATH]", shell_complete=complete_path, required=False)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Number of records, all alike.  [default: 1]")
@click.option("--key-size", type=click.IntRange(0), metavar="BYTES", help="Size of each key.  [default: null keys]")
@click.option("--value-size", type=click.IntRange(0), metavar="BYTES", help="Size of each value.  [default: null values]")
@click.option("--headers", callback=parse_headers, metavar="K:V,K:V", help="Sizes of the key and value of each header.")
@click.option("--interval-ms", type=click.IntRange(0), metavar="MS", help="Time between records.  [default: 1]")
@click.option("--batch", "batch_sizes", callback=parse_numbers, metavar="N,N", help="Records per batch.  [default: 1,10,100…]")
@click.option("--codec", "codec_names", callback=parse_names, metavar="A,B", help="Codecs to try.  [default: all, with PATH]")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Records to read from PATH.  [default: 10000]")
@json_option("One JSON object")
def estimate(path: str | None, as_json: bool, **options: Any) -> int:
    """Estimate the size of records in each message format.

    Shows how many bytes the records take as v0, v1 and v2, and why. PATH is a file of JSON lines (objects with key, value,
    timestamp, headers), - for such lines from standard input, or any log. Without PATH, give sizes instead.
    """
    for name in options["codec_names"] or ():
        require_known("codec", name, CODECS)
    equal = {name: options.pop(name) for name in ("count", "key_size", "value_size", "headers", "interval_ms")}
    given = {name: value for name, value in equal.items() if value not in (None, ())}
    if path is None and not given:
        raise UsageError("give PATH, or sizes: kafkalog estimate --key-size 3 --value-size 5")
    if path is not None and given:
        raise UsageError("PATH and sizes exclude each other: the records at PATH have their own")
    if path is None and (set(options["codec_names"] or ()) - {"none"} or options["limit"]):
        raise UsageError("--codec and --limit need PATH: how well records compress depends on their content")
    from ..run.estimate import show_estimation

    return show_estimation(path, given, options, as_json=as_json)
