"""One run of an ingest: lock, settle what a killed run left, plan, run the tasks, publish."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkalog.errors import path_text

from ..errors import BAD_TARGET, SparkSourceError, bad_option, coded
from ..options import TopicPartition
from ..splits import Split
from .executors import Executor, OnProgress
from .manifest import BEGINNING, Commit, CommitLog, Progress
from .options import IngestOptions
from .plan import IngestPlan, cut_tasks, new_bytes, plan_ingest
from .summary import IngestSummary, PartitionSummary
from .target import is_within, open_target
from .values import check_values, with_schema
from .writing import IngestTask, PartitionResult, TaskResult

OnExecutor = Callable[[], Executor]


@dataclass
class _Run:
    """What a run knows when it begins: its name, its target's, its choices, and where the last commit left off."""

    name: str
    target: str
    options: IngestOptions
    before: Commit | None

    @property
    def progress(self) -> Mapping[TopicPartition, Progress]:
        return {} if self.before is None else self.before.progress


def run_ingest(
    options: IngestOptions, make_executor: OnExecutor, on_progress: OnProgress, *, dry_run: bool = False
) -> IngestSummary:
    """Take what is new. The executor is only made when there is work for it."""
    begin = time.monotonic()
    with coded():
        _check_places(options)
        check_values(options)
        target = open_target(options.target)
        log = CommitLog(target)
        if dry_run:
            run = _agreed(_Run("", target.name, options, log.latest()))
            return _foreseen(run, plan_ingest(options.source_options(), run.progress), time.monotonic() - begin)
        with target.lock():
            name = f"{time.time_ns() // 1_000_000:013}-{secrets.token_hex(6)}"
            run = _agreed(_Run(name, target.name, options, log.latest()))
            log.settle(run.before)
            return _take(run, log, make_executor, on_progress, begin)


def _take(run: _Run, log: CommitLog, make_executor: OnExecutor, on_progress: OnProgress, begin: float) -> IngestSummary:
    source = run.options.source_options()
    plan = plan_ingest(source, run.progress)
    if not plan.partitions:
        return IngestSummary(run.target, None, seconds=time.monotonic() - begin)
    run = replace(run, options=with_schema(run.options, plan.partitions))
    results: list[TaskResult] = []
    if new_bytes(plan.partitions):
        executor = make_executor()
        tasks = _tasks(run, plan, cut_tasks(plan.partitions, source, executor.cores, run.options.task_bytes))
        try:
            results = executor.run(tasks, on_progress)
        except BaseException:
            log.discard(run.name)
            raise
    seen = _seen(plan, results)
    commit = _commit(run, plan, results, seen)
    log.publish(commit)
    return _summary(run, commit, plan, results, seen, time.monotonic() - begin)


def _check_places(options: IngestOptions) -> None:
    if not options.target:  # an empty variable of a shell; the working folder is nobody's target by accident
        raise bad_option("target", options.target, "allowed is a folder or a URI such as s3://bucket/folder")
    for source in options.sources:
        if is_within(options.target, source):
            raise bad_option("target", path_text(options.target), f"it lies in {path_text(source)}; choose another place")


def _agreed(run: _Run) -> _Run:
    """The run with what earlier ones have found out; SparkSourceError if it would give its files another shape than they did."""
    before = run.before
    if before is None:
        return run
    found = before.settings.get("value")
    payload = run.options.payload
    if payload is not None and found is not None and payload.schema is None:
        same = replace(payload, schema=found["schema"], is_inferred=found["is_inferred"])
        run = replace(run, options=replace(run.options, payload=same))
    for name, value in run.options.settings().items():
        stored = before.settings.get(name)
        if stored != value:
            raise SparkSourceError(
                BAD_TARGET,
                f"{path_text(run.target)}: earlier runs had {name}={stored!r}, this one has {name}={value!r}; "
                "say the same again, or choose another target",
            )
    return run


def _tasks(run: _Run, plan: IngestPlan, splits: Sequence[Split]) -> list[IngestTask]:
    plans = {each.key: each for each in plan.partitions}
    tasks = []
    for number, split in enumerate(splits):
        keys = {(part.topic, part.partition) for part in split.parts}
        claims = {key: (plans[key].begin, plans[key].until) for key in keys}
        generations = {key: plans[key].generation for key in keys}
        tasks.append(IngestTask(number, run.name, split, run.options, claims, generations))
    return tasks


def _seen(plan: IngestPlan, results: Sequence[TaskResult]) -> dict[TopicPartition, PartitionResult]:
    seen = {each.key: PartitionResult(reached=BEGINNING) for each in plan.partitions}
    for result in results:
        for key, part in result.partitions.items():
            seen[key].add(part)
    return seen


def _commit(
    run: _Run, plan: IngestPlan, results: Sequence[TaskResult], seen: Mapping[TopicPartition, PartitionResult]
) -> Commit:
    after = {each.key: each.progress(seen[each.key].last_offset, seen[each.key].reached) for each in plan.partitions}
    return Commit(
        1 if run.before is None else run.before.number + 1,
        run.name,
        time.time_ns() // 1_000_000,
        run.options.settings(),
        {**run.progress, **after},
        tuple(sorted((file for result in results for file in result.files), key=lambda file: file.path)),
        tuple(sorted((file for result in results for file in result.damaged), key=lambda file: file.path)),
        plan.gaps,
    )


def _summary(
    run: _Run,
    commit: Commit,
    plan: IngestPlan,
    results: Sequence[TaskResult],
    seen: Mapping[TopicPartition, PartitionResult],
    seconds: float,
) -> IngestSummary:
    reasons: dict[str, int] = {}
    for result in results:
        for reason, count in result.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return IngestSummary(
        run.target,
        commit.number,
        records=sum(file.records for file in commit.files),
        log_bytes=sum(result.log_bytes for result in results),
        parquet_bytes=sum(file.size for file in commit.files),
        files=len(commit.files),
        tasks=len(results),
        partitions=tuple(
            PartitionSummary(*each.key, each.start_offset, commit.progress[each.key].next_offset, seen[each.key].records)
            for each in plan.partitions
        ),
        damaged_ranges=sum(file.records for file in commit.damaged),
        damaged_bytes=sum(result.damaged_bytes for result in results),
        damaged_reasons=reasons,
        undecoded=sum(result.undecoded for result in results),
        gaps=commit.gaps,
        seconds=seconds,
    )


def _foreseen(run: _Run, plan: IngestPlan, seconds: float) -> IngestSummary:
    """What a run would do, as far as names and headers tell."""
    partitions = [PartitionSummary(*each.key, each.start_offset, each.end.next_offset, -1) for each in plan.partitions]
    return IngestSummary(
        run.target,
        None,
        log_bytes=new_bytes(plan.partitions),
        partitions=tuple(partitions),
        gaps=plan.gaps,
        dry_run=True,
        seconds=seconds,
    )


def nothing(done: int, total: int) -> None:
    """Progress that nobody wants to see."""
