"""Numbers as people read them: counts with their nouns, sizes, durations. For `repr` and the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SPANS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
LAST_SECOND = 253_402_300_799  # of the year 9999


def plural(count: int, noun: str, several: str | None = None) -> str:
    """A count with its noun; the plural is `several`, or the noun with an s."""
    return f"{count} {noun if count == 1 else several or noun + 's'}"


def offsets_text(start_offset: int | None, end_offset: int | None) -> str:
    """The offsets from a start up to, but not including, an end."""
    if start_offset is None or end_offset is None:
        return "offsets unknown"
    return f"offsets {start_offset} to {end_offset - 1}" if end_offset > start_offset else f"empty at offset {end_offset}"


def repr_text(kind: str, place: object, *facts: str) -> str:
    """The `repr` of a result: its class, the path or name that it is about, and the facts that are not empty."""
    return f"{kind}({', '.join([repr(place), *filter(None, facts)])})"


def moment_text(milliseconds: int, form: str) -> str:
    """A time in UTC; "after 9999" for what Python's calendar cannot hold."""
    seconds = milliseconds // 1000
    return datetime.fromtimestamp(seconds, UTC).strftime(form) if seconds <= LAST_SECOND else "after 9999"


def size_text(size: float) -> str:
    """A number of bytes in its largest unit, with about three digits."""
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {UNITS[unit]}"


def disk_text(on_disk: int, size: int) -> str:
    """The space that files take on disk, with their sizes where these are larger because the files have holes."""
    text = size_text(on_disk)
    return text if size <= on_disk or size_text(size) == text else f"{text} (sparse: {size_text(size)})"


def span_text(milliseconds: int) -> str:
    """A duration in its largest unit and the next one: 3 d 4 h."""
    for (unit, span), (smaller, part) in pairwise(SPANS):
        if milliseconds >= span:
            rest = milliseconds % span // part
            return f"{milliseconds // span} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{milliseconds / 1000:.1f} s"
