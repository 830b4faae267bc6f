"""What a shell offers when the user asks it to complete a word: files, and the topics that are at the path given."""

from __future__ import annotations

import os
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from kafkalog.format.names import parse_folder_name

PLACES = ("path", "paths", "sources")


def complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Whatever the shell itself knows of files and folders."""
    return [CompletionItem(incomplete, type="file")]


def complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics at the path; those in object stores are not asked for while the user waits."""
    places = list(context.args)  # what click did not take apart, because the option has no value yet
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
