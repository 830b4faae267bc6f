"""The headers of many entries as one table of integers: a row for each entry, a named column for each field.

Kernels take the plain array, whose first axis is the field, so that a column is contiguous: their `fields[SIZE, row]` is
`entries.size[row]` everywhere else.

For v0/v1, `base_offset` is the offset field (so the *last* offset of a wrapper), `base_timestamp` and `max_timestamp` are the
message's own timestamp, and fields that only batches have are -1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .batch import DELETE_HORIZON, LOG_APPEND_TIME
from .quantities import plural, size_text

Ints = NDArray[np.int64]
Rows = slice | Ints | NDArray[np.bool_]


class EntryHeader(NamedTuple):
    """The header of one entry, with the fields of the table in order."""

    position: int  # in the file, or in the bytes that were scanned
    size: int  # of the whole entry
    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    crc: int
    base_timestamp: int
    max_timestamp: int
    record_count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    control_type: int  # of the first record of a control batch, if it could be read
    coordinator_epoch: int  # likewise

    @property
    def stop(self) -> int:
        """The position after the entry."""
        return self.position + self.size

    def __repr__(self) -> str:
        offsets = f"offsets {self.base_offset} to {self.last_offset}"
        return f"EntryHeader(v{self.magic} at byte {self.position}, {size_text(self.size)}, {offsets})"


# The fields by their numbers in the array.
(
    POSITION,
    SIZE,
    MAGIC,
    BASE_OFFSET,
    LAST_OFFSET,
    ATTRIBUTES,
    CRC,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    RECORD_COUNT,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    LEADER_EPOCH,
    CONTROL_TYPE,
    COORDINATOR_EPOCH,
) = range(16)
FIELD_COUNT: Final = len(EntryHeader._fields)
assert EntryHeader._fields[POSITION] == "position"
assert EntryHeader._fields[COORDINATOR_EPOCH] == "coordinator_epoch"
assert FIELD_COUNT == COORDINATOR_EPOCH + 1

UNKNOWN_CONTROL: Final = -1


class _Column:
    """A column by its name: a writable view."""

    def __init__(self, field: int) -> None:
        self.field = field

    def __get__(self, table: EntryTable, owner: type[EntryTable]) -> Ints:
        column: Ints = table.fields[self.field]
        return column

    def __set__(self, table: EntryTable, values: Ints | Sequence[int] | int) -> None:
        table.fields[self.field] = values


class EntryTable:
    """Headers of entries; `fields` is the array that kernels take."""

    __slots__ = ("fields",)

    position = _Column(POSITION)
    size = _Column(SIZE)
    magic = _Column(MAGIC)
    base_offset = _Column(BASE_OFFSET)
    last_offset = _Column(LAST_OFFSET)
    attributes = _Column(ATTRIBUTES)
    crc = _Column(CRC)
    base_timestamp = _Column(BASE_TIMESTAMP)
    max_timestamp = _Column(MAX_TIMESTAMP)
    record_count = _Column(RECORD_COUNT)
    producer_id = _Column(PRODUCER_ID)
    producer_epoch = _Column(PRODUCER_EPOCH)
    base_sequence = _Column(BASE_SEQUENCE)
    leader_epoch = _Column(LEADER_EPOCH)
    control_type = _Column(CONTROL_TYPE)
    coordinator_epoch = _Column(COORDINATOR_EPOCH)

    def __init__(self, fields: Ints) -> None:
        self.fields = fields

    @classmethod
    def with_room(cls, count: int) -> EntryTable:
        """A table with room for `count` entries, not filled yet."""
        return cls(np.empty((FIELD_COUNT, count), np.int64))

    @classmethod
    def joined(cls, tables: Sequence[EntryTable]) -> EntryTable:
        """The entries of these tables (at least one) in sequence."""
        return cls(np.concatenate([table.fields for table in tables], axis=1))

    def __len__(self) -> int:
        count: int = self.fields.shape[1]
        return count

    def __repr__(self) -> str:
        if not len(self):
            return "EntryTable(0 entries)"
        offsets = f"offsets {self.base_offset[0]} to {self.last_offset[-1]}"
        return f"EntryTable({plural(len(self), 'entry', 'entries')}, {offsets}, {size_text(int(self.size.sum()))})"

    def __getitem__(self, rows: Rows) -> EntryTable:
        """The entries of these rows: a view for a slice, otherwise a copy."""
        return EntryTable(self.fields[:, rows])

    def __iter__(self) -> Iterator[EntryHeader]:
        return (EntryHeader(*column.tolist()) for column in self.fields.T)

    def column(self, name: str) -> Ints:
        """The column of this name."""
        column: Ints = self.fields[EntryHeader._fields.index(name)]
        return column

    def header(self, row: int) -> EntryHeader:
        return EntryHeader(*self.fields[:, row].tolist())

    @property
    def stop(self) -> Ints:
        """The position after each entry."""
        return self.position + self.size

    @property
    def first_timestamp(self) -> Ints:
        """The timestamp of the first record of each entry; of a compressed v0/v1 set the largest, the only one outside of it.

        A base timestamp says nothing where the broker set all timestamps (log append time), and may be a delete horizon.
        """
        says_first = (self.attributes & (LOG_APPEND_TIME | DELETE_HORIZON) == 0) & (self.base_timestamp >= 0)
        first: Ints = np.where(says_first, np.minimum(self.base_timestamp, self.max_timestamp), self.max_timestamp)
        return first

    def only(self, row: int) -> EntryTable:
        """A table of this one entry, contiguous as kernels require it."""
        return EntryTable(np.ascontiguousarray(self.fields[:, [row]]))

    def without(self, rows: Sequence[int]) -> EntryTable:
        return EntryTable(np.delete(self.fields, rows, axis=1)) if rows else self

    def copy(self) -> EntryTable:
        return EntryTable(self.fields.copy())


# The facts that the kernel `survey` computes of a table, by number.
IN_ORDER, LEGACY_COUNT, WRAPPER_COUNT, CONTROL_COUNT, FIRST_BASE, GREATEST_LAST, FIRST_EPOCH, GREATEST_EPOCH = range(8)


class TableFacts(NamedTuple):
    """Facts of a whole table, which decide whether a reader has to look at single entries."""

    in_order: int  # 1: offsets rise and leader epochs do not go back
    legacy_count: int  # of v0/v1
    wrapper_count: int
    control_count: int
    first_base: int
    greatest_last: int
    first_epoch: int
    greatest_epoch: int


FACT_COUNT: Final = len(TableFacts._fields)
assert FACT_COUNT == GREATEST_EPOCH + 1
