"""Which partitions a task works on, and the index interval that their files were written with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kafkalog.errors import KafkaLogError, Limits, NoLogs, StorageError, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import decode_partition_metadata
from kafkalog.format.index import read_offset_index
from kafkalog.kernels import scan
from kafkalog.log.folders import find_partitions
from kafkalog.log.interrupted import with_finished_segments
from kafkalog.log.partition import SMALL_FILE, Partition, Segment
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES, IntervalBounds
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage import open_store

PathLike = str | os.PathLike[str]


def chosen_partitions(
    path: PathLike, topics: Sequence[str] | None = None, numbers: Sequence[int] | None = None
) -> list[Partition]:
    """The partitions at `path` that have segments; deleted, future and stray ones only if given by their own path."""
    return _require_segments(asked_partitions(path, topics, numbers), os.fspath(path))


def asked_partitions(path: PathLike, topics: Sequence[str] | None, numbers: Sequence[int] | None) -> list[Partition]:
    """The same, whether or not they have segments."""
    store, place = open_store(path)
    found = find_partitions(store, place)
    alone = len(found) == 1 and found[0].folder == place
    chosen = [
        partition
        for partition in found
        if (alone or not partition.state)
        and (not topics or partition.topic in topics)
        and (not numbers or partition.partition in numbers)
    ]
    if not chosen:
        there = ", ".join(sorted({str(partition) for partition in found})[:10])
        raise UsageError(f"{place}: no partition that was asked for; there are: {there}")
    return chosen


def require_listed(partition: Partition) -> Partition:
    """The partition, if storage showed all of it: nothing is done as if the rest were not there."""
    if partition.problems:
        raise StorageError(partition.problems[0], file=partition.folder)
    return partition


def listed_again(partition: Partition) -> Partition:
    """The partition as it is now that it is held: until then a broker or another writer may have changed it."""
    (found,) = _require_segments(find_partitions(partition.store, partition.folder), partition.folder)
    return require_listed(found)


def _require_segments(partitions: Iterable[Partition], place: str) -> list[Partition]:
    whole = [with_finished_segments(partition, Limits()) for partition in partitions]
    for partition in whole:
        if not partition.segments:
            require_listed(partition)
    filled = [partition for partition in whole if partition.segments]
    if not filled:
        raise NoLogs(f"{place}: no segment file (20 digits and .log) is left here", file=place)
    return filled


def replicas_by_partition(partitions: Iterable[Partition]) -> list[list[Partition]]:
    """Partitions of the same topic and number belong together, in the order in which they came."""
    groups: dict[tuple[str, int], list[Partition]] = {}
    for partition in partitions:
        groups.setdefault((partition.topic, partition.partition), []).append(partition)
    return list(groups.values())


def find_index_interval(partition: Partition, limits: Limits) -> int:
    """The `index.interval.bytes` that the partition's own index files show; the default where they show none, or disagree."""
    bounds = IntervalBounds()
    for segment in partition.segments:
        _narrow(bounds, partition, segment, limits)
    return bounds.choose() if bounds.seen else DEFAULT_INTERVAL_BYTES


def _narrow(bounds: IntervalBounds, partition: Partition, segment: Segment, limits: Limits) -> None:
    index = segment.siblings.get("index")
    if index is None or not index.size:
        return
    try:
        indexed = read_offset_index(partition.store.read_small(index.path, SMALL_FILE), segment.base_offset)["position"]
        with partition.open_log(segment) as source:
            for fields in SegmentWalk(source, 0, source.size, limits).headers():
                bounds.narrow(fields[scan.POSITION], indexed)
                return  # the first table of headers tells enough
    except KafkaLogError:
        return


def read_metadata(partition: Partition) -> bytes | None:
    """The topic id's file, if it can be read: a broker refuses a folder that says it belongs to another topic."""
    found = [stored for stored in partition.files if stored.kind == names.PARTITION_METADATA]
    try:
        content = partition.store.read_small(found[0].path, SMALL_FILE) if found else None
        if content is not None:
            decode_partition_metadata(content)
        return content
    except KafkaLogError:
        return None
