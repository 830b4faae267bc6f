"""What is in a log directory, at a glance: partitions from names, sizes and a few headers, or from all headers.

Nothing here raises for what one partition holds: whatever cannot be read or does not fit is a problem of that partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog.errors import KafkaLogError, Limits, StorageError, UsageError
from kafkalog.format import names
from kafkalog.kernels._jit import announce_compilation
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.storage import open_store
from kafkalog.storage.store import Store

from .glance import FormatShare, Found, glance_at, scan_all

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True)
class PartitionListing:
    """One partition. None is unknown; times are those of its first and last entries, or with `deep` of all.

    `compression_ratio` compares some compressed entries with what they decompress to. `leftovers` are files on their way in or
    out, `tail_bytes` the end of the newest segment that is no whole entry, which is no damage. `formats` is there with `deep`.
    """

    topic: str
    partition: int
    folder: str
    state: str = ""  # "", "delete", "future" or "stray"
    segment_count: int = 0
    size: int = 0  # of the .log files of live segments
    disk_size: int = 0  # of all files
    start_offset: int | None = None
    end_offset: int | None = None
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    magics: tuple[int, ...] = ()
    codecs: tuple[str, ...] = ()
    compression_ratio: float | None = None
    leader_epochs: tuple[int, ...] = ()
    batch_count: int | None = None
    record_count: int | None = None
    formats: dict[int, FormatShare] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    tail_bytes: int = 0
    problems: tuple[str, ...] = ()
    unreadable: bool = False  # one of the problems is that storage would not give something

    def as_dict(self) -> dict[str, Any]:
        """The partition as plain values, for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**plain, "formats": {f"v{magic}": vars(share) for magic, share in self.formats.items()}}


@dataclass(frozen=True)
class TopicListing:
    """The live partitions of a topic added up, under the same names; folders with a state count as leftovers."""

    topic: str
    partitions: tuple[PartitionListing, ...]
    leftovers: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for found in self.partitions for problem in found.problems)

    @property
    def segment_count(self) -> int:
        return sum(found.segment_count for found in self.partitions)

    @property
    def size(self) -> int:
        return sum(found.size for found in self.partitions)

    @property
    def offset_count(self) -> int:
        """Offsets between the start and the end of each partition; after compaction there are fewer records."""
        spans = ((found.start_offset, found.end_offset) for found in self.partitions)
        return sum(max(end - start, 0) for start, end in spans if start is not None and end is not None)

    @property
    def batch_count(self) -> int | None:
        return _sum(found.batch_count for found in self.partitions)

    @property
    def record_count(self) -> int | None:
        return _sum(found.record_count for found in self.partitions)

    @property
    def first_timestamp_ms(self) -> int | None:
        return min((time for found in self.partitions if (time := found.first_timestamp_ms) is not None), default=None)

    @property
    def last_timestamp_ms(self) -> int | None:
        return max((time for found in self.partitions if (time := found.last_timestamp_ms) is not None), default=None)

    @property
    def magics(self) -> tuple[int, ...]:
        return tuple(sorted({magic for found in self.partitions for magic in found.magics}))

    @property
    def codecs(self) -> tuple[str, ...]:
        return tuple(sorted({codec for found in self.partitions for codec in found.codecs}))

    @property
    def leader_epochs(self) -> tuple[int, ...]:
        return tuple(sorted({epoch for found in self.partitions for epoch in found.leader_epochs}))

    @property
    def compression_ratio(self) -> float | None:
        """Of the partitions, weighed by their bytes."""
        known = [(found.compression_ratio, found.size) for found in self.partitions if found.compression_ratio is not None]
        weight = sum(size for _, size in known)
        return sum(ratio * size for ratio, size in known) / weight if weight else None

    @property
    def formats(self) -> dict[int, FormatShare]:
        shares: dict[int, FormatShare] = {}
        for found in self.partitions:
            for magic, share in found.formats.items():
                shares[magic] = shares.get(magic, FormatShare()) + share
        return shares


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None if one of them is not known."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


