"""Java's integers: their bounds, and sums that go around at them."""

from __future__ import annotations

from typing import Final

MAX_INT8: Final = (1 << 7) - 1
MAX_INT16: Final = (1 << 15) - 1
MAX_INT32: Final = (1 << 31) - 1
MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)


def as_int32(value: int) -> int:
    """`value` as Java's arithmetic with ints would leave it."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def as_int64(value: int) -> int:
    """`value` as Java's arithmetic with longs would leave it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
