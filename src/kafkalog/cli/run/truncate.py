"""The work of `kafkalog truncate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalog.tasks.truncate import truncate_partitions

from .changes import Change


def run_truncate(path: str, config: Mapping[str, str], to_offset: int, **options: Any) -> int:
    """Truncate the logs; the exit code."""
    return Change(path, options).run(lambda request: truncate_partitions(path, to_offset, request, config))
