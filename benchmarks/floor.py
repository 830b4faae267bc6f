"""The parts of the floor: batches of a file in windows, and a kernel that decompresses each payload and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kafkalog.errors import Limits
from kafkalog.format import batch, entry_table
from kafkalog.kernels import layout
from kafkalog.kernels._jit import kernel
from kafkalog.kernels.bytes import Bytes, Int, Ints
from kafkalog.kernels.decode import lay_out
from kafkalog.kernels.decompress import decompress
from kafkalog.segment.windows import SegmentWalk, WindowBuffers
from kafkalog.storage import open_store


@dataclass
class FloorWindow:
    """Whole batches of a file: where they lie, and their headers and payloads as kafkalog's kernels take them."""

    position: int
    size: int
    fields: Ints
    payloads: Ints

    @property
    def count(self) -> int:
        return int(self.payloads.shape[1])

    def codec(self, number: int) -> int:
        return int(self.fields[entry_table.ATTRIBUTES, number]) & batch.CODEC_MASK


def plan_windows(path: Path, window_bytes: int) -> tuple[list[FloorWindow], int]:
    """The windows of a file of v2 batches, and the number of records in them."""
    store, place = open_store(str(path))
    windows = []
    with store.open(place) as source:
        buffers = WindowBuffers(window_bytes)
        for window in SegmentWalk(source, 0, source.size, Limits()).windows(buffers):
            fields = window.entries.fields.copy()
            payloads = np.empty((layout.PAYLOAD_FIELDS, window.count), np.int64)
            lay_out(fields, np.arange(window.count), window.position, payloads)
            windows.append(FloorWindow(window.position, window.size, fields, payloads))
            buffers.give_back(window)
    return windows, sum(int(window.fields[entry_table.RECORD_COUNT].sum()) for window in windows)


@kernel
def decompress_each(data: Bytes, arena: Bytes, fields: Ints, payloads: Ints, first: Int, tools: Ints) -> Int:
    """The number of the first payload from `first` on that `codecs` has to decompress, or of all payloads."""
    for number in range(first, payloads.shape[1]):
        if payloads[layout.STATE, number] == layout.COMPRESSED:
            start, stop = payloads[layout.START, number], payloads[layout.STOP, number]
            if decompress(data, start, stop, fields[entry_table.ATTRIBUTES, number], 2, arena, 0, tools) < 0:
                return number
    return payloads.shape[1]
