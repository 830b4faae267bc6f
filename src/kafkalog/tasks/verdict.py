"""What a broker that starts on a log directory will do with it: start or not, and which records it cuts off."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kafkalog.format.quantities import repr_text
from kafkalog.log.checks.finding import Finding

from .losses import Loss
from .next_steps import NextStep

KEPT, CUT, EMPTIED, REFUSED, UNKNOWN = OUTCOMES = ("kept", "cut", "emptied", "refused", "unknown")


@dataclass(frozen=True)
class LoadedPartition:
    """What loading does to one partition.

    `outcome`: "kept"; "cut" at `end_offset`; "emptied", because the log start checkpoint is beyond its end; "refused", which
    stops the broker; or "unknown". `cut_bytes` are cut off; if whole batches are among them, `loss` says which. `damage` are the
    findings in the log that stay without being noticed, `stale` the index and other files that stay wrong. `detail` says why it
    is refused or unknown.
    """

    topic: str
    partition: int
    folder: str
    outcome: str = KEPT
    end_offset: int | None = None
    cut_bytes: int = 0
    loss: Loss | None = None
    damage: tuple[Finding, ...] = ()
    stale: tuple[str, ...] = ()
    detail: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_eventful(self) -> bool:
        return self.outcome != KEPT or bool(self.damage) or bool(self.stale)


@dataclass(frozen=True)
class Obstacle:
    """A file or folder in the root of the log directory that keeps a broker from starting; `is_sure` is false for a doubt."""

    path: str
    why: str
    is_sure: bool = True


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a broker will do. `starts` is None where that cannot be known, because one is running or a file cannot be read.

    `is_whole`: all of a log directory was checked, not only some partitions of it. `is_configured`: it has a meta.properties,
    without which no broker starts there. `was_clean`: the last broker left its clean-shutdown file, so logs are not checked.
    `partitions` are only those that are cut, emptied, refused, unknown, or stay damaged. `text` says it all in a few sentences.
    """

    path: str
    starts: bool | None
    is_whole: bool
    is_running: bool
    is_configured: bool
    was_clean: bool
    has_recovery_points: bool
    obstacles: tuple[Obstacle, ...] = ()
    partitions: tuple[LoadedPartition, ...] = ()
    text: str = ""
    next_steps: tuple[NextStep, ...] = ()

    def __repr__(self) -> str:
        return repr_text("Verdict", self.path, self.text)

    @property
    def loses_records(self) -> bool:
        """Whether whole batches are cut off."""
        return any(found.loss is not None or found.outcome == EMPTIED for found in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """The verdict as plain values, for JSON."""
        return asdict(self)
