"""Which partitions a task works on, and the index interval that their files were written with."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from kafkalog.errors import KafkaLogError, LimitExceeded, Limits, NoLogs, StorageError, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import decode_partition_metadata
from kafkalog.format.index import read_offset_index
from kafkalog.log.folders import choose, find_partitions, live_partitions
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.segment.build import DEFAULT_INTERVAL_BYTES, IntervalBounds
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage import open_store
from kafkalog.storage.fs import Fs
from kafkalog.storage.store import SMALL_FILE
from kafkalog.tables.choices import Names, Numbers, several_names, several_numbers

PathLike = str | os.PathLike[str]
Result = TypeVar("Result")


OnFailure = Callable[[Partition, KafkaLogError], None]
# After these the other partitions would only fail the same way.
HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def chosen_partitions(path: PathLike, topics: Names | None = None, numbers: Numbers | None = None) -> list[Partition]:
    """The partitions at `path` that have segments; deleted, future and stray ones only if given by their own path.

    One that storage could not list is among them, without segments but with `problems`, if there are others.
    """
    return chosen_from([path], topics, numbers)


def chosen_from(paths: Sequence[PathLike], topics: Names | None = None, numbers: Numbers | None = None) -> list[Partition]:
    """The same for several paths; what is asked for has to be at one of them."""
    found = [_live_partitions(path) for path in paths]
    chosen = _chosen([partition for _, partitions in found for partition in partitions], found[0][0], topics, numbers)
    return _require_segments(chosen, ", ".join(os.fspath(path) for path in paths))


def asked_partitions(path: PathLike, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
    """Those of `chosen_partitions`, whether or not they have segments."""
    place, found = _live_partitions(path)
    return _chosen(found, place, topics, numbers)


def _live_partitions(path: PathLike) -> tuple[str, list[Partition]]:
    store, place = open_store(path)
    return place, live_partitions(find_partitions(store, place), place)


def _chosen(found: Sequence[Partition], place: str, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
    """Those that were asked for; an empty list of topics or numbers asks for nothing in particular."""
    chosen = choose(found, place, several_names("topics", topics) or None, several_numbers("partitions", numbers) or None)
    if not chosen:
        raise UsageError(f"{place}: only folders of deleted, future or stray partitions; give the path of one")
    return chosen


def each_partition(
    partitions: Sequence[Partition], work: Callable[[Partition], Result], on_failure: OnFailure | None
) -> Iterator[Result]:
    """The result of each. One that fails is reported to `on_failure`, and the others continue; without it,
    and where all would fail for the same reason, the error is raised."""
    for partition in partitions:
        try:
            result = work(partition)
        except MemoryError:
            short = LimitExceeded("memory-limit", file=partition.folder, expected="memory for its work", found="too little")
            if on_failure is None or len(partitions) == 1:
                raise short from None
            on_failure(partition, short)
            continue
        except KafkaLogError as error:
            is_hopeless = isinstance(error, OSError) and error.errno in HOPELESS
            if on_failure is None or len(partitions) == 1 or is_hopeless:
                raise
            on_failure(partition, error)
            continue
        yield result


def require_real_folder(fs: Fs, folder: str) -> None:
    """UsageError for a link: checkpoints, the broker's lock and files put aside are next to the folder itself."""
    if fs.kind(folder) == "other":
        target = os.path.realpath(folder)
        raise UsageError(
            f"{folder}: a symbolic link to {target}; only the folder itself can be changed in place, since its locks and "
            "checkpoints are next to it: move the folder to where the link is (mv), or mount it there (mount --bind)"
        )


def require_listed(partition: Partition) -> Partition:
    """The partition, if storage listed all of it, else StorageError: no work is done as if the rest did not exist."""
    if partition.problems:
        raise StorageError(partition.problems[0], file=partition.folder)
    return partition


def listed_again(partition: Partition) -> Partition:
    """The partition listed again, now that it is locked: a broker or another writer may have changed it before."""
    (found,) = _require_segments(find_partitions(partition.store, partition.folder), partition.folder)
    return require_listed(found)


def _require_segments(partitions: Iterable[Partition], place: str) -> list[Partition]:
    whole = [with_finished_segments(partition, Limits()) for partition in partitions]
    filled = [partition for partition in whole if partition.segments]
    unseen = [partition for partition in whole if not partition.segments and partition.problems]
    if not filled and unseen:
        require_listed(unseen[0])
    if not filled:
        raise NoLogs(f"{place}: no segment file (20 digits and .log) is left here", file=place)
    return [partition for partition in whole if partition.segments or partition.problems]


def replicas_by_partition(partitions: Iterable[Partition]) -> list[list[Partition]]:
    """Partitions grouped by topic and number, in the order given."""
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
            for entries in SegmentWalk(source, 0, source.size, limits).headers():
                bounds.narrow(entries.position, indexed)
                return  # the first table of headers is enough
    except KafkaLogError:
        return


def read_metadata(partition: Partition) -> bytes | None:
    """The file with the topic id, if it can be read: a broker refuses a folder that names another topic."""
    found = [stored for stored in partition.files if stored.kind == names.PARTITION_METADATA]
    try:
        content = partition.store.read_small(found[0].path, SMALL_FILE) if found else None
        if content is not None:
            decode_partition_metadata(content)
        return content
    except KafkaLogError:
        return None
