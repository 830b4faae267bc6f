"""The contents of a log directory: partitions from names, sizes and a few headers, or from all headers.

No partition raises an error: whatever cannot be read or is inconsistent is among its problems.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkalog.errors import KafkaLogError, Limits, StorageError, UsageError
from kafkalog.format import names
from kafkalog.format.html_table import Cell, html_table
from kafkalog.format.quantities import moment_text, offsets_text, plural, repr_text, size_text
from kafkalog.log.partition import Partition
from kafkalog.tables.choices import Names, several_names
from kafkalog.tables.logs import Path, SeveralLogs, open_logs

from .compression_ratio import PLACES, places_for
from .partition_summary import FormatShare, Found, summarise_all, summarise_sample

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True, repr=False)
class PartitionListing:
    """One partition. None means unknown; times are those of its first and last entries, or with `deep` of all.

    `compression_ratio` is the size of all entries without compression divided by their stored size: exact with `deep` and for a
    small partition, else estimated from samples; None where no compressed entry was seen. `leftovers` are files that a broker was
    about to rename or delete, `tail_bytes` the end of the newest segment that is not a whole entry, which is not damage. Only
    `deep` fills `formats`.
    """

    topic: str
    partition: int
    folder: str
    state: str = ""  # "", "delete", "future" or "stray"
    segment_count: int = 0
    size: int = 0  # of the .log files of live segments
    disk_size: int = 0  # disk space of all files, index files and leftovers included
    apparent_size: int = 0  # of all files, as `ls -l` shows it: far more where files are preallocated and sparse
    start_offset: int | None = None
    end_offset: int | None = None
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    magics: tuple[int, ...] = ()
    codecs: tuple[str, ...] = ()
    compression_ratio: float | None = None
    compression_ratio_exact: bool = False
    leader_epochs: tuple[int, ...] = ()
    batch_count: int | None = None
    record_count: int | None = None
    formats: dict[int, FormatShare] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    tail_bytes: int = 0
    problems: tuple[str, ...] = ()
    unreadable: bool = False  # one of the problems is a file that storage could not read
    replicas: tuple[str, ...] = ()  # folders of other copies, where several paths were given

    def __repr__(self) -> str:
        return repr_text(
            "PartitionListing",
            f"{self.topic}-{self.partition}",
            self.state,
            plural(self.segment_count, "segment"),
            size_text(self.size),
            offsets_text(self.start_offset, self.end_offset),
            plural(len(self.problems), "problem") if self.problems else "",
        )

    def as_dict(self) -> dict[str, Any]:
        """The partition as plain values, for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**plain, "formats": {f"v{magic}": vars(share) for magic, share in self.formats.items()}}


@dataclass(frozen=True, repr=False)
class TopicListing:
    """The live partitions of a topic added up, under the same names; folders with a state count as leftovers."""

    topic: str
    partitions: tuple[PartitionListing, ...]
    leftovers: tuple[str, ...]

    def __repr__(self) -> str:
        extra = [plural(len(self.leftovers), "leftover")] * bool(self.leftovers)
        extra += [plural(len(self.problems), "problem")] * bool(self.problems)
        return repr_text("TopicListing", self.topic, plural(len(self.partitions), "partition"), size_text(self.size), *extra)

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
    def disk_size(self) -> int:
        return sum(found.disk_size for found in self.partitions)

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
        """Of the partitions, weighted by their bytes; one in which nothing compressed was seen counts as 1."""
        if all(found.compression_ratio is None for found in self.partitions):
            return None
        ratios = [1.0 if found.compression_ratio is None else found.compression_ratio for found in self.partitions]
        return sum(ratio * found.size for ratio, found in zip(ratios, self.partitions, strict=True)) / max(self.size, 1)

    @property
    def compression_ratio_exact(self) -> bool:
        return all(found.compression_ratio_exact for found in self.partitions if found.size)

    @property
    def formats(self) -> dict[int, FormatShare]:
        shares: dict[int, FormatShare] = {}
        for found in self.partitions:
            for magic, share in found.formats.items():
                shares[magic] = shares.get(magic, FormatShare()) + share
        return shares


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None if any of them is unknown."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


@dataclass(frozen=True, repr=False)
class Listing:
    """Everything found at a path. `other_names` are files and folders that neither Kafka nor kafkalog makes.

    `own_names` are kafkalog's: jobs of append, journals of copies, and interrupted work.
    """

    path: str
    partitions: tuple[PartitionListing, ...]
    other_names: tuple[str, ...]
    own_names: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[PartitionListing]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __repr__(self) -> str:
        live = [found for found in self.partitions if not found.state]
        topics = plural(len({found.topic for found in live}), "topic")
        size = size_text(sum(found.size for found in live))
        problems = sum(len(found.problems) for found in self.partitions)
        known = plural(problems, "problem") if problems else ""
        return repr_text("Listing", self.path, topics, plural(len(live), "partition"), size, known)

    def _repr_html_(self) -> str:
        heads = ("topic", "partitions", "segments", "size", "on disk", "offsets", "from", "to", "formats", "codecs", "problems")
        return html_table(repr(self), heads, [_html_row(found) for found in self.topics])

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
            "own_names": list(self.own_names),
        }


