"""Fill the map of offsets from the dirty part of a log: the latest offset of each key, until the map is full."""

from __future__ import annotations

from ..entries import Entry, iter_entries
from .cleaned_transactions import CleanedTransactions
from .kept_records import CleanStats, is_discardable
from .offset_map import OffsetMap


class OffsetMapping:
    """The map of one pass on its way through the log, from `start_offset` on."""

    def __init__(self, offsets: OffsetMap, max_size: int, start_offset: int, stats: CleanStats) -> None:
        self.offsets = offsets
        self.max_size = max_size
        self.start_offset = start_offset
        self.stats = stats
        self.transactions = CleanedTransactions()
        self.is_full = False

    def add_chunk(self, chunk: bytes) -> int:
        """Take the entries of a chunk; the bytes that they have. They may end early if the map is full."""
        size = 0
        for entry in iter_entries(chunk):
            self.add_entry(entry)
            if self.is_full:
                break
            size += entry.size
        return size

    def add_entry(self, entry: Entry) -> None:
        """Take an entry, of which transactions have not yet heard."""
        self.add_decided(entry, is_aborted=is_discardable(entry, self.transactions))

    def add_decided(self, entry: Entry, *, is_aborted: bool) -> None:
        """Take an entry of which it is known whether its transaction was aborted."""
        if entry.is_control_batch:
            self.stats.map_messages_read += 1
        elif is_aborted:
            self.stats.map_messages_read += entry.records_count or 0
        else:
            self._add_records(entry)
        if not self.is_full and entry.last_offset >= self.start_offset:
            self.offsets.latest_offset = entry.last_offset

    def _add_records(self, entry: Entry) -> None:
        """Take the records of an entry. A full map ends the pass at the next record with a key, even if it is in the map."""
        for key, offset in entry.iter_keys():
            if key is not None and offset >= self.start_offset:
                if self.offsets.size >= self.max_size:
                    self.is_full = True
                    return
                self.offsets.put(key, offset)
            self.stats.map_messages_read += 1
