"""The order in which Java's HashMap gives out keys of type Long: that of the entries of a `.snapshot`.

A key's place is its hash folded to the number of buckets; within a bucket it is the order of insertion. The table doubles when it
is three quarters full, or when a bucket of a small table gets long, and never shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

FIRST_CAPACITY: Final = 16
LONG_CHAIN: Final = 8
MIN_TREE_CAPACITY: Final = 64  # from here on a long bucket becomes a tree instead of making the table grow

Value = TypeVar("Value")


def bucket(key: int, capacity: int) -> int:
    """The number of the bucket that holds `key`."""
    folded = (key ^ (key >> 32 & 0xFFFFFFFF)) & 0xFFFFFFFF
    return (folded ^ folded >> 16) & (capacity - 1)


class HashMap(Generic[Value]):
    """A map with keys of type Long. Iterates over its values in Java's order; `entries` is a plain dict of the same."""

    __slots__ = ("_capacity", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, Value] = {}
        self._capacity = FIRST_CAPACITY

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, key: int, value: Value) -> None:
        is_new = key not in self.entries
        self.entries[key] = value
        if is_new:
            self._grow(key, len(self.entries) > self._capacity * 3 // 4)

    def remove_all(self, keys: Iterable[int]) -> None:
        for key in keys:
            del self.entries[key]

    def clear(self) -> None:
        self.entries.clear()

    def __iter__(self) -> Iterator[Value]:
        for key in sorted(self.entries, key=lambda key: bucket(key, self._capacity)):
            yield self.entries[key]

    def _grow(self, key: int, is_full: bool) -> None:
        if self._capacity < MIN_TREE_CAPACITY:
            own = bucket(key, self._capacity)
            if sum(bucket(other, self._capacity) == own for other in self.entries) > LONG_CHAIN:
                self._capacity *= 2
                is_full = len(self.entries) > self._capacity * 3 // 4
        if is_full:
            self._capacity *= 2


class NewestFirstMap(HashMap[Value]):
    """A map that is filled by computeIfAbsent only: a new key goes before the others of its bucket, and growing comes late."""

    __slots__ = ()

    def put(self, key: int, value: Value) -> None:
        assert key not in self.entries
        if len(self.entries) > self._capacity * 3 // 4:
            self._capacity *= 2
        self.entries[key] = value

    def __iter__(self) -> Iterator[Value]:
        newest_first = list(self.entries)[::-1]
        for key in sorted(newest_first, key=lambda key: bucket(key, self._capacity)):
            yield self.entries[key]
