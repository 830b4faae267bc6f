"""What is new in the logs since the last commit, and how it becomes tasks.

How far a partition goes is fixed here, from the sizes that the listing gave: what a broker appends meanwhile is for the next run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafkalog.errors import KafkaLogError, Limits, path_text
from kafkalog.format import names
from kafkalog.format.checkpoint import decode_partition_metadata
from kafkalog.kernels import scan
from kafkalog.log.headers import replay_transactions
from kafkalog.log.partition import SMALL_FILE, Partition, Segment
from kafkalog.log.transactions import Committed
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.store import ByteSource

from ..errors import DATA_LOSS, FILE_CHANGED, STORAGE, SparkSourceError
from ..options import Bound, SourceOptions, TopicPartition
from ..plan import Found, check_one_place, choose_whole_partitions, high_watermarks, offset_range
from ..splits import HIGHEST, FileSlice, Part, Split, cut, divide, even_bytes, prove_entry
from .manifest import BEGINNING, Cursor, Gap, Progress

LOGGER = logging.getLogger("kafkalog.spark")

# Log bytes of a task: few files from a small run, large ones from a large run, all cores busy in both.
LEAST_TASK_BYTES: Final = 32 << 20
MOST_TASK_BYTES: Final = 512 << 20
SWAP: Final = "swap"  # the ending of a segment that the cleaner has written and not yet put in place


@dataclass(frozen=True)
class End:
    """Where a run stops in a partition: at `cursor`, before `next_offset`. `is_open` where that is simply the end of the log."""

    cursor: Cursor
    next_offset: int
    is_open: bool


@dataclass(frozen=True)
class PartitionPlan:
    """What a run takes of a partition: from `begin` and `start_offset` on, up to `end`."""

    found: Found
    start_offset: int
    begin: Cursor
    end: End
    committed: Committed | None
    newest: tuple[int, int, int] | None
    log_end_offset: int
    topic_id: str | None
    generation: int

    @property
    def key(self) -> TopicPartition:
        return self.found.key

    @property
    def until(self) -> Cursor | None:
        """Damage from here on is for a later run."""
        return None if self.end.is_open else self.end.cursor

    def progress(self, last_offset: int, reached: Cursor) -> Progress:
        """Where the partition stands when all tasks have ended; they saw records up to `last_offset`, and got to `reached`."""
        if not self.end.is_open:
            next_offset, cursor, newest = self.end.next_offset, self.end.cursor, None
        else:
            next_offset = max(self.end.next_offset, self.start_offset, last_offset + 1)
            cursor, newest = (reached if reached > BEGINNING else self.end.cursor), self.newest
        return Progress(next_offset, cursor, newest, self.log_end_offset, self.topic_id, self.generation)


@dataclass(frozen=True)
class IngestPlan:
    """The partitions that have something new, and offsets that are gone."""

    partitions: tuple[PartitionPlan, ...]
    gaps: tuple[Gap, ...]


def plan_ingest(options: SourceOptions, before: Mapping[TopicPartition, Progress]) -> IngestPlan:
    """What a run has to do after the commits that led to `before`."""
    chosen = choose_whole_partitions(options)
    check_one_place(chosen)
    assigned = {found.key for found in chosen}
    limits = high_watermarks(chosen) if options.up_to_high_watermark else {}
    plans: list[PartitionPlan] = []
    gaps: list[Gap] = []
    for found in chosen:
        plan = _plan_partition(found, options, assigned, before.get(found.key), limits.get(found.key, HIGHEST), gaps)
        if plan is not None:
            plans.append(plan)
    return IngestPlan(tuple(plans), tuple(gaps))


def _plan_partition(
    found: Found, options: SourceOptions, assigned: set[TopicPartition], before: Progress | None, limit: int, gaps: list[Gap]
) -> PartitionPlan | None:
    """What is to be taken of a partition, below the offset `limit`; None where nothing is new."""
    partition = found.partition
    _check_whole(partition)
    newest = _newest(partition)
    topic_id = _topic_id(partition)
    if before is not None and before.newest == newest and before.topic_id == topic_id:
        return None
    end_of_log = locate(partition, None)
    generation = 0 if before is None else before.generation
    if before is not None:
        lost = _lost(partition, before, end_of_log, topic_id)
        if lost is not None:
            _accept_loss(partition, lost, options)
            gaps.append(lost)
            generation += lost.reason != "removed"
            before = replace(before, next_offset=partition.start_offset) if lost.reason == "removed" else None
    if before is None:
        start, stop = offset_range(partition, options, assigned)
        begin = locate(partition, start).cursor if start > partition.start_offset else BEGINNING
    else:
        start, begin = before.next_offset, before.cursor
        _, stop = offset_range(partition, replace(options, starting=Bound("earliest", "startingOffsets")), assigned)
    committed = None
    if options.isolation == "read_committed":
        committed = replay_transactions(partition, Limits()).committed()
        stop = min(stop, HIGHEST if committed.first_open_offset is None else committed.first_open_offset)
    if limit < end_of_log.next_offset:
        stop = min(stop, limit)
    if stop < start:  # an end that an earlier run has passed already
        return None
    end = end_of_log if stop == HIGHEST else replace(locate(partition, stop), next_offset=stop, is_open=False)
    if before is not None and stop == start and end.cursor <= begin:  # an end at which an earlier run has stopped
        return None
    # Behind the high watermark a log may become shorter, and nothing is lost.
    log_end_offset = min(end_of_log.next_offset, limit)
    return PartitionPlan(found, start, begin, end, committed, newest, log_end_offset, topic_id, generation)


def _check_whole(partition: Partition) -> None:
    """SparkSourceError where a segment is there but cannot be had now: a later run would pass over its records."""
    for problem in partition.problems:
        raise SparkSourceError(STORAGE, path_text(problem))
    bases = {segment.base_offset for segment in partition.segments}
    for stored in partition.leftovers:
        if stored.kind == "log" and stored.suffix == SWAP and stored.base_offset not in bases:
            raise SparkSourceError(
                FILE_CHANGED,
                f"{path_text(stored.path)}: a broker is about to put this segment in place, or died doing so; run this again, or "
                "let a broker recover the folder first",
            )


def _newest(partition: Partition) -> tuple[int, int, int] | None:
    if not partition.segments:
        return None
    log = partition.segments[-1].log
    return log.base_offset, log.size, log.mtime_ns


def _topic_id(partition: Partition) -> str | None:
    """The identity that brokers since 2.8 give a topic: one that was deleted and made anew has another."""
    for stored in partition.files:
        if stored.kind == names.PARTITION_METADATA:
            try:
                return decode_partition_metadata(partition.store.read_small(stored.path, SMALL_FILE)).topic_id
            except KafkaLogError:
                return None
    return None


# -- loss --------------------------------------------------------------------------------------------------------------------


def _lost(partition: Partition, before: Progress, end: End, topic_id: str | None) -> Gap | None:
    first, wanted = partition.start_offset, before.next_offset
    if before.topic_id is not None and topic_id is not None and before.topic_id != topic_id:
        return Gap(partition.topic, partition.partition, wanted, first, "re-created")
    if end.next_offset < before.log_end_offset:
        return Gap(partition.topic, partition.partition, wanted, end.next_offset, "shorter")
    if first > wanted:
        return Gap(partition.topic, partition.partition, wanted, first, "removed")
    return None


def _accept_loss(partition: Partition, gap: Gap, options: SourceOptions) -> None:
    """Raise, or with on_data_loss=continue only say, what is missing."""
    what = {
        "removed": f"the log now begins at {gap.stop_offset}; retention removed what was before",
        "shorter": f"the log now ends at {gap.stop_offset}; it was truncated, or deleted and made anew",
        "re-created": "the topic has another id; it was deleted and made anew",
    }[gap.reason]
    text = f"{partition} was taken up to offset {gap.start_offset}, but {what}"
    if options.fail_on_data_loss:
        how = "what is there is taken" if gap.reason == "removed" else "it is taken from its beginning, as another log"
        raise SparkSourceError(DATA_LOSS, f"{text}; with on_data_loss=continue {how}")
    LOGGER.warning("%s; going on", text)


# -- places ------------------------------------------------------------------------------------------------------------------


def locate(partition: Partition, offset: int | None) -> End:
    """Where the first entry that reaches `offset` begins; without one, or without an offset, where the whole entries end."""
    start = partition.start_offset
    for segment in reversed(partition.segments):
        if offset is not None and segment.base_offset > offset:
            continue
        with partition.open_log(segment) as source:
            position, last = _walk(partition, segment, source, offset)
        return End(Cursor(segment.base_offset, position), max(last + 1, segment.base_offset, start), is_open=True)
    return End(BEGINNING, start, is_open=True)


def _walk(partition: Partition, segment: Segment, source: ByteSource, offset: int | None) -> tuple[int, int]:
    """The position looked for, and the last offset before it that a checksum vouches for, -1 without one."""
    size = min(segment.log.size, source.size)
    index = segment.siblings.get("index")
    wanted = HIGHEST if offset is None else offset
    start = seek_position(source, partition.store, index.path if index else None, segment.base_offset, wanted, Limits())
    walk = SegmentWalk(source, start if start <= size else 0, size, Limits())
    last = -1
    for fields in walk.headers():
        reaching = (fields[scan.LAST_OFFSET] >= wanted).nonzero()[0]
        if offset is not None and len(reaching):
            return int(fields[scan.POSITION, reaching[0]]), last
        for row in range(fields.shape[1] - 1, -1, -1):
            # A header alone may lie: an offset too high would pass over records that are still to come.
            if prove_entry(source, int(fields[scan.POSITION, row]), segment) is not None:
                last = int(fields[scan.LAST_OFFSET, row])
                break
    return walk.position, last


# -- tasks -------------------------------------------------------------------------------------------------------------------


def new_bytes(plans: Sequence[PartitionPlan]) -> int:
    """Bytes of log that a run has to read."""
    return sum(piece.bytes for plan in plans for piece in _slices(plan, HIGHEST))


def cut_tasks(plans: Sequence[PartitionPlan], options: SourceOptions, cores: int, task_bytes: int | None) -> list[Split]:
    """The new parts of the partitions as splits of about equal size."""
    target = task_bytes or even_bytes(new_bytes(plans), cores, LEAST_TASK_BYTES, MOST_TASK_BYTES)
    parts = [_part(plan, piece) for plan in plans for piece in _slices(plan, target)]
    return divide(parts, target, options)


def _part(plan: PartitionPlan, piece: FileSlice) -> Part:
    partition = plan.found.partition
    stop = HIGHEST if plan.end.is_open else plan.end.next_offset
    return Part(
        plan.found.root,
        partition.folder,
        partition.topic,
        partition.partition,
        (piece,),
        plan.start_offset,
        stop,
        partition.log_start_offset,
        committed=plan.committed,
    )


def _slices(plan: PartitionPlan, target: int) -> Iterator[FileSlice]:
    """The slices between the two ends of a plan."""
    partition = plan.found.partition
    for segment in partition.segments_from(plan.start_offset):
        if segment.base_offset > plan.end.cursor.segment and not plan.end.is_open:
            return
        skip = _skipped_bytes(plan, segment)
        for piece in cut(partition, segment, target):
            behind = not plan.end.is_open and Cursor(segment.base_offset, piece.start) > plan.end.cursor
            if piece.stop > skip and not behind:
                yield replace(piece, start=max(piece.start, skip))


def _skipped_bytes(plan: PartitionPlan, segment: Segment) -> int:
    """What an earlier run has taken of the segment, if the entry behind it proves that the file is still the same."""
    position = plan.begin.position
    if segment.base_offset != plan.begin.segment or not 0 < position <= segment.log.size:
        return 0
    if position == segment.log.size:
        return position
    with plan.found.partition.open_log(segment) as source:
        bounds = prove_entry(source, position, segment)
    return position if bounds is not None and bounds[0] <= plan.start_offset else 0
