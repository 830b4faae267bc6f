"""Room for text that kernels write: memory that is used again costs no page faults."""

from __future__ import annotations

import numpy as np

from kafkalog.kernels.bytes import Bytes


class Chunks:
    """Buffers for text, used again when their text has been written."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[Bytes] = []

    def take(self) -> Bytes:
        return self.free.pop() if self.free else np.empty(self.size, np.uint8)

    def give_back(self, chunk: Bytes) -> None:
        if len(chunk) == self.size and chunk.flags.writeable:
            self.free.append(chunk)
