"""The commands to type next, each below what it is for, and never broken into lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog.tasks.next_steps import NextStep
from kafkalog.tasks.totals import Total

from .escape import printable

MARGIN = "  "


def step_lines(steps: Iterable[NextStep]) -> Iterator[str]:
    for step in steps:
        yield f"{MARGIN}{printable(step.why)}:"
        yield f"{MARGIN * 2}{printable(step.command)}"


def total_lines(total: Total, partition_count: int) -> str:
    """The end of what a repair prints: the counts of several partitions, and the next steps."""
    counts = [printable(f"total: {total.text}")] if partition_count > 1 else []
    lines = [*counts, *step_lines(total.next_steps)]
    return "".join(f"\n{line}" for line in lines)
