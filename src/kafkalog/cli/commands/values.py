"""Values of options and arguments: parsed, with errors that say what to write instead, and completed by the shell."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from click.shell_completion import CompletionItem

from kafkalog.errors import UsageError
from kafkalog.format.names import parse_folder_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
NAMES_LISTED = 30
PLACES = ("path", "paths", "sources", "disks")  # arguments at which there are topics


class Number(click.types.IntParamType):
    """An integer from `least` to `most`. Unlike click's own range it leaves no `[x>=1]` in the help, and its errors are words."""

    def __init__(self, least: int, most: int | None = None) -> None:
        self.least = least
        self.most = most

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        number = int(super().convert(value, parameter, context))
        if number < self.least:
            self.fail(f"{number} is too small: the least is {self.least}", parameter, context)
        if self.most is not None and number > self.most:
            self.fail(f"{number} is too large: the most is {self.most}", parameter, context)
        return number


def without_notices(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """With --quiet nothing says that kernels are compiled either, here or in processes that this one starts."""
    if value:
        from kafkalog.kernels.cache import NO_NOTICE

        os.environ[NO_NOTICE] = "1"
    return value


def parse_time(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Milliseconds since 1970, from that number or from ISO 8601 with a time zone."""
    if value is None:
        return None
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time: write 2026-01-31T12:00:00Z, or milliseconds since 1970") from None
    if moment.tzinfo is None:
        raise click.BadParameter(f"{value!r} has no time zone: write {moment.isoformat()}Z for UTC, or add +02:00")
    return (moment - EPOCH) // MILLISECOND


def parse_names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter(f"{value!r} has an empty name: write a,b,c")
    if len(set(names)) < len(names):
        raise click.BadParameter(f"{value!r} names the same thing twice")
    return names


def parse_numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas."""
    names = parse_names(context, parameter, value)
    if names is not None and not all(name.isascii() and name.isdigit() for name in names):
        raise click.BadParameter(f"{value!r} is not a list of numbers: write 1,10,100")
    return None if names is None else tuple(map(int, names))


def parse_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Settings as NAME=VALUE, each name once."""
    settings: dict[str, str] = {}
    for setting in value:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{setting!r} is not a setting: write NAME=VALUE")
        if name.strip() in settings:
            raise click.BadParameter(f"{name.strip()} is given twice")
        settings[name.strip()] = text.strip()
    return settings


def parse_pairs(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE any number of times; the last value of a name counts, as in Spark."""
    pairs = {}
    for text in value:
        name, found, content = text.partition("=")
        if not found or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        pairs[name] = content
    return pairs


def by_topic(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """What an option says of each topic: TOPIC=NAME and the like, as its metavar has it."""
    pairs = [value.partition("=") for value in values]
    for topic, _, content in pairs:
        if not topic or not content:
            raise UsageError(f"{parameter.opts[0]} {topic}: give {parameter.metavar}")
    return {topic: content for topic, _, content in pairs}


def require_known(kind: str, name: str, known: Iterable[str]) -> None:
    """UsageError with the nearest names if `name` is not known."""
    names = list(known)
    if name in names:
        return
    near = difflib.get_close_matches(name.lower(), names, 3, 0.6)
    guess = f" Did you mean {' or '.join(near)}?" if near else ""
    rest = f" and {len(names) - NAMES_LISTED} more" if len(names) > NAMES_LISTED else ""
    raise UsageError(f"unknown {kind} {name!r}.{guess} There are: {', '.join(names[:NAMES_LISTED])}{rest}")


def complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders, which the shell itself completes."""
    return [CompletionItem(incomplete, type="file")]


def complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics at the path that was given; object stores are not listed while the user waits."""
    places = list(context.args)  # arguments that click has not parsed yet, because the option has no value yet
    for name in PLACES:
        given = context.params.get(name) or ()
        places += (given,) if isinstance(given, str) else given
    topics = {topic for place in places for topic in _topics_at(place)}
    return sorted(topic for topic in topics if topic.startswith(incomplete))


def _topics_at(place: str) -> set[str]:
    found = [os.path.basename(os.path.abspath(place))]
    with suppress(OSError):
        found += os.listdir(place)
    return {parsed.topic for name in found if (parsed := parse_folder_name(name)) is not None}
