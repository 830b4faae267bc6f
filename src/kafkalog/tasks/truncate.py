"""Truncation: deletes the end of a log, as a follower does when its leader wrote something else there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.engine.log_segment import LogSegment
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.storage.fs import Fs
from kafkalog.tables.choices import Names, Numbers

from .locking import Checkpoints, drop_segments
from .maintenance import ChangeRequest, MaintenanceResult, maintain
from .output import Progress
from .partitions import PathLike


@dataclass(frozen=True)
class Truncation:
    """Truncate logs to an offset. A batch that holds it is removed as a whole, so a log may end before it."""

    to_offset: int
    name: str = "truncate"
    is_recovery: bool = False
    recovers_all: bool = False
    is_planned_whole: bool = True

    def settings(self) -> Mapping[str, object]:
        return {"to_offset": self.to_offset}

    def plan(self, log: PartitionLog, checkpoints: Checkpoints) -> dict[str, Any]:
        after = [segment.base_offset for segment in log.segments if segment.base_offset > self.to_offset]
        held = self.to_offset if log.log_start_offset <= self.to_offset < log.log_end_offset else None
        self._truncate(log)
        is_early = held is not None and log.log_end_offset < held
        return {"segments_behind": after, **({"asked_offset": held} if is_early else {})}

    def _truncate(self, log: PartitionLog) -> None:
        """Where a batch is removed as a whole, Kafka still has the log end at the offset until it is opened again."""
        segment = log.segments.floor(self.to_offset)
        if segment is None or self.to_offset >= log.log_end_offset:
            log.truncate_to(self.to_offset)
        else:
            log.truncate_to(_end_before(segment, self.to_offset))

    def prepare(self, plan: MaintenanceResult, checkpoints: Checkpoints, fs: Fs, folder: str) -> None:
        """No checkpoint may be beyond the end of the log, and no segment may be left without those before it."""
        assert plan.before is not None
        assert plan.after is not None
        for name in names.OFFSET_CHECKPOINTS:
            checkpoints.lower(name, plan.after.end_offset)
        kept = plan.before.segments - len(plan.details["segments_behind"])
        drop_segments(fs, folder, plan.details["segments_behind"][0 if kept else 1 :])

    def run(self, log: PartitionLog, checkpoints: Checkpoints, progress: Progress) -> dict[str, Any]:
        self._truncate(log)
        return {}

    def is_done(self, plan: MaintenanceResult) -> bool:
        return plan.before == plan.after


def _end_before(segment: LogSegment, offset: int) -> int:
    """Where a segment ends without the entry that holds `offset` and what follows it.

    An index of a broker up to 1.1 may name the first offset of that entry, so it counts only if it lies before that entry.
    """
    place = segment.translate_offset(offset)
    position = segment.size if place is None else place.position
    indexed = segment.offset_index.lookup(offset)
    while indexed.position >= position and indexed.offset > segment.base_offset:
        indexed = segment.offset_index.lookup(indexed.offset - 1)
    end = segment.base_offset
    for entry in segment.log.iter_entries(min(indexed.position, position), position):
        end = entry.next_offset
    return end


def truncate(
    path: PathLike,
    to_offset: int,
    *,
    out: PathLike | None = None,
    in_place: bool = False,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Truncate the partitions at `path` to an offset, which becomes their end: below `out`, or `in_place`.

    A batch that holds the offset is removed as a whole, so a log may end before it.
    """
    request = ChangeRequest(out, in_place, dry_run, topics=topics, partitions=partitions)
    return list(truncate_partitions(path, to_offset, request))


def truncate_partitions(
    path: PathLike, to_offset: int, request: ChangeRequest, config: Mapping[str, str] | None = None
) -> Iterator[MaintenanceResult]:
    """Truncate the partitions at `path` to an offset, one after the other."""
    if to_offset < 0:
        raise UsageError(f"a log cannot end at offset {to_offset}")
    return maintain(path, Truncation(to_offset), request, config or {})
