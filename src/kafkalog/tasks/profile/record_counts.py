"""Counted from decoded records: by hour, key, key prefix and header name, and the last record of each key.

The stored bytes of a batch are shared out among its records by the size of key, value and headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels import counting as kernel
from kafkalog.kernels import layout
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.layout import Texts, readonly
from kafkalog.log.partition import Partition
from kafkalog.log.reading import RecordSlice
from kafkalog.log.transactions import AbortedRanges
from kafkalog.segment.arrays import Constants, offsets_of, texts_of

from .keys import Compactable, LastRecords
from .observer import Observer
from .ranking import NO_NUMBER, HeavyItems
from .result import Count

COLUMNS = frozenset({"offset", "timestamp_ms", "key", "value", "headers_raw"})
HOUR_MS = 3_600_000
LABEL_BYTES = 64
MOST_KEYS, MOST_PREFIXES, MOST_HEADERS, MOST_HOURS = 1 << 16, 1 << 14, 1 << 12, 1 << 16
# A prefix ends with the first of these, if it comes early; a key without one is grouped by its first bytes.
PREFIX_ENDS = b":/.|-_#"
LONGEST_PREFIX = 32
BYTES_WITHOUT_END = 4
SALT_FACTOR = 0x9E3779B1
MOST_COMPARED = 32  # headers of a record whose names are compared one with another; those of one with more are sorted


def hours_of(timestamps: Ints) -> Ints:
    """The first millisecond of each one's hour, NO_NUMBER where there is no timestamp."""
    return np.where(timestamps < 0, NO_NUMBER, timestamps - timestamps % HOUR_MS)


@dataclass
class _Texts:
    """Texts of some rows, as the kernels of `counting` take them."""

    content: Bytes
    starts: Ints
    sizes: Ints
    wanted: Bytes

    @classmethod
    def of(cls, texts: Texts) -> _Texts:
        offsets = texts.offsets.astype(np.int64)
        wanted = texts.valid if len(texts.valid) else readonly(np.ones(len(offsets) - 1, np.uint8))
        return cls(texts.content, offsets[:-1], np.diff(offsets), wanted)

    def ids(self, wanted: Bytes, seed: int) -> Ints:
        ids = np.empty(len(self.starts), np.int64)
        kernel.hash_texts(self.content, self.starts, self.sizes, readonly(wanted), seed, ids)
        return ids


