"""The work of `kafkalog compact`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalog.tasks.compact import compact_partitions

from .changes import Change


def run_compact(path: str, config: Mapping[str, str], whole: bool, roll: bool, map_bytes: int, **options: Any) -> int:
    """Compact the logs; the exit code."""
    return Change(path, options).run(
        lambda request: compact_partitions(path, request, config, whole=whole, roll=roll, map_bytes=map_bytes)
    )
