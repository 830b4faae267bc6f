"""Records of two copies compared offset by offset, where their batches are not the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkalog.errors import Limits, SegmentError, StorageError
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable, Ints
from kafkalog.log.checks.record_rules import has_sparse_sets
from kafkalog.log.partition import Partition
from kafkalog.segment.arrays import Constants
from kafkalog.segment.columns import RecordColumns
from kafkalog.segment.decode import RecordDecoder, RecordRange
from kafkalog.segment.windows import WINDOW_BYTES, Window

from .copies import CopyEntries, Rows
from .difference import Spot

COLUMNS = ("key", "value", "headers_raw")
DECODED = frozenset({"offset", "timestamp_ms", *COLUMNS})
FLAGS = batch.TRANSACTIONAL | batch.CONTROL | batch.LOG_APPEND_TIME
Flags = NDArray[np.bool_]


@dataclass
class Block:
    """Records in the order of their offsets; `rows` are the entries they are in."""

    offsets: Ints
    timestamps: Ints
    rows: Ints
    columns: tuple[pa.Array, ...]  # COLUMNS

    def __len__(self) -> int:
        return len(self.offsets)

    def chosen(self, start: int, stop: int) -> Block:
        columns = tuple(column.slice(start, stop - start) for column in self.columns)
        return Block(self.offsets[start:stop], self.timestamps[start:stop], self.rows[start:stop], columns)

    def taken(self, at: Ints) -> Block:
        indices = pa.array(at)
        return Block(self.offsets[at], self.timestamps[at], self.rows[at], tuple(column.take(indices) for column in self.columns))

    @property
    def key(self) -> pa.Array:
        return self.columns[0]

    @property
    def value(self) -> pa.Array:
        return self.columns[1]


class DecodedRows:
    """The records of some entries of one copy. `problems` are entries, by their rows, that do not decode."""

    def __init__(self, copy: CopyEntries, rows: Rows, limits: Limits) -> None:
        self.copy = copy
        self.rows = rows
        self.decoder = RecordDecoder(RecordRange(), limits, DECODED, check_crcs=False, stop_at_problem=False)
        self.constants = Constants()
        self.problems: list[tuple[int, SegmentError]] = []
        self.is_sparse = False  # compressed v0/v1 sets show only here that they were compacted

    def blocks(self, after: int, up_to: int) -> Iterator[Block]:
        """The records with offsets in this range, a few MiB of them at a time."""
        for first, stop in self._spans():
            try:
                window = self._window(first, stop)
            except StorageError as error:
                self._fail(first, stop, error)
                continue
            for decoded, _ in self.decoder.decode_in_parts(window, np.arange(stop - first)):
                self.problems += [(first + problem.entry, problem.error) for problem in decoded.problems]
                for group in decoded.groups:
                    self.is_sparse = self.is_sparse or has_sparse_sets(group)
                    block = self._block(group, first)
                    wanted = (block.offsets > after) & (block.offsets <= up_to)
                    if not wanted.all():
                        block = block.taken(np.flatnonzero(wanted))
                    if len(block):
                        yield block

    def _fail(self, first: int, stop: int, error: StorageError) -> None:
        file = self.copy.partition.segments[int(self.rows.segments[first])].log.path
        for row in range(first, stop):
            header = self.rows.entries.header(row)
            unread = SegmentError("unreadable", file=file, position=header.position, length=header.size, detail=str(error))
            self.problems.append((row, unread))

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Rows that lie together in one file, a window of them at a time."""
        entries, segments = self.rows.entries, self.rows.segments
        if not len(self.rows):
            return
        cuts = (segments[1:] != segments[:-1]) | (entries.position[1:] != entries.stop[:-1])
        edges = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(self.rows)]
        for first, stop in pairwise(edges):
            while first < stop:
                fits = int(np.searchsorted(entries.stop[first:stop], entries.position[first] + WINDOW_BYTES, side="right"))
                yield first, min(first + max(fits, 1), stop)
                first += max(fits, 1)

    def _window(self, first: int, stop: int) -> Window:
        table = EntryTable(np.ascontiguousarray(self.rows.entries.fields[:, first:stop]))
        position = int(table.position[0])
        data = np.empty(int(table.stop[-1]) - position, np.uint8)
        segment = self.copy.partition.segments[int(self.rows.segments[first])]
        with self.copy.partition.open_log(segment) as source:
            if source.read_into(position, data.data) < len(data):
                raise StorageError(f"{source.path}: it ended at byte {source.size} while it was read", file=source.path)
        return Window(segment.log.path, position, data, table, len(table))

    def _block(self, group: RecordColumns, first: int) -> Block:
        rows = np.repeat(group.entries, group.row_counts) + first
        columns = tuple(group.column(name, self.constants) for name in COLUMNS)
        block = Block(group.offsets[: group.rows], group.timestamps[: group.rows], rows, columns)
        if not (block.offsets[1:] > block.offsets[:-1]).all():  # as a client numbered them
            block = block.taken(np.argsort(block.offsets, kind="stable"))
        return block


