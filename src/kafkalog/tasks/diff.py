"""`kafkalog.diff`: what two copies of partitions differ in, and what explains it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkalog.errors import KafkaLogError, Limits, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import MetaProperties, decode_meta_properties
from kafkalog.format.html_table import ROWS_SHOWN, Cell, html_table
from kafkalog.format.quantities import plural, repr_text
from kafkalog.log.checks.directory import LogDirectory, read_log_directory, root_of
from kafkalog.log.comparison.copies import CopyEntries
from kafkalog.log.comparison.difference import A, B, Difference, Spot
from kafkalog.log.comparison.pair import PairComparison
from kafkalog.log.comparison.run import Pair, compare_pairs
from kafkalog.log.folders import choose, live_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.storage.store import SMALL_FILE
from kafkalog.tables.choices import Names, Numbers, several_names, several_numbers
from kafkalog.tables.logs import Logs, open_logs

from .diff_text import describe, next_steps
from .next_steps import NextStep

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Progress = Callable[[int], None]
Key = tuple[str, int]


@dataclass(frozen=True)
class ComparedCopy:
    """One copy: `end_offset` is the next offset, `leader_epoch` the highest of its batches, -1 if they have none."""

    folder: str
    start_offset: int
    end_offset: int
    leader_epoch: int
    batch_count: int
    log_bytes: int


@dataclass(frozen=True)
class ComparedPartition:
    """A partition of which both sides have a copy. `equal_batches` are the same bytes on both sides.

    `newer` is the side, "a" or "b", that a broker would follow: the one with the higher leader epoch, then the higher end offset;
    "" if they have the same. `left_out` differences are only counted.
    """

    topic: str
    partition: int
    a: ComparedCopy
    b: ComparedCopy
    equal_batches: int
    differences: tuple[Difference, ...] = ()
    left_out: int = 0

    @property
    def newer(self) -> str:
        ends = [(copy.leader_epoch, copy.end_offset) for copy in (self.a, self.b)]
        return "" if ends[0] == ends[1] else A if ends[0] > ends[1] else B

    @property
    def unexplained(self) -> list[Difference]:
        return [row for row in self.differences if not row.is_explained]

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        rows = len(self.unexplained), len(self.differences) - len(self.unexplained)
        facts = (plural(self.equal_batches, "equal batch", "equal batches"), f"{rows[0]} unexplained", f"{rows[1]} explained")
        return repr_text("ComparedPartition", str(self), *facts)


@dataclass(repr=False)
class Comparison:
    """The result of `diff`. `alone` are partitions that only one side has, as differences.

    `text` is the verdict in a sentence or two, `next_steps` are the commands to type.
    """

    a: str
    b: str
    partitions: list[ComparedPartition] = field(default_factory=list)
    alone: list[Difference] = field(default_factory=list)
    text: str = ""
    next_steps: tuple[NextStep, ...] = ()

    @property
    def differences(self) -> list[Difference]:
        """All of them: partition by partition, in the order of offsets."""
        return [*self.alone, *(row for found in self.partitions for row in found.differences)]

    @property
    def unexplained(self) -> list[Difference]:
        """Those that nothing explains."""
        return [row for row in self.differences if not row.is_explained]

    @property
    def is_same(self) -> bool:
        """Whether there is no difference at all."""
        return not self.differences

    @property
    def is_explained(self) -> bool:
        """Whether there is no difference, or none that nothing explains."""
        return not self.unexplained

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def __repr__(self) -> str:
        unexplained = len(self.unexplained)
        counts = f"{unexplained} unexplained", f"{len(self) - unexplained} explained"
        facts = ("the same",) if self.is_same else counts
        return repr_text("Comparison", self.a, repr(self.b), plural(len(self.partitions), "partition"), *facts)

    def _repr_html_(self) -> str:
        heads = ("reason", "partition", "side", "first offset", "last offset", "a", "b", "explained by", "about")
        rows: list[tuple[Cell, ...]] = [
            (
                row.reason,
                f"{row.topic}-{row.partition}",
                row.side,
                row.first_offset,
                row.last_offset,
                _place_text(row.a),
                _place_text(row.b),
                row.explained_by,
                row.about,
            )
            for row in [*self.unexplained, *(row for row in self if row.is_explained)][:ROWS_SHOWN]
        ]
        steps = [(step.why, step.command) for step in self.next_steps]
        return html_table(repr(self), heads, rows, more=len(self) - len(rows), note=self.text, commands=steps)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON; differences are apart."""
        partitions = [{**asdict(replace(found, differences=())), "newer": found.newer} for found in self.partitions]
        for found in partitions:
            del found["differences"]
        steps = [asdict(step) for step in self.next_steps]
        explained = {"is_same": self.is_same, "is_explained": self.is_explained}
        return {"a": self.a, "b": self.b, **explained, "text": self.text, "next_steps": steps, "partitions": partitions}


