"""What to dump and how, with the meaning that the same options have for DumpLogSegments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkalog.format.java import MAX_INT32

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
        """How much of the log is looked at for each entry of an index."""
        return MAX_MESSAGE_SIZE if self.max_message_size is None else self.max_message_size

    @property
    def prints_contents(self) -> bool:
        return self.print_data_log or self.contents is not None

    @property
    def prints_records(self) -> bool:
        return self.deep_iteration or self.prints_contents