@dataclass
class Aligned:
    """Records of both copies up to the same offset, by their rows in the blocks: in one only, in both and equal, in both."""

    a: Block | None
    b: Block | None
    only_a: Ints
    only_b: Ints
    both_a: Ints
    both_b: Ints
    equal: Flags


NO_ROWS: Ints = np.empty(0, np.int64)


def align(a: DecodedRows, b: DecodedRows, after: int, up_to: int) -> Iterator[Aligned]:
    """The records of both copies in parts, each up to an offset that both have reached."""
    streams = a.blocks(after, up_to), b.blocks(after, up_to)
    first, second = next(streams[0], None), next(streams[1], None)
    while first is not None or second is not None:
        if first is None or second is None:
            yield _alone(first, second)
            first, second = next(streams[0], None), next(streams[1], None)
            continue
        limit = min(int(first.offsets[-1]), int(second.offsets[-1]))
        cuts = [int(np.searchsorted(block.offsets, limit, side="right")) for block in (first, second)]
        yield _compared(first.chosen(0, cuts[0]), second.chosen(0, cuts[1]), a.rows.entries, b.rows.entries)
        first = first.chosen(cuts[0], len(first)) if cuts[0] < len(first) else next(streams[0], None)
        second = second.chosen(cuts[1], len(second)) if cuts[1] < len(second) else next(streams[1], None)


def _alone(a: Block | None, b: Block | None) -> Aligned:
    rows = [np.arange(len(block)) if block is not None else NO_ROWS for block in (a, b)]
    return Aligned(a, b, rows[0], rows[1], NO_ROWS, NO_ROWS, np.empty(0, np.bool_))


def _compared(a: Block, b: Block, entries_a: EntryTable, entries_b: EntryTable) -> Aligned:
    if len(a) == len(b) and (a.offsets == b.offsets).all():
        both_a = both_b = np.arange(len(a))
    else:
        _, both_a, both_b = np.intersect1d(a.offsets, b.offsets, return_indices=True)
    only_a = np.setdiff1d(np.arange(len(a)), both_a, assume_unique=True)
    only_b = np.setdiff1d(np.arange(len(b)), both_b, assume_unique=True)
    first = a if len(both_a) == len(a) else a.taken(both_a)
    second = b if len(both_b) == len(b) else b.taken(both_b)
    equal = (first.timestamps == second.timestamps) & _same_flags(first, second, entries_a, entries_b)
    for column, other in zip(first.columns, second.columns, strict=True):
        if not column.equals(other):
            equal &= _equal_values(column, other)
    return Aligned(a, b, only_a, only_b, both_a, both_b, equal)


def _same_flags(a: Block, b: Block, entries_a: EntryTable, entries_b: EntryTable) -> Flags:
    """Whether the batches of these records are of the same kind, where both are v2."""
    first, second = entries_a.attributes[a.rows] & FLAGS, entries_b.attributes[b.rows] & FLAGS
    old = (entries_a.magic[a.rows] < 2) | (entries_b.magic[b.rows] < 2)
    same: Flags = (first == second) | old
    return same


def is_null(column: pa.Array) -> Flags:
    """Which values of a column are null."""
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    return np.array(column.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _equal_values(a: pa.Array, b: pa.Array) -> Flags:
    if pa.types.is_nested(a.type):
        return np.array([one == other for one, other in zip(a.to_pylist(), b.to_pylist(), strict=True)], np.bool_)
    same = pc.fill_null(pc.equal(a, b), False)
    equal: Flags = np.array(same.to_numpy(zero_copy_only=False), np.bool_)
    return equal | (is_null(a) & is_null(b))


def first_difference(a: Partition, b: Partition, spot_a: Spot, spot_b: Spot) -> tuple[int, int | None, int | None] | None:
    """The number of the first byte in which two byte ranges differ, and that byte on both sides; None if there is none.

    A byte is None where one of them has ended.
    """
    length = min(spot_a.length, spot_b.length)
    try:
        with a.store.open(spot_a.file) as source_a, b.store.open(spot_b.file) as source_b:
            for start in range(0, length, WINDOW_BYTES):
                size = min(WINDOW_BYTES, length - start)
                first = np.frombuffer(source_a.read(spot_a.position + start, size), np.uint8)
                second = np.frombuffer(source_b.read(spot_b.position + start, size), np.uint8)
                if len(first) != size or len(second) != size:
                    return None
                differing = np.flatnonzero(first != second)
                if len(differing):
                    at = int(differing[0])
                    return start + at, int(first[at]), int(second[at])
    except StorageError:
        return None
    return (length, None, None) if spot_a.length != spot_b.length else None
