"""Arrow arrays made without a copy per batch: views for kernels, and columns with the same value in every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.kernels.layout import Offsets32, Scalar, Texts, readonly

MIN_CONSTANT_ROWS = 1 << 15
MAX_CONSTANTS = 64


def numbers_of(column: pa.Array, dtype: type[Scalar]) -> NDArray[Scalar]:
    """The numbers of a column without nulls; Arrow's own `to_numpy` would load pandas."""
    size = np.dtype(dtype).itemsize
    return readonly(np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * size))


def texts_of(column: pa.Array) -> Texts:
    bitmap, _, content = column.buffers()
    valid = np.empty(0, np.uint8)
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        valid = bits[column.offset : column.offset + len(column)]
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.empty(0, np.uint8)
    return Texts(offsets_of(column), readonly(valid), readonly(data))


def offsets_of(column: pa.Array) -> Offsets32:
    offsets = column.buffers()[1]
    if offsets is None or not len(column):
        return readonly(np.zeros(1, np.int32))
    return readonly(np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * np.dtype(np.int32).itemsize))


class Constants:
    """Columns with the same value in every row, as slices of one array per value."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[pa.DataType, Any], pa.Array] = {}

    def array(self, value: Any, kind: pa.DataType, rows: int) -> pa.Array:
        """`value` in that many rows."""
        known = self._arrays.get((kind, value))
        if known is None or len(known) < rows:
            if len(self._arrays) >= MAX_CONSTANTS:
                self._arrays.clear()
            known = _repeated(value, kind, max(rows, MIN_CONSTANT_ROWS))
            self._arrays[kind, value] = known
        return known.slice(0, rows)


def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Built from plain buffers: `pa.scalar` and `pa.array` load pandas if it is installed, which takes longer than most reads."""
    if not pa.types.is_string(kind):
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.full(rows, value, f"i{kind.bit_width // 8}"))])
    text = value.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)])
