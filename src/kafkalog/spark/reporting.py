"""The report of `kafkalog report`, counted by Spark's executors: a task takes whole partitions, and what they count is added up.

A partition is never divided: what compaction would drop depends on all its records. Tasks are merged in a tree on the executors,
so the driver gets one result, whose size does not depend on that of the logs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog.errors import UsageError
from kafkalog.kernels.cache import PackedKernels, used
from kafkalog.log.partition import Partition
from kafkalog.pages.report import Report
from kafkalog.tasks.overview import Counted, OverviewChoices, OverviewPlan, count, part_of

from .errors import coded, error_of_task
from .session import session_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_OF_A_CORE = 4
REHEARSED_BYTES = 1 << 20  # of a partition that the driver counts, which compiles what the executors will need
Work = tuple[Counted, list[Partition]]


def make_report(spark: SparkSession, paths: Sequence[str], choices: OverviewChoices) -> Report:
    """The report of these paths, which the driver and every executor must be able to read."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        raise UsageError("a report needs a Spark session of its own cluster; over Spark Connect, call kafkalog.report(paths)")
    plan = OverviewPlan(paths, choices)
    counted = plan.begin()
    plan.check_directories(counted)
    rest = _rehearsed(counted, plan)
    groups = balanced(rest, TASKS_OF_A_CORE * session_cores(spark))
    tasks: list[Work] = [(part_of(counted, group), group) for group in groups]
    if tasks:
        counted.merge(_run(spark.sparkContext, tasks, quick=choices.quick))
    return Report(plan.result(counted))


def _rehearsed(counted: Counted, plan: OverviewPlan) -> list[Partition]:
    """Count the smallest partition here, if it is small; those that are left."""
    full = [partition for partition in plan.chosen if 0 < partition.size <= REHEARSED_BYTES]
    if not full:
        return plan.chosen
    first = min(full, key=lambda partition: partition.size)
    counted.merge(count(part_of(counted, [first]), [first], quick=plan.choices.quick))
    return [partition for partition in plan.chosen if partition is not first]


def balanced(partitions: Iterable[Partition], most: int) -> list[list[Partition]]:
    """The partitions in at most so many groups of about the same size."""
    ordered = sorted(partitions, key=lambda partition: -partition.size)
    groups: list[list[Partition]] = [[] for _ in range(min(most, len(ordered)))]
    heap = [(0, 0, number) for number in range(len(groups))]
    for partition in ordered:
        size, length, number = heapq.heappop(heap)
        groups[number].append(partition)
        heapq.heappush(heap, (size + partition.size, length + 1, number))
    return groups


def _run(context: Any, tasks: list[Work], *, quick: bool) -> Counted:
    kernels = PackedKernels.here(used)
    try:
        found: Counted = context.parallelize(tasks, len(tasks)).map(_counting(kernels, quick=quick)).treeReduce(Counted.merge)
    except Exception as error:
        raise error_of_task(error) from error
    return found


def _counting(kernels: PackedKernels, *, quick: bool) -> Callable[[Work], Counted]:
    def counting(work: Work) -> Counted:
        kernels.unpack()
        part, partitions = work
        with coded():
            return count(part, partitions, quick=quick)

    return counting
