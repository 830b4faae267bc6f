"""Cut off the end of a log, as a follower does when its leader wrote something else there, or everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.errors import InvalidArgument

if TYPE_CHECKING:
    from .partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """Let the log end at `offset`: the entry that holds it goes as a whole. Whether there was something to cut off."""
    with log.guard.doing("truncating the log"):
        if offset < 0:
            raise InvalidArgument(f"{log.folder}: cannot cut the log at offset {offset}")
        if offset >= log.log_end_offset:
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            return False
        log.local_log.check_open()
        first = log.segments.first
        assert first is not None
        if first.base_offset > offset:
            truncate_fully(log, offset)
            return True
        log.delete_snapshots(log.local_log.truncate_to(offset))
        log.leader_epochs.truncate_from_end(offset)
        log.watermarks.log_start_offset = min(offset, log.log_start_offset)
        log.rebuild_producers(offset)
        if log.high_watermark >= log.log_end_offset:
            log.watermarks.update_high_watermark(log.local_log.log_end)
        log.on_truncated()
        return True


def truncate_fully(log: PartitionLog, offset: int, log_start_offset: int | None = None) -> None:
    """Delete everything, and begin anew at `offset`."""
    with log.guard.doing("truncating the log"):
        log.local_log.truncate_fully(offset)
        log.leader_epochs.clear_and_flush()
        log.producers.truncate_fully_and_start_at(offset)
        log.watermarks.log_start_offset = offset if log_start_offset is None else log_start_offset
        log.rebuild_producers(offset)
        log.watermarks.update_high_watermark(log.local_log.log_end)
        log.on_truncated()
