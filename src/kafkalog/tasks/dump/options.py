"""What to dump and how: options with the meaning that DumpLogSegments gives them, and files as the user named them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from kafkalog.errors import UnsupportedFormat, path_text
from kafkalog.format.java import MAX_INT32
from kafkalog.format.names import MAX_OFFSET
from kafkalog.storage import is_file_uri, open_store
from kafkalog.storage.store import Store

MAX_BYTES = MAX_INT32
MAX_MESSAGE_SIZE = 5 << 20
OLD_STYLE = "0.8"
NEW_STYLE = "4.3"
STYLES = (NEW_STYLE, OLD_STYLE)

# Texts of a record's key and value, None for what is not printed, from its offset, key and value.
Contents = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]


@dataclass(frozen=True)
class DumpOptions:
    """Options of one dump. Keys and values are printed as UTF-8 unless `contents` decodes them."""

    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int | None = None  # None: MAX_MESSAGE_SIZE where an index is checked, else no limit
    max_bytes: int = MAX_BYTES
    contents: Contents | None = None
    style: str = NEW_STYLE

    @property
    def index_slice_bytes(self) -> int:
        """How much of the log is read for each entry of an index."""
        return MAX_MESSAGE_SIZE if self.max_message_size is None else self.max_message_size

    @property
    def prints_contents(self) -> bool:
        return self.print_data_log or self.contents is not None

    @property
    def prints_records(self) -> bool:
        return self.deep_iteration or self.prints_contents


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
