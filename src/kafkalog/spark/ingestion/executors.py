"""Executors of tasks: a Spark cluster, or threads of this process where there is no Spark.

Reading and writing release the interpreter lock, so threads use every core of one machine as well as Spark's workers do.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog.errors import UsageError

from ..errors import SPARK_FAILED, SparkSourceError, bad_option, error_of_task
from ..session import NO_PYSPARK, java_home, session_cores, start_session
from ..shipped_kernels import kernels_for_tasks
from .task_writing import IngestTask, TaskResult, read_sample, write_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog.kernels.cache import PackedKernels

LOGGER = logging.getLogger("kafkalog.spark")

WITHOUT_SPARK: Final = "none"
DEFAULT_MASTER: Final = "local[*]"
POLL_SECONDS: Final = 0.5
JOB_PROPERTIES: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")

OnProgress = Callable[[int, int], None]


class Executor(Protocol):
    """Runs tasks in parallel and returns their results, in any order."""

    @property
    def cores(self) -> int: ...

    def run(self, tasks: Sequence[IngestTask], on_progress: OnProgress) -> list[TaskResult]: ...


class ThreadExecutor:
    """The cores of this machine, without Spark and without Java."""

    def __init__(self, cores: int | None = None) -> None:
        self.cores = cores or len(os.sched_getaffinity(0))

    def run(self, tasks: Sequence[IngestTask], on_progress: OnProgress) -> list[TaskResult]:
        results = []
        with ThreadPoolExecutor(self.cores, thread_name_prefix="kafkalog") as pool:
            waiting = [pool.submit(write_task, task) for task in tasks]
            try:
                for done in as_completed(waiting):
                    results.append(done.result())
                    on_progress(len(results), len(tasks))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return results


class SparkExecutor:
    """A Spark session. Of several attempts of a task, Spark returns the result of one."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def cores(self) -> int:
        with _spark_errors():
            return session_cores(self.spark)

    def run(self, tasks: Sequence[IngestTask], on_progress: OnProgress) -> list[TaskResult]:
        context: Any = self.spark.sparkContext
        work = _writing(_kernels_for(tasks))
        group = f"kafkalog-ingest-{tasks[0].run}"
        with _spark_errors(), _job_group(context, group), _watched(context, group, len(tasks), on_progress):
            results: list[TaskResult] = context.parallelize(tasks, len(tasks)).map(work).collect()
        return results


@contextmanager
def _spark_errors() -> Iterator[None]:
    """SparkSourceError for whatever Spark raises; without its JVM that is an error of the connection."""
    from py4j.protocol import Py4JNetworkError

    try:
        yield
    except (OSError, Py4JNetworkError) as error:
        what = f"Spark's JVM does not answer, as if it had been killed ({error}); start a new session and run this again"
        raise SparkSourceError(SPARK_FAILED, what) from error
    except Exception as error:
        raise error_of_task(error) from error


@contextmanager
def _job_group(context: Any, group: str) -> Iterator[None]:
    """Later jobs of the caller do not belong to this group."""
    before = {name: context.getLocalProperty(name) for name in JOB_PROPERTIES}
    context.setJobGroup(group, "kafkalog ingest", True)
    try:
        yield
    finally:
        with suppress(Exception):  # a JVM that has ended has no properties
            for name, value in before.items():
                context.setLocalProperty(name, value)


def _kernels_for(tasks: Sequence[IngestTask]) -> PackedKernels:
    options = tasks[0].options
    kind = ("ingest", options.isolation, options.on_damage, options.columns)
    parts = (part for task in tasks for part in task.split.parts)
    return kernels_for_tasks(parts, kind, lambda split: read_sample(split, options))


def _writing(kernels: PackedKernels) -> Callable[[IngestTask], TaskResult]:
    def write(task: IngestTask) -> TaskResult:
        kernels.unpack()
        return write_task(task)

    return write


@contextmanager
def _watched(context: Any, group: str, total: int, on_progress: OnProgress) -> Iterator[None]:
    """Report how many tasks have ended while the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            try:
                done = _completed(context.statusTracker(), group)
            except Exception:  # the JVM has ended, and the job says so
                return
            on_progress(done, total)

    watcher = threading.Thread(target=watch, name="kafkalog-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    on_progress(total, total)


def _completed(tracker: Any, group: str) -> int:
    stages = [tracker.getStageInfo(stage) for job in tracker.getJobIdsForGroup(group) for stage in _stages(tracker, job)]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def _stages(tracker: Any, job: int) -> Sequence[int]:
    info = tracker.getJobInfo(job)
    return () if info is None else info.stageIds


class Notices(Protocol):
    """Called before there are tasks to count."""

    def starting(self, master: str) -> None:
        """Spark is starting, which takes from a few seconds to a minute."""
        ...

    def started(self, master: str, seconds: float) -> None: ...

    def without_spark(self, text: str) -> None:
        """No master was given, and Spark is not installed: threads do the work."""
        ...


class LogNotices:
    """Writes them to the log."""

    def starting(self, master: str) -> None:
        LOGGER.info("starting Spark (%s)", master)

    def started(self, master: str, seconds: float) -> None:
        LOGGER.info("Spark (%s) started in %.1f s", master, seconds)

    def without_spark(self, text: str) -> None:
        LOGGER.warning("%s", text)


def make_executor(
    spark: SparkSession | None, master: str | None, conf: Mapping[str, str], notices: Notices | None = None
) -> Executor:
    """An executor on the session given, else on one for this master; threads for `none` or `none[2]`.

    Without a master: Spark on this machine's cores, or threads if Spark or Java is not installed. Both do the same work.
    """
    notices = notices or LogNotices()
    if spark is not None:
        return SparkExecutor(spark)
    alone = re.fullmatch(r"none(?:\[([1-9][0-9]{0,3}|\*)\])?", master or "")
    if alone:
        return ThreadExecutor(int(alone[1]) if alone[1] not in (None, "*") else None)
    if (master or "").startswith(WITHOUT_SPARK):
        raise bad_option("master", master, "allowed are none, none[2], none[*], or a Spark master")
    missing = missing_for_spark()
    if missing is None:
        return SparkExecutor(_started(master or DEFAULT_MASTER, conf, notices))
    what, remedy = missing
    if master is not None:
        raise UsageError(f"{what}: {remedy}, or run without it: --master {WITHOUT_SPARK}")
    threads = ThreadExecutor()
    notices.without_spark(f"{what}: working with {threads.cores} threads of this process; {remedy} for a cluster")
    return threads


def missing_for_spark() -> tuple[str, str] | None:
    """What is missing for Spark, and how to get it."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError:
        return NO_PYSPARK
    try:
        java_home()
    except RuntimeError:
        return "Spark needs Java, and none is installed", "install one or pip install 'kafkalog[jre]'"
    return None


def _started(master: str, conf: Mapping[str, str], notices: Notices) -> SparkSession:
    notices.starting(master)
    begin = time.monotonic()
    try:
        found = start_session(master, "kafkalog ingest", conf)
    except Exception as error:
        own = error_of_task(error)
        raise SparkSourceError(own.code, f"{own.args[1].rstrip('.')}; to run without Spark: --master {WITHOUT_SPARK}") from error
    notices.started(master, time.monotonic() - begin)
    return found