def _html_row(found: TopicListing) -> list[Cell]:
    times = (found.first_timestamp_ms, found.last_timestamp_ms)
    return [
        found.topic,
        len(found.partitions),
        found.segment_count,
        size_text(found.size),
        size_text(found.disk_size),
        found.offset_count,
        *(None if time is None else moment_text(time, "%Y-%m-%d %H:%M") for time in times),
        ", ".join(f"v{magic}" for magic in found.magics),
        ", ".join(found.codecs),
        "; ".join(found.problems),
    ]


def _topic(name: str, found: Sequence[PartitionListing]) -> TopicListing:
    live = tuple(each for each in found if not each.state)
    folders = tuple(f"{os.path.basename(each.folder)} ({each.size} bytes)" for each in found if each.state)
    return TopicListing(name, live, folders + tuple(leftover for each in live for leftover in each.leftovers))


class DirectoryScan:
    """The partitions at a path, found but not read yet."""

    def __init__(self, path: Path | Sequence[Path], *, filesystem: FileSystem | None = None) -> None:
        self.logs = open_logs(path, filesystem=filesystem)
        self.path = self.logs.path
        self.partitions = self.logs.partitions
        copies = self.logs.copies if isinstance(self.logs, SeveralLogs) else []
        self.others = {part.folder: each.others for each in copies for part in each.chosen}

    def only(self, topics: Names) -> None:
        """Keep only these topics."""
        wanted = several_names("topics", topics) or []
        known = {found.topic for found in self.partitions}
        for topic in wanted:
            if topic not in known:
                raise UsageError(f"{self.path}: no topic {topic!r} here; there are: {', '.join(sorted(known))}")
        self.partitions = [found for found in self.partitions if found.topic in wanted]

    def listings(self, *, deep: bool = False, ratio: bool = True, limits: Limits | None = None) -> Iterator[PartitionListing]:
        """The listing of each partition; without `ratio` a deep one decompresses no more than it must."""
        places = places_for(len(self.partitions))
        for partition in self.partitions:
            listing = list_partition(partition, limits or Limits(), deep=deep, ratio=ratio, places=places)
            yield replace(listing, replicas=tuple(other.folder for other in self.others.get(partition.folder, ())))

    def other_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names next to the partitions that Kafka does not use: foreign ones, and kafkalog's own."""
        found = [name for place in self.logs.places for name in _other_names(place.path, place.partitions)]
        return tuple(name for name in found if not names.is_own_name(name)), tuple(filter(names.is_own_name, found))


def ls(
    path: Path | Sequence[Path],
    *,
    topics: Names | None = None,
    deep: bool = False,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Listing:
    """The partitions at `path`, from names, sizes and a few entries, or with `deep` from everything; `.topics` adds them up.

    Of several paths each partition is listed from the copy that a read takes; `replicas` are the folders of the others.

    Nothing is raised for what cannot be read or is damaged: it is among the `problems` of its partition.
    """
    directory = DirectoryScan(path, filesystem=filesystem)
    if topics is not None:
        directory.only(topics)
    return Listing(directory.path, tuple(directory.listings(deep=deep, limits=limits)), *directory.other_names())


def list_partition(
    partition: Partition, limits: Limits, *, deep: bool, ratio: bool = True, places: int = PLACES
) -> PartitionListing:
    """One partition, whatever state it is in."""
    found = Found(list(partition.problems), unreadable=bool(partition.problems))
    try:
        if deep:
            summarise_all(partition, limits, found, measure=ratio)
        else:
            summarise_sample(partition, limits, found, places)
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
        disk_size=sum(stored.stored_size for stored in partition.files),
        apparent_size=sum(stored.size for stored in partition.files),
        start_offset=partition.start_offset if partition.segments else None,
        end_offset=found.end_offset,
        first_timestamp_ms=found.first_timestamp_ms,
        last_timestamp_ms=found.last_timestamp_ms,
        magics=tuple(sorted(found.magics)),
        codecs=tuple(found.codec_names),
        compression_ratio=found.measured.ratio if ratio else None,
        compression_ratio_exact=found.measured.is_whole,
        leader_epochs=tuple(sorted({start.epoch for start in partition.epochs} | found.epochs)),
        batch_count=found.batch_count if deep else None,
        record_count=found.record_count if deep else None,
        formats=found.formats if deep else {},
        leftovers=tuple(os.path.basename(stored.path) for stored in partition.leftovers),
        tail_bytes=found.tail_bytes,
        problems=tuple(found.problems),
        unreadable=found.unreadable,
    )


def _other_names(path: str, partitions: Sequence[Partition]) -> Iterator[str]:
    """Names in a log directory that Kafka does not use; none for a path that is a partition itself."""
    if not partitions or any(partition.folder == path or partition.file is not None for partition in partitions):
        return
    for entry in partitions[0].store.list(path):
        known = names.parse_folder_name(entry.name) if entry.kind == "folder" else names.parse_file_name(entry.name)
        if known is None and entry.name != names.REMOTE_LOG_INDEX_CACHE:
            yield entry.name
