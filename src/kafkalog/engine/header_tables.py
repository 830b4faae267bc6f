"""The headers of many entries as one table, read by a kernel: for what would take too long entry by entry.

Kernels are stricter than the log is. Where they stop, the caller goes on entry by entry and finds out by Kafka's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels import scan
from kafkalog.segment.windows import TABLE_ENTRIES, Window, WindowBuffers
from kafkalog.storage.fs import Buffer

from .file_records import MAX_SIZE, FileRecords


def scan_entries(data: Buffer, position: int) -> EntryTable | None:
    """The headers of a set that begins at `position` of its file; None if something in it is odd, or if it is too much."""
    table = EntryTable.with_room(min(TABLE_ENTRIES, len(data) // scan.MAX_HEADER + 1))
    status, count, _ = scan.scan_window(np.frombuffer(data, np.uint8), 0, len(data), position, MAX_SIZE, table.fields)
    return table[:count] if status == scan.END and count else None


def iter_windows(records: FileRecords, buffers: WindowBuffers) -> Iterator[Window]:
    """Windows of whole entries from the start of a log up to where something is odd, or to its end."""
    position = 0
    while position < records.size:
        data, table = buffers.take()
        have = records.read_into(position, data.data)
        status, count, size = scan.scan_window(data, 0, have, position, MAX_SIZE, table.fields)
        if not count:
            return
        window = Window(records.path, position, data[:size], table, count)
        yield window
        buffers.give_back(window)
        if status not in (scan.END, scan.TABLE_FULL, scan.NEED_BYTES):
            return
        position += size
