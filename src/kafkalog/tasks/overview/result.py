"""The result of `overview`: what a report shows besides a profile and the findings."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.log.transactions import Transaction
from kafkalog.tasks.cluster import Cluster
from kafkalog.tasks.groups import Groups
from kafkalog.tasks.profile.result import Count, Profile
from kafkalog.tasks.verdict import Verdict
from kafkalog.tasks.verify import Findings

AXIS_BINS = 240
STATES = ("committed", "aborted", "open")


@dataclass
class FormatCount:
    """Entries of one format as stored; sets of v0 and v1 count as no record in a quick overview."""

    bytes: int = 0
    batches: int = 0
    records: int = 0

    def add(self, size: int, batches: int, records: int) -> None:
        self.bytes += size
        self.batches += batches
        self.records += records


@dataclass
class SegmentView:
    """A segment: its file, and what its entries say. Times and offsets are -1 where no entry says them."""

    file: str
    base_offset: int
    size: int
    index_bytes: int = 0
    last_offset: int = -1
    batches: int = 0
    records: int = 0
    first_timestamp_ms: int = -1
    last_timestamp_ms: int = -1


@dataclass
class EpochSpan:
    """The batches of one leader epoch in a partition."""

    epoch: int
    first_offset: int
    last_offset: int
    batches: int = 0
    records: int = 0


@dataclass(frozen=True)
class TransactionAxis:
    """The transactions of a partition along its offsets.

    `bins` has for each state how many transactions lie in each of AXIS_BINS equal ranges from `start_offset` to `end_offset`.
    `open` are all open ones, `aborted` the longest aborted ones.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    last_stable_offset: int
    counts: dict[str, int]
    bins: dict[str, tuple[int, ...]]
    open: tuple[Transaction, ...]
    aborted: tuple[Transaction, ...]


@dataclass
class PartitionView:
    """One live partition; `count` is what a profile counted in it."""

    topic: str
    partition: int
    folder: str
    size: int
    disk_size: int
    start_offset: int
    end_offset: int = -1
    count: Count = field(default_factory=Count)
    segments: list[SegmentView] = field(default_factory=list)
    magics: set[int] = field(default_factory=set)
    epochs: dict[int, EpochSpan] = field(default_factory=dict)
    left_out_epochs: bool = False
    transactions: TransactionAxis | None = None

    def __str__(self) -> str:
        return self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"

    @property
    def first_timestamp_ms(self) -> int:
        return min((each.first_timestamp_ms for each in self.segments if each.first_timestamp_ms >= 0), default=-1)

    @property
    def last_timestamp_ms(self) -> int:
        return max((each.last_timestamp_ms for each in self.segments), default=-1)


@dataclass(frozen=True)
class Moment:
    """The stored bytes and the records of one span of time, which begins at `start_ms`."""

    start_ms: int
    bytes: int
    records: int


@dataclass(frozen=True)
class Timeline:
    """When records were produced, by their timestamps, in spans of `span_ms`; `untimed` ones have none."""

    span_ms: int = 1000
    moments: tuple[Moment, ...] = ()
    untimed_bytes: int = 0
    untimed_records: int = 0


@dataclass(frozen=True)
class SizeBucket:
    """The records of which something takes `first` to `last` bytes."""

    first: int
    last: int
    records: int
    bytes: int


@dataclass(frozen=True)
class Sizes:
    """How large keys or values are, in buckets of powers of two."""

    buckets: tuple[SizeBucket, ...] = ()
    smallest: int = 0
    largest: int = 0
    mean: float = 0.0

    @property
    def records(self) -> int:
        return sum(bucket.records for bucket in self.buckets)


@dataclass(frozen=True)
class Deleted:
    """A folder that a broker deleted or moved aside (`state`), or files in a live folder that wait to be deleted ("files")."""

    folder: str
    topic: str
    partition: int
    state: str
    files: int
    bytes: int


@dataclass(frozen=True, repr=False)
class Overview:
    """Everything that is at some paths. `checked` is None where nothing was checked, and then there are no verdicts."""

    paths: tuple[str, ...]
    profile: Profile
    checked: Findings | None
    partitions: tuple[PartitionView, ...]
    formats: dict[str, dict[int, FormatCount]]  # by topic and magic
    timeline: Timeline
    key_sizes: Sizes
    value_sizes: Sizes
    deleted: tuple[Deleted, ...]
    verdicts: tuple[Verdict, ...] = ()  # of each path that a broker could start on
    cluster: Cluster | None = None  # where the metadata of one cluster are here, and everything is asked for
    groups: Groups | None = None  # the same of committed offsets

    def __repr__(self) -> str:
        where = (plural(len(self.topics), "topic"), plural(len(self.partitions), "partition"), size_text(self.size))
        records = plural(self.profile.total.records, "record")
        findings = "not checked" if self.checked is None else plural(len(self.checked), "finding")
        return repr_text("Overview", ", ".join(self.paths), *where, records, findings)

    @property
    def topics(self) -> dict[str, list[PartitionView]]:
        """The partitions of each topic, the largest topic first."""
        grouped: dict[str, list[PartitionView]] = {}
        for found in self.partitions:
            grouped.setdefault(found.topic, []).append(found)
        return dict(sorted(grouped.items(), key=lambda item: (-sum(each.size for each in item[1]), item[0])))

    @property
    def size(self) -> int:
        return sum(found.size for found in self.partitions)

    @property
    def segment_count(self) -> int:
        return sum(len(found.segments) for found in self.partitions)

    @property
    def transactions(self) -> list[TransactionAxis]:
        """Partitions with transactions: those with open ones first, then those with aborted ones."""
        found = [each.transactions for each in self.partitions if each.transactions is not None]
        return sorted(found, key=lambda axis: (-axis.counts["open"], -axis.counts["aborted"], axis.topic, axis.partition))
