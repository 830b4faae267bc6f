"""The plan of an ingest: what is new in the logs since the last commit, cut into tasks.

The end of each partition is fixed here, from the sizes in the listing: what a broker appends later is left to the next run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog.errors import Limits, SegmentChanged, StorageError, path_text
from kafkalog.format.quantities import plural
from kafkalog.log.folders import find_partitions
from kafkalog.log.lineage import (
    Divergence,
    EntryMark,
    Lineage,
    find_divergence,
    is_in_place,
    last_entry_before,
    last_proven,
    trace,
)
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.log.transactions import Committed, replay_transactions
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.parallel import in_parallel
from kafkalog.storage.store import ByteSource, short_repr

from ..errors import DATA_LOSS, STORAGE, SparkSourceError, coded, is_passing
from ..options import Bound, SourceOptions, TopicPartition
from ..read_plan import Found, check_one_place, choose_whole_partitions, offset_range, readable_ends, requests_at_once
from ..splits import HIGHEST, FileSlice, Part, Split, WholeSegments, bytes_of, cut, divide, even_bytes, runs
from .manifest import BEGINNING, Cursor, Gap, Progress, cursor_at

if TYPE_CHECKING:
    from .tables import Tables

LOGGER = logging.getLogger("kafkalog.spark")
Result = TypeVar("Result")

# Log bytes of a task: few files from a small run, large ones from a large run, and all cores busy in both.
LEAST_TASK_BYTES: Final = 32 << 20
MOST_TASK_BYTES: Final = 512 << 20
# A broker cleans and removes segments within moments.
TRIES: Final = 6
PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True)
class End:
    """Where a run stops in a partition: at `cursor`, before `next_offset`. `is_open` if that is the end of the log."""

    cursor: Cursor
    next_offset: int
    is_open: bool
    last_entry: EntryMark | None


@dataclass(frozen=True, repr=False)
class PartitionPlan:
    """What a run reads from a partition: from `begin` and `start_offset` up to `end`."""

    found: Found
    start_offset: int
    begin: Cursor
    end: End
    committed: Committed | None
    newest: tuple[int, int, int] | None
    log_end_offset: int
    topic_id: str | None
    generation: int
    truncations: int
    lineage: Lineage

    def __repr__(self) -> str:
        place = short_repr(f"{self.key[0]}-{self.key[1]}")
        return f"PartitionPlan({place}, offsets {self.start_offset} to {self.end.next_offset - 1})"

    @property
    def key(self) -> TopicPartition:
        return self.found.key

    @property
    def until(self) -> Cursor | None:
        """Damage after this place is left to a later run."""
        return None if self.end.is_open else self.end.cursor

    def progress(self, last_offset: int, reached: Cursor) -> Progress:
        """The progress when all tasks have ended: they read records up to `last_offset`, and got to `reached`."""
        # An end may be known from what came after the listing: nothing after the listed sizes was read.
        next_offset = max(self.log_end_offset, self.start_offset, last_offset + 1)
        cursor, newest = self.end.cursor, None
        if not self.end.is_open:
            next_offset = min(self.end.next_offset, next_offset)
        else:
            cursor, newest = (reached if reached > BEGINNING else cursor), self.newest
        log_end_offset = min(self.log_end_offset, next_offset)
        return Progress(
            next_offset,
            cursor,
            newest,
            log_end_offset,
            self.topic_id,
            self.generation,
            self.lineage.last_entry,
            self.lineage.epochs,
            self.truncations,
        )


@dataclass(frozen=True, repr=False)
class IngestPlan:
    """Partitions with something new, offsets that were lost, and partitions that are left to the next run: because they change
    too fast (`postponed`), or because storage cannot read them (`unreadable`, with the reason)."""

    partitions: tuple[PartitionPlan, ...]
    gaps: tuple[Gap, ...]
    postponed: tuple[TopicPartition, ...] = ()
    unreadable: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = [plural(len(self.partitions), "partition")]
        for left, what in (
            (self.gaps, "lost range"),
            (self.postponed, "postponed partition"),
            (self.unreadable, "unreadable partition"),
        ):
            counts += [plural(len(left), what)] if left else []
        return f"IngestPlan({', '.join(counts)})"

    def named_in(self, error: BaseException) -> list[TopicPartition]:
        """The partitions whose files the text of an error names; a Spark task returns nothing else."""
        text = str(error)
        return [each.key for each in self.partitions if f"{path_text(each.found.partition.folder)}/" in text]


def plan_ingest(
    options: SourceOptions,
    before: Mapping[TopicPartition, Progress],
    tables: Tables,
    postponed: Collection[TopicPartition] = (),
) -> IngestPlan:
    """The plan of a run after the commits that led to `before`, whose rows are in `tables`.

    Partitions in `postponed` are left to the next run, and so are those that change too fast to plan.
    """
    chosen = choose_whole_partitions(options)
    check_one_place(chosen)
    assigned, ends = {found.key for found in chosen}, readable_ends(chosen, options)
    # A planner for each: partitions are planned at the same time, and reported in their order.
    planners = [(_Planner(options, assigned, ends, tables), found) for found in chosen if found.key not in postponed]

    def plan(each: tuple[_Planner, Found]) -> PartitionPlan | None:
        return each[0].plan_settled(each[1], before.get(each[1].key))

    plans = list(in_parallel(plan, planners, requests_at_once(chosen)))
    unreadable = [error for planner, _ in planners for error in planner.unreadable]
    if unreadable and len(unreadable) == len(chosen):
        raise unreadable[0]
    return IngestPlan(
        tuple(plan for plan in plans if plan is not None),
        tuple(gap for planner, _ in planners for gap in planner.gaps),
        (*sorted(postponed), *(key for planner, _ in planners for key in planner.postponed)),
        tuple(error.args[1] for error in unreadable),
    )


class _Planner:
    """Plans a partition, and collects what was lost of it."""

    def __init__(
        self,
        options: SourceOptions,
        assigned: set[TopicPartition],
        ends: Mapping[TopicPartition, int],
        tables: Tables,
    ) -> None:
        self.options = options
        self.assigned = assigned
        self.ends = ends
        self.tables = tables
        self.gaps: list[Gap] = []
        self.postponed: list[TopicPartition] = []
        self.unreadable: list[SparkSourceError] = []

    def plan_settled(self, found: Found, before: Progress | None) -> PartitionPlan | None:
        """The plan of a partition whose files stay as they were listed; one that keeps changing, or that storage cannot read, is
        left to the next run."""
        gap_count = len(self.gaps)

        def plan(listed: Found) -> PartitionPlan | None:
            del self.gaps[gap_count:]
            return self.plan(listed, before)

        try:
            return _at_rest(found, plan)
        except SparkSourceError as error:
            is_left = error.code == STORAGE and self.options.mode != "FAILFAST"
            if not is_passing(error) and not is_left:
                raise
            del self.gaps[gap_count:]
            if is_passing(error):
                self.postponed.append(found.key)
            else:
                self.unreadable.append(error)
            return None

    def plan(self, found: Found, before: Progress | None) -> PartitionPlan | None:
        """What to read from a partition; None if nothing is new."""
        partition = found.partition
        _check_whole(partition)
        newest = _newest(partition)
        topic_id = partition.topic_id
        if before is not None and before.newest == newest and before.topic_id == topic_id:
            return None
        end_of_log = locate(partition, None)
        generation = 0 if before is None else before.generation
        # A truncated log may also start later than before.
        while before is not None and (gap := self._lost(partition, before, end_of_log, topic_id)) is not None:
            _accept_loss(partition, gap, self.options, self.tables.options.generation)
            self.gaps.append(gap)
            before = _after_loss(before, gap)
            generation += before is None
        begin, start, stop = self._range(partition, before)
        committed = None
        if self.options.isolation == "read_committed":
            committed = replay_transactions(partition, Limits()).committed()
            stop = min(stop, HIGHEST if committed.first_open_offset is None else committed.first_open_offset)
        if self.ends[found.key] < end_of_log.next_offset:
            stop = min(stop, self.ends[found.key])
        if stop < start and not self._has_gap(found.key):  # an earlier run has already passed this end
            return None
        stop = max(stop, start)
        end = end_of_log if stop == HIGHEST else _end_at(partition, stop)
        if before is not None and stop == start and end.cursor <= begin and not self._has_gap(found.key):
            return None  # an earlier run has stopped at this end
        lineage = trace(partition, end.next_offset, end.last_entry)
        if end.last_entry is None and before is not None:  # retention left no entry
            lineage = before.lineage
        end_offset, truncations = end_of_log.next_offset, 0 if before is None else before.truncations
        return PartitionPlan(found, start, begin, end, committed, newest, end_offset, topic_id, generation, truncations, lineage)

    def _range(self, partition: Partition, before: Progress | None) -> tuple[Cursor, int, int]:
        """The place and offset at which a run starts, and the offset at which its options end it."""
        if before is None:
            start, stop = offset_range(partition, self.options, self.assigned)
            return locate(partition, start).cursor if start > partition.start_offset else BEGINNING, start, stop
        earliest = replace(self.options, starting=Bound("earliest", "startingOffsets"))
        _, stop = offset_range(partition, earliest, self.assigned)
        return _place_after(partition, before), before.next_offset, stop

    def _has_gap(self, key: TopicPartition) -> bool:
        return bool(self.gaps) and (self.gaps[-1].topic, self.gaps[-1].partition) == key

    def _lost(self, partition: Partition, before: Progress, end: End, topic_id: str | None) -> Gap | None:
        first, wanted = partition.start_offset, before.next_offset
        is_known = before.topic_id is not None and topic_id is not None
        if is_known and before.topic_id != topic_id:
            return Gap(partition.topic, partition.partition, wanted, first, "re-created")
        if first > wanted:
            return Gap(partition.topic, partition.partition, wanted, first, "removed")
        # Headers that damage cuts off from the rest end before what was ingested, as they did then.
        end_offset = end.next_offset if end.next_offset < before.log_end_offset else max(end.next_offset, wanted)
        found = find_divergence(partition, before.lineage, end_offset, Limits())
        if found is None and ((is_known and before.epochs) or _recorded_place(partition, before) is not None):
            return None
        if found is not None and found.offset is not None and is_known and before.epochs:
            return Gap(partition.topic, partition.partition, found.offset, wanted, "truncated")
        return self._unlike(partition, before, found, is_known)

    def _unlike(self, partition: Partition, before: Progress, found: Divergence | None, is_known: bool) -> Gap | None:
        """What was lost from a log whose topic id or leader epochs are unknown: its records are compared with their rows.

        `found` is what the log itself shows; it may only have been compacted.
        """
        first, wanted = partition.start_offset, before.next_offset
        stop = wanted if found is None or found.offset is None else found.offset
        compared = self.tables.compare(partition, before.generation, stop)
        offset = compared.first_difference
        if offset is None and found is not None:
            offset = found.offset
        if offset is None:
            return None if found is None else Gap(partition.topic, partition.partition, wanted, first, "rewritten")
        if is_known or compared.is_akin:
            return Gap(partition.topic, partition.partition, offset, wanted, "truncated")
        return Gap(partition.topic, partition.partition, wanted, first, "re-created")


def _at_rest(found: Found, look: Callable[[Found], Result]) -> Result | None:
    """The result of `look` at a partition whose files did not change meanwhile; None if it has no files any more."""
    for left in reversed(range(TRIES)):
        try:
            with coded():
                return look(found)
        except SparkSourceError as error:
            if not left or not is_passing(error):
                raise
            LOGGER.info("%s changed while it was looked at: %s", found.partition, error)
        time.sleep(PAUSE_SECONDS)
        listed = _listed_again(found)
        if listed is None:
            return None
        found = listed
    raise AssertionError("the last try returns or raises")


def _listed_again(found: Found) -> Found | None:
    """The partition as it is now; None if it has no files any more."""
    partition = found.partition
    try:
        listed = find_partitions(partition.store, partition.file or partition.folder)
    except StorageError:
        if partition.store.stat(partition.folder) is None or not partition.store.list(partition.folder):
            return None
        raise
    return Found(found.root, with_finished_segments(listed[0], Limits()))


def _check_whole(partition: Partition) -> None:
    """SparkSourceError if a segment exists but cannot be read now: a later run would skip its records."""
    for problem in partition.problems:
        raise SparkSourceError(STORAGE, path_text(problem))


def _newest(partition: Partition) -> tuple[int, int, int] | None:
    if not partition.segments:
        return None
    log = partition.segments[-1].log
    return log.base_offset, log.size, log.mtime_ns


# -- loss --------------------------------------------------------------------------------------------------------------------


def _after_loss(before: Progress, gap: Gap) -> Progress | None:
    """The progress from which a run continues that accepts the loss; None if it is another log."""
    if gap.reason == "removed":
        return replace(before, next_offset=gap.stop_offset, cursor=BEGINNING, last_entry=None, epochs=())
    if gap.reason == "truncated":
        left = replace(before, next_offset=gap.start_offset, cursor=BEGINNING, last_entry=None)
        epochs = tuple(start for start in before.epochs if start.start_offset < gap.start_offset)
        return replace(left, epochs=epochs, truncations=before.truncations + 1)
    return None


def _accept_loss(partition: Partition, gap: Gap, options: SourceOptions, has_generations: bool) -> None:
    """Raise what is missing, or with on_data_loss=continue only log it."""
    taken, now = gap.start_offset, gap.stop_offset
    again = "it is ingested from its start, as the next generation"
    if not has_generations:
        again = "its rows are moved to _superseded, and it is ingested from its start"
    what, how = {
        "removed": (
            f"was ingested up to offset {taken}, but the log now starts at {now}: retention or DeleteRecords removed offsets "
            f"{taken} to {now - 1} before they were ingested",
            "what is there is ingested",
        ),
        "truncated": (
            f"was ingested up to offset {now}, but the log has been truncated to {taken} since: it no longer holds the records "
            f"of the rows with offsets {taken} to {now - 1}",
            f"these rows are moved to _superseded, and the log is ingested from {taken} on",
        ),
        "re-created": (
            f"was ingested up to offset {taken}, but is another log now: the topic was deleted and created again, or emptied",
            again,
        ),
        "rewritten": (
            f"was ingested up to offset {taken}, but the log has other content there now",
            again,
        ),
    }[gap.reason]
    if options.fail_on_data_loss:
        raise SparkSourceError(DATA_LOSS, f"{partition} {what}; with --on-data-loss continue {how}")
    LOGGER.warning("%s %s; %s", partition, what, how)


# -- places ------------------------------------------------------------------------------------------------------------------


def locate(partition: Partition, offset: int | None) -> End:
    """Where the first entry that reaches `offset` starts; without one, or without an offset, where the whole entries end."""
    for segment in reversed(partition.segments):
        if offset is not None and segment.base_offset > offset:
            continue
        with partition.open_log(segment) as source:
            position, last_entry = _walk(partition, segment, source, offset)
            cursor = cursor_at(segment.base_offset, position, source)
        # A header alone may be wrong: an offset too high would skip records that are still to come.
        last = -1 if last_entry is None else last_entry.last_offset
        next_offset = max(last + 1, segment.base_offset, partition.start_offset)
        if last_entry is None:
            last_entry = last_entry_before(partition, next_offset, Limits())
        return End(cursor, next_offset, True, last_entry)
    return End(BEGINNING, partition.start_offset, True, None)


def _walk(partition: Partition, segment: Segment, source: ByteSource, offset: int | None) -> tuple[int, EntryMark | None]:
    """The position of `offset`, and the last entry before it whose checksum matches."""
    size = min(segment.log.size, source.size)
    index = segment.siblings.get("index")
    wanted = HIGHEST if offset is None else offset
    path = index.path if index else None
    start = seek_position(source, partition.store, path, segment.base_offset, wanted, Limits(), stop=size)
    walk = SegmentWalk(source, start, size, Limits())
    last = None
    for entries in walk.headers():
        reaching = (entries.last_offset >= wanted).nonzero()[0]
        if offset is not None and len(reaching):
            return int(entries.position[reaching[0]]), last
        last = last_proven(segment, source, entries) or last
    return walk.position, last


def check_ends(plans: Sequence[PartitionPlan]) -> None:
    """SegmentChanged if a log was truncated and written again while it was read; compaction does no harm."""
    for _ in in_parallel(_check_end, plans, requests_at_once(plan.found for plan in plans)):
        pass


def _check_end(plan: PartitionPlan) -> None:
    mark, found = plan.end.last_entry, plan.found
    try:
        if mark is None or is_in_place(found.partition, mark, Limits()):
            return
    except StorageError:  # removed by now; it was still read to its end
        return
    listed = _listed_again(found)
    if listed is not None and _at_rest(listed, partial(_has_diverged, plan.lineage)):
        path = next(segment.log.path for segment in found.partition.segments if segment.base_offset == mark.segment)
        expected = "the entry that was read"
        raise SegmentChanged("changed", file=path, position=mark.position, expected=expected, found="another")


def _has_diverged(read: Lineage, found: Found) -> bool:
    """Whether the log no longer holds what was read of it."""
    end_offset = locate(found.partition, None).next_offset
    return find_divergence(found.partition, read, end_offset, Limits()) is not None


def _end_at(partition: Partition, offset: int) -> End:
    """The end of a run that stops before `offset`."""
    return End(locate(partition, offset).cursor, offset, False, last_entry_before(partition, offset, Limits()))


def _place_after(partition: Partition, before: Progress) -> Cursor:
    """Where to continue: the recorded place, if the bytes before it prove that the file is the same, else searched for."""
    recorded = _recorded_place(partition, before)
    if recorded is not None:
        return recorded
    if before.next_offset <= partition.start_offset:
        return BEGINNING
    return locate(partition, before.next_offset).cursor


def _recorded_place(partition: Partition, before: Progress) -> Cursor | None:
    """The place where an earlier run stopped, if its last entry and the bytes before the place are still there.

    Bytes alone prove little: large values may all end in the same bytes.
    """
    if before.last_entry is None or not is_in_place(partition, before.last_entry, Limits()):
        return None
    for segment in partition.segments_from(before.cursor.segment)[:1]:
        if segment.base_offset == before.cursor.segment and before.cursor.position <= segment.log.size:
            with partition.open_log(segment) as source:
                if cursor_at(segment.base_offset, before.cursor.position, source).proof == before.cursor.proof:
                    return before.cursor
    return None


# -- tasks -------------------------------------------------------------------------------------------------------------------


def new_bytes(plans: Sequence[PartitionPlan]) -> int:
    """The log bytes that a run has to read."""
    return sum(
        bytes_of(slices) for plan in plans for segments in _new(plan, HIGHEST) for slices in _slices(plan, segments, HIGHEST)
    )


def cut_tasks(plans: Sequence[PartitionPlan], options: SourceOptions, cores: int, task_bytes: int | None) -> list[Split]:
    """The new parts of the partitions as splits of about equal size."""
    target = task_bytes or even_bytes(new_bytes(plans), cores, LEAST_TASK_BYTES, MOST_TASK_BYTES)
    pieces = ((plan, segments) for plan in plans for segments in _new(plan, target))

    def parts(piece: tuple[PartitionPlan, WholeSegments | Segment]) -> list[Part]:
        return [_part(piece[0], slices) for slices in _slices(*piece, target)]

    found = in_parallel(parts, pieces, requests_at_once(plan.found for plan in plans))
    return divide((part for cut_parts in found for part in cut_parts), target, options)


def _part(plan: PartitionPlan, slices: Sequence[FileSlice]) -> Part:
    partition = plan.found.partition
    stop = HIGHEST if plan.end.is_open else plan.end.next_offset
    return Part(
        plan.found.root,
        partition.folder,
        partition.topic,
        partition.partition,
        slices,
        plan.start_offset,
        stop,
        partition.log_start_offset,
        committed=plan.committed,
    )


def _new(plan: PartitionPlan, target: int) -> Iterator[WholeSegments | Segment]:
    """The segments between start and end of a plan, by runs of those that stay whole."""

    def is_whole(base: int, after: int | None, size: int) -> bool:
        return 0 < size <= target and base != plan.begin.segment and (plan.end.is_open or base < plan.end.cursor.segment)

    for segments in runs(plan.found.partition.segments_from(plan.start_offset), is_whole):
        if isinstance(segments, Segment) and segments.base_offset > plan.end.cursor.segment and not plan.end.is_open:
            return
        yield segments


def _slices(plan: PartitionPlan, segments: WholeSegments | Segment, target: int) -> Iterator[Sequence[FileSlice]]:
    """The slices of segments between start and end of a plan: those of a run together."""
    if isinstance(segments, WholeSegments):
        yield segments
        return
    skip = _skipped_bytes(plan, segments)
    for piece in cut(plan.found.partition, segments, target):
        is_past = not plan.end.is_open and Cursor(segments.base_offset, piece.start) > plan.end.cursor
        if piece.stop > skip and not is_past:
            cut_off = piece.start < skip
            first_offset = max(piece.first_offset, plan.start_offset) if cut_off else piece.first_offset
            yield (replace(piece, start=max(piece.start, skip), first_offset=first_offset),)


def _skipped_bytes(plan: PartitionPlan, segment: Segment) -> int:
    """The bytes of the segment that an earlier run has read."""
    return plan.begin.position if segment.base_offset == plan.begin.segment else 0