def _place_text(spot: Spot | None) -> str:
    return "" if spot is None else f"{spot.file} at byte {spot.position}"


def diff(
    a: str | os.PathLike[str] | Logs,
    b: str | os.PathLike[str] | Logs,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    compacted: bool = False,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Comparison:
    """What two copies differ in: replicas of a partition, or a folder and its backup; log directories partition by partition.

    Every checksum of both sides is verified. Where batches are cut differently, records are compared. `compacted` says that the
    topics are compacted, where no checkpoint and no batch shows it. `on_progress` is called with the bytes read so far. Nothing
    is written, and damage raises nothing.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads={threads!r}: at least 1")
    options = ReadOptions(frozenset(), threads=threads, limits=limits or Limits())
    first, second = (path if isinstance(path, Logs) else open_logs(path, filesystem=filesystem) for path in (a, b))
    comparison = Comparison(first.path, second.path)
    chosen = pair_up(first, second, several_names("topics", topics), several_numbers("partitions", partitions))
    comparison.alone = chosen.alone
    roots = _Roots()
    pairs = [roots.pair(left, right, options.limits, compacted=compacted) for left, right in chosen.pairs]
    done = 0
    for pair, is_done in compare_pairs([pair for pair in pairs if not _other_topic(pair)], options):
        if on_progress is not None:
            on_progress(done + sum(copy.log_bytes for copy in pair.copies))
        if is_done:
            done += sum(copy.log_bytes for copy in pair.copies)
            comparison.partitions.append(_compared(pair))
    comparison.alone += [_topic_ids(pair) for pair in pairs if _other_topic(pair)]
    comparison.text = describe(comparison)
    comparison.next_steps = tuple(next_steps(comparison))
    return comparison


def _compared(pair: PairComparison) -> ComparedPartition:
    found = pair.differences
    unread = [
        Difference("unreadable", found.topic, found.partition, copy.side, detail=problem)
        for copy in pair.copies
        for problem in copy.partition.problems
    ]
    rows = (*unread, *found.rows)
    left, right = map(_copy, pair.copies)
    return ComparedPartition(found.topic, found.partition, left, right, pair.equal_batches, rows, found.left_out)


def _copy(copy: CopyEntries) -> ComparedCopy:
    partition = copy.partition
    end = max(copy.last_offset + 1, partition.start_offset)
    place = partition.file or partition.folder
    return ComparedCopy(place, copy.start_offset, end, copy.last_epoch, copy.batch_count, copy.log_bytes)


# -- which partitions are compared -----------------------------------------------------------------------------------------------


@dataclass
class Paired:
    """The partitions that both sides have, and those that only one has."""

    pairs: list[tuple[Partition, Partition]] = field(default_factory=list)
    alone: list[Difference] = field(default_factory=list)


def pair_up(a: Logs, b: Logs, topics: Sequence[str] | None, numbers: Sequence[int] | None) -> Paired:
    """The partitions of both sides by topic and number; two single partitions are a pair whatever their folders are called."""
    live = [live_partitions(logs.partitions, logs.path) for logs in (a, b)]
    choose([*live[0], *live[1]], f"{a.path} and {b.path}", topics, numbers)
    single = [len(found) == 1 and not logs.is_log_directory for found, logs in zip(live, (a, b), strict=True)]
    if all(single):
        return Paired([(live[0][0], live[1][0])])
    found = [
        {_key(each): each for each in side if (not topics or each.topic in topics) and (not numbers or each.partition in numbers)}
        for side in live
    ]
    if any(single):  # one partition, compared with the one of its name in a log directory
        wanted = _key(live[single.index(True)][0])
        found = [{key: each for key, each in side.items() if key == wanted} for side in found]
        if not all(found):
            places = f"{(a, b)[single.index(False)].path}: no partition {wanted[0]}-{wanted[1]} here"
            raise UsageError(f"{places}; give its folder to compare it with that of another name")
    shared = [key for key in found[0] if key in found[1]]
    paired = Paired([(found[0][key], found[1][key]) for key in shared])
    are_elsewhere = _are_different_directories(a, b)
    for side, other, partitions in ((B, A, found[0]), (A, B, found[1])):
        paired.alone += [
            _alone(each, side, other, is_elsewhere=are_elsewhere) for each in partitions.values() if _key(each) not in shared
        ]
    if not shared and not paired.alone:
        raise UsageError(f"{a.path} and {b.path}: nothing to compare")
    return paired


def _key(partition: Partition) -> Key:
    return partition.topic, partition.partition


def _alone(partition: Partition, side: str, other: str, *, is_elsewhere: bool) -> Difference:
    reason = "elsewhere" if is_elsewhere else "partition-missing"
    return Difference(reason, partition.topic, partition.partition, side, detail=f"only {other} has it: {partition.folder}")


def _are_different_directories(a: Logs, b: Logs) -> bool:
    """Whether these are two log directories of a cluster by their own meta.properties, not a directory and its copy."""
    found = [_meta_properties(logs) for logs in (a, b)]
    if found[0] is None or found[1] is None:
        return False
    if found[0].directory_id and found[1].directory_id:
        return found[0].directory_id != found[1].directory_id
    return found[0].node_id is not None and found[1].node_id is not None and found[0].node_id != found[1].node_id


def _meta_properties(logs: Logs) -> MetaProperties | None:
    store = logs.partitions[0].store
    try:
        path = store.join(logs.path, names.META_PROPERTIES)
        return decode_meta_properties(store.read_small(path, SMALL_FILE)) if store.stat(path) is not None else None
    except KafkaLogError:
        return None


def _other_topic(pair: Pair) -> bool:
    """Whether the copies are of two topics, one of them deleted."""
    ids = pair.a.topic_id, pair.b.topic_id
    return None not in ids and ids[0] != ids[1]


def _topic_ids(pair: Pair) -> Difference:
    return Difference("topic-id", *_key(pair.a), detail=f"{pair.a.topic_id} in a, {pair.b.topic_id} in b")


class _Roots:
    """The roots of log directories, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, LogDirectory] = {}

    def pair(self, a: Partition, b: Partition, limits: Limits, *, compacted: bool) -> Pair:
        left, right = self._whole(a, limits), self._whole(b, limits)
        return Pair(left, right, compacted or self._was_cleaned(left) or self._was_cleaned(right))

    def _whole(self, partition: Partition, limits: Limits) -> Partition:
        try:
            return with_finished_segments(partition, limits)
        except KafkaLogError:
            return partition

    def _was_cleaned(self, partition: Partition) -> bool:
        root = root_of(partition)
        if root is None:
            return False
        if root not in self._known:
            self._known[root] = read_log_directory(partition.store, root)
        return self._known[root].offset(names.CLEANER_CHECKPOINT, partition) is not None
