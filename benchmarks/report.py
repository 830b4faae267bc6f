"""Results that an experiment hands to the page and to the terminal: tables of figures, and targets that were met or missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A required figure next to the measured one; `limit` is what the same run says about why it cannot be met."""

    what: str
    measured: float
    required: float
    unit: str
    at_least: bool = True
    limit: str = ""

    @property
    def met(self) -> bool:
        return self.measured >= self.required if self.at_least else self.measured <= self.required

    @property
    def measured_text(self) -> str:
        return f"{_figure(self.measured)} {self.unit}"

    @property
    def required_text(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {_figure(self.required)} {self.unit}"


@dataclass(frozen=True)
class Table:
    """Cells as text; the first row is the heading."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [self.heading, ["---", *["---:"] * (len(self.heading) - 1)], *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@dataclass
class Section:
    """One chapter of the page."""

    title: str
    explanation: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)


@dataclass(frozen=True)
class Agreement:
    """The readers of a file that found the number of rows that its writer put there."""

    variant: str
    size: int
    rows: int
    readers: Sequence[str]


def _figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
