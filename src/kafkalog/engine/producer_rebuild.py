"""Bring what is known of the producers to an offset: from the newest snapshot before it, and the entries in between."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalog.format.java import MAX_INT32

from .config import LogConfig
from .log_segment import LogSegment
from .log_segments import LogSegments
from .producers import ProducerStates
from .schedule import Clock, Schedule
from .storage_guard import StorageGuard

MAX_READ: Final = MAX_INT32


def rebuild_producers(
    producers: ProducerStates,
    segments: LogSegments,
    log_start_offset: int,
    last_offset: int,
    clock: Clock,
    *,
    after_clean_shutdown: bool = False,
) -> None:
    """Let `producers` know the log up to `last_offset`, and take snapshots at the last two segments and at the end."""
    snapshot_offsets = [last_offset]
    if segments.last is not None:
        lower = segments.lower(segments.last.base_offset)
        bases = [segments.last.base_offset] if lower is None else [lower.base_offset, segments.last.base_offset]
        snapshot_offsets = [*bases, last_offset]
    if producers.latest_snapshot_offset is None and after_clean_shutdown:
        # A log from a time before snapshots: it has no producers to know.
        for offset in snapshot_offsets:
            producers.map_end_offset = offset
            producers.take_snapshot()
        return
    knew_all = producers.is_empty and producers.map_end_offset >= last_offset
    producers.truncate_and_reload(log_start_offset, last_offset, clock.now_ms())
    if last_offset > producers.map_end_offset and not knew_all:
        last_segment = segments.floor(last_offset)
        for segment in segments.between(producers.map_end_offset, last_offset):
            start_offset = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start_offset
            if segment.base_offset in snapshot_offsets:
                producers.take_snapshot()
            _replay(producers, segment, start_offset, last_offset if segment is last_segment else None)
    producers.map_end_offset = last_offset
    producers.take_snapshot()


def _replay(producers: ProducerStates, segment: LogSegment, start_offset: int, last_offset: int | None) -> None:
    """Let the producers know the entries from `start_offset` up to `last_offset`, or the end of the segment."""
    stop = segment.size
    if last_offset is not None:
        place = segment.translate_offset(last_offset)
        stop = segment.size if place is None else place.position
    found = segment.read(start_offset, MAX_READ, stop)
    if found is not None and found.records is not None:
        producers.load_from_entries(found.records.iter_entries(found.position, found.position + found.size))


def delete_snapshots(
    producers: ProducerStates, segments: Iterable[LogSegment], schedule: Schedule, config: LogConfig, guard: StorageGuard
) -> None:
    """Put the snapshots of these segments away, to be removed after file.delete.delay.ms."""
    marked = [producers.remove_and_mark_snapshot_for_deletion(segment.base_offset) for segment in segments]

    def delete() -> None:
        with guard.doing("deleting producer snapshots"):
            for snapshot in marked:
                if snapshot is not None:
                    snapshot.delete_if_exists()

    schedule.submit("delete-producer-snapshot", delete, config.file_delete_delay_ms)
