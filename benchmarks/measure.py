"""How contestants are timed: warm processes that take turns, round by round, and must agree on the number of rows.

A contestant in a warm process answers every line on its standard input with one JSON line `{"seconds": s, "rows": n}`.
"""

from __future__ import annotations

import json
import math
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

ANSWER_TIMEOUT_SECONDS = 900.0
REPOSITORY = Path(__file__).resolve().parent.parent


class RunFailed(Exception):
    """A contestant died, hung or counted other rows than the rest: the run is worthless."""


@dataclass(frozen=True)
class Pass:
    """One reading of a whole file."""

    seconds: float
    rows: int


@dataclass(frozen=True)
class Result:
    """The passes of one contestant in all rounds of a race."""

    passes: tuple[Pass, ...]

    @property
    def seconds(self) -> float:
        return statistics.median(one.seconds for one in self.passes)

    @property
    def rows(self) -> int:
        return self.passes[0].rows

    @property
    def million_rows_per_second(self) -> float:
        return self.rows / self.seconds / 1e6


class Contestant(Protocol):
    """Something that can read a file again and again."""

    @property
    def name(self) -> str: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def warm_up(self) -> None: ...

    def run(self) -> Pass: ...


# A pass shorter than this is over before caches and clock have settled after the other contestants' turns.
SHORT_PASS_SECONDS = 1.0
BURST = 3


@dataclass
class WarmProcess:
    """A contestant that stays alive between passes, on one core or on all."""

    name: str
    command: Sequence[str]
    core: int | None
    warm_up_count: int = 2
    warm_up_seconds: float = 0.0
    longest_rest_seconds: float = math.inf  # after a longer one, a pass that does not count comes first
    turn_seconds: float = 0.0  # a turn lasts at least so long
    _rested_since: float = field(default=0.0, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _complaints: IO[bytes] = field(default_factory=tempfile.TemporaryFile, repr=False)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            pinned(self.command, self.core),
            cwd=REPOSITORY,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def warm_up(self) -> None:
        started = time.perf_counter()
        passes = 0
        while passes < self.warm_up_count or time.perf_counter() - started < self.warm_up_seconds:
            self._pass()
            passes += 1

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RunFailed(f"{self.name} was asked before it was started")
        return self._process

    def ask(self) -> None:
        """Start one pass without waiting for it."""
        _pipe(self._started.stdin).write(b"\n")

    def answer(self) -> Pass:
        """The pass that `ask` started."""
        stdout = _pipe(self._started.stdout)
        ready, _, _ = select.select([stdout], [], [], ANSWER_TIMEOUT_SECONDS)
        line = stdout.readline() if ready else b""
        if not line:
            self._complaints.seek(0)
            complaints = self._complaints.read().decode(errors="replace")[-2000:]
            raise RunFailed(f"{self.name} gave no answer: {' '.join(self.command)}\n{complaints}")
        answer = json.loads(line)
        return Pass(answer["seconds"], answer["rows"])

    def run(self) -> Pass:
        """One pass; a short one is repeated at once, and the median of the turn counts: warm against warm."""
        if time.perf_counter() - self._rested_since > self.longest_rest_seconds:
            self._pass()
        passes = [self._pass()]
        count = 1 if passes[0].seconds >= SHORT_PASS_SECONDS else BURST
        while len(passes) < count or sum(one.seconds for one in passes) < self.turn_seconds:
            passes.append(self._pass())
        return sorted(passes, key=lambda one: one.seconds)[(len(passes) - 1) // 2]

    def _pass(self) -> Pass:
        self.ask()
        answer = self.answer()
        self._rested_since = time.perf_counter()
        return answer


@dataclass
class ColdCommand:
    """A contestant that only exists as a command: timed from outside, minus the time of an almost empty run."""

    name: str
    command: Sequence[str]
    empty_command: Sequence[str]
    rows: int
    core: int | None = None
    start_up_seconds: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def warm_up(self) -> None:
        self.start_up_seconds = statistics.median(time_command(self.empty_command, self.core) for _ in range(3))

    def run(self) -> Pass:
        return Pass(time_command(self.command, self.core) - self.start_up_seconds, self.rows)


@dataclass
class AtOnce:
    """Several warm processes that read at the same moment, each on its own core: the limit of the machine itself."""

    name: str
    processes: Sequence[WarmProcess]
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> Self:
        for process in self.processes:
            self._stack.enter_context(process)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def warm_up(self) -> None:
        for process in self.processes:
            process.warm_up()

    def run(self) -> Pass:
        """Seconds per file: that of the slowest, shared by all."""
        for process in self.processes:
            process.ask()
        passes = [process.answer() for process in self.processes]
        return Pass(max(one.seconds for one in passes) / len(passes), passes[0].rows)


def race(contestants: Sequence[Contestant], rounds: int, rows: int | dict[str, int]) -> dict[str, Result]:
    """Results by contestant: each round, every contestant reads once, in an order that rotates.

    `rows` is what the writer of the file knows, by contestant where they read different tables; other counts
    fail the run.
    """
    passes: dict[str, list[Pass]] = {one.name: [] for one in contestants}
    with ExitStack() as stack:
        for one in contestants:
            stack.enter_context(one)
            one.warm_up()
        for turn in range(rounds):
            start = turn % len(contestants)
            for one in (*contestants[start:], *contestants[:start]):
                passes[one.name].append(one.run())
    for name, those in passes.items():
        expected = rows if isinstance(rows, int) else rows[name]
        found = {one.rows for one in those}
        if found != {expected}:
            raise RunFailed(f"{name} counted {sorted(found)} rows, the file holds {expected}")
    return {name: Result(tuple(those)) for name, those in passes.items()}


def time_command(command: Sequence[str], core: int | None = None, environment: dict[str, str] | None = None) -> float:
    """Seconds that a command takes, its output thrown away."""
    started = time.perf_counter()
    done = subprocess.run(
        pinned(command, core),
        cwd=REPOSITORY,
        check=False,
        timeout=ANSWER_TIMEOUT_SECONDS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')[-2000:]}")
    return seconds


def pinned(command: Sequence[str], core: int | None) -> list[str]:
    """The command, kept on one core from its start (so that a JVM sizes itself for one)."""
    if core is None:
        return list(command)
    pin = f"import os, sys; os.sched_setaffinity(0, [{core}]); os.execvp(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-S", "-c", pin, *command]


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "opened with PIPE"
    return stream