class RecordCounts:
    """Records as they pass, partition by partition, in log order."""

    def __init__(self, observer: Observer | None = None, topics: Sequence[str] = ()) -> None:
        self.observer = observer
        self.hours = HeavyItems(MOST_HOURS)
        self.keys = HeavyItems(MOST_KEYS, LABEL_BYTES)
        self.prefixes = HeavyItems(MOST_PREFIXES, LABEL_BYTES)
        self.headers = HeavyItems(MOST_HEADERS, LABEL_BYTES)
        self.topics = list(dict.fromkeys(topics))  # ids depend on their order
        self.compactable: dict[str, Compactable] = {}
        self._prefix_ends = readonly(np.isin(np.arange(256), list(PREFIX_ENDS)).astype(np.uint8))
        self._constants = Constants()

    def begin(self, partition: Partition) -> None:
        """What follows belongs to this partition."""
        if partition.topic not in self.topics:
            self.topics.append(partition.topic)
        self.topic = self.topics.index(partition.topic)
        self.part = Compactable()
        self.last_records = LastRecords(partition.partition * SALT_FACTOR & kernel.LOW_32)

    def end(self, partition: Partition) -> None:
        self.part.sums += self.last_records.sums()
        self.compactable.setdefault(partition.topic, Compactable()).__iadd__(self.part)
        self.last_records = LastRecords(0)

    def merge(self, other: RecordCounts) -> None:
        """Add what was counted of other partitions, with the same topics."""
        assert self.topics == other.topics
        for name in ("hours", "keys", "prefixes", "headers"):
            getattr(self, name).merge(getattr(other, name))
        for topic, found in other.compactable.items():
            self.compactable.setdefault(topic, Compactable()).__iadd__(found)

    def add(self, found: RecordSlice, aborted: AbortedRanges | None) -> None:
        rows = found.stop - found.start
        if not rows:
            return
        entries = slice(found.first_entry, found.stop_entry)
        table, counts = found.columns.entry_table[entries], found.columns.row_counts[entries]
        keys, values, headers = (found.columns.column(name, self._constants) for name in ("key", "value", "headers_raw"))
        key_texts, value_texts = (_Texts.of(texts_of(column.slice(found.start, rows))) for column in (keys, values))
        header_offsets = offsets_of(headers.slice(found.start, rows))
        pairs = headers.values
        names, contents = (_Texts.of(texts_of(_between(pairs.field(at), header_offsets))) for at in range(2))
        weights = key_texts.sizes + value_texts.sizes + _header_bytes(header_offsets, names, contents) + batch.MIN_RECORD_SIZE
        shares = np.empty(rows, np.int64)
        kernel.share_out(counts, np.ascontiguousarray(table.size), weights, shares)
        self._count_hours(found.columns.timestamps[found.start : found.stop], shares)
        self._count_keys(table, counts, key_texts, value_texts.wanted, shares, aborted)
        self._count_headers(header_offsets, names, contents, weights, shares)
        if self.observer is not None:
            data = ~_control_records(table, counts)
            timestamps = found.columns.timestamps[found.start : found.stop]
            has_key, has_value = (texts.wanted != 0 for texts in (key_texts, value_texts))
            self.observer.see_records(timestamps, shares, key_texts.sizes[data & has_key], value_texts.sizes[data & has_value])

    def _count_hours(self, timestamps: Ints, shares: Ints) -> None:
        self.hours.add_numbers(hours_of(timestamps), shares, np.ones(len(shares), np.int64))

    def _count_keys(
        self,
        table: EntryTable,
        counts: NDArray[np.int64],
        keys: _Texts,
        has_value: Bytes,
        shares: Ints,
        aborted: AbortedRanges | None,
    ) -> None:
        data = ~_control_records(table, counts)
        wanted = (keys.wanted != 0) & data
        ids = keys.ids(wanted.astype(np.uint8), self.topic)
        ones = np.ones(len(ids), np.int64)
        self.keys.add(ids, keys.content, keys.starts, keys.sizes, shares, ones, self.topic)
        self._count_prefixes(keys, wanted.astype(np.uint8), shares, ones)
        if aborted is not None:
            dropped = _repeated(aborted.mask(table), counts)
            _add(self.part.aborted, dropped, shares)
            ids[dropped] = kernel.FREE
            data, wanted = data & ~dropped, wanted & ~dropped
        _add(self.part.keyed, wanted, shares)
        _add(self.part.unkeyed, data & ~wanted, shares)
        self.last_records.add(ids, shares, has_value)

    def _count_prefixes(self, keys: _Texts, wanted: Bytes, shares: Ints, ones: Ints) -> None:
        sizes = np.empty(len(shares), np.int64)
        kernel.measure_prefixes(
            keys.content, keys.starts, keys.sizes, self._prefix_ends, LONGEST_PREFIX, BYTES_WITHOUT_END, sizes
        )
        prefixes = _Texts(keys.content, keys.starts, sizes, wanted)
        ids = prefixes.ids(wanted, self.topic)
        self.prefixes.add(ids, keys.content, keys.starts, sizes, shares, ones, self.topic)

    def _count_headers(self, offsets: layout.Offsets32, names: _Texts, values: _Texts, weights: Ints, shares: Ints) -> None:
        count = len(names.starts)
        if not count:
            return
        header_shares = np.empty(count, np.int64)
        kernel.share_headers(offsets, names.sizes, values.sizes, weights, shares, header_shares)
        ids = names.ids(names.wanted, 0)
        self.headers.add(ids, names.content, names.starts, names.sizes, header_shares, _first_of_record(offsets, ids))


def _between(column: pa.Array, offsets: layout.Offsets32) -> pa.Array:
    """The headers of these rows."""
    return column.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _header_bytes(offsets: layout.Offsets32, names: _Texts, values: _Texts) -> Ints:
    """The bytes of all headers of each row."""
    upto = np.concatenate(([0], np.cumsum(names.sizes + values.sizes + layout.LEAST_HEADER)))
    sizes: Ints = np.diff(upto[offsets - offsets[0]])
    return sizes


def _first_of_record(offsets: layout.Offsets32, ids: Ints) -> Ints:
    """1 for the first header of each name in a record, 0 for its repetitions: a record counts once for a name."""
    marks = np.empty(len(ids), np.int64)
    kernel.mark_first_names(offsets, ids, MOST_COMPARED, marks)
    many = np.flatnonzero(marks < 0)
    if len(many):
        rows = np.searchsorted(offsets - offsets[0], many, side="right")
        marks[many] = 0
        _, first = np.unique(np.stack((rows, ids[many])), axis=1, return_index=True)
        marks[many[first]] = 1
    return marks


def _control_records(table: EntryTable, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    return _repeated((table.attributes & batch.CONTROL != 0) & (table.magic == 2), counts)


def _repeated(flags: NDArray[np.bool_], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """A flag per entry, spread over its records; most often none is set."""
    return np.repeat(flags, counts) if flags.any() else np.zeros(int(counts.sum()), np.bool_)


def _add(count: Count, rows: NDArray[np.bool_], shares: Ints) -> None:
    count.records += int(rows.sum())
    count.bytes += int(shares[rows].sum())
