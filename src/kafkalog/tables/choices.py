"""Topics, partitions, columns and times as callers may pass them, converted to one form; UsageError for anything else."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from kafkalog.errors import UsageError

# A single name or number stands for a list of one.
Names = str | Sequence[str]
Numbers = int | Sequence[int]
# Milliseconds since 1970, a time, a day (its start), or either as ISO 8601; without a time zone it is UTC.
Time = int | str | date | datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def several_names(argument: str, given: Names | None) -> list[str] | None:
    """The names of `topics` or `columns`; a plain string is one name, not its letters."""
    if given is None:
        return None
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{argument}={given!r}: allowed are a name or a list of names")
    return names


def several_numbers(argument: str, given: Numbers | None) -> list[int] | None:
    """The numbers of `partitions`; a plain number is a list of one."""
    if given is None:
        return None
    numbers = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
    return [whole_number(argument, number, "allowed are a number or a list of numbers") for number in numbers]


def whole_number(argument: str, given: Any, allowed: str = "allowed is a whole number") -> int:
    """The number as an int, also if it is one of NumPy's."""
    try:
        if isinstance(given, bool):
            raise TypeError
        return operator.index(given)
    except TypeError:
        raise UsageError(f"{argument}={given!r}: {allowed}") from None


def milliseconds(argument: str, given: Time) -> int:
    """Milliseconds since 1970; without a time zone it is UTC."""
    if isinstance(given, str):
        return _of_text(argument, given)
    if isinstance(given, datetime):
        return _of_moment(given)
    if isinstance(given, date):
        return _of_moment(datetime(given.year, given.month, given.day))
    return whole_number(argument, given, "allowed are milliseconds since 1970, a datetime or date, or 2026-01-31T12:00:00Z")


def _of_text(argument: str, given: str) -> int:
    digits = given.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return int(given)
    try:
        return _of_moment(datetime.fromisoformat(given))
    except ValueError:
        text = f"{argument}={given!r} is not a time: write 2026-01-31, 2026-01-31T12:00:00Z, or milliseconds since 1970"
        raise UsageError(text) from None


def _of_moment(moment: datetime) -> int:
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - EPOCH) // MILLISECOND
