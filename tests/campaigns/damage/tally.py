"""Counts and failures of a part of the campaign."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

MAX_DETAILS = 12
SECONDS_PER_CASE = 120.0  # a read takes a millisecond, but kernels may have to be compiled on the way, on a slow machine


class Hang(BaseException):
    """A read did not end in time. Not an Exception, so that no handler in the code under test swallows it."""


@dataclass
class Tally:
    """Counts of one threat.

    `silent` are records returned that were never written, or left out, unreported. `residue` are the same where no
    neighbours could show it; they are counted, not failed. `kept` of `keepable` records survive a read beyond damage.
    """

    cases: int = 0
    reads: int = 0
    crashes: int = 0
    hangs: int = 0
    silent: int = 0
    lost: int = 0
    residue: int = 0
    kept: int = 0
    keepable: int = 0
    seconds: float = 0.0
    details: list[str] = field(default_factory=list)
    residues: dict[str, int] = field(default_factory=dict)

    @property
    def missed(self) -> bool:
        return bool(self.crashes or self.hangs or self.silent or self.lost)

    def add(self, other: Tally) -> None:
        for name in ("cases", "reads", "crashes", "hangs", "silent", "lost", "residue", "kept", "keepable", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.details += other.details[: MAX_DETAILS - len(self.details)]
        for name, count in other.residues.items():
            self.residues[name] = self.residues.get(name, 0) + count

    def fail(self, kind: str, detail: str) -> None:
        """One more of `kind`: silent, lost, crashes or hangs."""
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.details) < MAX_DETAILS:
            self.details.append(f"{kind}: {detail}")

    def expect(self, holds: bool, detail: str, kind: str = "silent") -> None:
        if not holds:
            self.fail(kind, detail)

    def leave(self, what: str) -> None:
        """One case that nothing in the bytes shows."""
        self.residue += 1
        self.residues[what] = self.residues.get(what, 0) + 1

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """One case: an exception that escapes is a crash, and it may not run for ever."""
        self.cases += 1
        try:
            with time_limit(SECONDS_PER_CASE):
                yield
        except Hang:
            self.fail("hangs", name)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.fail("crashes", f"{name}: {type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})")


def _expire(number: int, frame: FrameType | None) -> None:
    raise Hang


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