@dataclass(frozen=True)
class Listing:
    """Everything found at a path. `other_names` are files and folders that Kafka would not have made."""

    path: str
    partitions: tuple[PartitionListing, ...]
    other_names: tuple[str, ...]

    @property
    def topics(self) -> list[TopicListing]:
        """The partitions by topic, in order of their names."""
        grouped: dict[str, list[PartitionListing]] = {}
        for found in self.partitions:
            grouped.setdefault(found.topic, []).append(found)
        return [_topic(name, found) for name, found in sorted(grouped.items())]

    def as_dict(self) -> dict[str, Any]:
        """The listing as plain values, for JSON."""
        return {
            "path": self.path,
            "partitions": [found.as_dict() for found in self.partitions],
            "other_names": list(self.other_names),
        }


def _topic(name: str, found: Sequence[PartitionListing]) -> TopicListing:
    live = tuple(each for each in found if not each.state)
    folders = tuple(f"{os.path.basename(each.folder)} ({each.size} bytes)" for each in found if each.state)
    return TopicListing(name, live, folders + tuple(leftover for each in live for leftover in each.leftovers))


class LogDirectory:
    """The partitions at a path, found but not yet looked into."""

    def __init__(self, path: str | os.PathLike[str], *, filesystem: FileSystem | None = None) -> None:
        self.store, self.path = open_store(path, filesystem=filesystem)
        self.partitions = find_partitions(self.store, self.path)

    def only(self, topics: Sequence[str]) -> None:
        """Keep only these topics."""
        known = {found.topic for found in self.partitions}
        for topic in topics:
            if topic not in known:
                raise UsageError(f"{self.path}: no topic {topic!r} here; there are: {', '.join(sorted(known))}")
        self.partitions = [found for found in self.partitions if found.topic in topics]

    def listings(self, *, deep: bool = False, limits: Limits | None = None) -> Iterator[PartitionListing]:
        """Each partition, looked into."""
        announce_compilation()
        for partition in self.partitions:
            yield list_partition(partition, limits or Limits(), deep=deep)

    def other_names(self) -> tuple[str, ...]:
        return tuple(_other_names(self.store, self.path, self.partitions))


def list_logs(
    path: str | os.PathLike[str],
    *,
    topics: Sequence[str] | None = None,
    deep: bool = False,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Listing:
    """What is at `path`; with `deep`, all headers are read for counts, formats and codecs, else a few."""
    directory = LogDirectory(path, filesystem=filesystem)
    if topics is not None:
        directory.only(topics)
    return Listing(directory.path, tuple(directory.listings(deep=deep, limits=limits)), directory.other_names())


def list_partition(partition: Partition, limits: Limits, *, deep: bool) -> PartitionListing:
    """One partition, whatever state it is in."""
    found = Found(list(partition.problems), unreadable=bool(partition.problems))
    try:
        (scan_all if deep else glance_at)(partition, limits, found)
    except KafkaLogError as error:
        found.problems.append(str(error))
        found.unreadable |= isinstance(error, StorageError)
    return PartitionListing(
        partition.topic,
        partition.partition,
        partition.folder,
        partition.state,
        segment_count=len(partition.segments),
        size=partition.size,
        disk_size=sum(stored.size for stored in partition.files),
        start_offset=partition.start_offset if partition.segments else None,
        end_offset=found.end_offset,
        first_timestamp_ms=found.first_timestamp_ms,
        last_timestamp_ms=found.last_timestamp_ms,
        magics=tuple(sorted(found.magics)),
        codecs=tuple(found.codec_names),
        compression_ratio=found.compression_ratio,
        leader_epochs=tuple(sorted({start.epoch for start in partition.epochs} | found.epochs)),
        batch_count=found.batch_count if deep else None,
        record_count=found.record_count if deep else None,
        formats=found.formats if deep else {},
        leftovers=tuple(os.path.basename(stored.path) for stored in partition.leftovers),
        tail_bytes=found.tail_bytes,
        problems=tuple(found.problems),
        unreadable=found.unreadable,
    )


def _other_names(store: Store, path: str, partitions: Iterable[Partition]) -> Iterator[str]:
    """Names in a log directory that say nothing to Kafka; none for a path that is a partition itself."""
    if any(partition.folder == path or partition.file is not None for partition in partitions):
        return
    for entry in store.list(path):
        known = names.parse_folder_name(entry.name) if entry.kind == "folder" else names.parse_file_name(entry.name)
        if known is None and entry.name != names.REMOTE_LOG_INDEX_CACHE:
            yield entry.name
