"""What a Spark read is made of: the partitions chosen, the range of each, and splits of about equal size.

A split is cut between entries, at a position that the offset index names and a checksum proves, so each byte of a log belongs to
one split. Planning reads names, indexes and a few entries; offsets "by timestamp" and read_committed read headers. Without these
neither Numba nor Arrow is loaded, nor is Spark.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from crc32c import crc32c

from kafkalog.errors import KafkaLogError, Limits, StorageError, path_text
from kafkalog.format import batch
from kafkalog.format.index import read_offset_index
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition, Segment, StoredFile
from kafkalog.storage import open_store
from kafkalog.storage.store import ByteSource

from .errors import BAD_OPTION, DATA_LOSS, STORAGE, SparkSourceError, bad_option
from .options import EARLIEST, LATEST, RANGED_TABLES, Bound, SourceOptions, TopicPartition

if TYPE_CHECKING:
    from kafkalog.log.transactions import Committed

LOGGER = logging.getLogger("kafkalog.spark")

# A Python task costs about 30 ms before it reads a byte, and 64 MiB about half a second.
SPLIT_BYTES: Final = 64 << 20
LEAST_SPLIT_BYTES: Final = 4 << 20
HEADER_SPLIT_BYTES: Final = 1 << 30  # of tables that need headers only
MAX_INDEX_BYTES: Final = 64 << 20
# Index entries that are tried around a wanted position before it is left uncut.
INDEX_TRIES: Final = 8
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
CRC_END_V0: Final = 16
LOWEST: Final = -(1 << 63)
HIGHEST: Final = (1 << 63) - 1


@dataclass(frozen=True)
class FileSlice:
    """Bytes `start..stop` of a segment file, with what the file was when the read was planned."""

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
    first_offset: int = 0  # no record in it is below

    @property
    def bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Part:
    """Slices of one partition and the offsets to give out of them.

    Damage in the slices is told by the part whose `claim` holds its offset: parts may share slices.
    """

    root: str
    folder: str
    topic: str
    partition: int
    slices: tuple[FileSlice, ...]
    start_offset: int
    stop_offset: int
    log_start_offset: int | None = None
    claim: tuple[int, int] = (LOWEST, HIGHEST)
    committed: Committed | None = field(default=None, compare=False)

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.slices)


@dataclass(frozen=True)
class Split:
    """What one task reads."""

    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Found:
    """A partition with the path under which it was found."""

    root: str
    partition: Partition

    @property
    def key(self) -> TopicPartition:
        return self.partition.topic, self.partition.partition


def plan_splits(options: SourceOptions, cores: int | None = None) -> list[Split]:
    """The splits of a read, at least `minPartitions` of them if there are that many offsets."""
    chosen = choose_partitions(options)
    if options.table not in RANGED_TABLES:
        return _packed([_whole_folder(found) for found in chosen], options.max_partition_bytes or HEADER_SPLIT_BYTES)
    ranges = [(found, *offset_range(found.partition, options, {other.key for other in chosen})) for found in chosen]
    target = _target_bytes(options, sum(found.partition.size for found in chosen), cores or os.cpu_count() or 1)
    parts = [part for found, start, stop in ranges for part in _parts(found, start, stop, target, options)]
    return divide(parts, target, options)


# -- partitions --------------------------------------------------------------------------------------------------------------


def choose_partitions(options: SourceOptions) -> list[Found]:
    """The partitions that the options name, among those at the paths."""
    found: list[Found] = []
    for path in options.paths:
        store, place = open_store(path)
        here = find_partitions(store, place)
        named = len(here) == 1 and here[0].folder == (store.parent(place) if here[0].file else place)
        # A worker's working folder may be another; what a URI says beside its path (endpoint, region) it needs, too.
        root = path if "://" in place else place
        found += [Found(root, each) for each in here if named or _is_visible(each, options)]
    _check_unique(found)
    chosen = [each for each in found if _is_wanted(each, options)]
    if options.subscribe is not None:
        _check_topics(options.subscribe, found)
    _check_readable(chosen, options)
    return chosen


def _is_visible(partition: Partition, options: SourceOptions) -> bool:
    return not partition.state and (options.include_internal_topics or partition.topic not in INTERNAL_TOPICS)


def _is_wanted(found: Found, options: SourceOptions) -> bool:
    if options.subscribe is not None:
        return found.partition.topic in options.subscribe
    if options.subscribe_pattern is not None:
        return re.search(options.subscribe_pattern, found.partition.topic) is not None
    return options.assign is None or found.key in options.assign


def _check_unique(found: Iterable[Found]) -> None:
    seen: dict[tuple[str, int, str | None], Found] = {}
    for each in found:
        same = seen.setdefault((*each.key, each.partition.file), each)
        if same is not each:
            raise SparkSourceError(
                BAD_OPTION, f"option paths: {each.partition} is at {each.root} and at {same.root}; its rows would come twice"
            )


def _check_topics(topics: Sequence[str], found: Sequence[Found]) -> None:
    known = sorted({each.partition.topic for each in found})
    for topic in topics:
        if topic not in known:
            raise bad_option("subscribe", ",".join(topics), f"no topic {topic!r} here; there are: {', '.join(known) or 'none'}")


def _check_readable(chosen: Iterable[Found], options: SourceOptions) -> None:
    for found in chosen:
        for problem in found.partition.problems:
            if options.mode == "FAILFAST":
                raise SparkSourceError(STORAGE, path_text(problem))
            LOGGER.warning("left out: %s", problem)


# -- ranges ------------------------------------------------------------------------------------------------------------------


def offset_range(partition: Partition, options: SourceOptions, assigned: set[TopicPartition]) -> tuple[int, int]:
    """The offsets to read of a partition, half open; HIGHEST as the end means all that is there."""
    for bound in (options.starting, options.ending):
        _check_assigned(bound, assigned)
    start = _starting(partition, options)
    stop = _ending(partition, options)
    if start > stop:
        raise SparkSourceError(
            BAD_OPTION,
            f"option {options.starting.option}: {partition} would start at {start}, behind its end at {stop} "
            f"({options.ending.option})",
        )
    return start, stop


def _check_assigned(bound: Bound, assigned: set[TopicPartition]) -> None:
    if bound.kind in ("offsets", "timestamps") and set(bound.at) != assigned:
        wildcards = " Use -1 for latest, -2 for earliest." if bound.kind == "offsets" else ""
        raise SparkSourceError(
            BAD_OPTION,
            f"option {bound.option}: it must name exactly the partitions that are read.{wildcards} "
            f"Named: {_shown(bound.at)}; read: {_shown(assigned)}",
        )


def _shown(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "none"


def _starting(partition: Partition, options: SourceOptions) -> int:
    bound = options.starting
    if bound.kind in ("timestamp", "timestamps"):
        time = _timestamp(bound, partition)
        offset = find_offset_at(partition, time)
        if offset is None and not options.missing_timestamp_is_latest:
            raise SparkSourceError(
                BAD_OPTION,
                f"option {bound.option}={time}: {partition} has no record from then on; "
                "startingOffsetsByTimestampStrategy=latest takes its end instead",
            )
        return _end_offset(partition) if offset is None else offset
    wanted = bound.at[partition.topic, partition.partition] if bound.kind == "offsets" else EARLIEST
    if wanted == EARLIEST:
        return partition.start_offset
    return _within_log(partition, bound.option, wanted, options)


def _ending(partition: Partition, options: SourceOptions) -> int:
    bound = options.ending
    if bound.kind in ("timestamp", "timestamps"):
        offset = find_offset_at(partition, _timestamp(bound, partition))
        return HIGHEST if offset is None else offset
    wanted = bound.at[partition.topic, partition.partition] if bound.kind == "offsets" else LATEST
    return HIGHEST if wanted == LATEST else _within_log(partition, bound.option, wanted, options)


def _timestamp(bound: Bound, partition: Partition) -> int:
    return bound.timestamp_ms if bound.kind == "timestamp" else bound.at[partition.topic, partition.partition]


def _within_log(partition: Partition, option: str, wanted: int, options: SourceOptions) -> int:
    """An offset that was asked for, if the log still has or already has it."""
    first, end = partition.start_offset, _end_offset(partition)
    if first <= wanted <= end:
        return wanted
    text = f"option {option}: {partition} has the offsets {first} to {end}, not {wanted}"
    if options.fail_on_data_loss:
        raise SparkSourceError(DATA_LOSS, f"{text}; with failOnDataLoss=false what is there is read")
    LOGGER.warning("%s; reading what is there", text)
    return min(max(wanted, first), end)


def _end_offset(partition: Partition) -> int:
    from kafkalog.log.headers import end_offset  # loads Numba

    return max(end_offset(partition, Limits()), partition.start_offset)


def find_offset_at(partition: Partition, timestamp_ms: int) -> int | None:
    """The offset of the first record (or marker) from that time on, as a broker would answer; None if there is none."""
    from kafkalog.tables.logs import Logs  # loads Arrow and Numba

    logs = Logs(partition.folder, [partition])
    columns = ["magic", "codec", "last_offset", "max_timestamp_ms"]
    before = partition.start_offset - 1
    for headers in logs.read("batches", columns, on_damage="skip", threads=1):
        magic, codec, last, times = (headers.column(name).to_numpy(zero_copy_only=False) for name in columns)
        lasts = np.maximum.accumulate(np.concatenate(([before], last)))
        # The timestamp of a compressed v1 set may be stale (0.10.0 brokers).
        possible = (times >= timestamp_ms) | ((magic == 1) & (codec != "none"))
        before = int(lasts[-1])
        for row in np.flatnonzero(possible & (lasts[1:] > lasts[:-1])).tolist():
            found = logs.read(
                "records",
                ["offset"],
                start_offset=int(lasts[row]) + 1,
                stop_offset=int(lasts[row + 1]) + 1,
                start_time=timestamp_ms,
                include_control=True,
                on_damage="skip",
                threads=1,
            )
            offsets = found.read_all().column(0)
            if len(offsets):
                return int(offsets[0].as_py())
    return None


# -- pieces ------------------------------------------------------------------------------------------------------------------


def _target_bytes(options: SourceOptions, total: int, cores: int) -> int:
    """Bytes of a split: all cores busy, but no task too small for what it costs."""
    if options.max_partition_bytes is not None:
        target = options.max_partition_bytes
    else:
        most = SPLIT_BYTES if options.table == "records" else HEADER_SPLIT_BYTES
        target = min(most, max(LEAST_SPLIT_BYTES, -(-total // cores)))
    return max(min(target, -(-total // (options.min_partitions or 1))), 1)


def _parts(found: Found, start: int, stop: int, target: int, options: SourceOptions) -> Iterator[Part]:
    """One part for each slice of the partition that may hold offsets of the range."""
    partition = found.partition
    if start >= stop:
        return
    committed = _committed(partition) if options.isolation == "read_committed" else None
    # Behind an open transaction nothing comes out, but a damaged marker may be why it seems open.
    last = stop if committed is None or committed.first_open_offset is None else HIGHEST
    for segment in partition.segments_from(start):
        if segment.base_offset >= last:
            return
        for piece in cut(partition, segment, target):
            after = piece.next_base_offset
            if (after is None or after > start) and piece.first_offset < last:
                yield Part(
                    found.root,
                    partition.folder,
                    partition.topic,
                    partition.partition,
                    (piece,),
                    start,
                    stop,
                    partition.log_start_offset,
                    committed=committed,
                )


def _committed(partition: Partition) -> Committed:
    from kafkalog.log.headers import replay_transactions  # loads Numba

    return replay_transactions(partition, Limits()).committed()


def _whole_folder(found: Found) -> Part:
    partition = found.partition
    slices = tuple(piece for segment in partition.segments for piece in cut(partition, segment, HIGHEST))
    folder = partition.file or partition.folder
    return Part(found.root, folder, partition.topic, partition.partition, slices, LOWEST, HIGHEST)


def cut(partition: Partition, segment: Segment, target: int) -> list[FileSlice]:
    """The segment in slices of about `target` bytes, each from entry to entry."""
    log = segment.log
    index = segment.siblings.get("index")
    whole = FileSlice(
        log.path,
        log.size,
        log.mtime_ns,
        log.kind,
        log.base_offset,
        0,
        log.size,
        segment.next_base_offset,
        index.path if index else None,
        may_grow=segment.is_newest,
        first_offset=max(segment.base_offset, 0),
    )
    count = -(-log.size // target)
    if count <= 1:
        return [whole]
    wanted = [log.size * number // count for number in range(1, count)]
    try:
        with partition.open_log(segment) as source:
            cuts = _proven_cuts(partition, segment, source, wanted)
    except StorageError:  # the task that reads it tells
        return [whole]
    slices = []
    for position, offset, first in cuts:
        slices.append(replace(whole, stop=position, next_base_offset=offset))
        whole = replace(whole, start=position, first_offset=first)
    return [*slices, whole]


def _proven_cuts(
    partition: Partition, segment: Segment, source: ByteSource, wanted: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Positions near the wanted ones where entries begin, each with bounds of the offsets before it and from it on."""
    positions = _indexed_positions(partition, segment)
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


