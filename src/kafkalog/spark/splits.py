"""Splits of about equal size: slices of segment files, cut between entries, and the offsets to read from them.

A split is cut at a position that the offset index names and a checksum proves, so each byte of a log belongs to one split. With
an index, neither Numba nor Arrow is loaded for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from crc32c import crc32c

from kafkalog.errors import KafkaLogError, Limits, StorageError
from kafkalog.format import batch, message
from kafkalog.format.entry_front import SMALLEST_ENTRY, peek_crc, peek_front
from kafkalog.format.index import Entries, read_offset_index
from kafkalog.format.java import MAX_INT64, MIN_INT64
from kafkalog.format.names import segment_file_name
from kafkalog.format.quantities import plural, size_text
from kafkalog.log.partition import Partition, Segment, StoredFile
from kafkalog.log.stored_files import LogColumns, Segments
from kafkalog.storage import open_store
from kafkalog.storage.store import ByteSource, short_repr

from .options import SourceOptions

if TYPE_CHECKING:
    from kafkalog.log.transactions import Committed

# A Python task takes about 30 ms before it reads a byte: with splits of 64 MiB, a scan is a tenth slower than with 128.
SPLIT_BYTES: Final = 128 << 20
LEAST_SPLIT_BYTES: Final = 4 << 20
HEADER_SPLIT_BYTES: Final = 1 << 30  # for tables that need only headers
# Spark's scheduler handles some thousand tasks a second and keeps each in its memory: a read of more bytes has larger splits.
# It also bounds the requests of a plan, because a segment is opened only where it is cut.
MOST_SPLITS: Final = 20_000
MAX_INDEX_BYTES: Final = 64 << 20
# Most batches are within one read, which a request costs the same for.
PROOF_BYTES: Final = 64 << 10
# Index entries that are tried near a wanted position before the slice is left uncut.
INDEX_TRIES: Final = 8
LOWEST: Final = MIN_INT64
HIGHEST: Final = MAX_INT64
EVERYTHING: Final = (LOWEST, HIGHEST)


@dataclass(frozen=True, repr=False, slots=True)
class FileSlice:
    """Bytes `start..stop` of a segment file, with its size and time when the read was planned."""

    path: str
    size: int
    mtime_ns: int
    kind: str
    base_offset: int
    start: int
    stop: int
    next_base_offset: int | None
    index_path: str | None = None
    may_grow: bool = False
    first_offset: int = 0  # no record in it has a lower offset
    inode: int = 0

    def __repr__(self) -> str:
        return f"FileSlice({short_repr(self.path)}, bytes {self.start} to {self.stop})"

    @property
    def bytes(self) -> int:
        return self.stop - self.start


class WholeSegments(Sequence[FileSlice]):
    """One slice for each of consecutive segments, 25 bytes on the driver and on the way to a task: made when asked for."""

    __slots__ = ("_columns", "_within")

    def __init__(self, columns: LogColumns, within: range | None = None) -> None:
        self._columns = columns
        self._within = range(len(columns.bases)) if within is None else within

    def __len__(self) -> int:
        return len(self._within)

    def __iter__(self) -> Iterator[FileSlice]:
        return map(self._at, self._within)

    @overload
    def __getitem__(self, number: int) -> FileSlice: ...

    @overload
    def __getitem__(self, number: slice) -> WholeSegments: ...

    def __getitem__(self, number: int | slice) -> FileSlice | WholeSegments:
        found = self._within[number]
        return self._at(found) if isinstance(found, int) else WholeSegments(self._columns, found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WholeSegments({short_repr(self._columns.prefix)}, {plural(len(self), 'segment')})"

    def __reduce__(self) -> tuple[Any, ...]:
        columns, cut = self._columns, slice(self._within.start, self._within.stop)
        inodes = None if columns.inodes is None else columns.inodes[cut]
        after = columns.next_base_offset if cut.stop == len(columns.bases) else columns.bases[cut.stop]
        taken = columns.bases[cut], after, columns.sizes[cut], columns.mtimes[cut], inodes, columns.are_indexed[cut]
        return WholeSegments, (LogColumns(columns.prefix, *taken),)

    @property
    def bytes(self) -> int:
        return sum(self._columns.sizes[self._within.start : self._within.stop])

    @property
    def largest(self) -> int:
        return max(self._columns.sizes[self._within.start : self._within.stop])

    def count_within(self, limit: int) -> int:
        """How many of the first ones have at most `limit` bytes together."""
        sizes = self._columns.sizes
        for number in self._within:
            limit -= sizes[number]
            if limit < 0:
                return number - self._within.start
        return len(self)

    def continued(self, others: Sequence[FileSlice]) -> WholeSegments | None:
        """These and the others, if they are the following segments of the same columns."""
        if not isinstance(others, WholeSegments) or others._columns is not self._columns:
            return None
        if others._within.start != self._within.stop:
            return None
        return WholeSegments(self._columns, range(self._within.start, others._within.stop))

    def _at(self, number: int) -> FileSlice:
        columns = self._columns
        base, size = columns.bases[number], columns.sizes[number]
        is_last = number + 1 == len(columns.bases)
        after = columns.next_base_offset if is_last else columns.bases[number + 1]
        return FileSlice(
            columns.prefix + segment_file_name(base),
            size,
            columns.mtimes[number],
            "log",
            base,
            0,
            size,
            after,
            columns.prefix + segment_file_name(base, "index") if columns.are_indexed[number] else None,
            may_grow=after is None,
            first_offset=base,
            inode=0 if columns.inodes is None else columns.inodes[number],
        )


@dataclass(frozen=True, repr=False, slots=True)
class Part:
    """Slices of one partition and the offsets to read from them.

    Damage in the slices is reported by the part whose `claim` includes its offset: parts may share slices.
    """

    root: str
    folder: str
    topic: str
    partition: int
    slices: Sequence[FileSlice]
    start_offset: int
    stop_offset: int
    log_start_offset: int | None = None
    claim: tuple[int, int] = EVERYTHING
    committed: Committed | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        place = short_repr(f"{self.topic}-{self.partition}")
        return f"Part({place}, {plural(len(self.slices), 'slice')}, {size_text(self.bytes)})"

    @property
    def bytes(self) -> int:
        return bytes_of(self.slices)


def bytes_of(slices: Sequence[FileSlice]) -> int:
    """The bytes of all of them."""
    return slices.bytes if isinstance(slices, WholeSegments) else sum(piece.bytes for piece in slices)


def largest_of(slices: Sequence[FileSlice]) -> int:
    """The bytes of the largest."""
    if isinstance(slices, WholeSegments):
        return slices.largest
    return max((piece.bytes for piece in slices), default=0)


@dataclass(frozen=True, repr=False, slots=True)
class Split:
    """The parts that one task reads."""

    parts: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        return f"Split({plural(len(self.parts), 'part')}, {size_text(sum(part.bytes for part in self.parts))})"


def target_bytes(options: SourceOptions, total: int, cores: int) -> int:
    """Bytes of a split: small enough to keep all cores busy, large enough to be worth a task."""
    if options.max_partition_bytes is not None:
        target = options.max_partition_bytes
    else:
        most = SPLIT_BYTES if options.table == "records" or options.check_crcs else HEADER_SPLIT_BYTES
        target = even_bytes(total, cores, LEAST_SPLIT_BYTES, most)
    return max(min(target, -(-total // (options.min_partitions or 1))), 1)


def even_bytes(total: int, cores: int, least: int, most: int) -> int:
    """Bytes of a task: as many tasks as cores, or a multiple of it, so that no core works alone in the last round.

    More than `most` only where there would be more tasks than MOST_SPLITS.
    """
    most = max(most, -(-total // MOST_SPLITS))
    rounds = max(-(-total // (cores * most)), 1)
    share = -(-total // (cores * rounds))
    # A little more: otherwise a partition that is slightly larger than the others would be cut in two.
    return min(most, max(least, share + share // 16))


def end_offset(partition: Partition) -> int:
    """The offset that the next record would get."""
    from kafkalog.log import segments  # loads Numba

    return max(segments.end_offset(partition, Limits()), partition.start_offset)


# -- slices ------------------------------------------------------------------------------------------------------------------

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
# Base offset, that of the next segment, and size of a segment's log.
IsWhole = Callable[[int, int | None, int], bool]


def runs(segments: Sequence[Segment], is_whole: IsWhole) -> Iterator[WholeSegments | Segment]:
    """The segments in order: those that are read whole by runs, as no object each, and the others one by one."""
    if not isinstance(segments, Segments):
        yield from segments
        return
    whole, begin, number = WholeSegments(segments.columns()), 0, 0
    for number, span in enumerate(segments.spans(), 1):
        if not is_whole(*span):
            if begin < number - 1:
                yield whole[begin : number - 1]
            yield segments[number - 1]
            begin = number
    if begin < number:
        yield whole[begin:]
    yield from segments[number:]


def cut(partition: Partition, segment: Segment, target: int, start: int = LOWEST, stop: int = HIGHEST) -> list[FileSlice]:
    """Slices of about `target` bytes of the segment, cut between entries, that may hold the offsets `start..stop`."""
    log = segment.log
    index = segment.siblings.get("index")
    whole = FileSlice(
        log.path,
        log.size,
        log.mtime_ns,
        log.kind,
        log.base_offset,
        0,
        log.size if segment.stop_position is None else min(segment.stop_position, log.size),
        segment.next_base_offset,
        index.path if index else None,
        may_grow=segment.is_newest,
        first_offset=max(segment.base_offset, 0),
        inode=log.inode,
    )
    is_whole = start <= whole.first_offset and (stop == HIGHEST or (whole.next_base_offset or HIGHEST) <= stop)
    if is_whole and whole.bytes <= target:
        return [whole]
    try:
        with partition.open_log(segment) as source:
            entries = _index_entries(partition, segment)
            if not is_whole:
                whole = _narrowed(whole, source, segment, entries, start, stop)
            return _divided(whole, source, segment, entries, target)
    except StorageError:  # the task that reads it reports it
        return [whole]


def _narrowed(whole: FileSlice, source: ByteSource, segment: Segment, entries: Entries, start: int, stop: int) -> FileSlice:
    """The slice without the bytes that the index and a checksum prove to be outside the offsets."""
    before = entries["position"][entries["offset"] <= start]
    for position in _ascending(before)[::-1][:INDEX_TRIES].tolist():
        bounds = prove_entry(source, position, segment) if whole.start < position < whole.stop else None
        if bounds is not None and bounds[0] <= start:
            whole = replace(whole, start=position, first_offset=bounds[1])
            break
    after = entries["position"][entries["offset"] >= stop]
    for position in _ascending(after)[:INDEX_TRIES].tolist():
        bounds = prove_entry(source, position, segment) if whole.start < position < whole.stop else None
        if bounds is not None and bounds[1] >= stop:
            return replace(whole, stop=position, next_base_offset=bounds[0])
    return whole


def _divided(whole: FileSlice, source: ByteSource, segment: Segment, entries: Entries, target: int) -> list[FileSlice]:
    count = -(-whole.bytes // target)
    wanted = [whole.start + whole.bytes * number // count for number in range(1, count)]
    slices = []
    for position, offset, first in _proven_cuts(segment, source, entries, wanted) if wanted else ():
        if whole.start < position < whole.stop:
            slices.append(replace(whole, stop=position, next_base_offset=offset))
            whole = replace(whole, start=position, first_offset=first)
    return [*slices, whole]


def _proven_cuts(segment: Segment, source: ByteSource, entries: Entries, wanted: Sequence[int]) -> list[tuple[int, int, int]]:
    """Positions near the wanted ones where entries start, each with bounds of the offsets before and after it."""
    positions = _ascending(entries["position"])
    positions = positions[positions > 0]
    if not len(positions) and source.fileno() is not None:
        positions = _walked_positions(source)
    cuts: list[tuple[int, int, int]] = []
    for place in wanted:
        at = int(np.searchsorted(positions, place))
        for position in positions[at : at + INDEX_TRIES].tolist():
            if cuts and position <= cuts[-1][0]:
                continue
            bounds = prove_entry(source, position, segment)
            if bounds is not None and (not cuts or bounds[0] > cuts[-1][1]):
                cuts.append((position, *bounds))
                break
    return cuts


def _ascending(positions: Positions) -> Positions:
    """Each position once, in order, as nearly every index has them; sorting a large index takes longer than reading it."""
    return positions if (positions[1:] > positions[:-1]).all() else np.unique(positions)


def _index_entries(partition: Partition, segment: Segment) -> Entries:
    """The entries of the offset index; none if it is missing or cannot be read."""
    index = segment.siblings.get("index")
    try:
        data = partition.store.read_small(index.path, MAX_INDEX_BYTES) if index is not None else b""
    except KafkaLogError:
        data = b""
    return read_offset_index(data, max(segment.base_offset, 0))


def _walked_positions(source: ByteSource) -> Positions:
    """The positions of the entries of a local segment without an index, as far as they can be followed."""
    from kafkalog.segment.windows import SegmentWalk  # loads Numba

    found = [table.position.copy() for table in SegmentWalk(source, 0, source.size, Limits()).headers()]
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    return positions[positions > 0]


def prove_entry(source: ByteSource, position: int, segment: Segment) -> tuple[int, int] | None:
    """Bounds of the offsets around an entry at `position`: those before it are below the first, its own not below the second.

    None unless its checksum matches and its offset can belong to the segment. A compressed v0/v1 set only has its last offset.
    """
    data = source.read(position, PROOF_BYTES)
    front = peek_front(data)
    if front is None or front.magic > batch.MAX_MAGIC:
        return None
    if not SMALLEST_ENTRY <= front.size <= min(Limits().batch_bytes, source.size - position):
        return None
    data = data[: front.size] if front.size <= len(data) else source.read(position, front.size)
    if len(data) < front.size:
        return None
    if front.magic == batch.MAX_MAGIC:
        matches = front.size >= batch.HEADER_SIZE and crc32c(data[batch.CRC_START :]) == peek_crc(data, front.magic)
        compressed = False
    else:
        matches = zlib.crc32(data[message.CRC_START :]) == peek_crc(data, front.magic)
        compressed = bool(data[message.ATTRIBUTES_POSITION] & batch.CODEC_MASK)
    offset = front.offset
    after = HIGHEST if segment.next_base_offset is None else segment.next_base_offset
    if not matches or not max(segment.base_offset, 0) <= offset < after:
        return None
    return offset, max(segment.base_offset, 0) if compressed else offset


# -- splits ------------------------------------------------------------------------------------------------------------------


def divide(parts: Iterable[Part], target: int, options: SourceOptions) -> list[Split]:
    """Parts as splits: small ones joined, large ones divided by offsets if the options ask for more."""
    most = options.max_records_per_partition
    if most is not None:
        parts = (share for part in _one_by_one(parts) for share in _shares(part, -(-_offsets(part) // most)))
    splits = pack(parts, target, most)
    least = options.min_partitions or 1
    if len(splits) >= least:
        return splits
    # As Spark's own source does: small ranges stay whole, the others share the rest of the wanted number.
    single = [*_one_by_one(part for split in splits for part in split.parts)]
    sizes = [_offsets(part) for part in single]
    total = sum(sizes) or 1
    large = [_rounded(size / total * least) > 1 for size in sizes]
    shared = sum(size for size, is_large in zip(sizes, large, strict=True) if is_large) or 1
    left = least - large.count(False)
    counts = [max(_rounded(size / shared * left), 1) if is_large else 1 for size, is_large in zip(sizes, large, strict=True)]
    if sum(counts) < least:  # many parts of nearly the same size, each rounded down
        counts = [max(-(-size * least // total), 1) for size in sizes]
    return [Split((share,)) for part, count in zip(single, counts, strict=True) for share in _shares(part, count)]


def _one_by_one(parts: Iterable[Part]) -> Iterator[Part]:
    """The same parts with one slice each."""
    for part in parts:
        if len(part.slices) == 1:
            yield part
        else:
            yield from (replace(part, slices=(piece,)) for piece in part.slices)


def _rounded(number: float) -> int:
    """Rounded half up, as Java does."""
    return int(number + 0.5)


def pack(parts: Iterable[Part], target: int, most: int | None = None, *, divides: bool = True) -> list[Split]:
    """Adjacent parts joined, up to `target` bytes and `most` offsets; a run of segments is divided, unless parts stay whole."""
    splits: list[Split] = []
    taken: list[Part] = []
    filled = offsets = 0
    for part in parts if most is None else _one_by_one(parts):
        more = _offsets(part) if most is not None else 0
        left: Part | None = part
        while left is not None:
            portion, left = _parted(left, target - filled) if divides else (left, None)
            if taken and (filled + portion.bytes > target or (most is not None and offsets + more > most)):
                splits.append(Split(tuple(taken)))
                taken, filled, offsets = [], 0, 0
            filled, offsets = filled + portion.bytes, offsets + more
            _join(taken, portion)
    return [*splits, Split(tuple(taken))] if taken else splits


def _parted(part: Part, room: int) -> tuple[Part, Part | None]:
    """The segments of a run that there is room for, at least one, and the rest; anything else stays whole."""
    if not isinstance(part.slices, WholeSegments) or len(part.slices) == 1:
        return part, None
    count = max(part.slices.count_within(room), 1)
    if count == len(part.slices):
        return part, None
    return replace(part, slices=part.slices[:count]), replace(part, slices=part.slices[count:])


def _join(parts: list[Part], part: Part) -> None:
    """Add a part; consecutive whole segments of one partition become one part."""
    if parts and part.slices and parts[-1].slices:
        last, end, begin = parts[-1], parts[-1].slices[-1], part.slices[0]
        if _identity(last) == _identity(part) and end.next_base_offset == begin.base_offset and begin.start == 0:
            slices = last.slices.continued(part.slices) if isinstance(last.slices, WholeSegments) else None
            parts[-1] = replace(last, slices=slices or (*last.slices, *part.slices))
            return
    parts.append(part)


def _identity(part: Part) -> tuple[object, ...]:
    """Everything but the slices."""
    place = part.root, part.folder, part.topic, part.partition
    return *place, part.start_offset, part.stop_offset, part.log_start_offset, part.claim


def _span(part: Part) -> tuple[int, int]:
    """The offsets that a part of one slice can yield."""
    piece = part.slices[0]
    after = piece.next_base_offset
    if after is None:
        after = part.stop_offset if part.stop_offset < HIGHEST else _end_of_slice(part)
    return max(part.start_offset, piece.first_offset, part.log_start_offset or 0), min(part.stop_offset, after)


def _offsets(part: Part) -> int:
    start, stop = _span(part)
    return max(stop - start, 0)


def _end_of_slice(part: Part) -> int:
    store, _ = open_store(part.root)
    segment = as_segment(part.slices[0])
    return end_offset(Partition(store, part.folder, part.topic, part.partition, segments=(segment,)))


def _shares(part: Part, count: int) -> list[Part]:
    """The part divided into `count` with equally many offsets; the last has the remainder."""
    start, stop = _span(part)
    count = max(1, min(count, stop - start))
    if count == 1:
        return [part]
    edges = [start + (stop - start) * number // count for number in range(count)]
    inner = edges[1:]
    return [
        replace(part, start_offset=max(low, part.start_offset), stop_offset=min(high, part.stop_offset), claim=(low, high))
        for low, high in zip([part.claim[0], *inner], [*inner, part.claim[1]], strict=True)
    ]


def as_segment(piece: FileSlice) -> Segment:
    """The slice as a `Segment`."""
    log = StoredFile(piece.path, piece.size, piece.mtime_ns, piece.kind, piece.base_offset, inode=piece.inode)
    siblings = {"index": StoredFile(piece.index_path, 0, 0, "index", piece.base_offset)} if piece.index_path else {}
    return Segment(log, siblings, piece.next_base_offset, piece.start, piece.stop)
