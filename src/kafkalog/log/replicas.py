"""The intact entries of a damaged partition in the order of their offsets, with holes filled from other replicas of it.

The replica with the newest leader epoch, and the most offsets in it, is followed; others are used only for offsets that it lost
to damage. A gap without damage is what compaction leaves: filling it would bring deleted records back, so only `fill_gaps` does.
Batches of another replica count only if their leader epoch lies between those of the entries around the hole: a replica that
once diverged holds batches that were never part of this log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kafkalog.errors import CorruptBatch, Limits
from kafkalog.format.entry_table import EntryHeader
from kafkalog.format.java import MAX_INT32

from .entry_order import OutOfPlace, order_error
from .newest import rank
from .partition import Partition, Segment
from .report import ReadReport
from .verified_runs import Run, VerifiedSegment

MAX_EPOCH = MAX_INT32


@dataclass(frozen=True)
class Kept:
    """A run of entries of one file of one replica; `filled`: of a replica other than the first."""

    partition: Partition
    run: Run
    filled: bool = False

    @property
    def first_offset(self) -> int:
        return int(self.run.bases[0])

    @property
    def last_offset(self) -> int:
        return int(self.run.entries.last_offset[-1])


@dataclass(frozen=True)
class Lost:
    """The range of offsets that no replica has any more; `last_offset` is None if it is unknown how far the log went."""

    first_offset: int
    last_offset: int | None


Piece = Kept | Lost


@dataclass(frozen=True)
class MergeOptions:
    """Whether to fill gaps without visible damage, and to keep entries that may be bytes inside a value."""

    fill_gaps: bool = False
    unverified: bool = False
    limits: Limits = field(default_factory=Limits)


def newest_first(replicas: Sequence[Partition], limits: Limits) -> list[Partition]:
    """The replicas in order of trust, equal ones in the given order."""
    if len(replicas) == 1:
        return list(replicas)
    return sorted(replicas, key=lambda replica: rank(replica, limits), reverse=True)


class SalvagedLog:
    """What can be saved of one partition. `report` lists what the first replica lost, byte range by byte range."""

    def __init__(self, replicas: Sequence[Partition], options: MergeOptions, report: ReadReport) -> None:
        self.primary, *self.others = replicas
        self.options = options
        self.report = report
        self.last_offset = -1
        self.epoch = -1

    def pieces(self, segment: Segment) -> Iterator[Piece]:
        """What goes into this segment of the first replica; call it for one segment after the other."""
        self.last_offset = max(self.last_offset, segment.base_offset - 1)
        stop = segment.start_position
        dropped = len(self.report.dropped)
        for found in self._verified(self.primary, segment, self.report):
            for run in self._in_order(found):
                if self.options.fill_gaps or run.start != stop:
                    epoch = int(run.entries.leader_epoch[0])
                    yield from self._fill(int(run.bases[0]) - 1, epoch if epoch >= 0 else MAX_EPOCH, self.others)
                yield self._accepted(Kept(self.primary, run))
                stop = run.stop
        yield from self._end_of(segment, stop, damaged=len(self.report.dropped) > dropped)

    def _verified(self, partition: Partition, segment: Segment, report: ReadReport) -> Iterator[Run]:
        return VerifiedSegment(partition, segment, self.options.limits, report, unverified=self.options.unverified).runs()

    def _end_of(self, segment: Segment, stop: int, *, damaged: bool) -> Iterator[Piece]:
        if segment.next_base_offset is not None and (stop < segment.log.size or self.options.fill_gaps):
            yield from self._fill(segment.next_base_offset - 1, MAX_EPOCH, self.others)
        elif segment.next_base_offset is None and damaged and stop < segment.log.size:
            yield Lost(self.last_offset + 1, None)

    def _in_order(self, run: Run) -> Iterator[Run]:
        """The parts of a run whose offsets rise and whose epochs do not fall: a broker accepts no other log."""
        lasts, epochs = run.entries.last_offset, run.entries.leader_epoch
        before = np.maximum.accumulate(np.concatenate(([self.last_offset], lasts)))[:-1]
        epochs_before = np.maximum.accumulate(np.concatenate(([self.epoch], epochs)))[:-1]
        wrong_offset = (run.bases <= before) | (lasts < run.bases)
        wrong = wrong_offset | ((epochs >= 0) & (epochs < epochs_before))
        for row in np.flatnonzero(wrong).tolist():
            if wrong_offset[row]:
                problem = OutOfPlace(row, "offset-order", f"above {before[row]}", int(run.bases[row]))
            else:
                problem = OutOfPlace(row, "epoch", f"at least {epochs_before[row]}", int(epochs[row]))
            self._drop(order_error(run.file, run.entries, problem))
        cuts = wrong[1:] | wrong[:-1]
        if self.options.fill_gaps:
            cuts |= run.bases[1:] != lasts[:-1] + 1
        parts = run.cut_at(cuts) if cuts.any() else iter((run,))
        yield from (part for part in parts if not wrong[np.searchsorted(run.entries.position, part.start)])

    def _drop(self, error: CorruptBatch) -> None:
        self.report.drop(error)
        self.report.kept_batches -= 1
        self.report.kept_bytes -= error.length

    def _accepted(self, piece: Kept) -> Kept:
        self.last_offset = piece.last_offset
        self.epoch = max(self.epoch, int(piece.run.entries.leader_epoch.max()))
        return piece

    def _fill(self, last: int, epoch: int, others: Sequence[Partition]) -> Iterator[Piece]:
        """What the other replicas have after the last accepted entry, up to the offset `last` and the leader epoch `epoch`."""
        if self.last_offset >= last:
            return
        if not others:
            yield Lost(self.last_offset + 1, last)
            self.last_offset = last
            return
        replica, *rest = others
        for run in self._runs_within(replica, self.last_offset + 1, last):
            stop = -1
            for row in range(len(run.entries)):
                if not self._fits(run.entries.header(row), int(run.bases[row]), last, epoch):
                    continue
                entry = replace(run, entries=run.entries[row : row + 1], bases=run.bases[row : row + 1])
                if entry.start != stop:  # a gap in offsets without one in the bytes is left by compaction
                    yield from self._fill(int(entry.bases[0]) - 1, epoch, rest)
                yield self._accepted(Kept(replica, entry, filled=True))
                stop = entry.stop
        yield from self._fill(last, epoch, rest)

    def _runs_within(self, replica: Partition, first: int, last: int) -> Iterator[Run]:
        for segment in replica.segments_from(first):
            if segment.base_offset > last:
                return
            for run in self._verified(replica, segment, ReadReport()):
                wanted = (run.bases <= last) & (run.entries.last_offset >= first)
                if wanted.any():
                    yield replace(run, entries=run.entries[wanted], bases=run.bases[wanted])

    def _fits(self, header: EntryHeader, base: int, last: int, epoch: int) -> bool:
        known = header.leader_epoch
        return self.last_offset < base and header.last_offset <= last and (known < 0 or self.epoch <= known <= epoch)
