"""The prefix that a schema registry's serializers write before a value: a zero byte and the number of the schema, big-endian."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .values import Decoder

PREFIX_BYTES: Final = 5
# A registry counts from 1 on, and a topic has few schemas: larger or many different numbers are other data.
LARGEST_ID: Final = 1 << 24
MOST_IDS: Final = 100


def content_of(value: bytes) -> bytes | None:
    """What follows the prefix; None if there is none."""
    return value[PREFIX_BYTES:] if len(value) >= PREFIX_BYTES and value[0] == 0 else None


def likely_schema_id(values: pa.Array) -> int | None:
    """The most frequent schema number if all values look as if they had a prefix; None if not, or if there are no values."""
    found: Counter[int] = Counter()
    for value in values.to_pylist():
        if value is None:
            continue
        schema_id = int.from_bytes(value[1:PREFIX_BYTES], "big")
        if content_of(value) is None or not 0 < schema_id < LARGEST_ID:
            return None
        found[schema_id] += 1
    return found.most_common(1)[0][0] if 0 < len(found) <= MOST_IDS else None


class PrefixedDecoder:
    """A decoder for values with the prefix; one without it does not decode."""

    def __init__(self, inner: Decoder) -> None:
        self.inner = inner
        self.type = inner.type

    def __repr__(self) -> str:
        return f"PrefixedDecoder({self.inner!r})"

    def decode(self, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
        contents = without_prefix(values)
        lost = np.array(contents.is_null()) & np.array(values.is_valid())
        found, failed = self.inner.decode(contents)
        return found, failed | lost


def without_prefix(values: pa.Array) -> pa.Array:
    """What follows the prefixes; null where there is none."""
    return pa.array([None if value is None else content_of(value) for value in values.to_pylist()], pa.binary())
