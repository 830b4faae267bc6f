"""The place that an ingest writes to: a local folder or an object store, behind the few operations that its protocol needs.

Paths are relative to the target. A published file is durable and whole: a reader sees all of it under its name, or nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from kafkalog.errors import path_text
from kafkalog.storage import is_file_uri, path_of_file_uri

from ..errors import BAD_TARGET, TARGET_BUSY, SparkSourceError

OWN_FOLDER: Final = "_kafkalog"


class Target(Protocol):
    """The operations that the protocol of an ingest needs."""

    @property
    def name(self) -> str:
        """Its path or URI, for messages."""
        ...

    @property
    def staged_are_dead(self) -> bool:
        """Whether all staged files belong to runs that have ended, once the target is locked."""
        ...

    def owner(self) -> int | None:
        """The user whose it is; None if it does not exist yet, or if its store has no users."""
        ...

    def size(self, path: str) -> int | None:
        """Bytes of a file; None if it does not exist."""
        ...

    def unfinished(self, folder: str) -> list[str]:
        """The names of `list`, and those of files that are still being written, or were when their run was killed."""
        ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no folder."""
        ...

    def read(self, path: str) -> bytes: ...

    def require_room(self, paths: Iterable[str]) -> None:
        """SparkSourceError if files could not be moved to these places; checked before anything is published."""
        ...

    def publish(self, path: str, content: bytes, unfinished: str) -> None:
        """Publish a new file, whole and durable. `unfinished` may be its name until then.

        SparkSourceError if another run was faster, or has taken over the lock: then nothing was written.
        """
        ...

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        """A new file open for writing, durable when the block has ended well."""
        ...

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        """Give each file its new name, durably; one that already has it is left alone, so a broken move can be repeated."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, durably; a missing one is no error, so this can be repeated."""
        ...

    def open(self, path: str) -> Any:
        """A file open for reading at any position."""
        ...

    def remove(self, folder: str) -> None:
        """Remove a folder with everything in it, and what is still being written to it."""
        ...

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the target for one run; SparkSourceError while another run holds it."""
        ...


def open_target(place: str) -> Target:
    """The target at a path or URI; nothing is made yet."""
    place = _without_file_scheme(place)
    if "://" in place:
        from .object_target import object_target  # loads Arrow

        return object_target(place)
    from .local_target import LocalTarget  # which needs the errors below

    return LocalTarget(os.path.abspath(place))


def busy(name: str, holder: str, advice: str = "run this again when it has ended") -> SparkSourceError:
    """The error of a target that another run holds."""
    return SparkSourceError(TARGET_BUSY, f"{path_text(name)}: another ingest is at work here{holder}; {advice}")


def bad_target(place: str, found: str) -> SparkSourceError:
    """The error of a target, or of a place in it, that no ingest can use."""
    return SparkSourceError(BAD_TARGET, f"{path_text(place)}: {found}")


def is_plain(path: object) -> bool:
    """Whether this is a relative path of ordinary names: it cannot lead out of the folder that it is joined to."""
    return isinstance(path, str) and "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def is_within(path: str, folder: str) -> bool:
    """Whether a path or URI lies at or under a folder, however both are spelled."""
    inner, outer = _plain_place(path), _plain_place(folder)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _plain_place(place: str) -> str:
    """A place in one canonical spelling: without links, credentials and query."""
    place = _without_file_scheme(place)
    if "://" not in place:
        return os.path.realpath(place)
    parts = urlsplit(place, allow_fragments=False)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _without_file_scheme(place: str) -> str:
    return path_of_file_uri(place) if is_file_uri(place) else place