def _indexed_positions(partition: Partition, segment: Segment) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    index = segment.siblings.get("index")
    if index is None:
        return np.empty(0, np.int64)
    try:
        entries = read_offset_index(partition.store.read_small(index.path, MAX_INDEX_BYTES), segment.base_offset)
    except KafkaLogError:
        return np.empty(0, np.int64)
    positions = np.unique(entries["position"].astype(np.int64))
    return positions[positions > 0]


def _walked_positions(source: ByteSource) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where the entries of a local segment without an index begin, as far as they can be followed."""
    from kafkalog.kernels import scan  # loads Numba
    from kafkalog.segment.windows import SegmentWalk

    found = [fields[scan.POSITION].copy() for fields in SegmentWalk(source, 0, source.size, Limits()).headers()]
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    return positions[positions > 0]


def prove_entry(source: ByteSource, position: int, segment: Segment) -> tuple[int, int] | None:
    """Bounds of the offsets around an entry at `position`: those before it are below the first, its own not below the second.

    None unless its checksum fits and its offset can belong to the segment. A compressed v0/v1 set tells its last offset only.
    """
    front = source.read(position, batch.HEADER_SIZE)
    if len(front) <= batch.MAGIC_POSITION + 1:
        return None
    size = int.from_bytes(front[8:12], "big", signed=True) + batch.LOG_OVERHEAD
    magic = front[batch.MAGIC_POSITION]
    if not 26 <= size <= min(Limits().batch_bytes, source.size - position) or magic > batch.MAX_MAGIC:
        return None
    data = source.read(position, size)
    if magic == batch.MAX_MAGIC:
        stored = int.from_bytes(data[batch.CRC_POSITION : batch.CRC_START], "big")
        fits = size >= batch.HEADER_SIZE and crc32c(data[batch.CRC_START :]) == stored
        compressed = False
    else:
        fits = zlib.crc32(data[CRC_END_V0:]) == int.from_bytes(data[batch.LOG_OVERHEAD : CRC_END_V0], "big")
        compressed = bool(data[CRC_END_V0 + 1] & batch.CODEC_MASK)
    offset = int.from_bytes(data[:8], "big", signed=True)
    after = HIGHEST if segment.next_base_offset is None else segment.next_base_offset
    if not fits or not max(segment.base_offset, 0) <= offset < after:
        return None
    return offset, max(segment.base_offset, 0) if compressed else offset


# -- splits ------------------------------------------------------------------------------------------------------------------


def divide(parts: Sequence[Part], target: int, options: SourceOptions) -> list[Split]:
    """Parts as splits: small ones together, large ones by offsets where the options ask for more."""
    most = options.max_records_per_partition
    if most is not None:
        parts = [share for part in parts for share in _shares(part, -(-_offsets(part) // most))]
    splits = _packed(parts, target, most)
    least = options.min_partitions or 1
    if len(splits) >= least:
        return splits
    # As Spark's own source counts: small ranges stay whole, the others share what is left of the wanted number.
    sizes = [_offsets(part) for part in parts]
    total = sum(sizes) or 1
    large = [_rounded(size / total * least) > 1 for size in sizes]
    shared = sum(size for size, is_large in zip(sizes, large, strict=True) if is_large) or 1
    left = least - large.count(False)
    counts = [max(_rounded(size / shared * left), 1) if is_large else 1 for size, is_large in zip(sizes, large, strict=True)]
    return [Split((share,)) for part, count in zip(parts, counts, strict=True) for share in _shares(part, count)]


def _rounded(number: float) -> int:
    """Half up, as Java rounds."""
    return int(number + 0.5)


def _packed(parts: Sequence[Part], target: int, most: int | None = None) -> list[Split]:
    """Neighbours together up to `target` bytes and `most` offsets."""
    splits: list[Split] = []
    filled = offsets = 0
    for part in parts:
        more = _offsets(part) if most is not None else 0
        if not splits or filled + part.bytes > target or (most is not None and offsets + more > most):
            splits.append(Split())
            filled = offsets = 0
        filled, offsets = filled + part.bytes, offsets + more
        splits[-1] = Split(_joined(splits[-1].parts, part))
    return splits


def _joined(parts: tuple[Part, ...], part: Part) -> tuple[Part, ...]:
    """With the new part; whole segments of one partition that follow each other become one part."""
    if parts and part.slices and parts[-1].slices:
        last, end, begin = parts[-1], parts[-1].slices[-1], part.slices[0]
        alike = replace(last, slices=()) == replace(part, slices=()) and part.claim == (LOWEST, HIGHEST)
        if alike and end.next_base_offset == begin.base_offset and begin.start == 0:
            return (*parts[:-1], replace(last, slices=last.slices + part.slices))
    return (*parts, part)


def _span(part: Part) -> tuple[int, int]:
    """The offsets that a part of one slice can give out."""
    piece = part.slices[0]
    after = piece.next_base_offset
    if after is None:
        after = _end_of_slice(part)
    return max(part.start_offset, piece.first_offset, part.log_start_offset or 0), min(part.stop_offset, after)


def _offsets(part: Part) -> int:
    start, stop = _span(part)
    return max(stop - start, 0)


def _end_of_slice(part: Part) -> int:
    store, _ = open_store(part.root)
    segment = as_segment(part.slices[0])
    return _end_offset(Partition(store, part.folder, part.topic, part.partition, segments=(segment,)))


def _shares(part: Part, count: int) -> list[Part]:
    """The part as `count` of them, of equally many offsets; the last takes the remainder."""
    start, stop = _span(part)
    count = max(1, min(count, stop - start))
    if count == 1:
        return [part]
    edges = [start + (stop - start) * number // count for number in range(count)]
    inner = edges[1:]
    return [
        replace(part, start_offset=max(low, part.start_offset), stop_offset=min(high, part.stop_offset), claim=(low, high))
        for low, high in zip([LOWEST, *inner], [*inner, HIGHEST], strict=True)
    ]


def as_segment(piece: FileSlice) -> Segment:
    """The slice as the layers below know it."""
    log = StoredFile(piece.path, piece.size, piece.mtime_ns, piece.kind, piece.base_offset)
    siblings = {"index": StoredFile(piece.index_path, 0, 0, "index", piece.base_offset)} if piece.index_path else {}
    return Segment(log, siblings, piece.next_base_offset, piece.start, piece.stop)
