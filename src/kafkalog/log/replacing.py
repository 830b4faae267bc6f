"""Replace the files of a segment, under the names by which a broker completes or undoes it after a crash.

`.cleaned` files are incomplete, `.swap` files are complete and about to replace others, `.deleted` files are about to be removed.
Each folder sync separates two sets of names that a power cut must not leave in any other combination.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from kafkalog.format.names import segment_file_name
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Buffer, Fs
from kafkalog.storage.ownership import Ownership
from kafkalog.storage.publish import replaced_ownership, write_file

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
KINDS = ("log", "index", "timeindex", "txnindex")

Files = Mapping[str, Iterable[Buffer]]


class Replacement:
    """New files for the segment of one base offset: `write` them, then `publish`, or `undo`."""

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
