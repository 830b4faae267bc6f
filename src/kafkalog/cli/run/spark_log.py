"""Spark's own messages go to a file instead of the terminal: they matter only if Spark fails."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from kafkalog.errors import KafkaLogError
from kafkalog.spark.errors import SPARK_FAILED

from ..failure import warn


class _Messages(logging.StreamHandler[TextIO]):
    """Python's log messages: those of Spark and its bridge to Java go to the file, ours to the terminal as usual."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = logging.lastResort
        if not record.name.startswith("kafkalog"):
            super().emit(record)
        elif shown is not None and record.levelno >= shown.level:
            shown.emit(record)


@contextmanager
def _messages_in(file: TextIO) -> Iterator[None]:
    root = logging.getLogger()
    if root.handlers:  # the application has chosen what to show
        yield
        return
    handler = _Messages(file)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def spark_log() -> Iterator[None]:
    """Redirect standard error of the JVM and its workers to a file; its path is shown if they fail, else it is removed.

    They inherit the descriptor, so the descriptor is redirected; Python's own standard error stays as it was.
    """
    if sys.stderr is None:
        yield
        return
    descriptor, path = tempfile.mkstemp(prefix="kafkalog-spark-", suffix=".log")
    usual, shown = os.dup(2), sys.stderr
    keep = False
    sys.stderr = open(usual, "w", encoding=shown.encoding, errors=shown.errors, buffering=1, closefd=False)  # noqa: SIM115
    os.dup2(descriptor, 2)
    try:
        # On Ctrl-C the bridge to Java logs two pages of tracebacks.
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file, _messages_in(file):
            yield
    except Exception as error:
        keep = not isinstance(error, KafkaLogError) or getattr(error, "code", "") == SPARK_FAILED
        if keep:
            warn(f"Spark failed; its messages are in {path}")
        raise
    finally:
        sys.stderr.flush()
        # The JVM may outlive this; it continues to write to the file, removed or not.
        os.dup2(usual, 2)
        os.close(usual)
        sys.stderr = shown
        if not keep:
            with suppress(OSError):
                os.unlink(path)
