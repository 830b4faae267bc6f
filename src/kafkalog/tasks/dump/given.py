"""A file as the user gave it: where it is, and how Java would spell it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from kafkalog.errors import UnsupportedFormat, path_text
from kafkalog.format.names import MAX_OFFSET
from kafkalog.storage import is_file_uri, open_store
from kafkalog.storage.store import Store


@dataclass(frozen=True)
class GivenFile:
    """One of the files to dump."""

    given: str
    store: Store
    path: str

    @classmethod
    def open(cls, given: str) -> GivenFile:
        """StorageError if nothing is there."""
        store, path = open_store(given)
        return cls(given, store, path)

    @property
    def shown(self) -> str:
        return shown_path(self.given)

    @property
    def absolute(self) -> str:
        """For findings: the folder we are in and the name as given, dots and links left as they are."""
        return self.shown if "://" in self.given or is_file_uri(self.given) else os.path.join(os.getcwd(), self.shown)

    @property
    def name(self) -> str:
        return self.store.name(self.path)

    @property
    def stem(self) -> str:
        return self.name.partition(".")[0]

    @property
    def suffix(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def base_offset(self) -> int:
        """The offset that the file is named after; UnsupportedFormat if it is not."""
        if not (self.stem.isascii() and self.stem.isdigit() and int(self.stem) <= MAX_OFFSET):
            raise UnsupportedFormat(
                "not-a-segment", file=self.path, detail="a segment and its index files are named after its first offset"
            )
        return int(self.stem)

    def sibling(self, suffix: str) -> str:
        """The path of another file of the same segment, which may not be there."""
        return self.store.join(self.store.parent(self.path), f"{self.stem}.{suffix}")


def shown_path(given: str) -> str:
    """A path as Java's File shows it: no double slashes, none at the end."""
    text = path_text(given)
    if "://" in text:
        return text
    return re.sub("/+", "/", text).rstrip("/") or "/"
