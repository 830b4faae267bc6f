"""One run of an ingest: lock, settle what a killed run left, plan, run the tasks, publish; and the summary of it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final

from kafkalog.errors import path_text
from kafkalog.format.quantities import plural, size_text, span_text
from kafkalog.storage.store import short_repr

from ..errors import SparkSourceError, bad_option, coded, is_passing
from ..options import TopicPartition
from ..splits import Split
from .executors import Executor, OnProgress
from .folder_ledger import FolderLedger
from .ingest_options import IngestOptions
from .ingest_plan import PAUSE_SECONDS, TRIES, IngestPlan, check_ends, cut_tasks, new_bytes, plan_ingest
from .lake_ledger import LakeLedger, refuse_lake
from .layout import Edition, Layout
from .ledger import Ledger, Published, Staged, TableSummary
from .manifest import BEGINNING, Gap
from .target import Target, is_within, open_target
from .task_writing import IngestTask, PartitionResult, TaskResult
from .values import check_values, refuse_registry_prefix, with_schema

LOGGER = logging.getLogger("kafkalog.spark")
OnExecutor = Callable[[], Executor]
# How often files of a partition may change during the tasks of a run, which costs all its work, before it is postponed.
PATIENCE: Final = 2


@dataclass(frozen=True, repr=False)
class PartitionSummary:
    """The offsets that a run ingested from a partition: from `start_offset` up to but not including `stop_offset`."""

    topic: str
    partition: int
    start_offset: int
    stop_offset: int
    records: int

    def __repr__(self) -> str:
        place = short_repr(f"{self.topic}-{self.partition}")
        counted = "" if self.records < 0 else f", {plural(self.records, 'record')}"
        return f"PartitionSummary({place}, offsets {self.start_offset} to {self.stop_offset - 1}{counted})"


@dataclass(frozen=True, repr=False)
class IngestSummary:
    """What a run did, in numbers. `commit` is the number that it published, None if there was nothing new; in a lake each table
    has its own (`tables`), and this is the highest.

    `log_bytes` were read, `parquet_bytes` written. `damaged_ranges` were set aside, `damaged_reasons` says why; `undecoded`
    values are kept as bytes in `value_raw`; `superseded` rows of truncated logs were moved out of the tables. `postponed`
    partitions were changed by a broker so fast that they are left to the next run; `unreadable` says which ones storage could
    not read, and why.
    """

    target: str
    commit: int | None
    records: int = 0
    log_bytes: int = 0
    parquet_bytes: int = 0
    files: int = 0
    tasks: int = 0
    partitions: tuple[PartitionSummary, ...] = ()
    tables: tuple[TableSummary, ...] = ()
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    damaged_reasons: dict[str, int] = field(default_factory=dict)
    undecoded: int = 0
    superseded: int = 0
    gaps: tuple[Gap, ...] = ()
    postponed: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    dry_run: bool = False
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"IngestSummary({short_repr(self.target)}, {', '.join(self._shown())}, {span_text(int(self.seconds * 1000))})"

    def _shown(self) -> Iterator[str]:
        """The outcome in a few words, trouble last."""
        if self.dry_run:
            yield f"dry run: {size_text(self.log_bytes)} of log to read in {plural(len(self.partitions), 'partition')}"
        elif self.commit is None:
            yield "nothing new"
        else:
            yield f"commit {self.commit}, {plural(self.records, 'record')} of {plural(len(self.partitions), 'partition')}"
            yield f"{plural(self.files, 'file')} of {size_text(self.parquet_bytes)}"
        for count, what in (
            (self.damaged_ranges, "damaged range"),
            (self.undecoded, "undecoded value"),
            (self.superseded, "superseded row"),
            (len(self.gaps), "lost range"),
            (len(self.postponed), "postponed partition"),
            (len(self.unreadable), "unreadable partition"),
        ):
            if count:
                yield plural(count, what)

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.log_bytes / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain values, for JSON."""
        rates = {"records_per_second": round(self.records_per_second), "bytes_per_second": round(self.bytes_per_second)}
        return {**asdict(self), "seconds": round(self.seconds, 3), **rates}


def run_ingest(
    options: IngestOptions, make_executor: OnExecutor, on_progress: OnProgress, *, dry_run: bool = False
) -> IngestSummary:
    """Ingest what is new. The executor is made only if there is work for it."""
    begin = time.monotonic()
    with coded():
        _check_places(options)
        check_values(options)
        target = open_target(options.target)
        if dry_run:
            plan = _plan(_open_ledger(target, options))
            return _planned_summary(target.name, plan, time.monotonic() - begin)
        with target.lock():
            ledger = _open_ledger(target, options)
            ledger.settle()
            return _ingest(target.name, ledger, cache(make_executor), on_progress, begin)


def _open_ledger(target: Target, options: IngestOptions) -> Ledger:
    if options.lake.is_lake:
        return LakeLedger(target, options)
    refuse_lake(target)
    return FolderLedger(target, options)


