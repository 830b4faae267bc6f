"""Columns that say the same in every row, without making them anew for every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
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
            known = _repeated(value, kind, max(rows, MIN_ROWS))
            self._arrays[kind, value] = known
        return known.slice(0, rows)


def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Made of plain buffers: `pa.scalar` and `pa.array` load pandas where it is installed, which takes longer than most reads."""
    if not pa.types.is_string(kind):
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.full(rows, value, f"i{kind.bit_width // 8}"))])
    text = value.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)])
