"""Compare pairs of partitions: both copies are read once, side by side, and their checksums verified on a few threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import KafkaLogError, SegmentError
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.names import MAX_OFFSET
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.reading import ReadOptions, explain_end, ordered
from kafkalog.segment.decode import crc_matches
from kafkalog.segment.windows import SegmentWalk, Window, WindowBuffers

from .copies import CopyEntries
from .pair import PairComparison

# How many windows of one copy are read before one of the other, however far that seems to have come: an offset may be wrong.
LONGEST_LEAD = 64


@dataclass
class _Scanned:
    """A window of one copy, or the beginning or end of one of its segments, or the end of the copy."""

    pair: PairComparison
    copy: CopyEntries
    number: int = -1  # of the segment that begins
    window: Window | None = None
    problem: KafkaLogError | None = None
    ends_segment: bool = False
    ends: bool = False


@dataclass
class _Checked:
    """The entries of a window, and which of their checksums match; None if all do."""

    entries: EntryTable
    valid: NDArray[np.bool_] | None


@dataclass(frozen=True)
class Pair:
    """Two copies of a partition; `is_compacted` if that is known of the topic."""

    a: Partition
    b: Partition
    is_compacted: bool = False


def compare_pairs(pairs: Sequence[Pair], options: ReadOptions) -> Iterator[tuple[PairComparison, bool]]:
    """Each pair after each window, and once more (True) when it is done."""
    run = _Run(pairs, options)
    for scanned, checked in ordered(run.check, run.scan(), options.thread_count):
        run.take(scanned, checked)
        yield scanned.pair, False
        if all(copy.has_ended for copy in scanned.pair.copies):
            scanned.pair.finish()
            yield scanned.pair, True


class _Run:
    def __init__(self, pairs: Sequence[Pair], options: ReadOptions) -> None:
        self.pairs = pairs
        self.options = options
        self.buffers = WindowBuffers()

    def check(self, scanned: _Scanned) -> _Checked | None:
        """Verify the checksums of a window, on any thread, and let its bytes go."""
        window = scanned.window
        if window is None:
            return None
        valid = crc_matches(window, np.arange(window.count))
        checked = _Checked(window.entries.copy(), None if valid.all() else valid)
        assert window.facts is not None  # computed here, on this thread
        self.buffers.give_back(window)
        return checked

    def take(self, scanned: _Scanned, checked: _Checked | None) -> None:
        """Give the copy what was read of it, in log order, and compare as far as possible."""
        copy = scanned.copy
        if scanned.window is not None and checked is not None:
            copy.add(scanned.window, checked.entries, checked.valid)
            scanned.pair.advance()
        elif scanned.number >= 0:
            copy.begin(scanned.number)
        elif isinstance(scanned.problem, SegmentError) and scanned.problem.reason != "changed":
            copy.stop_at(scanned.problem)
        elif scanned.problem is not None:
            copy.fail(scanned.problem)
        elif scanned.ends_segment:
            copy.end_segment()
        elif scanned.ends:
            copy.end()

    # -- scanning, in the turn of a worker thread ----------------------------------------------------------------------------

    def scan(self) -> Iterator[_Scanned]:
        for pair in self.pairs:
            yield from self._scan_pair(PairComparison(pair.a, pair.b, self.options, compacted=pair.is_compacted))

    def _scan_pair(self, pair: PairComparison) -> Iterator[_Scanned]:
        """Windows of the two copies in turn: of the one that has not come as far."""
        walks = [_CopyWalk(pair, copy, self.options, self.buffers) for copy in pair.copies]
        lead = [0, 0]
        while walks[0].is_open or walks[1].is_open:
            slower = 0 if walks[0].reached <= walks[1].reached else 1
            if lead[slower] >= LONGEST_LEAD and walks[1 - slower].is_open:
                slower = 1 - slower
            lead[slower], lead[1 - slower] = lead[slower] + 1, 0
            yield walks[slower].step()


class _CopyWalk:
    """Reads one copy window by window."""

    def __init__(self, pair: PairComparison, copy: CopyEntries, options: ReadOptions, buffers: WindowBuffers) -> None:
        self.pair = pair
        self.copy = copy
        self.options = options
        self.buffers = buffers
        self.reached = -1
        self.is_open = True
        self._steps = self._walk()

    def step(self) -> _Scanned:
        scanned = next(self._steps)
        if scanned.ends:
            self.is_open = False
            self.reached = MAX_OFFSET + 1
        return scanned

    def _walk(self) -> Iterator[_Scanned]:
        for number, segment in enumerate(self.copy.partition.segments):
            yield _Scanned(self.pair, self.copy, number)
            yield from self._walk_segment(segment)
            yield _Scanned(self.pair, self.copy, ends_segment=True)
            if segment.next_base_offset is not None:
                self.reached = segment.next_base_offset - 1
        yield _Scanned(self.pair, self.copy, ends=True)

    def _walk_segment(self, segment: Segment) -> Iterator[_Scanned]:
        try:
            with self.copy.partition.open_log(segment) as source:
                walk = SegmentWalk(source, 0, min(segment.stop_in(source), segment.log.size), self.options.limits)
                for window in walk.windows(self.buffers):
                    # The middle one of its entries: a single wrong offset does not mislead.
                    reached = int(window.table.last_offset[window.count // 2])
                    after = segment.next_base_offset
                    self.reached = reached if after is None else min(reached, after - 1)
                    yield _Scanned(self.pair, self.copy, window=window)
                if walk.problem is not None:
                    problem = explain_end(segment, source, walk.problem, self.options.limits)
                    yield _Scanned(self.pair, self.copy, problem=problem)
        except KafkaLogError as error:
            yield _Scanned(self.pair, self.copy, problem=error)
