"""What two copies of a partition differ in: where on both sides, and what explains it.

Reasons are interface, as those of findings are: they are added, never renamed. A damaged batch has the reason code of `verify`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkalog.errors import REASONS
from kafkalog.log.partition import shown

A, B = SIDES = ("a", "b")


class DifferenceReason(NamedTuple):
    """The kind of difference, what the reason means, and what explains it: "" for what nothing does."""

    kind: str
    about: str
    explained_by: str = ""


DIFFERENCES: dict[str, DifferenceReason] = {
    "retention": DifferenceReason("start", "it begins later: its first segments were deleted", "retention"),
    "delete-records": DifferenceReason("start", "it begins later: its log start offset was moved", "DeleteRecords"),
    "start-lost": DifferenceReason(
        "start", "it begins later than its leader-epoch-checkpoint: no broker deleted this, except with tiered storage"
    ),
    "shorter": DifferenceReason("end", "it ends earlier: a copy that had not got further", "unfinished tail"),
    "end-lost": DifferenceReason("end", "it ends earlier than its own checkpoints say: it lost its end"),
    "unfinished": DifferenceReason("end", "its newest segment ends in an unfinished write", "unfinished tail"),
    "compacted": DifferenceReason(
        "missing", "records that compaction removed: a later one has their key, or they were aborted or deleted", "compaction"
    ),
    "missing": DifferenceReason("missing", "offsets in the middle that only the other side has"),
    "key-lost": DifferenceReason("missing", "compaction would have kept these: no later record has their key"),
    "rewritten": DifferenceReason("batches", "the same records in other batches", "compaction"),
    "re-encoded": DifferenceReason("batches", "the same records in other batches", "re-encoding"),
    "diverged": DifferenceReason("content", "the same offsets, but another leader epoch and other records"),
    "epoch": DifferenceReason("content", "the same records under another leader epoch, which no checksum covers"),
    "offset": DifferenceReason("content", "the same batch under other offsets, which no checksum covers"),
    "content": DifferenceReason("content", "the same offsets and leader epoch, but other records; both checksums match"),
    "topic-id": DifferenceReason("partition", "the copies are of two different topics of that name"),
    "elsewhere": DifferenceReason("partition", "only in one of two log directories of a cluster", "placement of replicas"),
    "partition-missing": DifferenceReason("partition", "a partition that only one side has"),
}


@dataclass(frozen=True)
class Spot:
    """An entry, or a damaged byte range, of one side. `leader_epoch` is -1 where there is none."""

    file: str
    position: int
    length: int
    leader_epoch: int = -1


@dataclass(frozen=True)
class Difference:
    """One difference: a range of offsets, and the first batch of it on each side that has one.

    `side` is the one ("a" or "b") that lacks the offsets or is damaged; "" where both have something. `byte` is the first byte
    in which the two batches differ, counted from their beginning. Counts are those of the side that has more.
    """

    reason: str
    topic: str
    partition: int
    side: str = ""
    first_offset: int | None = None
    last_offset: int | None = None
    a: Spot | None = None
    b: Spot | None = None
    batch_count: int = 0
    record_count: int = 0
    byte: int | None = None
    byte_a: int | None = None
    byte_b: int | None = None
    detail: str = ""

    @property
    def kind(self) -> str:
        """damage, start, end, missing, batches, content or partition."""
        return DIFFERENCES[self.reason].kind if self.reason in DIFFERENCES else "damage"

    @property
    def explained_by(self) -> str:
        """What explains it; empty for what nothing does."""
        return DIFFERENCES[self.reason].explained_by if self.reason in DIFFERENCES else ""

    @property
    def is_explained(self) -> bool:
        return bool(self.explained_by)

    @property
    def about(self) -> str:
        """What the reason means."""
        return DIFFERENCES[self.reason].about if self.reason in DIFFERENCES else REASONS[self.reason].about

    def spot(self, side: str) -> Spot | None:
        return self.a if side == A else self.b

    def __repr__(self) -> str:
        parts = [self.reason, f"{self.topic}-{self.partition}"]
        parts += [f"in {self.side}"] if self.side else []
        parts += [f"offsets {self.first_offset} to {self.last_offset}"] if self.first_offset is not None else []
        for name, spot in zip(SIDES, (self.a, self.b), strict=True):
            parts += [f"{name}: {shown(spot.file)} at byte {spot.position}"] if spot is not None else []
        parts += [f"explained by {self.explained_by}"] if self.is_explained else []
        return f"Difference({', '.join(parts)})"


# Rows kept of one partition; those that follow only count.
MAX_ROWS = 1000


@dataclass
class Differences:
    """The differences of one partition as they are found. Those of one reason that touch each other become one row.

    The counts are of all rows, also of those that are left out.
    """

    topic: str
    partition: int
    rows: list[Difference] = field(default_factory=list)
    left_out: int = 0
    batch_count: int = 0
    record_count: int = 0
    last_offset: int = -1

    def add(self, row: Difference, *, continues: bool = False) -> None:
        """Add a row; one that `continues` the last of its reason and side, with nothing equal between them, is joined to it."""
        self.batch_count += row.batch_count
        self.record_count += row.record_count
        self.last_offset = max(self.last_offset, row.last_offset or 0)
        last = next((number for number in range(len(self.rows) - 1, -1, -1) if _is_like(self.rows[number], row)), None)
        if continues and last is not None:
            self.rows[last] = _joined(self.rows[last], row)
        elif len(self.rows) < MAX_ROWS or row.is_explained:
            self.rows.append(row)
        else:
            self.left_out += 1

    def last_of(self, reason: str, side: str) -> Difference | None:
        return next((row for row in reversed(self.rows) if (row.reason, row.side) == (reason, side)), None)


def _is_like(row: Difference, other: Difference) -> bool:
    return (row.reason, row.side) == (other.reason, other.side)


def _joined(first: Difference, second: Difference) -> Difference:
    offsets = [each for each in (first.last_offset, second.last_offset) if each is not None]
    return replace(
        first,
        last_offset=max(offsets, default=None),
        a=first.a or second.a,
        b=first.b or second.b,
        batch_count=first.batch_count + second.batch_count,
        record_count=first.record_count + second.record_count,
        detail=first.detail or second.detail,
    )
