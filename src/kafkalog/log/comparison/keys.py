"""Whether compaction can have removed records: each must have a later one with its key in the copy that lacks it.

The keys of missing records are noted in a table of fixed size. When it is full, and at the end, the copy is read once for records
that supersede them; what is left then was lost, whatever cleaned the log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable, Ints
from kafkalog.kernels import offset_map as kernel
from kafkalog.kernels.layout import readonly
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions, read_records
from kafkalog.log.report import ReadReport
from kafkalog.log.transactions import AbortedRanges, replay_transactions
from kafkalog.segment.arrays import Constants, texts_of
from kafkalog.segment.decode import RecordRange

from .records import Block, is_null

SLOTS = 1 << 21
ROOM = SLOTS * 3 // 4
MOST_LOST = 1000


@dataclass
class LostKeys:
    """Offsets of records that are in one copy, and whose keys have no later record in the other."""

    offsets: list[int] = field(default_factory=list)
    count: int = 0


class MissingKeys:
    """The keys of the records that `lacking` does not have, but `having` does."""

    def __init__(self, having: Partition, lacking: Partition, options: ReadOptions) -> None:
        self.having = having
        self.lacking = lacking
        self.options = options
        self.lost = LostKeys()
        self._table: NDArray[np.uint64] | None = None
        self._counts: Ints = np.array([0, -1], np.int64)
        self._secret = np.frombuffer(os.urandom(8 * kernel.SECRET_WORDS), np.uint64)
        self._first_offset = -1
        self._aborted: AbortedRanges | None = None

    def add(self, block: Block, entries: EntryTable) -> None:
        """Note missing records, in the order of their offsets; `entries` are those that the block's rows refer to."""
        kinds = self._kinds(block, entries)
        if not kinds.any():
            return
        if self._table is None:
            self._table = np.zeros(SLOTS * kernel.SLOT_WORDS, np.uint64)  # memory is used only where something is stored
        texts, offsets = texts_of(block.key), readonly(np.ascontiguousarray(block.offsets))
        row = 0
        while True:
            if self._first_offset < 0:
                self._first_offset = int(offsets[row])
            keys = texts.content, texts.offsets, readonly(kinds), offsets
            row = int(kernel.put_missing(self._table, self._counts, self._secret, *keys, row, ROOM))
            if row == len(block):
                return
            self.settle()

    def _kinds(self, block: Block, entries: EntryTable) -> NDArray[np.uint8]:
        """What compaction has to do with each record: it removes markers, aborted records and those without a key anyway."""
        attributes = entries.attributes[block.rows]
        is_batch = entries.magic[block.rows] == batch.MAX_MAGIC
        ignored = is_batch & (attributes & batch.CONTROL != 0)
        if (is_batch & (attributes & batch.TRANSACTIONAL != 0)).any():
            ignored |= self._aborted_ranges().mask(entries)[block.rows]
        kinds = np.full(len(block), kernel.LIVE, np.uint8)
        kinds[is_null(block.value)] = kernel.TOMBSTONE
        kinds[ignored | is_null(block.key)] = kernel.IGNORED
        return kinds

    def _aborted_ranges(self) -> AbortedRanges:
        if self._aborted is None:
            self._aborted = replay_transactions(self.having, self.options.limits, ReadReport()).aborted()
        return self._aborted

    def settle(self) -> None:
        """Read the copy that lacks the records; what it does not supersede is lost."""
        if self._table is None or not self._counts[kernel.SIZE]:
            return
        self._read_later_records()
        noted = self._table[2 :: kernel.SLOT_WORDS]
        left = noted[(noted != 0) & (noted != kernel.SUPERSEDED)].astype(np.int64) - 1
        self.lost.count += len(left)
        self.lost.offsets += np.sort(left)[: MOST_LOST - len(self.lost.offsets)].tolist()
        self._table.fill(0)
        self._counts[:] = 0, -1
        self._first_offset = -1

    def _read_later_records(self) -> None:
        assert self._table is not None
        options = ReadOptions(
            frozenset({"offset", "key"}),
            RecordRange(start_offset=self._first_offset),
            isolation="read_committed",  # an aborted record supersedes nothing
            committed=replay_transactions(self.lacking, self.options.limits, ReadReport()).committed(),
            on_damage="salvage",
            threads=self.options.threads,
            limits=self.options.limits,
        )
        constants = Constants()
        for found in read_records([self.lacking], options, ReadReport()):
            keys = found.columns.column("key", constants, found.start, found.stop)
            offsets = readonly(np.ascontiguousarray(found.columns.offsets[found.start : found.stop]))
            kinds = np.full(len(keys), kernel.LIVE, np.uint8)
            kinds[is_null(keys)] = kernel.IGNORED
            texts = texts_of(keys)
            kernel.supersede(self._table, self._secret, texts.content, texts.offsets, readonly(kinds), offsets)
