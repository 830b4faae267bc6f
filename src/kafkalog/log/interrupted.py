"""Segments that a replacement has finished and not yet put in their place: a crash came in between.

A broker's start gives them their names. Until then they are all that is left of what they replace, once that is on its way out.
"""

from __future__ import annotations

from dataclasses import replace

from kafkalog.errors import Limits
from kafkalog.format import names

from .folders import segments_of
from .partition import Partition, StoredFile

SWAP, CLEANED = "swap", "cleaned"


def with_finished_segments(partition: Partition, limits: Limits) -> Partition:
    """The partition with what waits in `.swap` files, in the place of what they cover, as a broker's start would leave it.

    It is the same partition where nothing waits, or what is to be replaced is all there yet: that holds no less.
    """
    waiting = _waiting(partition)
    if not waiting:
        return partition
    finished = segments_of(waiting)
    if not finished or {segment.base_offset for segment in finished} & {segment.base_offset for segment in partition.segments}:
        return partition
    from .headers import end_offset  # loads Numba

    start = finished[0].base_offset
    stop = end_offset(replace(partition, segments=finished, log_start_offset=None), limits)
    others = [stored for stored in partition.files if stored not in partition.leftovers]
    kept = [stored for stored in others if stored.kind not in names.SEGMENT_KINDS or not start <= stored.base_offset < stop]
    files = (*kept, *waiting)
    leftovers = tuple(stored for stored in partition.leftovers if stored.suffix != SWAP)
    return replace(partition, segments=segments_of(files), leftovers=leftovers, files=(*files, *leftovers))


def _waiting(partition: Partition) -> list[StoredFile]:
    """The `.swap` files as what they will be; one that is not below every `.cleaned` file belongs to what a broker undoes."""
    cleaned = [stored.base_offset for stored in partition.leftovers if stored.suffix == CLEANED]
    return [
        replace(stored, suffix="")
        for stored in partition.leftovers
        if stored.suffix == SWAP and all(stored.base_offset < base_offset for base_offset in cleaned)
    ]
