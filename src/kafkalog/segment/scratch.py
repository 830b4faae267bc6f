"""Memory and tools that decoding uses again for window after window, whichever read it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from kafkalog.kernels import layout, native
from kafkalog.kernels.bytes import Bytes, Ints

ARENA_BYTES = 1 << 20
MAX_KEPT_BYTES = 16 << 20
MAX_KEPT = 8


class DecodeScratch:
    """The arena for one decompressed payload, and what libzstd keeps; for one thread at a time."""

    def __init__(self) -> None:
        self.enlarge_arena(ARENA_BYTES)
        self._zstd_context: native.ZstdContext | None = None

    def enlarge_arena(self, size: int) -> None:
        self.arena: Bytes = np.empty(size, np.uint8)

    def tools(self, payload_limit: int, *, check_crcs: bool) -> Ints:
        """What `kernels.decode` is given to work with."""
        zstd = native.zstd_function()
        if zstd and self._zstd_context is None:
            self._zstd_context = native.ZstdContext()
        tools = np.zeros(layout.TOOL_COUNT, np.int64)
        tools[layout.CRC32C_FUNCTION] = native.crc32c_function() if check_crcs else native.NOT_FOUND
        tools[layout.LZ4_FUNCTION] = native.lz4_function()
        tools[layout.ZSTD_FUNCTION] = zstd
        tools[layout.ZSTD_CONTEXT] = self._zstd_context.address if self._zstd_context is not None else native.NOT_FOUND
        tools[layout.PAYLOAD_LIMIT] = payload_limit
        return tools


_free: list[DecodeScratch] = []


@contextmanager
def borrowed_scratch() -> Iterator[DecodeScratch]:
    """A scratch that nobody else uses meanwhile."""
    try:
        scratch = _free.pop()
    except IndexError:
        scratch = DecodeScratch()
    yield scratch
    if len(_free) < MAX_KEPT and len(scratch.arena) <= MAX_KEPT_BYTES:
        _free.append(scratch)
