"""What to type after an error about a path: the path that was probably meant, the folder to look into, the user to be."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar

from kafkalog.errors import NoLogs, StorageError, UnsupportedFormat
from kafkalog.format.names import META_PROPERTIES, OFFSET_CHECKPOINTS, parse_file_name, parse_folder_name
from kafkalog.format.shell import path_word, shell_word

# The arguments of the command that runs, without the program's name.
TYPED: ContextVar[Sequence[str]] = ContextVar("typed", default=())
FOLDERS_SEARCHED = 100
LOG_DIRECTORY_NAMES = frozenset({META_PROPERTIES, *OFFSET_CHECKPOINTS})
NO_LOGS = (
    "Give a log directory (log.dirs), a partition folder, or a segment file. "
    "To find one: find / -name recovery-point-offset-checkpoint 2>/dev/null"
)
_NO_PERMISSION = (errno.EACCES, errno.EPERM)
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def path_hints(error: StorageError) -> list[str]:
    """The line to add to an error about a local path; none if there is nothing better to say than the error does."""
    path = error.file
    if not path or _URI.match(path):
        return []
    try:
        if isinstance(error, NoLogs):
            return [_below(path) or NO_LOGS]
        if error.errno in _NO_PERMISSION:
            return _as_owner(path)
        if error.errno in (None, errno.ENOENT) and not os.path.lexists(path):
            return [_near(path)]
    except (OSError, ValueError):  # what cannot be looked at gives no hint
        pass
    return []


def folder_hints(error: UnsupportedFormat) -> list[str]:
    """For a file that holds no records, but that belongs to logs: their folder."""
    folder, name = os.path.split(error.file)
    if parse_file_name(name) is None or not folder or _URI.match(error.file):
        return []
    return [f"To see what is there: {_retyped(error.file, folder)}"]


def _below(folder: str) -> str:
    """Where logs are, one folder further down."""
    for name in sorted(os.listdir(folder))[:FOLDERS_SEARCHED]:
        below = os.path.join(folder, name)
        if os.path.isdir(below) and not os.path.samefile(below, folder) and _holds_logs(below):
            return f"There are logs in a folder of it: {_retyped(folder, below)}"
    return ""


def _holds_logs(folder: str) -> bool:
    """Whether it is a log directory: a name such as g++-12 alone is not that of a partition."""
    names = _listed(folder)
    if not LOG_DIRECTORY_NAMES.isdisjoint(names):
        return True
    partitions = [os.path.join(folder, name) for name in names if parse_folder_name(name) is not None]
    found = (parse_file_name(name) for partition in partitions for name in _listed(partition))
    return any(parsed is not None and parsed.kind == "log" for parsed in found)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)[:FOLDERS_SEARCHED]
    except OSError:
        return []


def _near(path: str) -> str:
    """A similar name in the nearest folder that exists, or that folder."""
    missing, rest = path, ""
    while not os.path.lexists(os.path.dirname(missing)):
        missing, rest = os.path.dirname(missing), os.path.join(os.path.basename(missing), rest)
    folder = os.path.dirname(missing)
    for name in difflib.get_close_matches(os.path.basename(missing), os.listdir(folder), 3):
        if os.path.lexists(meant := os.path.join(folder, name, rest).rstrip("/")):
            return f"Did you mean: {_retyped(path, meant)}"
    return f"To see what is there: ls -l {path_word(folder)}"


def _retyped(path: str, meant: str) -> str:
    """The command that was typed, with another path."""
    typed = TYPED.get()
    places = [number for number, word in enumerate(typed) if number and os.path.abspath(word) == os.path.abspath(path)]
    if not places:
        return f"kafkalog ls {path_word(meant)}"
    words = [path_word(meant) if number == places[0] else shell_word(word) for number, word in enumerate(typed)]
    return " ".join(["kafkalog", *words])


def _as_owner(path: str) -> list[str]:
    """The same command as the user to whom the first folder belongs that may not be read; none for oneself."""
    from kafkalog.storage.unfinished import user_name

    owner = next(_owners(path), None)
    if owner is None or owner == os.geteuid() or not TYPED.get():
        return []
    user = f"#{owner}" if user_name(owner).startswith("user ") else user_name(owner)
    return [f"To run it as the owner: sudo -u {shell_word(user)} kafkalog {' '.join(map(shell_word, TYPED.get()))}"]


def _owners(path: str) -> Iterator[int]:
    """The owners of a path and of the folders above it, as far as they can be looked at."""
    while True:
        with suppress(PermissionError):
            yield os.stat(path).st_uid
        above = os.path.dirname(path)
        if above == path:
            return
        path = above
