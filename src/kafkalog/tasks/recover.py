"""What a broker does after an unclean shutdown: cut the log at the first damage, and rebuild its index files and snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.engine.partition_log import PartitionLog
from kafkalog.format import names
from kafkalog.storage.fs import Fs
from kafkalog.tables.choices import Names, Numbers

from .locking import Checkpoints
from .maintenance import ChangeRequest, MaintenanceResult, maintain
from .output import Progress
from .partitions import PathLike


@dataclass(frozen=True)
class Recovery:
    """Load logs as if the broker had crashed. Segments before the recovery point are trusted, unless `recovers_all`."""

    recovers_all: bool = False
    name: str = "recover"
    is_recovery: bool = True
    is_planned_whole: bool = True

    def settings(self) -> Mapping[str, object]:
        return {"recovers_all": self.recovers_all}

    def plan(self, log: PartitionLog, checkpoints: Checkpoints) -> dict[str, Any]:
        return {}

    def prepare(self, plan: MaintenanceResult, checkpoints: Checkpoints, fs: Fs, folder: str) -> None:
        """No checkpoint may be beyond the end of the log."""
        assert plan.after is not None
        for name in names.OFFSET_CHECKPOINTS:
            checkpoints.lower(name, plan.after.end_offset)

    def run(self, log: PartitionLog, checkpoints: Checkpoints, progress: Progress) -> dict[str, Any]:
        """Opening the log did it all."""
        progress(log.size)
        return {}

    def is_done(self, plan: MaintenanceResult) -> bool:
        return not plan.details["changed_files"]


def recover(
    path: PathLike,
    *,
    out: PathLike | None = None,
    in_place: bool = False,
    whole: bool = False,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Do to the partitions at `path` what a broker does after an unclean shutdown: below `out`, or `in_place`.

    The log is cut at the first damage, which may lose intact batches after it; `salvage` keeps these. `whole` also checks
    segments before the recovery point.
    """
    request = ChangeRequest(out, in_place, dry_run, now_ms, topics, partitions)
    return list(recover_partitions(path, request, whole=whole))


def recover_partitions(
    path: PathLike, request: ChangeRequest, config: Mapping[str, str] | None = None, *, whole: bool = False
) -> Iterator[MaintenanceResult]:
    """Recover the partitions at `path`, one after the other."""
    return maintain(path, Recovery(whole), request, config or {})
