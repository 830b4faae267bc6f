"""`kafkalog.explain`: every byte of a batch, a message or a small file, and the field that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kafkalog import codecs
from kafkalog.errors import Limits, StorageError, UnsupportedFormat, UsageError
from kafkalog.format import names
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.reference import Transform
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.log.entry_order import header_bases
from kafkalog.log.folders import LOG_KINDS, find_partitions
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage import open_store
from kafkalog.storage.store import SMALL_FILE, ByteSource, Store

from .entries import explain_entries
from .files import LAYOUTS, SIDE_FILES, explain_index, explain_side_file
from .tree import Explanation, Field, Part, Problem

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["Explanation", "Field", "Part", "Problem", "explain"]

INDEX_ENTRIES = 1000
# Of bytes without a usable length, only so many are read at once.
GAP_BYTES = 1 << 20


def explain(
    path: str | os.PathLike[str],
    *,
    offset: int | None = None,
    position: int | None = None,
    count: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Explanation:
    """The bytes of the file at `path`, field by field.

    In a log: the entry that holds `offset`, or the byte at `position`, else the first one; `count` of them from there on. In an
    index: up to `count` entries (1000) from the byte at `position` on. Any other file of Kafka's: all of it. With an `offset`,
    `path` may be the folder of a partition. Damage is explained as far as possible: see `Explanation.problems`.
    """
    if offset is not None and position is not None:
        raise UsageError("give an offset or a position, not both")
    if count is not None and count < 1:
        raise UsageError(f"count={count}: at least 1")
    store, place = open_store(path, filesystem=filesystem)
    place = _file(store, place, offset)
    kind, base_offset = _kind(store, place, sure=position is not None)
    if offset is not None and kind != "log":
        raise UsageError(f"{place}: an offset finds an entry of a log; in a {kind} file, give a byte position")
    if kind == "log":
        return _explain_log(store, place, offset, position, count or 1, limits or Limits())
    return _explain_small_file(store, place, kind, base_offset, position, count or INDEX_ENTRIES)


def _file(store: Store, place: str, offset: int | None) -> str:
    """The file itself, or the segment of a partition's folder that would hold the offset."""
    found = store.stat(place)
    if found is None or found.kind != "folder":
        return place
    if offset is None:
        raise UsageError(f"{place}: a folder; give one of its files, or an offset to find in it")
    partitions = find_partitions(store, place)
    if len(partitions) != 1:
        raise UsageError(f"{place}: {len(partitions)} partitions; give the folder of one")
    segments = partitions[0].segments_from(offset)
    if not segments:
        raise StorageError(f"{place}: no segment files here", file=place)
    return segments[0].log.path


def _kind(store: Store, place: str, *, sure: bool) -> tuple[str, int]:
    """The kind of the file and the base offset in its name; a file of any other name must look like a log, unless `sure`."""
    name = names.parse_file_name(store.name(place))
    if name is None:
        if not sure:
            find_partitions(store, place)
        return "log", -1
    if name.kind in LOG_KINDS:
        return "log", name.base_offset
    if name.kind in LAYOUTS or name.kind in SIDE_FILES:
        return name.kind, name.base_offset
    raise UnsupportedFormat("file-format", file=place, detail=f"a {name.kind} file has nothing in it to explain")


def _explain_log(store: Store, place: str, offset: int | None, position: int | None, count: int, limits: Limits) -> Explanation:
    with store.open(place) as source:
        start = 0
        if offset is not None:
            start = find_offset(source, offset, limits)
        elif position is not None:
            start = find_byte(source, position, limits)
        parts: list[Part] = []
        for entry_start, entry_stop in islice(iter_spans(source, start, limits), count):
            parts += _explain_span(source, entry_start, entry_stop, limits)
        stop = parts[-1].stop if parts else start
        return Explanation(place, "log", source.size, start, stop, tuple(parts), position, offset)


def _explain_span(source: ByteSource, start: int, stop: int, limits: Limits) -> list[Part]:
    framed = stop - start <= limits.batch_bytes
    data = source.read(start, stop - start if framed else GAP_BYTES)
    return explain_entries(data, start, _decompressor(limits))


def _decompressor(limits: Limits) -> Transform:
    limit = limits.decompressed_bytes
    return lambda codec, payload, magic: codecs.decompressed(codec, payload, magic=magic, limit=limit)


def _explain_small_file(store: Store, place: str, kind: str, base_offset: int, position: int | None, count: int) -> Explanation:
    data = store.read_small(place, SMALL_FILE)
    if position is not None and not 0 <= position < len(data):
        raise UsageError(f"{place}: no byte {position}; the file has {len(data)} bytes")
    if kind in LAYOUTS:
        first = (position or 0) // LAYOUTS[kind].itemsize
        parts = explain_index(data, kind, base_offset, first, count)
    else:
        parts = explain_side_file(data, kind)
    start, stop = (parts[0].position, parts[-1].stop) if parts else (0, 0)
    return Explanation(place, kind, len(data), start, stop, tuple(parts), position)


@dataclass(frozen=True)
class Gap:
    """Bytes without a readable entry, up to the next intact one or the end of the file."""

    start: int
    stop: int


def iter_tables(source: ByteSource, start: int, limits: Limits) -> Iterator[EntryTable | Gap]:
    """Headers of all entries from `start` on, as tables of `scan`, and the gaps between them."""
    bounds = ResyncBounds(batch_bytes=limits.batch_bytes)
    while start < source.size:
        walk = SegmentWalk(source, start, source.size, limits)
        yield from walk.headers()
        if walk.problem is None:
            return
        found = None
        if walk.problem.reason != "zero-tail":
            found = find_next_entry(source.read_into, walk.position + 1, source.size, bounds)
        start = source.size if found is None else found.position
        yield Gap(walk.position, start)


def iter_spans(source: ByteSource, start: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """Start and stop of every entry and gap from `start` on; together they are the file."""
    for found in iter_tables(source, start, limits):
        if isinstance(found, Gap):
            yield found.start, found.stop
        else:
            yield from zip(found.position.tolist(), found.stop.tolist(), strict=True)


def find_byte(source: ByteSource, position: int, limits: Limits) -> int:
    """Where the entry that holds this byte begins; the position itself if no entry can be read there."""
    if not 0 <= position < source.size:
        raise UsageError(f"{source.path}: no byte {position}; the file has {source.size} bytes, 0 to {source.size - 1}")
    for found in iter_tables(source, 0, limits):
        if isinstance(found, Gap):
            if found.start <= position < found.stop:
                return position
            continue
        row = int(np.searchsorted(found.stop, position, "right"))
        if row < len(found):
            return int(found.position[row])
    return position


def find_offset(source: ByteSource, offset: int, limits: Limits) -> int:
    """Where the entry that holds this offset begins; UsageError with what the file does hold."""
    first, last, gaps = None, None, []
    for found in iter_tables(source, 0, limits):
        if isinstance(found, Gap):
            gaps.append(found)
            continue
        # No header has the first offset of a v0/v1 set: it is taken to follow the entry before.
        rows = np.flatnonzero((header_bases(found) <= offset) & (found.last_offset >= offset))
        if len(rows):
            return int(found.position[rows[0]])
        first = int(found.base_offset[0]) if first is None else first
        last = int(found.last_offset[-1])
    held = f"it has {first} to {last}, and offsets may be missing in between" if first is not None else "it has no entry at all"
    lost = "".join(f"; no entry can be read at byte {gap.start}: see --position {gap.start}" for gap in gaps[:1])
    raise UsageError(f"{source.path}: no entry holds offset {offset}; {held}{lost}")
