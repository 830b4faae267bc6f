"""Arrow arrays as the NumPy arrays that kernels take, without a copy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.kernels.layout import Offsets32, Scalar, Texts, readonly


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
