"""The partitions of a stream as they are now. Listings are kept for a moment: Spark asks every few milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog.errors import Limits, NoLogs, SegmentChanged, StorageError
from kafkalog.log.partition import Partition

from .errors import STORAGE, SparkSourceError
from .options import SourceOptions, TopicPartition
from .plan import Found, check_one_place, choose_partitions, high_watermarks

if TYPE_CHECKING:
    from kafkalog.log.tail import PartitionTail

LISTING_SECONDS: Final = 1.0
OBJECT_LISTING_SECONDS: Final = 10.0
# A file may vanish between listing and opening it; one that stays away is an error.
TRIES: Final = 4
TRY_SECONDS: Final = 0.2


@dataclass(frozen=True)
class LivePartition:
    """A partition at one moment: its newest segment ends with its last whole entry, and `end_offset` is what may be read."""

    found: Found
    end_offset: int
    tail: PartitionTail

    @property
    def partition(self) -> Partition:
        return self.found.partition

    @property
    def start_offset(self) -> int:
        return self.partition.start_offset


class LiveLogs:
    """Looks at the files of a stream again and again."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.clock = clock
        self._tails: dict[tuple[str, str], PartitionTail] = {}
        self.seen: dict[TopicPartition, LivePartition] = {}
        self._seen_at: float | None = None

    def look(self, *, fresh: bool = False) -> dict[TopicPartition, LivePartition]:
        """The partitions that have a log; a listing of the last moment will do unless it must be `fresh`."""
        remote = any("://" in path for path in self.options.paths)
        keep = OBJECT_LISTING_SECONDS if remote else LISTING_SECONDS
        if fresh or self._seen_at is None or self.clock() - self._seen_at >= keep:
            self.seen = self._look()
            self._seen_at = self.clock()
        return self.seen

    def _look(self) -> dict[TopicPartition, LivePartition]:
        for left in reversed(range(TRIES)):
            try:
                chosen = self._choose()
                ends = high_watermarks(chosen) if self.options.up_to_high_watermark else {}
                return {found.key: self._live(found, ends.get(found.key)) for found in chosen if found.partition.segments}
            except (StorageError, SegmentChanged, SparkSourceError) as error:
                if not left or (isinstance(error, SparkSourceError) and error.code != STORAGE):
                    raise
            time.sleep(TRY_SECONDS)
        raise AssertionError("the last try returns or raises")

    def _choose(self) -> list[Found]:
        is_first = self._seen_at is None
        try:
            chosen = choose_partitions(self.options, topics_must_exist=is_first)
        except NoLogs:
            if is_first:
                raise
            return []
        check_one_place(chosen)
        return chosen

    def _live(self, found: Found, high_watermark: int | None) -> LivePartition:
        partition = found.partition
        tail = self._tail(found)
        tail.look(partition)
        end = tail.stable_offset if high_watermark is None else min(tail.stable_offset, high_watermark)
        newest = replace(partition.segments[-1], stop_position=tail.position)
        found = replace(found, partition=replace(partition, segments=(*partition.segments[:-1], newest)))
        return LivePartition(found, max(end, partition.start_offset), tail)

    def _tail(self, found: Found) -> PartitionTail:
        from kafkalog.log.tail import PartitionTail  # loads Numba

        place = (found.root, found.partition.file or found.partition.folder)
        if place not in self._tails:
            self._tails[place] = PartitionTail(
                Limits(),
                transactions=self.options.isolation == "read_committed",
                pass_damage=self.options.mode != "FAILFAST",
            )
        return self._tails[place]
