"""The latest offset of each key in the part of a log that is not yet clean, in a fixed amount of memory."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from kafkalog.errors import InvalidArgument
from kafkalog.kernels import offset_map as kernel
from kafkalog.kernels.bytes import Ints

DEFAULT_BYTES: Final = 128 << 20  # log.cleaner.dedupe.buffer.size


class OffsetMap:
    """Keys and offsets, 24 bytes each. `latest_offset` is the last offset that was looked at, -1 if none was."""

    def __init__(self, memory_bytes: int = DEFAULT_BYTES) -> None:
        self.slots = memory_bytes // kernel.SLOT_BYTES
        self.secret = np.frombuffer(os.urandom(8 * kernel.SECRET_WORDS), np.uint64)
        self.counts: Ints = np.array([0, -1], np.int64)
        self.table = np.zeros(self.slots * kernel.SLOT_WORDS, np.uint64)  # takes memory only where something is stored

    def clear(self) -> None:
        if self.size:
            self.table.fill(0)
        self.counts[:] = 0, -1

    @property
    def size(self) -> int:
        return int(self.counts[kernel.SIZE])

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    @property
    def latest_offset(self) -> int:
        return int(self.counts[kernel.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.counts[kernel.LATEST_OFFSET] = offset

    def put(self, key: bytes, offset: int) -> None:
        if self.size >= self.slots:
            raise InvalidArgument(f"the map of offsets is full: {self.size} keys")
        kernel.put_key(self.table, self.counts, self.secret, np.frombuffer(key, np.uint8), offset)

    def get(self, key: bytes) -> int:
        """The offset of the key, or -1."""
        return int(kernel.find_key(self.table, self.secret, np.frombuffer(key, np.uint8)))