def _ingest(target: str, ledger: Ledger, make_executor: OnExecutor, on_progress: OnProgress, begin: float) -> IngestSummary:
    """Stage and publish what is new. If files change during the tasks, plan again, finally without those partitions."""
    changed: Counter[TopicPartition] = Counter()
    while True:
        plan = _plan(ledger, [key for key, count in changed.items() if count >= PATIENCE])
        if not plan.partitions:
            left, seconds = _names(plan.postponed), time.monotonic() - begin
            return IngestSummary(target, None, postponed=left, unreadable=plan.unreadable, seconds=seconds)
        try:
            with coded():
                staged = _stage(ledger, plan, make_executor, on_progress)
            break
        except BaseException as error:
            ledger.discard()
            named = plan.named_in(error) if is_passing(error) else []
            if not named:
                raise
            LOGGER.info("the log changed while it was read, retrying: %s", error)
            changed.update(named)
        time.sleep(PAUSE_SECONDS)
    published = ledger.publish(staged)
    return _summary(target, staged, published, time.monotonic() - begin)


def _plan(ledger: Ledger, postponed: Sequence[TopicPartition] = ()) -> IngestPlan:
    """What is new; if a partition is deleted while they are listed, they are listed again."""
    for left in reversed(range(TRIES)):
        try:
            with coded():
                return plan_ingest(ledger.options.source_options(), ledger.progress, ledger.tables, postponed)
        except SparkSourceError as error:
            if not left or not is_passing(error):
                raise
        time.sleep(PAUSE_SECONDS)
    raise AssertionError("the last try returns or raises")


def _stage(ledger: Ledger, plan: IngestPlan, make_executor: OnExecutor, on_progress: OnProgress) -> Staged:
    """Write what is new where no reader looks."""
    if ledger.is_first:
        refuse_registry_prefix(ledger.options, plan.partitions)
    options = with_schema(ledger.options, plan.partitions)
    layout = ledger.layout({each.key[0] for each in plan.partitions}, options)
    results: list[TaskResult] = []
    if new_bytes(plan.partitions):
        executor = make_executor()
        splits = cut_tasks(plan.partitions, options.source_options(), executor.cores, options.task_bytes)
        results = executor.run(_tasks(ledger.run, options, layout, plan, splits), on_progress)
    check_ends(plan.partitions)
    before = {each.key: ledger.progress[each.key].generation for each in plan.partitions if each.key in ledger.progress}
    aside = ledger.tables.set_aside(plan.gaps, before, ledger.places)
    return Staged(plan, options, results, _seen(plan, results), aside)


def _check_places(options: IngestOptions) -> None:
    if not options.target:  # an empty shell variable must not make the working folder a target
        raise bad_option("target", options.target, "allowed is a folder or a URI such as s3://bucket/folder")
    for source in options.sources:
        if is_within(options.target, source):
            raise bad_option("target", path_text(options.target), f"it is inside {path_text(source)}; choose another place")


def _tasks(run: str, options: IngestOptions, layout: Layout, plan: IngestPlan, splits: Sequence[Split]) -> list[IngestTask]:
    plans = {each.key: each for each in plan.partitions}
    tasks = []
    for number, split in enumerate(splits):
        keys = {(part.topic, part.partition) for part in split.parts}
        claims = {key: (plans[key].begin, plans[key].until) for key in keys}
        editions = {key: Edition(plans[key].generation, plans[key].truncations) for key in keys}
        tasks.append(IngestTask(number, run, split, options, layout, claims, editions))
    return tasks


def _seen(plan: IngestPlan, results: Sequence[TaskResult]) -> dict[TopicPartition, PartitionResult]:
    seen = {each.key: PartitionResult(reached=BEGINNING) for each in plan.partitions}
    for result in results:
        for key, part in result.partitions.items():
            seen[key].add(part)
    return seen


def _summary(target: str, staged: Staged, published: Published, seconds: float) -> IngestSummary:
    results = staged.results
    reasons: dict[str, int] = {}
    for result in results:
        for reason, count in result.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return IngestSummary(
        target,
        published.number,
        records=sum(file.records for file in staged.files),
        log_bytes=sum(result.log_bytes for result in results),
        parquet_bytes=sum(file.size for file in staged.files),
        files=len(staged.files),
        tasks=len(results),
        partitions=tuple(
            PartitionSummary(*each.key, each.start_offset, staged.progress[each.key].next_offset, staged.seen[each.key].records)
            for each in staged.plan.partitions
        ),
        tables=published.tables,
        damaged_ranges=sum(file.records for file in staged.damaged),
        damaged_bytes=sum(result.damaged_bytes for result in results),
        damaged_reasons=reasons,
        undecoded=sum(result.undecoded for result in results),
        superseded=sum(file.records for found in staged.aside.values() for file in found.superseded),
        gaps=staged.plan.gaps,
        postponed=_names(staged.plan.postponed),
        unreadable=staged.plan.unreadable,
        seconds=seconds,
    )


def _names(partitions: Sequence[TopicPartition]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in partitions)


def _planned_summary(target: str, plan: IngestPlan, seconds: float) -> IngestSummary:
    """What a run would do, as far as names and headers show."""
    partitions = [PartitionSummary(*each.key, each.start_offset, each.end.next_offset, -1) for each in plan.partitions]
    return IngestSummary(
        target,
        None,
        log_bytes=new_bytes(plan.partitions),
        partitions=tuple(partitions),
        gaps=plan.gaps,
        postponed=_names(plan.postponed),
        unreadable=plan.unreadable,
        dry_run=True,
        seconds=seconds,
    )


def nothing(done: int, total: int) -> None:
    """Ignore progress."""
