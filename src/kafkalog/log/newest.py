"""Which copy of a partition is the newest: the one rule for reads, salvage and clusters.

The one whose last intact entry has the highest leader epoch, then the highest offset: the copy that a broker of the cluster would
follow. The last line of a leader-epoch-checkpoint does not count: a leader that wrote nothing leaves an epoch there. An entry
after damage counts like any other, with or without an index: a copy does not become older by a hole, or by a lost index.
"""

from __future__ import annotations

from kafkalog.errors import KafkaLogError, Limits
from kafkalog.format.batch import NO_LEADER_EPOCH
from kafkalog.format.names import MAX_OFFSET

from .partition import Partition, Segment
from .report import ReadReport
from .swap_segments import with_finished_segments

Rank = tuple[int, int, int]
UNREADABLE: Rank = (NO_LEADER_EPOCH - 1, -1, 0)


def rank(partition: Partition, limits: Limits) -> Rank:
    """Leader epoch and offset of the last intact entry, and how early the copy begins; higher is better."""
    try:
        last = last_intact(with_finished_segments(partition, limits), limits)
    except KafkaLogError:
        return UNREADABLE
    if last is None:
        return UNREADABLE if partition.problems else (NO_LEADER_EPOCH, partition.start_offset - 1, -partition.start_offset)
    return *last, -partition.start_offset


def last_intact(partition: Partition, limits: Limits) -> tuple[int, int] | None:
    """Leader epoch and offset of the last intact entry; None if there is none."""
    for segment in reversed(partition.segments):
        found = _at_the_end(partition, segment, limits) or _after_damage(partition, segment, limits)
        if found is not None:
            return found
    return None


def _at_the_end(partition: Partition, segment: Segment, limits: Limits) -> tuple[int, int] | None:
    """The last entry, if entries can be followed to the end of the segment from where the index says."""
    from .lineage import last_entry_in  # loads Numba

    last, is_followed = last_entry_in(partition, segment, MAX_OFFSET, limits)
    return (last.leader_epoch, last.last_offset) if last is not None and is_followed else None


def _after_damage(partition: Partition, segment: Segment, limits: Limits) -> tuple[int, int] | None:
    from .verified_runs import VerifiedSegment  # loads Numba

    last = None
    for run in VerifiedSegment(partition, segment, limits, ReadReport(), unverified=False).runs():
        last = int(run.entries.leader_epoch[-1]), int(run.entries.last_offset[-1])
    return last
