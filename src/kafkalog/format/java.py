"""Java's rules that show in Kafka's bytes: integers that wrap, UTF-8, and the order of a HashMap.

The entries of a `.snapshot` are in the order in which Java's HashMap iterates over keys of type Long. A key's bucket is its hash
folded to the number of buckets; within a bucket the order is that of insertion. The table doubles when it is three quarters full,
or when a bucket of a small table gets long, and never shrinks. In a large table a bucket of nine keys becomes a tree, whose order
is not reproduced here: the ids that brokers assign do not collide so often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

MAX_INT8: Final = (1 << 7) - 1
MAX_INT16: Final = (1 << 15) - 1
MAX_INT32: Final = (1 << 31) - 1
MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)

FIRST_CAPACITY: Final = 16
MIN_TREE_CAPACITY: Final = 64  # below this a long bucket makes the table grow

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")

Value = TypeVar("Value")


def as_int32(value: int) -> int:
    """`value` wrapped as a Java int."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def as_int64(value: int) -> int:
    """`value` wrapped as a Java long."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def decode_utf8(data: bytes) -> str:
    """`data` as Java decodes it, with U+FFFD for what is not UTF-8: header keys, and everything that Kafka's tools print.

    Java gives one U+FFFD for an encoded surrogate, where Python's `replace` gives one per byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode(errors="replace")


def hash_of_text(text: str) -> int:
    """Java's String.hashCode, by which Kafka spreads groups over the partitions of its own topics."""
    code = 0
    units = text.encode("utf-16-be", errors="surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return as_int32(code)


def bucket(key: int, capacity: int) -> int:
    """The number of the bucket that holds `key`."""
    folded = (key ^ (key >> 32 & 0xFFFFFFFF)) & 0xFFFFFFFF
    return (folded ^ folded >> 16) & (capacity - 1)


class HashMap(Generic[Value]):
    """A map with keys of type Long. Iterates over its values in Java's order; `entries` is a plain dict of the same pairs."""

    __slots__ = ("_capacity", "entries")

    longest_chain: int = 8

    def __init__(self) -> None:
        self.entries: dict[int, Value] = {}
        self._capacity = FIRST_CAPACITY

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, key: int, value: Value) -> None:
        is_new = key not in self.entries
        self.entries[key] = value
        if is_new:
            self._grow_for_chain(key)
            self._grow_if_full()

    def remove_all(self, keys: Iterable[int]) -> None:
        for key in keys:
            del self.entries[key]

    def clear(self) -> None:
        self.entries.clear()

    def __iter__(self) -> Iterator[Value]:
        return iter([self.entries[key] for key in sorted(self._chained(), key=lambda key: bucket(key, self._capacity))])

    def _chained(self) -> Iterable[int]:
        """The keys, with those of each bucket in its order."""
        return self.entries

    def _grow_if_full(self) -> None:
        if len(self.entries) > self._capacity * 3 // 4:
            self._capacity *= 2

    def _grow_for_chain(self, key: int) -> None:
        if self._capacity < MIN_TREE_CAPACITY and len(self.entries) > self.longest_chain:
            own = bucket(key, self._capacity)
            if sum(bucket(other, self._capacity) == own for other in self.entries) > self.longest_chain:
                self._capacity *= 2


class NewestFirstMap(HashMap[Value]):
    """A map filled only by `compute_if_absent`: a new key goes before the others of its bucket, and the table grows later."""

    __slots__ = ()

    longest_chain = 7

    def compute_if_absent(self, key: int, compute: Callable[[], Value]) -> Value:
        self._grow_if_full()
        value = self.entries.get(key)
        if value is None:
            value = self.entries[key] = compute()
            self._grow_for_chain(key)
        return value

    def _chained(self) -> Iterable[int]:
        return list(self.entries)[::-1]
