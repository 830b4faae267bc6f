"""Columns that say the same in every row, without making them anew for every batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

MIN_ROWS = 1 << 15
MAX_KEPT = 64


class Constants:
    """Hands out slices of one array per value."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[pa.DataType, Any], pa.Array] = {}

    def array(self, value: Any, kind: pa.DataType, rows: int) -> pa.Array:
        """`rows` times `value`."""
        known = self._arrays.get((kind, value))
        if known is None or len(known) < rows:
            if len(self._arrays) >= MAX_KEPT:
                self._arrays.clear()
            known = pa.repeat(pa.scalar(value, kind), max(rows, MIN_ROWS))
            self._arrays[kind, value] = known
        return known.slice(0, rows)
