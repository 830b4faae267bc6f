"""What the installed Spark can do and an older one cannot: the one place that knows, so that tests skip by feature."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import Final

import pytest


def spark_version() -> tuple[int, int]:
    """Major and minor version; (0, 0) without Spark."""
    if importlib.util.find_spec("pyspark") is None:
        return 0, 0
    import pyspark

    major, minor = re.match(r"(\d+)\.(\d+)", pyspark.__version__).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


def since(major: int, minor: int) -> Callable[[], bool]:
    return lambda: spark_version() >= (major, minor)


# A feature, whether it is there, and what a Spark without it does.
FEATURES: Final[dict[str, tuple[Callable[[], bool], str]]] = {
    "limits": (
        since(4, 2),
        "before 4.2 Spark cannot limit the micro-batches of a Python source, and Trigger.AvailableNow is one micro-batch",
    ),
    "snapshot": (
        since(4, 1),
        "before 4.1 each action of a DataFrame plans the read again, of the files as they are then",
    ),
    "replaces": (
        since(4, 1),
        "before 4.1 a session cannot replace an installed source, so it cannot announce its cores",
    ),
    "pipelines": (since(4, 1), "before 4.1 there are no Spark Declarative Pipelines"),
    "closed sockets": (since(4, 2), "before 4.2 PySpark leaves sockets of collect() to the garbage collector"),
}


def has(feature: str) -> bool:
    return FEATURES[feature][0]()


def require_spark(feature: str) -> None:
    """Continue only if the installed Spark has it."""
    if not has(feature):
        pytest.skip(FEATURES[feature][1])
