"""Bytes and records by time, in spans that become longer when there are too many: any log fits into the same memory."""

from __future__ import annotations

import numpy as np

from kafkalog.tasks.profile.observer import Ints

from .result import Moment, Timeline

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
SPANS = (SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 364 * DAY)
MOST_MOMENTS = 4096


class TimeCounts:
    """Counts by span of time. Even a log with nonsense for timestamps cannot make it grow: the last spans give way."""

    def __init__(self) -> None:
        self.level = 0
        self.moments: dict[int, tuple[int, int]] = {}
        self.untimed = (0, 0)

    @property
    def span_ms(self) -> int:
        return SPANS[self.level] if self.level < len(SPANS) else SPANS[-1] << (self.level - len(SPANS) + 1)

    def add(self, timestamps: Ints, sizes: Ints, counts: Ints) -> None:
        is_timed = timestamps >= 0
        if not is_timed.all():
            rows = ~is_timed
            self.untimed = (self.untimed[0] + int(sizes[rows].sum()), self.untimed[1] + int(counts[rows].sum()))
            timestamps, sizes, counts = timestamps[is_timed], sizes[is_timed], counts[is_timed]
        if not len(timestamps):
            return
        starts, places = np.unique(timestamps // SECOND, return_inverse=True)
        sums = [np.bincount(places, values).astype(np.int64).tolist() for values in (sizes, counts)]
        for start, size, count in zip(starts.tolist(), *sums, strict=True):
            self.add_one(start * SECOND, size, count)

    def add_one(self, start_ms: int, size: int, count: int) -> None:
        key = start_ms // self.span_ms
        before = self.moments.get(key, (0, 0))
        self.moments[key] = (before[0] + size, before[1] + count)
        while len(self.moments) > MOST_MOMENTS:
            self._widen()

    def merge(self, other: TimeCounts) -> None:
        """Add what was counted elsewhere."""
        while self.level < other.level:
            self._widen()
        for key, (size, count) in other.moments.items():
            self.add_one(key * other.span_ms, size, count)
        self.untimed = (self.untimed[0] + other.untimed[0], self.untimed[1] + other.untimed[1])

    def _widen(self) -> None:
        old_span, old = self.span_ms, self.moments
        self.level += 1
        self.moments = {}
        for key, (size, count) in old.items():
            self.add_one(key * old_span, size, count)

    def result(self) -> Timeline:
        moments = tuple(Moment(key * self.span_ms, *sums) for key, sums in sorted(self.moments.items()))
        return Timeline(self.span_ms, moments, *self.untimed)
