"""A section of the report, and what sections share: times, commands, colours."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kafkalog.format.markup import Markup, joined
from kafkalog.format.quantities import moment_text
from kafkalog.format.shell import shell_word
from kafkalog.pages.tables import code
from kafkalog.tasks.overview.result import Overview

DAY, MINUTE, SECOND = "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"
COLOURS = 8


@dataclass(frozen=True)
class Section:
    """A part of the page; `identifier` is its place in the address, `short` its name in the navigation."""

    identifier: str
    title: str
    body: Markup
    short: str = ""


def time_text(milliseconds: int | None, form: str = SECOND) -> str:
    return "–" if milliseconds is None or milliseconds < 0 else moment_text(milliseconds, form)


def command(*words: str) -> str:
    """A command line to type into a shell."""
    return " ".join(map(shell_word, words))


def topic_command(verb: str, overview: Overview, topic: str, *options: str) -> str:
    """A command about a topic at the first of the paths that has it."""
    return command("kafkalog", verb, path_of(overview, topic), "--topic", topic, *options)


def path_of(overview: Overview, topic: str) -> str:
    """The path of the report that a topic was found at."""
    folders = [found.folder for found in overview.topics.get(topic, ())]
    below = [path for path in overview.paths for folder in folders[:1] if folder.startswith(path)]
    return max(below, key=len, default=overview.paths[0])


def damaged_topics(overview: Overview) -> set[str]:
    """The topics with damage in a log: what rewrites these ends at the damage."""
    errors = () if overview.checked is None else overview.checked.errors
    found = {each.topic for each in errors if each.topic is not None and each.file.endswith(".log")}
    return found | {
        each.topic for each in overview.partitions for drop in overview.profile.report.dropped if _is_in(drop.file, each.folder)
    }


def _is_in(file: str, folder: str) -> bool:
    return os.path.dirname(file) == folder


def colour_of(overview: Overview) -> dict[str, str]:
    """The class of each topic's colour: neighbours by size differ."""
    return {topic: f"c{number % COLOURS}" for number, topic in enumerate(overview.topics)}


def middle_cut(text: str, length: int) -> str:
    """A name without its middle, where it is too long: names that begin alike differ at the end."""
    if len(text) <= length:
        return text
    end = (length - 1) // 2
    return text[: length - 1 - end] + "…" + text[len(text) - end :]


def more_rows(shown: int, there: int, seen_with: str) -> Markup | None:
    """What to say below a table that has not room for everything."""
    return joined(f"… and {there - shown:,} more; see ", code(seen_with)) if there > shown else None
