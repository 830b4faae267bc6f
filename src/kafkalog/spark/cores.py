"""How many cores a read is planned for: those of the cluster, where anybody says how many these are.

Spark plans a Python source in a process of its own, which knows neither the session nor its settings. What reaches it are the
options of the read and the environment: that of the driver's JVM, or, for a source that Python registered, its SparkContext's.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .options import SourceOptions

CORES_VARIABLE: Final = "KAFKALOG_CORES"
# Executors of a standalone cluster come one to three seconds after the session; nothing can run before.
EXECUTOR_SECONDS: Final = 20.0
STEADY_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
# What Spark says of a cluster of which it has seen no executor yet.
UNKNOWN_CORES: Final = 2


def planned_cores(options: SourceOptions) -> int | None:
    """The cores that a read is for, by its options or the environment; None where neither says."""
    text = os.environ.get(CORES_VARIABLE, "").strip()
    given = int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
    return options.cores or given or None


def session_cores(spark: SparkSession, seconds: float = EXECUTOR_SECONDS) -> int:
    """The cores of the cluster; where executors are still to come, they are waited for, that long at most."""
    context: Any = spark.sparkContext
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        most = _number(conf.get("spark.dynamicAllocation.maxExecutors", ""))
        return max(most * _number(conf.get("spark.executor.cores", "1")), int(context.defaultParallelism))
    is_local = re.fullmatch(r"local(\[.*\])?", context.master) is not None
    if not is_local and conf.get("spark.default.parallelism") is None:
        _wait_for_executors(context, seconds)
        if not _executors(context):
            return max(int(context.defaultParallelism), os.cpu_count() or UNKNOWN_CORES)
    return int(context.defaultParallelism)


def announce_cores(spark: SparkSession) -> None:
    """Let reads of the session know its cores: where they are not this machine's, register the source with what says so.

    Spark looks for installed sources first, which takes a second or two, and logs that one of them was replaced.
    """
    cores = session_cores(spark)
    context: Any = spark.sparkContext
    if cores == int(context.environment.get(CORES_VARIABLE, os.cpu_count() or 1)):
        return
    from .source import KafkaLogDataSource

    context.environment[CORES_VARIABLE] = str(cores)
    spark.dataSource.register(KafkaLogDataSource)


def _wait_for_executors(context: Any, seconds: float) -> None:
    """Wait until there are some, and no more came for a while: on a slow cluster, half of the time that these took."""
    begin = since = time.monotonic()
    seen = 0
    while (now := time.monotonic()) - begin < seconds:
        count = _executors(context)
        if count != seen:
            seen, since = count, now
        if seen and now - since >= max(STEADY_SECONDS, (since - begin) / 2):
            return
        time.sleep(POLL_SECONDS)


def _executors(context: Any) -> int:
    """How many have come; the driver is listed beside them."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _number(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
