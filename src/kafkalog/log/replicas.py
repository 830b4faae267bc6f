"""The intact entries of a damaged partition in the order of their offsets, with holes filled from other replicas of it.

The replica with the newest leader epoch, and in it the most offsets, is followed; others are asked only for offsets that damage
took from it. A gap without damage is what compaction leaves: to fill it would bring deleted records back, so only `fill_gaps`
does. What another replica has counts only if its leader epoch fits between the neighbours of the hole: a replica that once
diverged holds batches that were never part of this log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, Limits
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints
from kafkalog.segment.decode import RecordRange

from .batches import BatchHeaders, read_batches
from .order import OutOfPlace, order_error
from .partition import Partition, Segment
from .reading import ReadOptions
from .report import ReadReport

MAX_EPOCH = (1 << 31) - 1


@dataclass(frozen=True)
class Kept:
    """Entries of one file that follow each other there without a gap."""

    partition: Partition
    file: str
    fields: Ints
    first_offset: int
    filled: bool = False

    @property
    def start(self) -> int:
        return int(self.fields[scan.POSITION, 0])

    @property
    def stop(self) -> int:
        return int(self.fields[scan.POSITION, -1] + self.fields[scan.SIZE, -1])

    @property
    def last_offset(self) -> int:
        return int(self.fields[scan.LAST_OFFSET, -1])


@dataclass(frozen=True)
class Lost:
    """Offsets that no replica has any more, at most; `last_offset` is None where nothing tells how far the log went."""

    first_offset: int
    last_offset: int | None


Piece = Kept | Lost


def newest_first(replicas: Sequence[Partition], limits: Limits) -> list[Partition]:
    """The replicas in the order in which they are believed, equal ones as they were given."""
    if len(replicas) == 1:
        return list(replicas)
    return sorted(replicas, key=lambda replica: _end(replica, limits), reverse=True)


def _end(replica: Partition, limits: Limits) -> tuple[int, int]:
    """Leader epoch and offset of the last intact entry."""
    for segment in reversed(replica.segments):
        last = (-1, -1)
        for headers in _entries(replace(replica, segments=(segment,)), limits, ReadReport()):
            last = int(headers.fields[scan.LEADER_EPOCH, -1]), int(headers.fields[scan.LAST_OFFSET, -1])
        if last[1] >= 0:
            return last
    return -1, -1


def _entries(
    partition: Partition, limits: Limits, report: ReadReport, first: int = 0, last: int = MAX_OFFSET
) -> Iterator[BatchHeaders]:
    columns = frozenset({"crc_valid", "base_offset"})
    wanted = RecordRange(start_offset=first, stop_offset=min(last, MAX_OFFSET - 1) + 1)
    return read_batches([partition], ReadOptions(columns, wanted, on_damage="salvage", limits=limits), report)


def _first_offsets(headers: BatchHeaders) -> NDArray[np.int64]:
    return np.where(headers.base_offsets < 0, headers.fields[scan.LAST_OFFSET], headers.base_offsets)


class SalvagedLog:
    """What can be had of one partition. `report` tells what the first replica lost, byte range by byte range."""

    def __init__(self, replicas: Sequence[Partition], limits: Limits, report: ReadReport, *, fill_gaps: bool = False) -> None:
        self.primary, *self.others = replicas
        self.limits = limits
        self.report = report
        self.fill_gaps = fill_gaps
        self.last_offset = -1
        self.epoch = -1

    def pieces(self, segment: Segment) -> Iterator[Piece]:
        """What goes into this segment of the first replica; to be asked for one segment after the other."""
        self.last_offset = max(self.last_offset, segment.base_offset - 1)
        stop = segment.start_position
        dropped = len(self.report.dropped)
        for headers in _entries(replace(self.primary, segments=(segment,)), self.limits, self.report):
            for rows, bases in self._runs(headers, stop):
                first, epoch = int(bases[0]), int(rows[scan.LEADER_EPOCH, 0])
                if self.fill_gaps or int(rows[scan.POSITION, 0]) != stop:
                    yield from self._fill(first - 1, epoch if epoch >= 0 else MAX_EPOCH, self.others)
                self._advance(rows)
                yield Kept(self.primary, headers.file, rows, first)
                stop = int(rows[scan.POSITION, -1] + rows[scan.SIZE, -1])
        yield from self._end_of(segment, stop, damaged=len(self.report.dropped) > dropped)

    def _end_of(self, segment: Segment, stop: int, *, damaged: bool) -> Iterator[Piece]:
        if segment.next_base_offset is not None and (stop < segment.log.size or self.fill_gaps):
            yield from self._fill(segment.next_base_offset - 1, MAX_EPOCH, self.others)
        elif segment.next_base_offset is None and damaged and stop < segment.log.size:
            yield Lost(self.last_offset + 1, None)

    def _runs(self, headers: BatchHeaders, stop: int) -> Iterator[tuple[Ints, NDArray[np.int64]]]:
        """Entries in order, cut where bytes are missing between them (with `fill_gaps`, offsets); others are dropped."""
        fields, bases = self._in_order(headers)
        if not fields.shape[1]:
            return
        stops = fields[scan.POSITION] + fields[scan.SIZE]
        cut = fields[scan.POSITION, 1:] != stops[:-1]
        if self.fill_gaps:
            cut |= bases[1:] != fields[scan.LAST_OFFSET, :-1] + 1
        edges = [0, *(np.flatnonzero(cut) + 1).tolist(), fields.shape[1]]
        for start, end in pairwise(edges):
            yield fields[:, start:end], bases[start:end]

    def _in_order(self, headers: BatchHeaders) -> tuple[Ints, NDArray[np.int64]]:
        """The entries whose offsets rise and whose epochs do not fall: a broker takes no other log."""
        fields, bases = headers.fields, _first_offsets(headers)
        lasts, epochs = fields[scan.LAST_OFFSET], fields[scan.LEADER_EPOCH]
        before = np.maximum.accumulate(np.concatenate(([self.last_offset], lasts)))[:-1]
        epochs_before = np.maximum.accumulate(np.concatenate(([self.epoch], epochs)))[:-1]
        offset_wrong = (bases <= before) | (lasts < bases)
        wrong = offset_wrong | ((epochs >= 0) & (epochs < epochs_before))
        for row in np.flatnonzero(wrong).tolist():
            reason = "offset-order" if offset_wrong[row] else "epoch"
            expected = f"above {before[row]}" if offset_wrong[row] else f"at least {epochs_before[row]}"
            found = int(bases[row] if offset_wrong[row] else epochs[row])
            self._drop(order_error(headers.file, fields, OutOfPlace(row, reason, expected, found)))
        return (fields[:, ~wrong], bases[~wrong]) if wrong.any() else (fields, bases)

    def _drop(self, error: CorruptBatch) -> None:
        self.report.drop(error)
        self.report.kept_batches -= 1
        self.report.kept_bytes -= error.length

    def _advance(self, rows: Ints) -> None:
        self.last_offset = int(rows[scan.LAST_OFFSET, -1])
        self.epoch = max(self.epoch, int(rows[scan.LEADER_EPOCH].max()))

    def _fill(self, last: int, epoch: int, others: Sequence[Partition]) -> Iterator[Piece]:
        """What the other replicas have behind the last entry taken, up to the offset `last` and the leader epoch `epoch`."""
        if self.last_offset >= last:
            return
        if not others:
            yield Lost(self.last_offset + 1, last)
            self.last_offset = last
            return
        replica, *rest = others
        stop = -1
        for headers in _entries(replica, self.limits, ReadReport(), self.last_offset + 1, last):
            fields, bases = headers.fields, _first_offsets(headers)
            for row in range(fields.shape[1]):
                if not self._fits(fields[:, row], int(bases[row]), last, epoch):
                    continue
                if int(fields[scan.POSITION, row]) != stop:  # a gap without one in the bytes is compaction's
                    yield from self._fill(int(bases[row]) - 1, epoch, rest)
                self._advance(fields[:, row : row + 1])
                stop = int(fields[scan.POSITION, row] + fields[scan.SIZE, row])
                yield Kept(replica, headers.file, fields[:, row : row + 1], int(bases[row]), filled=True)
        yield from self._fill(last, epoch, rest)

    def _fits(self, header: Ints, base: int, last: int, epoch: int) -> bool:
        known = int(header[scan.LEADER_EPOCH])
        return self.last_offset < base and int(header[scan.LAST_OFFSET]) <= last and (known < 0 or self.epoch <= known <= epoch)
