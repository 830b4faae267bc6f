"""Delete old segments of a log: those before the log start offset, beyond retention.bytes, or older than retention.ms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .log_segment import LogSegment

if TYPE_CHECKING:
    from .partition_log import PartitionLog

Condition = Callable[[LogSegment, LogSegment | None], bool]


def delete_old_segments(log: PartitionLog) -> int:
    """Delete what the settings no longer retain; how many segments were deleted."""
    deleted = _delete_while(log, _is_before(log.log_start_offset))
    if log.config.delete:
        deleted += _delete_beyond_size(log)
        deleted += _delete_beyond_time(log)
    return deleted


def _is_before(log_start_offset: int) -> Condition:
    return lambda _, following: following is not None and following.base_offset <= log_start_offset


def _delete_beyond_size(log: PartitionLog) -> int:
    retention_bytes = log.config.retention_bytes
    excess = log.size - retention_bytes
    if retention_bytes < 0 or excess < 0:
        return 0

    def exceeds(segment: LogSegment, _: LogSegment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _delete_while(log, exceeds)


def _delete_beyond_time(log: PartitionLog) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    now_ms = log.clock.now_ms()
    return _delete_while(log, lambda segment, _: now_ms - segment.largest_timestamp > retention_ms)


def _delete_while(log: PartitionLog, condition: Condition) -> int:
    """Delete segments from the start as long as the condition holds and all replicas have them."""
    deletable: list[LogSegment] = []
    segments = log.segments.values
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        stop = log.log_end_offset if following is None else following.base_offset
        is_empty_active = following is None and segment.size == 0
        if log.high_watermark < stop or not condition(segment, following) or is_empty_active:
            break
        deletable.append(segment)
    return _delete(log, deletable) if deletable else 0


def _delete(log: PartitionLog, deletable: list[LogSegment]) -> int:
    with log.guard.doing("deleting segments"):
        count = len(deletable)
        needs_active = len(log.segments) == count
        if needs_active and log.roll().base_offset == deletable[-1].base_offset:  # the roll replaced an empty one
            deletable.pop()
        log.local_log.check_open()
        if deletable:
            following = log.segments.higher(deletable[-1].base_offset)
            assert following is not None
            log.watermarks.increment_log_start_offset(following.base_offset)
            log.files.remove(deletable)
        log.delete_snapshots(deletable)
        return count
