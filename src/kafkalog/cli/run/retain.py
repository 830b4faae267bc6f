"""The work of `kafkalog retain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalog.tasks.retain import retain_partitions

from .changes import Change


def run_retain(path: str, config: Mapping[str, str], start_offset: int | None, **options: Any) -> int:
    """Delete what need not be kept; the exit code."""
    return Change(path, options).run(lambda request: retain_partitions(path, request, config, start_offset=start_offset))
