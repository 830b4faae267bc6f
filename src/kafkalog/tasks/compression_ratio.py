"""The compression ratio of a partition: of all its entries, or of samples spread over its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

import numpy as np

from kafkalog.errors import KafkaLogError, Limits, TornTail
from kafkalog.format import batch
from kafkalog.format.entry_front import peek_length
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.index import OFFSET_INDEX_ENTRY
from kafkalog.kernels.bytes import Ints
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.log.entry_order import header_bases
from kafkalog.log.partition import Partition, Segment, StoredFile
from kafkalog.segment.decode import DecodedWindow, RecordDecoder, RecordRange
from kafkalog.segment.windows import SegmentWalk, WindowBuffers
from kafkalog.storage.store import ByteSource, Store

PLACES = 16  # samples taken of a partition
FEWEST_PLACES = 3
DIRECTORY_PLACES = 512  # samples taken of all partitions that are listed together
PLACE_BYTES = 64 << 10  # of whole entries in each sample, at least one entry
SEARCH_BYTES = 1 << 20  # searched for an entry where no index points to one

ENTRY_BYTES = OFFSET_INDEX_ENTRY.itemsize

OpenLog = Callable[[Segment], AbstractContextManager[ByteSource | None]]


def places_for(partition_count: int) -> int:
    """How many samples to take of each partition, so that listing many of them stays quick."""
    return max(FEWEST_PLACES, min(PLACES, DIRECTORY_PLACES // max(partition_count, 1)))


@dataclass
class Measured:
    """Entries as stored, and as they would be without compression."""

    stored_bytes: int = 0
    raw_bytes: int = 0
    entries: int = 0
    is_whole: bool = False  # every entry that can be read is in it
    set_records: dict[int, int | None] = field(default_factory=dict)  # of compressed sets, by magic; None: one has damage
    problems: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None

    def add_plain(self, table: EntryTable, compressed: Ints) -> None:
        """The entries of a window, except the compressed ones."""
        plain = np.delete(table.size, compressed)
        self._add(int(plain.sum()), int(plain.sum()), len(plain))

    def add_decoded(self, table: EntryTable, decoded: DecodedWindow) -> None:
        """The compressed entries of a window, decoded; damaged ones do not count."""
        for group in decoded.groups:
            magics = group.entry_table.magic
            # A set of v0 or v1 would be its messages.
            raw = group.payload_sizes + np.where(magics == 2, batch.HEADER_SIZE, 0)
            self._add(int(group.entry_table.size.sum()), int(raw.sum()), len(magics))
            for magic in (0, 1):
                self._count_records(magic, int(group.row_counts[magics == magic].sum()))
        for problem in decoded.problems:
            self._count_records(int(table.magic[problem.entry]), None)
            if problem.error.reason != "crc":  # an index may point to something that is no entry; and `ls` is not `verify`
                self.problems.append(str(problem.error))

    def _add(self, stored: int, raw: int, entries: int) -> None:
        self.stored_bytes += stored
        self.raw_bytes += raw
        self.entries += entries

    def _count_records(self, magic: int, records: int | None) -> None:
        before = self.set_records.get(magic, 0)
        self.set_records[magic] = None if before is None or records is None else before + records


def measure_entries(
    source: ByteSource, start: int, stop: int, limits: Limits, measured: Measured, *, sets_only: bool = False, check: bool = False
) -> SegmentWalk:
    """Decompress the entries in `source[start:stop]`, or only those of v0 and v1; the walk says how far that went."""
    decoder = RecordDecoder(
        RecordRange(), limits, frozenset({"offset"}), check_crcs=check, stop_at_problem=False, keep_empty=True
    )
    buffers = WindowBuffers()
    walk = SegmentWalk(source, start, stop, limits)
    for window in walk.windows(buffers):
        table = window.entries
        is_compressed = header_bases(table) < 0 if sets_only else table.attributes & batch.CODEC_MASK != 0
        compressed = np.flatnonzero(is_compressed)
        measured.add_plain(table, compressed)
        for decoded, _ in decoder.decode_in_parts(window, compressed):
            measured.add_decoded(table, decoded)
        buffers.give_back(window)
    return walk


def is_end(walk: SegmentWalk) -> bool:
    """Whether the walk reached the end, or a tail that is not a whole entry."""
    return walk.problem is None or isinstance(walk.problem, TornTail)


def measure_sample(partition: Partition, opened: OpenLog, limits: Limits, places: int) -> Measured:
    """Samples at equal distances; a small partition as a whole."""
    measured = Measured()
    if partition.size <= places * PLACE_BYTES:
        ends = []
        for segment in partition.segments:
            with opened(segment) as source:
                ends.append(source is not None and is_end(measure_entries(source, 0, source.size, limits, measured)))
        measured.is_whole = all(ends)
        return measured
    for segment, shares in _places(partition, places):
        with opened(segment) as source:
            for share in shares if source is not None else ():
                assert source is not None
                _measure_place(partition.store, segment, source, share, limits, measured)
    return measured


def _places(partition: Partition, count: int) -> Iterator[tuple[Segment, list[float]]]:
    """Segments with the samples in them, as fractions of their bytes."""
    distance = partition.size / count
    before = 0
    for segment in partition.segments:
        stop = before + segment.log.size
        first, following = (round(at / distance) for at in (before, stop))
        shares = [((number + 0.5) * distance - before) / segment.log.size for number in range(first, following)]
        if shares:
            yield segment, shares
        before = stop


def _measure_place(store: Store, segment: Segment, source: ByteSource, share: float, limits: Limits, measured: Measured) -> None:
    index = segment.siblings.get("index")
    start = None
    if index is not None:
        with suppress(KafkaLogError):  # an index is a hint
            start = _indexed_position(store, index, share)
    if start is None:
        near = int(share * source.size)
        found = find_next_entry(source.read_into, near, min(near + SEARCH_BYTES, source.size), ResyncBounds())
        start = None if found is None else found.position
    if start is not None and 0 <= start < source.size:
        at = measure_entries(source, start, min(start + PLACE_BYTES, source.size), limits, measured, check=True).position
        # The entry that crosses the end is often the largest: without it, the small ones in between would weigh too much.
        stop = min(at + _entry_size(source, at, limits), source.size)
        if start <= at < stop and at < start + PLACE_BYTES:
            measure_entries(source, at, stop, limits, measured, check=True)


def _entry_size(source: ByteSource, position: int, limits: Limits) -> int:
    size = (peek_length(source.read(position, batch.LOG_OVERHEAD)) or 0) + batch.LOG_OVERHEAD
    return size if size <= limits.batch_bytes else 0


def _indexed_position(store: Store, index: StoredFile, share: float) -> int | None:
    """Where an entry begins, that share of the way through the index; None if it has none. Only a few of its bytes are read."""
    with store.open(index.path) as source:

        def position_of(number: int) -> int:
            return int.from_bytes(source.read(number * ENTRY_BYTES + 4, 4), "big", signed=True)

        count = source.size // ENTRY_BYTES
        if count and not position_of(count - 1):  # preallocated: zeros follow the last entry
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if position_of(middle) else (low, middle)
            count = low
        return position_of(int(share * count)) if count else None
