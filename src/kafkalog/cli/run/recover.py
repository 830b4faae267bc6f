"""The work of `kafkalog recover`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalog.tasks.recover import recover_partitions

from .changes import Change


def run_recover(path: str, config: Mapping[str, str], whole: bool, **options: Any) -> int:
    """Recover the logs; the exit code."""
    return Change(path, options).run(lambda request: recover_partitions(path, request, config, whole=whole))
