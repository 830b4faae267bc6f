"""Compaction by Kafka's rules: the last record of each key stays, tombstones and markers until they expire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kafkalog.engine.cleaner import Cleaner, LogToClean, OffsetMap
from kafkalog.engine.cleaner.cleaning import CleanResult
from kafkalog.engine.cleaner.offset_map import DEFAULT_BYTES
from kafkalog.engine.cleaner.selection import find_cleanable_offsets, log_to_clean
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.errors import InvalidState, UsageError
from kafkalog.format import names
from kafkalog.storage.fs import Fs
from kafkalog.tables.choices import Names, Numbers

from .locking import Checkpoints
from .maintenance import ChangeRequest, MaintenanceResult, maintain
from .output import Progress
from .partitions import PathLike


@dataclass(frozen=True)
class Compaction:
    """Clean all that a broker's cleaner might: closed segments from the cleaner's checkpoint on, up to the last stable offset.

    `whole` begins at the start of the log; `roll` closes the newest segment first, so that its records are cleaned too. With a
    map of `map_bytes`, in as many passes as needed.
    """

    whole: bool = False
    roll: bool = False
    map_bytes: int = DEFAULT_BYTES
    name: str = "compact"
    is_recovery: bool = False
    recovers_all: bool = False
    is_planned_whole: bool = False

    def settings(self) -> Mapping[str, object]:
        return {"whole": self.whole, "roll": self.roll, "map_bytes": self.map_bytes}

    def plan(self, log: PartitionLog, checkpoints: Checkpoints) -> dict[str, Any]:
        found = self._find(log, checkpoints)
        return {
            "first_dirty_offset": found.first_dirty_offset,
            "first_uncleanable_offset": found.first_uncleanable_offset,
            "clean_bytes": found.clean_bytes,
            "dirty_bytes": found.cleanable_bytes,
        }

    def _find(self, log: PartitionLog, checkpoints: Checkpoints) -> LogToClean:
        if self.roll and log.active_segment.size:
            log.roll()
            log.update_high_watermark(log.log_end_offset)
        checkpoint = None if self.whole else checkpoints.offset(names.CLEANER_CHECKPOINT)
        return log_to_clean(log, find_cleanable_offsets(log, checkpoint, log.clock.now_ms()))

    def prepare(self, plan: MaintenanceResult, checkpoints: Checkpoints, fs: Fs, folder: str) -> None:
        """Nothing: segments are replaced by names that a broker completes or undoes."""

    def run(self, log: PartitionLog, checkpoints: Checkpoints, progress: Progress) -> dict[str, Any]:
        cleaner = Cleaner(OffsetMap(self.map_bytes))
        first = found = self._find(log, checkpoints)
        passes: list[dict[str, Any]] = []
        while found.cleanable_bytes:
            cleaned = _clean(cleaner, found)
            log.run_due_tasks()
            passes.append(asdict(cleaned.stats))
            progress(cleaned.stats.bytes_read)
            checkpoints.set(names.CLEANER_CHECKPOINT, cleaned.end_offset)
            found = log_to_clean(log, find_cleanable_offsets(log, cleaned.end_offset, log.clock.now_ms()))
        return {
            "first_dirty_offset": first.first_dirty_offset,
            "first_uncleanable_offset": first.first_uncleanable_offset,
            "passes": len(passes),
            "records_read": sum(each["messages_read"] for each in passes),
            "records_kept": sum(each["messages_written"] for each in passes),
        }

    def is_done(self, plan: MaintenanceResult) -> bool:
        return not plan.details["dirty_bytes"]


def _clean(cleaner: Cleaner, found: LogToClean) -> CleanResult:
    try:
        return cleaner.clean(found, found.log.clock.now_ms())
    except InvalidState as refusal:
        raise InvalidState(f"{found.log.topic}-{found.log.partition}: {refusal}") from refusal


def compact(
    path: PathLike,
    *,
    out: PathLike | None = None,
    in_place: bool = False,
    whole: bool = False,
    roll: bool = False,
    config: Mapping[str, str] | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Compact the partitions at `path` as Kafka's cleaner would: below `out`, or `in_place`.

    `whole` begins at the start of the log, not at the cleaner's checkpoint; `roll` closes the newest segment first, so that its
    records are cleaned too. `config` has Kafka's topic settings by their names.
    """
    request = ChangeRequest(out, in_place, dry_run, now_ms, topics, partitions)
    return list(compact_partitions(path, request, config, whole=whole, roll=roll))


def compact_partitions(
    path: PathLike,
    request: ChangeRequest,
    config: Mapping[str, str] | None = None,
    *,
    whole: bool = False,
    roll: bool = False,
    map_bytes: int = DEFAULT_BYTES,
) -> Iterator[MaintenanceResult]:
    """Compact the partitions at `path`, one after the other, whatever the policy of their topic is."""
    settings = {"cleanup.policy": "compact", **(config or {})}
    if "compact" not in settings["cleanup.policy"]:
        raise UsageError(f"cleanup.policy={settings['cleanup.policy']}: a log with this policy is not compacted")
    return maintain(path, Compaction(whole, roll, map_bytes), request, settings)
