"""What Kafka's DumpLogSegments says of files, line for line: `Dump(files, DumpOptions(...)).chunks()`."""

from __future__ import annotations

from typing import Any

from kafkalog.errors import UsageError

from .contents import DECODERS
from .files import Dump
from .options import MAX_BYTES, STYLES, DumpOptions

__all__ = ["Dump", "DumpOptions", "dump_options"]


def dump_options(decoder: str | None, max_bytes: int | None, *, style: str, print_data_log: bool, **choices: Any) -> DumpOptions:
    """The options with a decoder by its name; UsageError for a name that is not known."""
    if decoder is not None and decoder not in DECODERS:
        raise UsageError(f"decoder={decoder!r} is unknown; allowed are {', '.join(DECODERS)}")
    if style not in STYLES:
        raise UsageError(f"style={style!r} is unknown; allowed are {', '.join(STYLES)}")
    return DumpOptions(
        print_data_log=print_data_log or decoder is not None,
        max_bytes=MAX_BYTES if max_bytes is None else min(max_bytes, MAX_BYTES),
        contents=None if decoder is None else DECODERS[decoder],
        style=style,
        **choices,
    )
