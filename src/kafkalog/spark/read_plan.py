"""The plan of a Spark read: the chosen partitions, the range of each, and the splits.

Planning reads names, indexes and a few entries; offsets "by timestamp" and read_committed read headers. Without these it loads
neither Numba nor Arrow nor Spark.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalog.clusters.places import find_disks
from kafkalog.errors import Limits, UsageError, path_text
from kafkalog.format.names import REPLICATION_CHECKPOINT
from kafkalog.log.folders import find_partitions, is_given, no_topic, read_high_watermarks
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.places import as_one
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.storage import open_store
from kafkalog.storage.lock import is_broker_running
from kafkalog.storage.parallel import in_parallel
from kafkalog.storage.store import short_repr

from .errors import BAD_OPTION, DATA_LOSS, STORAGE, SparkSourceError, bad_option
from .options import (
    CLUSTER_TABLES,
    EARLIEST,
    HIGH_WATERMARK,
    LATEST,
    LOG_END,
    RANGED_TABLES,
    Bound,
    SourceOptions,
    TopicPartition,
)
from .splits import (
    EVERYTHING,
    HEADER_SPLIT_BYTES,
    HIGHEST,
    LOWEST,
    FileSlice,
    Part,
    Split,
    WholeSegments,
    cut,
    divide,
    end_offset,
    pack,
    runs,
    target_bytes,
)

if TYPE_CHECKING:
    from kafkalog.log.transactions import Committed

LOGGER = logging.getLogger("kafkalog.spark")

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")


@dataclass(frozen=True, repr=False)
class Found:
    """A partition with the path under which it was found."""

    root: str
    partition: Partition

    def __repr__(self) -> str:
        place = short_repr(f"{self.partition.topic}-{self.partition.partition}")
        return f"Found({place} at {short_repr(self.root)})"

    @property
    def key(self) -> TopicPartition:
        return self.partition.topic, self.partition.partition


def plan_splits(options: SourceOptions, cores: int | None = None) -> list[Split]:
    """The splits of a read, at least `minPartitions` if there are that many offsets."""
    if options.table in CLUSTER_TABLES:
        return [_whole_cluster(options)]
    chosen = one_copy_of_each(choose_whole_partitions(options))
    if options.table not in RANGED_TABLES:
        return pack(map(_whole_folder, chosen), options.max_partition_bytes or HEADER_SPLIT_BYTES, divides=False)
    at_once = requests_at_once(chosen)
    ranges = _ranges(chosen, options, at_once)
    target = target_bytes(options, sum(found.partition.size for found in chosen), cores or os.cpu_count() or 1)
    return divide(parts_of(ranges, target, at_once), target, options)


def _ranges(chosen: Sequence[Found], options: SourceOptions, at_once: int) -> list[Range]:
    """What to read from each partition."""
    assigned = {found.key for found in chosen}
    ends = readable_ends(chosen, options) if options.up_to == HIGH_WATERMARK else {}

    def range_of(found: Found) -> Range:
        start, stop = offset_range(found.partition, options, assigned)
        stop = max(min(stop, ends.get(found.key, HIGHEST)), start)
        return Range(found, start, stop, _committed(found.partition, options) if start < stop else None)

    return list(in_parallel(range_of, chosen, at_once))


def requests_at_once(chosen: Iterable[Found]) -> int:
    """How many requests the storage of these partitions answers at the same time."""
    return max((found.partition.store.requests_at_once for found in chosen), default=1)


# -- partitions --------------------------------------------------------------------------------------------------------------


def choose_partitions(options: SourceOptions, *, topics_must_exist: bool = True) -> list[Found]:
    """The partitions that the options name, among those at the paths."""
    found: list[Found] = []
    for path in options.paths:
        store, place = open_store(path)
        # A worker may have another working folder; and it needs the rest of a URI (endpoint, region), too.
        root = path if "://" in place else place
        listed = find_partitions(store, place, lambda name: not name.state and _is_wanted((name.topic, name.partition), options))
        found += [Found(root, each) for each in listed if is_given(each, place) or _is_visible(each, options)]
    _check_unique(found)
    chosen = [each for each in found if _is_wanted(each.key, options)]
    if options.subscribe is not None and topics_must_exist:
        _check_topics(options.subscribe, found)
    _check_readable(chosen, options)
    return chosen


def choose_whole_partitions(options: SourceOptions) -> list[Found]:
    """The same, each with the finished segments of an interrupted compaction."""
    return [Found(found.root, with_finished_segments(found.partition, Limits())) for found in choose_partitions(options)]


def _is_visible(partition: Partition, options: SourceOptions) -> bool:
    return not partition.state and (options.include_internal_topics or partition.topic not in INTERNAL_TOPICS)


def _is_wanted(key: TopicPartition, options: SourceOptions) -> bool:
    if options.subscribe is not None:
        return key[0] in options.subscribe
    if options.subscribe_pattern is not None:
        return re.search(options.subscribe_pattern, key[0]) is not None
    return options.assign is None or key in options.assign


def _check_unique(found: Iterable[Found]) -> None:
    """Segment files of one partition may be given one by one; the same file twice, or together with its folder, may not.

    Copies in different folders are replicas.
    """
    seen: dict[TopicPartition, list[Found]] = {}
    for each in found:
        others = seen.setdefault(each.key, [])
        for same in others:
            is_whole = None in (each.partition.file, same.partition.file)
            if each.partition.folder == same.partition.folder and (is_whole or each.partition.file == same.partition.file):
                raise SparkSourceError(
                    BAD_OPTION,
                    f"option paths: {each.partition} is at {each.root} and at {same.root}; its rows would come twice",
                )
        others.append(each)


def one_copy_of_each(found: list[Found]) -> list[Found]:
    """The same with one copy of each partition, by the rule of `log/places.py`; at one place there are no others."""
    if len({each.root for each in found}) < 2:
        return found
    whole = as_one(each.partition for each in found)
    for refusal in whole.refused.values():
        raise SparkSourceError(BAD_OPTION, f"option paths: {path_text(refusal)}; give only paths of one of them")
    chosen = {id(partition) for partition in whole.partitions}
    return [each for each in found if id(each.partition) in chosen]


def check_one_place(found: Iterable[Found]) -> None:
    """A stream and an ingest record one offset per partition, so it cannot be given as several files or replicas."""
    seen: dict[TopicPartition, Found] = {}
    for each in found:
        same = seen.setdefault(each.key, each)
        if same is not each:
            is_replica = each.partition.folder != same.partition.folder
            advice = "give only the one to be followed" if is_replica else "give its folder instead"
            raise SparkSourceError(BAD_OPTION, f"option paths: {each.partition} is at {each.root} and at {same.root}; {advice}")


def _check_topics(topics: Sequence[str], found: Sequence[Found]) -> None:
    there = sorted({each.partition.topic for each in found})
    for topic in topics:
        if topic not in there:
            raise bad_option("subscribe", ",".join(topics), no_topic(topic, there))


def _check_readable(chosen: Iterable[Found], options: SourceOptions) -> None:
    for found in chosen:
        for problem in found.partition.problems:
            if options.mode == "FAILFAST":
                raise SparkSourceError(STORAGE, path_text(problem))
            LOGGER.warning("left out: %s", problem)


# -- ranges ------------------------------------------------------------------------------------------------------------------


def offset_range(partition: Partition, options: SourceOptions, assigned: set[TopicPartition]) -> tuple[int, int]:
    """The offsets to read from a partition, half open; HIGHEST as the end means everything."""
    for bound in (options.starting, options.ending):
        check_assigned(bound, assigned)
    start = starting_offset(partition, options, lambda: end_offset(partition))
    stop = _ending(partition, options)
    if start > stop:
        raise SparkSourceError(
            BAD_OPTION,
            f"option {options.starting.option}: {partition} would start at {start}, after its end at {stop} "
            f"({options.ending.option})",
        )
    return start, stop


def check_assigned(bound: Bound, assigned: Set[TopicPartition]) -> None:
    """Offsets by partition must name each that is read, and no other."""
    if bound.kind in ("offsets", "timestamps") and set(bound.at) != assigned:
        wildcards = " Use -1 for latest, -2 for earliest." if bound.kind == "offsets" else ""
        raise SparkSourceError(
            BAD_OPTION,
            f"option {bound.option}: it must name exactly the partitions that are read.{wildcards} "
            f"Named: {_shown(bound.at)}; read: {_shown(assigned)}",
        )


def _shown(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "none"


def starting_offset(partition: Partition, options: SourceOptions, end: Callable[[], int]) -> int:
    """The offset at which the options start; `end` is what "latest" means."""
    bound = options.starting
    if bound.kind in ("timestamp", "timestamps"):
        time = _timestamp(bound, partition)
        offset = find_offset_at(partition, time)
        if offset is None and not options.missing_timestamp_is_latest:
            raise SparkSourceError(
                BAD_OPTION,
                f"option {bound.option}={time}: {partition} has no record from then on; "
                "startingOffsetsByTimestampStrategy=latest starts at its end instead",
            )
        return end() if offset is None else offset
    wanted = LATEST if bound.kind == "latest" else EARLIEST
    if bound.kind == "offsets":
        wanted = bound.at[partition.topic, partition.partition]
    if wanted == EARLIEST:
        return partition.start_offset
    return end() if wanted == LATEST else _within_log(partition, bound.option, wanted, options)


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
    """A requested offset, if the log still has it, or has it already."""
    first, end = partition.start_offset, end_offset(partition)
    if first <= wanted <= end:
        return wanted
    text = f"option {option}: {partition} has the offsets {first} to {end}, not {wanted}"
    if options.fail_on_data_loss:
        raise SparkSourceError(DATA_LOSS, f"{text}; with failOnDataLoss=false what is there is read")
    LOGGER.warning("%s; reading what is there", text)
    return min(max(wanted, first), end)


def readable_ends(chosen: Iterable[Found], options: SourceOptions) -> dict[TopicPartition, int]:
    """The offset in each partition before which a run ends that others follow; HIGHEST for the end of the log.

    That is the high watermark as its broker last wrote it down (before the first time, the start of the log): records after it
    may still be truncated. It is the default where a broker is running, because the next run reads the rest; a log without a
    broker is read to its end.
    """
    recorded: dict[str, dict[TopicPartition, int] | None] = {}
    ends = {}
    for found in chosen:
        partition = found.partition
        folder = partition.store.parent(partition.folder)
        if folder not in recorded:
            recorded[folder] = _recorded_ends(partition, folder, options)
        known = recorded[folder]
        ends[found.key] = HIGHEST if known is None else max(known.get(found.key, 0), partition.start_offset)
    return ends


def _recorded_ends(partition: Partition, log_directory: str, options: SourceOptions) -> dict[TopicPartition, int] | None:
    if options.up_to == LOG_END or (options.up_to is None and not is_broker_running(log_directory)):
        return None
    recorded = read_high_watermarks(partition.store, log_directory)
    if recorded is None and options.up_to is not None:
        missing = f"{path_text(log_directory)}/{REPLICATION_CHECKPOINT}"
        raise bad_option("upTo", options.up_to, f"not allowed without {missing}")
    return recorded


def find_offset_at(partition: Partition, timestamp_ms: int) -> int | None:
    """The offset of the first record (or marker) at or after that time, as a broker finds it; None if there is none."""
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


# -- parts -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Range:
    """The offsets to read from a partition, half open."""

    found: Found
    start: int
    stop: int
    committed: Committed | None = None
    claim: tuple[int, int] = EVERYTHING

    def __repr__(self) -> str:
        return f"Range({self.found!r}, offsets {self.start} to {self.stop - 1})"

    def pieces(self, target: int) -> Iterator[_Piece]:
        """The segments that may hold these offsets, those that stay whole by runs."""
        if self.start >= self.stop:
            return
        # Nothing after an open transaction is read, but it may seem open because its marker is damaged.
        first_open = None if self.committed is None else self.committed.first_open_offset
        last = HIGHEST if first_open is not None and first_open < self.stop else self.stop

        def is_whole(base: int, after: int | None, size: int) -> bool:
            return size <= target and self.start <= base and (last == HIGHEST or (after or HIGHEST) <= last)

        for segments in runs(self.found.partition.segments_from(self.start), is_whole):
            if isinstance(segments, Segment) and segments.base_offset >= last:
                return
            yield _Piece(self, segments, target, last)

    def part(self, slices: Sequence[FileSlice]) -> Part:
        found, partition = self.found, self.found.partition
        return Part(
            found.root,
            partition.folder,
            partition.topic,
            partition.partition,
            slices,
            self.start,
            self.stop,
            partition.log_start_offset,
            self.claim,
            self.committed,
        )


@dataclass(frozen=True)
class _Piece:
    """A run of whole segments of a range, or a segment that is to be cut: that takes requests."""

    range: Range
    segments: WholeSegments | Segment
    target: int
    last: int

    def parts(self) -> list[Part]:
        """A part of the whole segments, or one for each slice that may hold offsets of the range."""
        if isinstance(self.segments, WholeSegments):
            return [self.range.part(self.segments)]
        start = self.range.start
        return [
            self.range.part((piece,))
            for piece in cut(self.range.found.partition, self.segments, self.target, start, self.last)
            if (piece.next_base_offset is None or piece.next_base_offset > start) and piece.first_offset < self.last
        ]


def parts_of(ranges: Iterable[Range], target: int, at_once: int = 1) -> Iterator[Part]:
    """The parts that may hold offsets of the ranges, in order: a run of whole segments, or one slice."""
    pieces = (piece for each in ranges for piece in each.pieces(target))
    for parts in in_parallel(_Piece.parts, pieces, at_once):
        yield from parts


def first_parts(options: SourceOptions) -> list[Part]:
    """The first part of each partition that is there now, whatever the offsets to be read."""
    chosen = one_copy_of_each(choose_partitions(options, topics_must_exist=False))
    return [part for found in chosen for part in islice(parts_of([Range(found, LOWEST, HIGHEST)], HIGHEST), 1)]


def _committed(partition: Partition, options: SourceOptions) -> Committed | None:
    if options.isolation != "read_committed":
        return None
    from kafkalog.log.transactions import replay_transactions  # loads Numba

    return replay_transactions(partition, Limits()).committed()


def _whole_cluster(options: SourceOptions) -> Split:
    """One task reads the log directories at or below all paths: a table of the cluster needs them together."""
    try:
        found = find_disks(options.paths)
    except UsageError as error:
        raise bad_option("paths", list(options.paths), str(error)) from None
    # A worker may have another working folder; and it needs the rest of a URI (endpoint, region), too.
    roots = [path if "://" in path else open_store(path)[1] for path in found.places]
    return Split(tuple(Part(root, root, "", -1, (), LOWEST, HIGHEST) for root in roots))


def _whole_folder(found: Found) -> Part:
    partition = found.partition
    listed = list(runs(partition.segments, lambda base, after, size: True))
    slices: Sequence[FileSlice] = ()
    if len(listed) == 1 and isinstance(listed[0], WholeSegments):
        slices = listed[0]
    else:
        slices = tuple(piece for segment in partition.segments for piece in cut(partition, segment, HIGHEST))
    folder = partition.file or partition.folder
    return Part(found.root, folder, partition.topic, partition.partition, slices, LOWEST, HIGHEST)
