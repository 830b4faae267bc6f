"""Hold entries against their neighbours: what no checksum covers shows there.

The CRC leaves out offsets and leader epochs, so a flipped bit in them passes it. Offsets and epochs that go back give it away,
and so does an entry that reaches into the next segment. With `neighbours` the log is also taken to be without gaps (never
compacted) and in agreement with its leader-epoch-checkpoint; then nothing in a segment can change unseen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch
from kafkalog.format import batch
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints

from .partition import Partition, Segment

NOTHING_YET = -1
MAX_INDEX_DELTA = (1 << 31) - 1


@dataclass(frozen=True)
class OutOfPlace:
    """An entry that does not fit its neighbours."""

    row: int
    reason: str
    expected: str
    found: int


class Order:
    """The order of one partition's entries, checked as they pass in file order."""

    def __init__(self, partition: Partition, *, neighbours: bool) -> None:
        self.partition = partition
        self.neighbours = neighbours
        self.last_offset = NOTHING_YET
        self.epoch = NOTHING_YET
        self.skipped = False

    def begin(self, segment: Segment, *, skipped: bool = False) -> None:
        """Entries from here on belong to `segment`; `skipped`: those at its start are left out on purpose."""
        self.segment = segment
        self.skipped = skipped
        if self.last_offset < segment.base_offset - 1:
            self.last_offset = segment.base_offset - 1

    def check(self, fields: Ints, base_offsets: NDArray[np.int64]) -> list[OutOfPlace]:
        """The entries of these rows that are out of place; the others become the ground for what follows.

        `base_offsets` are the true first offsets; -1 where they are not known (a wrapper that was not decoded).
        """
        if not fields.shape[1]:
            return []
        lasts = fields[scan.LAST_OFFSET]
        bases = np.where(base_offsets < 0, lasts, base_offsets)
        if self.skipped:
            self.last_offset = max(self.last_offset, int(bases[0]) - 1)
            self.skipped = False
        before = np.concatenate(([self.last_offset], lasts[:-1]))
        epochs = fields[scan.LEADER_EPOCH]
        suspicious = (bases <= before) | (lasts < bases) | (lasts > self._highest())
        known = epochs >= 0
        suspicious |= known & (epochs < np.maximum.accumulate(np.concatenate(([self.epoch], epochs[:-1]))))
        if self.neighbours:
            suspicious |= (base_offsets >= 0) & (bases != before + 1)
            suspicious |= self._contradict_checkpoint(bases, epochs)
        if not suspicious.any():
            self._accept(int(lasts[-1]), int(epochs.max()))
            return []
        return self._check_one_by_one(fields, bases, base_offsets >= 0)

    def _highest(self) -> int:
        after = self.segment.next_base_offset
        return MAX_OFFSET if after is None else after - 1

    def _accept(self, last_offset: int, epoch: int) -> None:
        self.last_offset = last_offset
        self.epoch = max(self.epoch, epoch)

    def _contradict_checkpoint(self, bases: NDArray[np.int64], epochs: NDArray[np.int64]) -> NDArray[np.bool_]:
        known = self.partition.epochs
        if not known:
            return np.zeros(len(bases), np.bool_)
        at = np.searchsorted([epoch.start_offset for epoch in known], bases, side="right") - 1
        expected = np.array([epoch.epoch for epoch in known])[np.maximum(at, 0)]
        contradicts: NDArray[np.bool_] = (epochs >= 0) & (at >= 0) & (epochs != expected)
        return contradicts

    def _check_one_by_one(self, fields: Ints, bases: NDArray[np.int64], exact: NDArray[np.bool_]) -> list[OutOfPlace]:
        found: list[OutOfPlace] = []
        lasts, epochs = fields[scan.LAST_OFFSET].tolist(), fields[scan.LEADER_EPOCH].tolist()
        contradicts = (
            self._contradict_checkpoint(bases, fields[scan.LEADER_EPOCH]).tolist() if self.neighbours else [False] * len(lasts)
        )
        for row, (base, last, epoch) in enumerate(zip(bases.tolist(), lasts, epochs, strict=True)):
            following = int(bases[row + 1]) if row + 1 < len(lasts) else None
            problem = self._place(row, base, last, epoch, following if exact[row : row + 2].all() else None)
            if problem is None and self.neighbours and exact[row] and base != self.last_offset + 1:
                problem = OutOfPlace(row, "gap", f"base offset {self.last_offset + 1}", base)
            if problem is None and contradicts[row]:
                problem = OutOfPlace(row, "epoch", f"epoch {self.partition.epoch_at(base)} of the checkpoint", epoch)
            if problem is None:
                self._accept(last, epoch)
            else:
                found.append(problem)
        return found

    def _place(self, row: int, base: int, last: int, epoch: int, following: int | None) -> OutOfPlace | None:
        if last < base:
            return OutOfPlace(row, "offset-range", f"a last offset of at least {base}", last)
        if base <= self.last_offset:
            return OutOfPlace(row, "offset-order", f"an offset above {self.last_offset}", base)
        if last > self._highest():
            return OutOfPlace(row, "offset-order", f"an offset below {self._highest() + 1}, where the next segment begins", last)
        if following is not None and self.last_offset < following <= last and base != self.last_offset + 1:
            return OutOfPlace(row, "offset-order", f"an offset below {following}, that of the next entry", last)
        if NOTHING_YET < epoch < self.epoch:
            return OutOfPlace(row, "epoch", f"at least {self.epoch}", epoch)
        return None

    def missing_at_end(self) -> tuple[int, int] | None:
        """The offsets that `neighbours` misses between the last entry of this segment and the next one."""
        after = self.segment.next_base_offset
        if not self.neighbours or after is None or self.last_offset + 1 >= after:
            return None
        return self.last_offset + 1, after - 1


def order_error(file: str, fields: Ints, problem: OutOfPlace) -> CorruptBatch:
    row = fields[:, problem.row]
    return CorruptBatch(
        problem.reason,
        file=file,
        position=int(row[scan.POSITION]),
        length=int(row[scan.SIZE]),
        base_offset=int(row[scan.BASE_OFFSET]),
        last_offset=int(row[scan.LAST_OFFSET]),
        expected=problem.expected,
        found=problem.found,
    )


def header_bases(fields: Ints) -> NDArray[np.int64]:
    """The first offsets as far as headers tell: -1 for compressed v0/v1 sets."""
    wrapper = (fields[scan.MAGIC] < 2) & (fields[scan.ATTRIBUTES] & batch.CODEC_MASK != 0)
    return np.where(wrapper, -1, fields[scan.BASE_OFFSET])
