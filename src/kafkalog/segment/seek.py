"""Where to begin in a segment for an offset, with the offset index as a hint that is never trusted."""

from __future__ import annotations

import numpy as np

from kafkalog.errors import KafkaLogError, Limits
from kafkalog.format.entry_front import FRONT_SIZE, SMALLEST_ENTRY, peek_front
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.index import read_offset_index
from kafkalog.kernels import scan
from kafkalog.storage.store import ByteSource, Store

from .decode import crc_matches
from .windows import Window

MAX_INDEX_BYTES = 64 << 20
TRIES = 2  # the last entry that an index names may extend beyond the end that the caller knows


def seek_position(
    source: ByteSource,
    store: Store,
    index_path: str | None,
    base_offset: int,
    offset: int,
    limits: Limits,
    stop: int | None = None,
) -> int:
    """The position of an entry that does not begin after `offset`; 0 unless the index names one whose bytes prove it.

    An index may be missing, torn or another segment's. A position counts only if a whole entry with a valid checksum begins
    there, with a first offset (v0/v1: a last one) of at most `offset`: every entry before it is then below `offset` too.
    The entry ends before `stop`: a broker may have appended and indexed more since the caller saw where the file ends.
    """
    stop = source.size if stop is None else min(stop, source.size)
    if index_path is None or offset <= base_offset:
        return 0
    try:
        entries = read_offset_index(store.read_small(index_path, MAX_INDEX_BYTES), base_offset)
    except KafkaLogError:
        return 0
    usable = entries[(entries["offset"] <= offset) & (entries["position"] > 0) & (entries["position"] < stop)]
    for _ in range(TRIES):
        if not len(usable):
            break
        position = int(usable["position"][np.argmax(usable["offset"])])
        if _begins_at_or_before(source, position, base_offset, offset, stop, limits):
            return position
        usable = usable[usable["position"] < position]
    return 0


def _begins_at_or_before(source: ByteSource, position: int, base_offset: int, offset: int, stop: int, limits: Limits) -> bool:
    front = peek_front(source.read(position, min(FRONT_SIZE, stop - position)))
    if front is None or not SMALLEST_ENTRY <= front.size <= min(limits.batch_bytes, stop - position):
        return False
    data = np.frombuffer(source.read(position, front.size), np.uint8)
    table = EntryTable.with_room(1)
    status, count, _ = scan.scan_window(data, 0, len(data), position, limits.batch_bytes, table.fields)
    if status != scan.END or count != 1:
        return False
    first = int(table.base_offset[0])
    window = Window(source.path, position, data, table, count)
    return base_offset <= first <= offset and bool(crc_matches(window, np.arange(1)).all())
