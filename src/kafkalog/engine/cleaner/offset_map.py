"""The latest offset of each key in the dirty part of a log, in a fixed amount of memory."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from kafkalog.errors import InvalidArgument
from kafkalog.kernels import offset_map as kernel
from kafkalog.kernels.bytes import Ints

from ..entries import Entry, iter_entries
from .kept_records import CleanedTransactions, CleanStats, is_discardable

DEFAULT_BYTES: Final = 128 << 20  # log.cleaner.dedupe.buffer.size


class OffsetMap:
    """Keys and offsets, 24 bytes each. `latest_offset` is the last offset that was mapped, -1 if none was."""

    def __init__(self, memory_bytes: int = DEFAULT_BYTES) -> None:
        self.slots = memory_bytes // kernel.SLOT_BYTES
        self.secret = np.frombuffer(os.urandom(8 * kernel.SECRET_WORDS), np.uint64)
        self.counts: Ints = np.array([0, -1], np.int64)
        self.table = np.zeros(self.slots * kernel.SLOT_WORDS, np.uint64)  # memory is used only where something is stored

    def clear(self) -> None:
        if self.size:
            self.table.fill(0)
        self.counts[:] = 0, -1

    @property
    def size(self) -> int:
        return int(self.counts[kernel.SIZE])

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    @property
    def latest_offset(self) -> int:
        return int(self.counts[kernel.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.counts[kernel.LATEST_OFFSET] = offset

    def put(self, key: bytes, offset: int) -> None:
        if self.size >= self.slots:
            raise InvalidArgument(f"the offset map is full: {self.size} keys")
        kernel.put_key(self.table, self.counts, self.secret, np.frombuffer(key, np.uint8), offset)

    def get(self, key: bytes) -> int:
        """The offset of the key, or -1."""
        return int(kernel.find_key(self.table, self.secret, np.frombuffer(key, np.uint8)))


class OffsetMapping:
    """Fills the map of one pass with the keys from `start_offset` on, until it is full."""

    def __init__(self, offsets: OffsetMap, max_size: int, start_offset: int, stats: CleanStats) -> None:
        self.offsets = offsets
        self.max_size = max_size
        self.start_offset = start_offset
        self.stats = stats
        self.transactions = CleanedTransactions()
        self.is_full = False

    def add_chunk(self, chunk: bytes) -> int:
        """Add the entries of a chunk; returns their size, up to where the map is full."""
        size = 0
        for entry in iter_entries(chunk):
            self.add_entry(entry)
            if self.is_full:
                break
            size += entry.size
        return size

    def add_entry(self, entry: Entry) -> None:
        """Add the next entry."""
        self.add_decided(entry, is_aborted=is_discardable(entry, self.transactions))

    def add_decided(self, entry: Entry, *, is_aborted: bool) -> None:
        """Add an entry whose transaction is known to be aborted or not."""
        if entry.is_control_batch:
            self.stats.map_messages_read += 1
        elif is_aborted:
            self.stats.map_messages_read += entry.records_count or 0
        else:
            self._add_records(entry)
        if not self.is_full and entry.last_offset >= self.start_offset:
            self.offsets.latest_offset = entry.last_offset

    def _add_records(self, entry: Entry) -> None:
        """Add the records of an entry. A full map ends the pass at the next record with a key, even one in the map."""
        for key, offset in entry.iter_keys():
            if key is not None and offset >= self.start_offset:
                if self.offsets.size >= self.max_size:
                    self.is_full = True
                    return
                self.offsets.put(key, offset)
            self.stats.map_messages_read += 1
