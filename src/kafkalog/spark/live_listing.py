"""The partitions of a stream as they are now. Listings are cached briefly: Spark asks every few milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog.errors import Limits, NoLogs, SegmentChanged, StorageError
from kafkalog.log.partition import Partition
from kafkalog.log.swap_segments import SETTLED_SECONDS, SwapWatch
from kafkalog.storage.parallel import in_parallel

from .errors import FILE_CHANGED, STORAGE, SparkSourceError, coded, is_passing
from .options import SourceOptions, TopicPartition
from .read_plan import Found, check_one_place, choose_partitions, readable_ends, requests_at_once

if TYPE_CHECKING:
    from kafkalog.log.tail import PartitionTail

LISTING_SECONDS: Final = 1.0
OBJECT_LISTING_SECONDS: Final = 10.0
# A file may vanish between listing and opening it; if it stays away, that is an error.
TRIES: Final = 4
TRY_SECONDS: Final = 0.2
# A little longer than a `.swap` file may stay with a live broker before it is read.
SETTLE_TRIES: Final = round(1.5 * SETTLED_SECONDS / TRY_SECONDS)


@dataclass(frozen=True)
class LivePartition:
    """A partition at one moment: its newest segment ends with its last whole entry, and `end_offset` is where reading ends.

    `is_old` if it could not be listed again, because a broker kept replacing its files.
    """

    found: Found
    end_offset: int
    tail: PartitionTail
    is_old: bool = False

    @property
    def partition(self) -> Partition:
        return self.found.partition

    @property
    def start_offset(self) -> int:
        return self.partition.start_offset


class LiveLogs:
    """Lists the files of a stream again and again."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.clock = clock
        self._tails: dict[tuple[str, str], PartitionTail] = {}
        self._swaps: dict[tuple[str, str], SwapWatch] = {}
        self.seen: dict[TopicPartition, LivePartition] = {}
        self._seen_at: float | None = None

    def look(self, *, fresh: bool = False) -> dict[TopicPartition, LivePartition]:
        """The partitions that have a log; a recent listing is enough unless it must be `fresh`."""
        remote = any("://" in path for path in self.options.paths)
        keep = OBJECT_LISTING_SECONDS if remote else LISTING_SECONDS
        if fresh or self._seen_at is None or self.clock() - self._seen_at >= keep:
            self.seen = self._look()
            self._seen_at = self.clock()
        return self.seen

    def _look(self) -> dict[TopicPartition, LivePartition]:
        for left in reversed(range(TRIES)):
            try:
                chosen, waiting = self._choose_settled()
                ends = readable_ends(chosen, self.options)
                filled = [found for found in chosen if found.partition.segments]
                look = partial(self._live_or_seen, ends=ends, must_be_new=left > 0)
                found_now = in_parallel(look, filled, requests_at_once(filled))
                return {**{live.found.key: live for live in found_now}, **waiting}
            except (StorageError, SegmentChanged, SparkSourceError) as error:
                if not left or (isinstance(error, SparkSourceError) and error.code not in (STORAGE, FILE_CHANGED)):
                    raise
            time.sleep(TRY_SECONDS)
        raise AssertionError("the last try returns or raises")

    def _choose_settled(self) -> tuple[list[Found], dict[TopicPartition, LivePartition]]:
        """The partitions with the segments that an interrupted compaction has finished.

        Also those that a broker is changing right now, as they were before; one that is new is waited for, because its start is
        not known yet.
        """
        for left in reversed(range(SETTLE_TRIES)):
            chosen, waiting = [], {}
            for found in self._choose():
                whole = self._swaps.setdefault(_place(found), SwapWatch(Limits())).settled(found.partition)
                if whole is not None or not left:
                    chosen.append(replace(found, partition=whole or found.partition))
                elif found.key in self.seen:
                    waiting[found.key] = self.seen[found.key]
                else:
                    break
            else:
                return chosen, waiting
            time.sleep(TRY_SECONDS)
        raise AssertionError("the last try returns or raises")

    def _choose(self) -> list[Found]:
        is_first = self._seen_at is None
        try:
            chosen = choose_partitions(self.options, topics_must_exist=False)
        except NoLogs:
            if is_first:
                raise
            return []
        check_one_place(chosen)
        return chosen

    def _live_or_seen(self, found: Found, ends: Mapping[TopicPartition, int], *, must_be_new: bool) -> LivePartition:
        """The partition now, or as it was seen before if a broker keeps replacing its files: the next look may find more."""
        try:
            with coded():
                return self._live(found, ends[found.key])
        except SparkSourceError as error:
            if must_be_new or not is_passing(error) or found.key not in self.seen:
                raise
            return replace(self.seen[found.key], is_old=True)

    def _live(self, found: Found, readable_end: int) -> LivePartition:
        partition = found.partition
        tail = self._tail(found)
        tail.look(partition)
        end = min(tail.stable_offset, readable_end)
        newest = replace(partition.segments[-1], stop_position=tail.position)
        found = replace(found, partition=partition.with_newest(newest))
        return LivePartition(found, max(end, partition.start_offset), tail)

    def _tail(self, found: Found) -> PartitionTail:
        from kafkalog.log.tail import PartitionTail  # loads Numba

        place = _place(found)
        if place not in self._tails:
            self._tails[place] = PartitionTail(
                Limits(),
                transactions=self.options.isolation == "read_committed",
                pass_damage=self.options.mode != "FAILFAST",
            )
        return self._tails[place]


def _place(found: Found) -> tuple[str, str]:
    return found.root, found.partition.file or found.partition.folder
