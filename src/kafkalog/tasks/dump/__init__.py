"""The text of Kafka's DumpLogSegments, line for line: `dump(files, ...)`, or `Dump(files, DumpOptions(...)).chunks()`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.errors import UsageError

from .contents import DECODERS
from .files import Dump
from .options import MAX_BYTES, NEW_STYLE, STYLES, DumpOptions

__all__ = ["Dump", "DumpOptions", "dump"]


def dump(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    print_data_log: bool = False,
    deep_iteration: bool = False,
    skip_record_metadata: bool = False,
    verify_index_only: bool = False,
    index_sanity_check: bool = False,
    max_message_size: int | None = None,
    max_bytes: int | None = None,
    decoder: str | None = None,
    style: str = NEW_STYLE,
) -> Dump:
    """What Kafka's DumpLogSegments prints for these files: iterate over `.lines()`, then look at `.findings`.

    `decoder` is one of the tool's options for internal topics, such as "offsets-decoder"; `style` "0.8" is the old tool's text.
    """
    if decoder is not None and decoder not in DECODERS:
        raise UsageError(f"decoder={decoder!r} is unknown; allowed are {', '.join(DECODERS)}")
    if style not in STYLES:
        raise UsageError(f"style={style!r} is unknown; allowed are {', '.join(STYLES)}")
    options = DumpOptions(
        print_data_log=print_data_log or decoder is not None,
        deep_iteration=deep_iteration,
        skip_record_metadata=skip_record_metadata,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_message_size=max_message_size,
        max_bytes=MAX_BYTES if max_bytes is None else min(max_bytes, MAX_BYTES),
        contents=None if decoder is None else DECODERS[decoder],
        style=style,
    )
    paths = [files] if isinstance(files, str | os.PathLike) else files
    return Dump([os.fspath(path) for path in paths], options)
