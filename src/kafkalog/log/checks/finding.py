"""What a check found: a fault with its reason code, place and severity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkalog.errors import REASONS, KafkaLogError, SegmentError
from kafkalog.log.partition import Partition, shown


@dataclass(frozen=True)
class Finding:
    """One fault. Fields that are unknown or do not apply are None."""

    reason: str
    severity: str
    file: str
    topic: str | None = None
    partition: int | None = None
    position: int | None = None
    length: int | None = None
    base_offset: int | None = None
    last_offset: int | None = None
    expected: str | None = None
    found: str | None = None
    detail: str = ""

    def __repr__(self) -> str:
        parts = [self.reason, self.severity, shown(self.file)]
        parts += [f"at byte {self.position}"] if self.position is not None else []
        parts += [f"offsets {self.base_offset} to {self.last_offset}"] if self.base_offset is not None else []
        for name, value in (("expected", self.expected), ("found", self.found)):
            parts += [f"{name} {shown(value)}"] if value is not None else []
        return f"Finding({', '.join(parts)})"

    @property
    def about(self) -> str:
        """What the reason code means."""
        return REASONS[self.reason].about

    @property
    def advice(self) -> str:
        """What to do next."""
        return REASONS[self.reason].advice


class Place(NamedTuple):
    """A place in a file; -1 where unknown or not applicable."""

    position: int = -1
    length: int = -1
    base_offset: int = -1
    last_offset: int = -1


NOWHERE = Place()


# For each partition and the root of a log directory: what is wrong everywhere need not be reported for every entry.
MAX_OF_A_KIND = 1000


def first_of_kind(found: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of one kind, up to MAX_OF_A_KIND; the last of them says that there are more."""
    for number, finding in enumerate(found, 1):
        yield finding if number < MAX_OF_A_KIND else with_more(finding)
        if number == MAX_OF_A_KIND:
            return


def with_more(finding: Finding) -> Finding:
    more = "more of this kind are left out"
    return finding if more in finding.detail else replace(finding, detail="; ".join(filter(None, (finding.detail, more))))


def make_finding(
    reason: str,
    file: str,
    partition: Partition | None = None,
    place: Place = NOWHERE,
    *,
    severity: str | None = None,
    expected: object = None,
    found: object = None,
    detail: str = "",
) -> Finding:
    """A finding of the reason's own severity, unless another is given."""
    position, length, base_offset, last_offset = (number if number >= 0 else None for number in place)
    return Finding(
        reason,
        severity or REASONS[reason].severity,
        file,
        topic=None if partition is None else partition.topic,
        partition=None if partition is None else partition.partition,
        position=position,
        length=length,
        base_offset=base_offset,
        last_offset=last_offset,
        expected=None if expected is None else str(expected),
        found=None if found is None else str(found),
        detail=detail,
    )


def finding_of(error: KafkaLogError, file: str, partition: Partition | None = None, *, severity: str | None = None) -> Finding:
    """The finding for an error in reading `file`."""
    if not isinstance(error, SegmentError):
        return make_finding("unreadable", file, partition, severity=severity, detail=str(error))
    return make_finding(
        error.reason,
        error.file or file,
        partition,
        Place(error.position, error.length, error.base_offset, error.last_offset),
        severity=severity,
        expected=error.expected,
        found=error.found,
        detail=error.detail,
    )
