"""`kafkalog estimate`: how large records are in each format."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kafkalog.errors import UsageError

from .help import Command
from .shared_options import CODECS, json_option, requested
from .values import Number, complete_path, parse_names, parse_numbers, require_known

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


@dataclass(frozen=True)
class EstimateRequest:
    """The options of one `kafkalog estimate`; those that were not given are None, or empty."""

    path: str | None
    count: int | None
    key_size: int | None
    value_size: int | None
    headers: tuple[tuple[int, int], ...]
    interval_ms: int | None
    batch_sizes: tuple[int, ...] | None
    codec_names: tuple[str, ...] | None
    limit: int | None
    as_json: bool

    def check(self) -> None:
        """UsageError for options that exclude each other."""
        codecs = self.codec_names or ()
        for name in codecs:
            require_known("codec", name, CODECS)
        sizes = (self.count, self.key_size, self.value_size, self.interval_ms)
        has_sizes = bool(self.headers) or any(size is not None for size in sizes)
        if self.path is None and not has_sizes:
            raise UsageError("give PATH, or sizes: kafkalog estimate --key-size 3 --value-size 5")
        if self.path is not None and has_sizes:
            raise UsageError("PATH and sizes exclude each other: the records at PATH have their own")
        if self.path is None and (set(codecs) - {"none"} or self.limit):
            raise UsageError("--codec and --limit need PATH: how well records compress depends on their content")


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.argument("path", metavar="[PATH]", shell_complete=complete_path, required=False)
@click.option("--count", type=Number(1), metavar="N", help="Number of equal records.  [default: 1]")
@click.option("--key-size", type=Number(0), metavar="BYTES", help="Size of each key.  [default: null keys]")
@click.option("--value-size", type=Number(0), metavar="BYTES", help="Size of each value.  [default: null values]")
@click.option("--headers", callback=parse_headers, metavar="K:V,K:V", help="Sizes of the key and value of each header.")
@click.option("--interval-ms", type=Number(0), metavar="MS", help="Time between records.  [default: 1]")
@click.option("--batch", "batch_sizes", callback=parse_numbers, metavar="N,N", help="Records per batch.  [default: 1,10,100…]")
@click.option("--codec", "codec_names", callback=parse_names, metavar="A,B", help="Codecs to try.  [default: all, with PATH]")
@click.option("--limit", type=Number(1), metavar="N", help="Records to read from PATH.  [default: 10000]")
@json_option("One JSON object")
@requested(EstimateRequest)
def estimate(request: EstimateRequest) -> int:
    """Estimate the size of records in each message format.

    Shows how many bytes the records take as v0, v1 and v2, and why. PATH is a file of JSON lines (objects with key, value,
    timestamp, headers), - for such lines from standard input, or any log. Without PATH, give sizes instead.
    """
    request.check()
    from ..run.estimate import show_estimation

    return show_estimation(request)
