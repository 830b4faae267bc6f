"""Replacing segments: new files get their final names in steps that a broker completes or undoes after a crash.

`.cleaned` files are incomplete, `.swap` files are complete and about to replace others, `.deleted` files are about to be removed.
Completed `.swap` segments may be all that is left of what they replace, until a broker's start renames them: readers use them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kafkalog.errors import Limits
from kafkalog.format import names
from kafkalog.format.names import segment_file_name
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Buffer, Fs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.lock import is_broker_running
from kafkalog.storage.ownership import Ownership
from kafkalog.storage.publish import replaced_ownership, write_file

from .folders import segments_of
from .partition import Partition, StoredFile

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
KINDS = ("log", "index", "timeindex", "txnindex")


class Replacement:
    """New files for the segment of one base offset: `write` them, then `publish`, or `undo`.

    Each folder sync separates two sets of names that a power cut must not leave in any other combination.
    """

    def __init__(self, fs: Fs, folder: str, base_offset: int) -> None:
        self.fs = fs
        self.folder = folder
        self.base_offset = base_offset
        self.kinds: list[str] = []

    def path(self, kind: str, suffix: str = "") -> str:
        return os.path.join(self.folder, segment_file_name(self.base_offset, kind) + suffix)

    def write(self, kind: str, parts: Iterable[Buffer]) -> None:
        path = self.path(kind, CLEANED)
        self.kinds.append(kind)
        with writing(path):
            with suppress(FileNotFoundError):
                self.fs.remove(path)
            write_file(self.fs, path, parts, self._ownership(kind))

    def _ownership(self, kind: str) -> Ownership | None:
        """That of the file that is replaced, or of its log."""
        return replaced_ownership(self.fs, self.path(kind)) or replaced_ownership(self.fs, self.path("log"))

    def undo(self) -> None:
        """Remove what was written."""
        for kind in self.kinds:
            with suppress(OSError):
                self.fs.remove(self.path(kind, CLEANED))

    def publish(self) -> None:
        """Replace the old files by the new ones. It is durable once the caller has synced the folder."""
        with writing(self.path("log"), "cannot be replaced"):
            self.fs.sync_folder(self.folder)
            for kind in self.kinds:
                self.fs.rename(self.path(kind, CLEANED), self.path(kind, SWAP))
            self.fs.sync_folder(self.folder)
            old = [kind for kind in KINDS if self.fs.kind(self.path(kind)) == "file"]
            for kind in old:
                self.fs.rename(self.path(kind), self.path(kind, DELETED))
            # The log first: loading deletes files of final names while the log is `.swap`, but does not rebuild a time index.
            self.fs.rename(self.path("log", SWAP), self.path("log"))
            self.fs.sync_folder(self.folder)
            for kind in self.kinds:
                if kind != "log":
                    self.fs.rename(self.path(kind, SWAP), self.path(kind))
            for kind in old:
                self.fs.remove(self.path(kind, DELETED))


# A live broker renames a `.swap` file within milliseconds of renaming what it replaces.
SETTLED_SECONDS: Final = 2.0


class SwapWatch:
    """The `.swap` files of one partition, for a reader that lists it again and again.

    Where no broker holds the lock of the log directory, a finished segment is used at once. A live broker is about to rename it:
    a reader that used it would look for a file that is gone, and one that ignored it would skip its records. So the reader waits,
    and uses what is still there, unchanged, after `SETTLED_SECONDS`.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self._waiting: frozenset[StoredFile] = frozenset()
        self._since = 0.0

    def settled(self, partition: Partition) -> Partition | None:
        """The listed partition with its finished segments; None while some are about to be renamed: list it again."""
        whole = with_finished_segments(partition, self.limits)
        waiting = frozenset(_completed(partition)) if whole is not partition else frozenset()
        if waiting != self._waiting:
            self._waiting, self._since = waiting, self.clock()
        if not waiting or self.clock() - self._since >= SETTLED_SECONDS or _is_dead(partition):
            return whole
        return None


def _is_dead(partition: Partition) -> bool:
    """Whether certainly no broker uses the partition; unknown for an object store."""
    if not isinstance(partition.store, LocalStore):
        return False
    return is_broker_running(partition.store.parent(partition.folder)) is False


def with_finished_segments(partition: Partition, limits: Limits) -> Partition:
    """The partition with completed `.swap` segments in place of those they replace, as a broker's start would leave it.

    The same partition if there are none, or if all that they replace still exists: that holds no less.
    """
    waiting = _completed(partition)
    if not waiting:
        return partition
    finished = segments_of(waiting)
    if not finished or {segment.base_offset for segment in finished} & {segment.base_offset for segment in partition.segments}:
        return partition
    from .segments import end_offset  # loads Numba

    start = finished[0].base_offset
    stop = end_offset(replace(partition, segments=finished, log_start_offset=None), limits)
    others = [stored for stored in partition.files if stored not in partition.leftovers]
    kept = [stored for stored in others if stored.kind not in names.SEGMENT_KINDS or not start <= stored.base_offset < stop]
    files = (*kept, *waiting)
    leftovers = tuple(stored for stored in partition.leftovers if stored.suffix != SWAP[1:])
    return replace(partition, segments=segments_of(files), leftovers=leftovers, files=(*files, *leftovers))


def _completed(partition: Partition) -> list[StoredFile]:
    """The `.swap` files under their final names, except those that a broker would undo: not below every `.cleaned` file."""
    cleaned = [stored.base_offset for stored in partition.leftovers if stored.suffix == CLEANED[1:]]
    return [
        replace(stored, suffix="")
        for stored in partition.leftovers
        if stored.suffix == SWAP[1:] and all(stored.base_offset < base_offset for base_offset in cleaned)
    ]
