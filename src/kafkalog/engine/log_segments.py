"""The segments of a log, by base offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog.errors import InvalidArgument

if TYPE_CHECKING:
    from .log_segment import LogSegment


class LogSegments:
    """Segments in offset order; adding one replaces the segment with the same base offset."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._bases: list[int] = []
        self._by_base: dict[int, LogSegment] = {}
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.values)

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._by_base

    def add(self, segment: LogSegment) -> None:
        if segment.base_offset not in self._by_base:
            insort(self._bases, segment.base_offset)
        self._by_base[segment.base_offset] = segment

    def remove(self, base_offset: int) -> None:
        if self._by_base.pop(base_offset, None) is not None:
            del self._bases[bisect_left(self._bases, base_offset)]

    def clear(self) -> None:
        self._bases.clear()
        self._by_base.clear()

    def get(self, base_offset: int) -> LogSegment | None:
        return self._by_base.get(base_offset)

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def values(self) -> list[LogSegment]:
        return [self._by_base[base] for base in self._bases]

    @property
    def first(self) -> LogSegment | None:
        return self._by_base[self._bases[0]] if self._bases else None

    @property
    def last(self) -> LogSegment | None:
        return self._by_base[self._bases[-1]] if self._bases else None

    @property
    def active(self) -> LogSegment:
        """The segment that is appended to; an open log has at least this one."""
        return self._by_base[self._bases[-1]]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._by_base.values())

    def between(self, start: int, stop: int) -> list[LogSegment]:
        """From the segment that holds the offset `start` to the last one that begins before `stop`."""
        if start == stop:
            return []
        if stop < start:
            raise InvalidArgument(f"no segments between offsets {start} and {stop}: the second is lower")
        first = max(0, bisect_right(self._bases, start) - 1)
        return [self._by_base[base] for base in self._bases[first : bisect_left(self._bases, stop)]]

    def non_active_from(self, start: int) -> list[LogSegment]:
        """From the segment that holds the offset `start` to the one before the active one."""
        active = self.active.base_offset
        return [] if start > active else self.between(start, active)

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment that begins at or before `offset`."""
        number = bisect_right(self._bases, offset)
        return self._by_base[self._bases[number - 1]] if number else None

    def lower(self, offset: int) -> LogSegment | None:
        """The last segment that begins before `offset`."""
        number = bisect_left(self._bases, offset)
        return self._by_base[self._bases[number - 1]] if number else None

    def higher(self, offset: int) -> LogSegment | None:
        """The first segment that begins after `offset`."""
        number = bisect_right(self._bases, offset)
        return self._by_base[self._bases[number]] if number < len(self._bases) else None

    def all_higher(self, offset: int) -> list[LogSegment]:
        """The segments that begin after `offset`."""
        return [self._by_base[base] for base in self._bases[bisect_right(self._bases, offset) :]]

    def close(self) -> None:
        for segment in self.values:
            segment.close()

    def close_handlers(self) -> None:
        for segment in self.values:
            segment.close_handlers()
