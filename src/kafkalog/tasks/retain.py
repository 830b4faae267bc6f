"""Retention: deletes segments by time or size, or everything before an offset (Kafka's DeleteRecords)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.engine.partition_log import PartitionLog
from kafkalog.errors import OffsetOutOfRange, UsageError
from kafkalog.format import names
from kafkalog.storage.fs import Fs
from kafkalog.tables.choices import Names, Numbers

from .locking import Checkpoints
from .maintenance import ChangeRequest, MaintenanceResult, maintain
from .output import Progress
from .partitions import PathLike

UNLIMITED = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True)
class Retention:
    """Delete old segments by the log's settings. With `start_offset` the log begins there, even inside a segment."""

    start_offset: int | None = None
    name: str = "retain"
    is_recovery: bool = False
    recovers_all: bool = False
    is_planned_whole: bool = True

    def settings(self) -> Mapping[str, object]:
        return {"start_offset": self.start_offset}

    def plan(self, log: PartitionLog, checkpoints: Checkpoints) -> dict[str, Any]:
        return self.run(log, checkpoints, lambda size: None)

    def prepare(self, plan: MaintenanceResult, checkpoints: Checkpoints, fs: Fs, folder: str) -> None:
        """The log start offset is durable before a segment is deleted: whatever is left before it no longer counts."""
        assert plan.before is not None
        assert plan.after is not None
        if plan.after.start_offset > plan.before.start_offset:
            checkpoints.raise_to(names.REPLICATION_CHECKPOINT, plan.after.start_offset)
            checkpoints.set(names.LOG_START_CHECKPOINT, plan.after.start_offset)

    def run(self, log: PartitionLog, checkpoints: Checkpoints, progress: Progress) -> dict[str, Any]:
        if self.start_offset is not None:
            if self.start_offset > log.log_end_offset:
                end = log.log_end_offset
                raise OffsetOutOfRange(f"{log.folder}: cannot begin at offset {self.start_offset}, the log ends at {end}")
            log.delete_records(self.start_offset)
        return {"deleted_segments": log.delete_old_segments()}

    def is_done(self, plan: MaintenanceResult) -> bool:
        return plan.before == plan.after


def retain(
    path: PathLike,
    *,
    out: PathLike | None = None,
    in_place: bool = False,
    start_offset: int | None = None,
    config: Mapping[str, str] | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Delete what `retention.ms` and `retention.bytes` in `config` do not keep, and everything before `start_offset`.

    In the partitions at `path`: below `out`, or `in_place`. UsageError without any of the three: no default deletes records.
    """
    request = ChangeRequest(out, in_place, dry_run, now_ms, topics, partitions)
    return list(retain_partitions(path, request, config, start_offset=start_offset))


def retain_partitions(
    path: PathLike, request: ChangeRequest, config: Mapping[str, str] | None = None, *, start_offset: int | None = None
) -> Iterator[MaintenanceResult]:
    """Apply retention to the partitions at `path`, one after the other; UsageError if neither a limit nor an offset is given."""
    config = config or {}
    if start_offset is None and not UNLIMITED.keys() & config.keys():
        raise UsageError("say what to delete: --config retention.ms=…, --config retention.bytes=…, or --start-offset N")
    return maintain(path, Retention(start_offset), request, {**UNLIMITED, **config})
