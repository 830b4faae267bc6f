"""Time for the engine: the clock, and tasks to run later.

Nothing here runs by itself. Tasks wait in a `Schedule` until its owner calls `run_due`, which runs them in an order that does not
depend on threads: by due time, then in the order of submission.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is set: for replays and tests."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now


@dataclass(order=True)
class Task:
    """A task due at `due_ms`, and again every `period_ms` if that is not 0."""

    due_ms: int
    number: int
    name: str = field(compare=False)
    body: Callable[[], object] = field(compare=False)
    period_ms: int = field(default=0, compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


@dataclass(frozen=True)
class TaskFailure:
    """A task that raised; the others ran nevertheless."""

    name: str
    error: Exception


class Schedule:
    """Tasks that wait for their due time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._waiting: list[Task] = []
        self._numbers = itertools.count()

    def submit(self, name: str, body: Callable[[], object], delay_ms: int = 0, period_ms: int = 0) -> Task:
        task = Task(self.clock.now_ms() + max(0, delay_ms), next(self._numbers), name, body, period_ms)
        heapq.heappush(self._waiting, task)
        return task

    def run_due(self) -> list[TaskFailure]:
        """Run the tasks that are due, and those that they submit; returns the failed ones."""
        failures = []
        while self._waiting and self._waiting[0].due_ms <= self.clock.now_ms():
            task = heapq.heappop(self._waiting)
            if task.cancelled:
                continue
            try:
                task.body()
            except Exception as error:  # one task's failure must not keep the others from running: it is returned
                failures.append(TaskFailure(task.name, error))
            if task.period_ms:
                task.due_ms += task.period_ms
                heapq.heappush(self._waiting, task)
        return failures

    @property
    def waiting(self) -> int:
        return sum(not task.cancelled for task in self._waiting)

    def clear(self) -> None:
        """Drop all tasks."""
        self._waiting.clear()
