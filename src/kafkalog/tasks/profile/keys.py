"""The number and bytes of records of a partition that are the last of their key: compaction drops the others.

Every key counts until there are too many. Then only those in a sample do, chosen by bits of a hash: a half of all keys, then a
quarter, and so on. As the hash is independent of the records, what the sample holds, divided by its share, is an estimate of the
whole without bias (Horvitz and Thompson), and its variance can be computed from the sample itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkalog.kernels import counting as kernel
from kafkalog.kernels.bytes import Bytes, Ints

from .result import Compaction, Count, Estimate

FIRST_SLOTS = 1 << 10
MOST_SLOTS = 1 << 18
GROWTH = 4
NORMAL_QUANTILE = 1.959964  # 95 % of a normal distribution lie within so many standard deviations


@dataclass
class EstimatedSum:
    """An estimated sum and its variance, 0 where it was counted; sums of different partitions can be added."""

    value: float = 0.0
    variance: float = 0.0

    def __iadd__(self, other: EstimatedSum) -> EstimatedSum:
        self.value += other.value
        self.variance += other.variance
        return self

    def estimate(self, low: int, high: int) -> Estimate:
        """With its interval, within what is known to be possible."""
        error = NORMAL_QUANTILE * math.sqrt(self.variance)
        bounds = self.value, self.value - error, self.value + error
        return Estimate(*(min(max(round(bound), low), high) for bound in bounds))


class LastRecords:
    """The last record of each key of one partition, or of a sample of them."""

    def __init__(self, salt: int, most_slots: int = MOST_SLOTS) -> None:
        self.salt = salt
        self.most_slots = most_slots
        self.table = _empty(min(FIRST_SLOTS, most_slots))
        self.used = 0
        self.level = 0

    @property
    def mask(self) -> int:
        return (1 << self.level) - 1

    def add(self, ids: Ints, shares: Ints, has_value: Bytes) -> None:
        """Later records, in log order."""
        row = 0
        while True:
            room = len(self.table) // 2
            row, self.used = kernel.add_keys(self.table, self.used, room, self.salt, self.mask, ids, shares, has_value, row)
            if row == len(ids):
                return
            self._make_room()

    def _make_room(self) -> None:
        slots = min(len(self.table) * GROWTH, self.most_slots)
        if slots == len(self.table):
            self.level += 1
        table = _empty(slots)
        self.used = kernel.move_keys(self.table, table, self.salt, self.mask)
        self.table = table

    def sums(self) -> KeySums:
        stored = self.table[self.table[:, kernel.ID] != kernel.FREE, kernel.LAST_SHARE]
        is_tombstone = stored < 0
        sizes = np.where(is_tombstone, ~stored, stored).astype(np.float64)
        share = 0.5**self.level
        return KeySums(
            _scaled(np.ones(len(stored)), share),
            _scaled(sizes, share),
            _scaled(is_tombstone.astype(np.float64), share),
            _scaled(sizes[is_tombstone], share),
        )


def _scaled(values: NDArray[np.float64], share: float) -> EstimatedSum:
    """The sum over everything that these values sample, each drawn independently with the same chance."""
    return EstimatedSum(float(values.sum()) / share, float((values**2).sum()) * (1 - share) / share**2)


def _empty(slots: int) -> Ints:
    return np.zeros((slots, kernel.KEY_FIELDS), np.int64)


@dataclass
class KeySums:
    """Of the last records of keys: how many they are, their bytes, and those of tombstones among them."""

    keys: EstimatedSum = field(default_factory=EstimatedSum)
    last_bytes: EstimatedSum = field(default_factory=EstimatedSum)
    tombstones: EstimatedSum = field(default_factory=EstimatedSum)
    tombstone_bytes: EstimatedSum = field(default_factory=EstimatedSum)

    def __iadd__(self, other: KeySums) -> KeySums:
        self.keys += other.keys
        self.last_bytes += other.last_bytes
        self.tombstones += other.tombstones
        self.tombstone_bytes += other.tombstone_bytes
        return self


@dataclass
class Compactable:
    """The records of a topic, or of all, as a cleaner sees them."""

    keyed: Count = field(default_factory=Count)
    unkeyed: Count = field(default_factory=Count)
    aborted: Count = field(default_factory=Count)
    sums: KeySums = field(default_factory=KeySums)

    def __iadd__(self, other: Compactable) -> Compactable:
        self.keyed += other.keyed
        self.unkeyed += other.unkeyed
        self.aborted += other.aborted
        self.sums += other.sums
        return self

    def result(self) -> Compaction:
        records, size, sums = self.keyed.records, self.keyed.bytes, self.sums
        keys = sums.keys.estimate(0, records)
        last_bytes = sums.last_bytes.estimate(0, size)
        return Compaction(
            records,
            size,
            self.unkeyed.records,
            self.unkeyed.bytes,
            self.aborted.records,
            self.aborted.bytes,
            keys,
            _rest(records, keys),
            _rest(size, last_bytes),
            sums.tombstones.estimate(0, records),
            sums.tombstone_bytes.estimate(0, size),
        )


def _rest(total: int, part: Estimate) -> Estimate:
    return Estimate(total - part.value, total - part.high, total - part.low)
