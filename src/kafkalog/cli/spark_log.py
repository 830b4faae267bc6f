"""Spark's own messages, kept off the terminal: they matter only when Spark fails, and then there is a file to look into."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kafkalog.errors import KafkaLogError
from kafkalog.spark.errors import SPARK_FAILED

from .failure import warn


@contextmanager
def spark_log() -> Iterator[None]:
    """Send what the JVM and its workers write to standard error into a file; it is named if they fail, and else removed.

    They inherit the descriptor, so that is what changes; Python's own standard error stays where it was.
    """
    if sys.stderr is None:
        yield
        return
    descriptor, path = tempfile.mkstemp(prefix="kafkalog-spark-", suffix=".log")
    usual, shown = os.dup(2), sys.stderr
    keep = False
    sys.stderr = open(usual, "w", encoding=shown.encoding, errors=shown.errors, buffering=1, closefd=False)  # noqa: SIM115
    os.dup2(descriptor, 2)
    os.close(descriptor)
    try:
        yield
    except Exception as error:
        keep = not isinstance(error, KafkaLogError) or getattr(error, "code", "") == SPARK_FAILED
        if keep:
            warn(f"Spark failed; its messages are in {path}")
        raise
    finally:
        sys.stderr.flush()
        # The JVM may outlive this; it goes on writing to the file, named or not.
        os.dup2(usual, 2)
        os.close(usual)
        sys.stderr = shown
        if not keep:
            with suppress(OSError):
                os.unlink(path)
