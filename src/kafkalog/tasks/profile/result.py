"""The result of `kafkalog.profile`: counts, rankings and estimates; each says how exact it is."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any

from kafkalog.errors import path_text
from kafkalog.format.html_table import html_table
from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.log.report import ReadReport


@dataclass
class Count:
    """Batches (or messages, or sets) as stored. `raw_bytes` is their size without compression, 0 where nothing was decompressed.

    `uncounted_sets` are compressed sets of v0 and v1, which say in no header how many records they hold: a quick profile does not
    have these in `records`.
    """

    bytes: int = 0
    raw_bytes: int = 0
    batches: int = 0
    records: int = 0
    uncounted_sets: int = 0

    @property
    def ratio(self) -> float | None:
        """How many times smaller compression made it; None where it was not measured."""
        return self.raw_bytes / self.bytes if self.raw_bytes and self.bytes else None

    def __iadd__(self, other: Count) -> Count:
        self.bytes += other.bytes
        self.raw_bytes += other.raw_bytes
        self.batches += other.batches
        self.records += other.records
        self.uncounted_sets += other.uncounted_sets
        return self

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Estimate:
    """A number with the bounds of its 95 % confidence interval, which are the number itself where it was counted."""

    value: int
    low: int
    high: int

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "exact": self.is_exact}


@dataclass(frozen=True)
class Item:
    """One thing of a ranking, and what it has of the stored bytes.

    `name`: the first 64 bytes of a key, of a prefix or of a header's name; the first millisecond of an hour; a producer's id;
    None for records without one. `topic` is that of a key or prefix. `size` is the length of the whole name.
    """

    name: bytes | int | None
    topic: str | None
    size: int
    bytes: int
    records: int

    def as_dict(self) -> dict[str, Any]:
        name = plain_bytes(self.name) if isinstance(self.name, bytes) else self.name
        topic = {} if self.topic is None else {"topic": path_text(self.topic)}
        size = {"size": self.size} if isinstance(self.name, bytes) else {}
        return {"name": name, **topic, **size, "bytes": self.bytes, "records": self.records}


@dataclass(frozen=True)
class Ranking:
    """The heaviest things of a kind, by bytes. `error_bytes` is how much more than stated any of them may have, 0 if all were
    counted; `distinct` how many different ones there are, None where they could not all be counted."""

    items: tuple[Item, ...] = ()
    distinct: int | None = 0
    error_bytes: int = 0

    @property
    def is_exact(self) -> bool:
        return self.distinct is not None

    def as_dict(self) -> dict[str, Any]:
        items = [item.as_dict() for item in self.items]
        return {"exact": self.is_exact, "distinct": self.distinct, "error_bytes": self.error_bytes, "items": items}


@dataclass(frozen=True)
class Bucket:
    """The batches whose measure is `first` to `last`."""

    first: int
    last: int
    batches: int
    bytes: int


@dataclass(frozen=True)
class Distribution:
    """How full batches are, in buckets of powers of two."""

    buckets: tuple[Bucket, ...] = ()
    smallest: int = 0
    largest: int = 0
    mean: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"buckets": [asdict(bucket) for bucket in self.buckets]}


@dataclass(frozen=True)
class Compaction:
    """What a compaction of everything would drop, as if the newest segment were closed, too.

    `duplicates` are records with a later one of the same key, `tombstones` the last records of keys that have no value: they go
    once delete.retention.ms has passed. Records of aborted transactions go as well, and so do records without a key.
    """

    keyed_records: int
    keyed_bytes: int
    unkeyed_records: int
    unkeyed_bytes: int
    aborted_records: int
    aborted_bytes: int
    keys: Estimate
    duplicates: Estimate
    duplicate_bytes: Estimate
    tombstones: Estimate
    tombstone_bytes: Estimate

    def as_dict(self) -> dict[str, Any]:
        return {name: value.as_dict() if isinstance(value, Estimate) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class ZstdSaving:
    """What `of_bytes`, stored in v2 and not zstd yet, would lose as zstd of Kafka's default level, batch by batch.

    `batches` were recompressed to estimate it. None: too few to state the error.
    """

    of_bytes: int
    batches: int
    bytes: Estimate | None

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "bytes": None if self.bytes is None else self.bytes.as_dict()}


@dataclass(frozen=True)
class PinnedSegment:
    """A segment with timestamps in the future: a broker keeps it, and all after it, until `held_until_ms`.

    `records` have such timestamps; a quick profile counts their batches.
    """

    topic: str
    partition: int
    file: str
    bytes: int
    records: int
    largest_timestamp_ms: int
    held_until_ms: int


@dataclass(frozen=True)
class DiskUse:
    """The sizes of the files, and what they take on the disk: their blocks, as `du` counts them.

    A broker preallocates the index files of a newest segment, and on request its log: sparse files, which are far larger than
    what they take. In an object store both are the same. `leftover_bytes`: what waits to be deleted, or was left by a broker.
    """

    log_bytes: int = 0
    index_bytes: int = 0
    other_bytes: int = 0
    leftover_bytes: int = 0
    log_disk_bytes: int = 0
    index_disk_bytes: int = 0
    other_disk_bytes: int = 0
    leftover_disk_bytes: int = 0

    @property
    def disk_bytes(self) -> int:
        """The disk space of all of it."""
        return self.log_disk_bytes + self.index_disk_bytes + self.other_disk_bytes + self.leftover_disk_bytes


@dataclass(frozen=True, repr=False)
class Profile:
    """Where the bytes of a log directory are. Mappings are sorted by bytes, the largest first."""

    path: str
    now_ms: int
    quick: bool
    disk: DiskUse
    total: Count
    topics: dict[str, Count]
    partitions: dict[tuple[str, int], Count]
    codecs: dict[str, Count]
    hours: Ranking
    producers: Ranking
    keys: Ranking
    key_prefixes: Ranking
    headers: Ranking
    batch_records: Distribution
    batch_bytes: Distribution
    compaction: Compaction | None  # None in a quick profile
    compaction_by_topic: dict[str, Compaction]
    zstd: ZstdSaving
    zstd_by_topic: dict[str, ZstdSaving]
    pinned: tuple[PinnedSegment, ...]
    pinned_bytes: int  # of these segments and of all after them
    retention_ms: int
    transactional_ids: dict[int, str] = field(default_factory=dict)  # of the producers in the ranking
    report: ReadReport = field(default_factory=ReadReport)

    def __repr__(self) -> str:
        counted = f"{plural(self.total.records, 'record')} in {plural(self.total.batches, 'batch', 'batches')}"
        dropped = f"{size_text(self.report.dropped_bytes)} dropped for damage" if self.report.dropped else ""
        where = (plural(len(self.topics), "topic"), plural(len(self.partitions), "partition"), size_text(self.total.bytes))
        return repr_text("Profile", self.path, *where, counted, "quick" if self.quick else "", dropped)

    def _repr_html_(self) -> str:
        rows = [(topic, found.records, found.batches, size_text(found.bytes)) for topic, found in self.topics.items()]
        return html_table(repr(self), ("topic", "records", "batches", "bytes"), rows)

    def as_dict(self) -> dict[str, Any]:
        """The profile as plain values, for JSON."""
        rankings = ("hours", "producers", "keys", "key_prefixes", "headers")
        return {
            "path": path_text(self.path),
            "now_ms": self.now_ms,
            "quick": self.quick,
            "disk": {**asdict(self.disk), "disk_bytes": self.disk.disk_bytes},
            "total": self.total.as_dict(),
            "topics": [{"topic": path_text(name), **self._topic(name)} for name in self.topics],
            "partitions": [
                {"topic": path_text(topic), "partition": number, **count.as_dict()}
                for (topic, number), count in self.partitions.items()
            ],
            "codecs": [{"codec": name, **count.as_dict()} for name, count in self.codecs.items()],
            **{name: getattr(self, name).as_dict() for name in rankings},
            "transactional_ids": {str(producer_id): name for producer_id, name in self.transactional_ids.items()},
            "batch_records": self.batch_records.as_dict(),
            "batch_bytes": self.batch_bytes.as_dict(),
            "compaction": None if self.compaction is None else self.compaction.as_dict(),
            "zstd": self.zstd.as_dict(),
            "retention_ms": self.retention_ms,
            "pinned": [asdict(each) | {"topic": path_text(each.topic), "file": path_text(each.file)} for each in self.pinned],
            "pinned_bytes": self.pinned_bytes,
            "report": self.report.as_dict(),
        }

    def _topic(self, name: str) -> dict[str, Any]:
        compaction, zstd = self.compaction_by_topic.get(name), self.zstd_by_topic.get(name)
        return {
            **self.topics[name].as_dict(),
            "compaction": None if compaction is None else compaction.as_dict(),
            "zstd": None if zstd is None else zstd.as_dict(),
        }


def plain_bytes(data: bytes) -> Any:
    """Bytes for JSON: text if they are UTF-8, else base64 that says so."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
