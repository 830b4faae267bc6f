"""What a run did, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .manifest import Gap


@dataclass(frozen=True)
class PartitionSummary:
    """The offsets that a run took of a partition: from `start_offset` up to, and not with, `stop_offset`."""

    topic: str
    partition: int
    start_offset: int
    stop_offset: int
    records: int


@dataclass(frozen=True)
class IngestSummary:
    """The end of a run. `commit` is the number of what it published, None where there was nothing new.

    `log_bytes` were read, `parquet_bytes` written. `damaged_ranges` were set aside, `damaged_reasons` says why; `undecoded`
    values are kept as bytes in `value_raw`; `superseded` rows of truncated logs were moved out of the tables. `postponed`
    partitions changed so fast beside a broker that they are left to the next run; `unreadable` says which ones storage did
    not give, and why.
    """

    target: str
    commit: int | None
    records: int = 0
    log_bytes: int = 0
    parquet_bytes: int = 0
    files: int = 0
    tasks: int = 0
    partitions: tuple[PartitionSummary, ...] = ()
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    damaged_reasons: dict[str, int] = field(default_factory=dict)
    undecoded: int = 0
    superseded: int = 0
    gaps: tuple[Gap, ...] = ()
    postponed: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.log_bytes / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain values, for JSON."""
        rates = {"records_per_second": round(self.records_per_second), "bytes_per_second": round(self.bytes_per_second)}
        return {**asdict(self), "seconds": round(self.seconds, 3), **rates}
