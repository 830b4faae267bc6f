"""Walk a damaged segment and keep every intact entry: after each damage, find where the next entry begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, Limits, SegmentError, TornTail
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels.resync import FoundEntry, ResyncBounds, Resynchronizer, find_next_entry
from kafkalog.storage.store import ByteSource

from .decode import crc_error, crc_matches
from .windows import SegmentWalk, Window, WindowBuffers


class Placement(Protocol):
    """Where entries may be, as the layer above knows it from adjacent entries."""

    def misplaced(self, table: EntryTable, file: str) -> list[tuple[int, SegmentError]]:
        """Rows that cannot be where they are; the others count as seen from now on."""
        ...

    def bounds(self) -> ResyncBounds:
        """Bounds for an entry after the last one seen."""
        ...


@dataclass
class SalvagedWindow:
    """Intact entries of a window (rows of its table), and the damage up to its end."""

    window: Window | None
    entries: NDArray[np.int64]
    problems: list[SegmentError]


class SalvageWalk:
    """The intact entries of `source[start:stop]`; every other byte of it is in a problem."""

    def __init__(self, source: ByteSource, start: int, stop: int, limits: Limits, placement: Placement) -> None:
        self.source = source
        self.position = start
        self.stop = stop
        self.limits = limits
        self.placement = placement

    @cached_property
    def resynchronizer(self) -> Resynchronizer:
        """Created at the first damage: it takes some memory, and most segments have none."""
        return Resynchronizer(self.source.read_into, self.stop)

    def windows(self, buffers: WindowBuffers) -> Iterator[SalvagedWindow]:
        while self.position < self.stop:
            walk = SegmentWalk(self.source, self.position, self.stop, self.limits)
            restarted = False
            for window in walk.windows(buffers):
                salvaged, lost_at = self._sift(window)
                if lost_at is not None:
                    salvaged.problems.append(self._resume_after(*lost_at))
                    restarted = True
                yield salvaged
                if restarted:
                    break
            if restarted:
                continue
            self.position = walk.position
            if walk.problem is None:
                return
            yield SalvagedWindow(None, np.empty(0, np.int64), [self._resume_after(walk.problem, self.placement.bounds())])

    def _sift(self, window: Window) -> tuple[SalvagedWindow, tuple[SegmentError, ResyncBounds] | None]:
        """The intact entries up to the first damage with an untrusted length, and that damage with bounds for what follows."""
        matches = crc_matches(window, np.arange(window.count))
        problems: list[SegmentError] = []
        lost: SegmentError | None = None
        hidden: ResyncBounds | None = None
        stop = window.count
        for row in np.flatnonzero(~matches).tolist():
            error = crc_error(window, row)
            trusted = self._next_is_intact(window, matches, row)
            hidden = self._hidden_entries(window, row) if trusted else None
            if not trusted or hidden is not None:
                lost, stop = error, row
                break
            problems.append(error)
        rows = np.flatnonzero(matches[:stop])
        misplaced = dict(self.placement.misplaced(window.entries[rows], window.file))
        problems.extend(misplaced.values())
        kept = np.array([row for number, row in enumerate(rows.tolist()) if number not in misplaced], np.int64)
        salvaged = SalvagedWindow(window, kept, problems)
        return salvaged, (lost, hidden or self.placement.bounds()) if lost is not None else None

    def _next_is_intact(self, window: Window, matches: NDArray[np.bool_], row: int) -> bool:
        if row + 1 < window.count:
            return bool(matches[row + 1])
        after = window.entries.header(row).stop
        if after == self.stop:
            return True
        found = self.resynchronizer.find(after, self.placement.bounds())
        return found is not None and found.position == after

    def _hidden_entries(self, window: Window, row: int) -> ResyncBounds | None:
        """Bounds of intact entries inside a damaged one, whose wrong length ends at a later boundary; None if there are none.

        Only offsets that are missing between the two count: an entry stored inside a value remains a value.
        """
        stop, following = self._boundary_after(window, row)
        last = int(window.entries.last_offset[row])
        if last + 1 >= following:
            return None
        bounds = replace(
            self.placement.bounds(),
            minimum_offset=max(last, self.placement.bounds().minimum_offset),
            maximum_offset=following - 1,
        )
        found = find_next_entry(self.source.read_into, int(window.entries.position[row]) + 1, stop, bounds)
        if found is None or (stop == self.stop and not self._chains_to_the_end(found, bounds)):
            return None
        return bounds

    def _boundary_after(self, window: Window, row: int) -> tuple[int, int]:
        """The position where the entry after this one begins, by its length, and the first offset there."""
        if row + 1 < window.count:
            following = window.entries.header(row + 1)
            return following.position, following.base_offset
        after = window.entries.header(row).stop
        found = self.resynchronizer.find(after, self.placement.bounds()) if after < self.stop else None
        return after, found.base_offset if found is not None else self.placement.bounds().maximum_offset + 1

    def _chains_to_the_end(self, found: FoundEntry, bounds: ResyncBounds) -> bool:
        """Whether the found entry and those after it end where the file does: without a later entry, only that proves it."""
        while found.stop < self.stop:
            following = find_next_entry(self.source.read_into, found.stop, self.stop, bounds)
            if following is None or following.position != found.stop:
                return False
            found = following
        return True

    def _resume_after(self, error: SegmentError, bounds: ResyncBounds) -> SegmentError:
        """Continue at the next intact entry; returns the error with the length of what is left out."""
        if error.reason == "zero-tail":  # already checked to the end, without reading its holes
            self.position = self.stop
            return error
        found = self.resynchronizer.find(error.position + 1, bounds)
        self.position = found.position if found is not None else self.stop
        length = self.position - error.position
        if found is not None and isinstance(error, TornTail):
            return CorruptBatch(
                "length", file=error.file, position=error.position, length=length, expected=error.expected, found=error.found
            )
        error.length = length
        return error
