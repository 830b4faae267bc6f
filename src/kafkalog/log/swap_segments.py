"""Completed `.swap` segments: a crash interrupted the replacement of other segments before they got their final names.

A broker's start renames them. Until then they may be all that is left of what they replace.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kafkalog.errors import Limits
from kafkalog.format import names
from kafkalog.storage.local import LocalStore
from kafkalog.storage.lock import is_broker_running

from .folders import segments_of
from .partition import Partition, StoredFile

SWAP, CLEANED = "swap", "cleaned"
# A live broker renames a `.swap` file within milliseconds of renaming what it replaces.
SETTLED_SECONDS: Final = 2.0


class SwapWatch:
    """The `.swap` files of one partition, for a reader that lists it again and again.

    Where no broker holds the lock of the log directory, a finished segment is used at once. A live broker is about to rename it:
    a reader that used it would look for a file that is gone, and one that ignored it would skip its records. So the reader waits,
    and uses what is still there, unchanged, after `SETTLED_SECONDS`.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self._waiting: frozenset[StoredFile] = frozenset()
        self._since = 0.0

    def settled(self, partition: Partition) -> Partition | None:
        """The listed partition with its finished segments; None while some are about to be renamed: list it again."""
        whole = with_finished_segments(partition, self.limits)
        waiting = frozenset(_completed(partition)) if whole is not partition else frozenset()
        if waiting != self._waiting:
            self._waiting, self._since = waiting, self.clock()
        if not waiting or self.clock() - self._since >= SETTLED_SECONDS or _is_dead(partition):
            return whole
        return None


def _is_dead(partition: Partition) -> bool:
    """Whether certainly no broker uses the partition; unknown for an object store."""
    if not isinstance(partition.store, LocalStore):
        return False
    return is_broker_running(partition.store.parent(partition.folder)) is False


def with_finished_segments(partition: Partition, limits: Limits) -> Partition:
    """The partition with completed `.swap` segments in place of those they replace, as a broker's start would leave it.

    The same partition if there are none, or if all that they replace still exists: that holds no less.
    """
    waiting = _completed(partition)
    if not waiting:
        return partition
    finished = segments_of(waiting)
    if not finished or {segment.base_offset for segment in finished} & {segment.base_offset for segment in partition.segments}:
        return partition
    from .segments import end_offset  # loads Numba

    start = finished[0].base_offset
    stop = end_offset(replace(partition, segments=finished, log_start_offset=None), limits)
    others = [stored for stored in partition.files if stored not in partition.leftovers]
    kept = [stored for stored in others if stored.kind not in names.SEGMENT_KINDS or not start <= stored.base_offset < stop]
    files = (*kept, *waiting)
    leftovers = tuple(stored for stored in partition.leftovers if stored.suffix != SWAP)
    return replace(partition, segments=segments_of(files), leftovers=leftovers, files=(*files, *leftovers))


def _completed(partition: Partition) -> list[StoredFile]:
    """The `.swap` files under their final names, except those that a broker would undo: not below every `.cleaned` file."""
    cleaned = [stored.base_offset for stored in partition.leftovers if stored.suffix == CLEANED]
    return [
        replace(stored, suffix="")
        for stored in partition.leftovers
        if stored.suffix == SWAP and all(stored.base_offset < base_offset for base_offset in cleaned)
    ]
