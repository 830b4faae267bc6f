"""Compare entries with adjacent ones, which reveals damage that no checksum covers.

The CRC does not cover offsets and leader epochs, so a flipped bit in them passes it. It shows when offsets or epochs go back, or
when an entry reaches into the next segment. With `neighbours` the log is also assumed to have no gaps (never compacted) and to
agree with its leader-epoch-checkpoint; then nothing in a segment can change unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch
from kafkalog.format import batch
from kafkalog.format.batch import NO_LEADER_EPOCH
from kafkalog.format.entry_table import EntryTable, Ints
from kafkalog.format.java import MAX_INT32
from kafkalog.format.names import MAX_OFFSET
from kafkalog.segment.windows import Window

from .partition import Partition, Segment

NOTHING_YET = -1
MAX_INDEX_DELTA = MAX_INT32
# Number of following entries that decide whether an entry can be right.
WITNESSES = 2


@dataclass(frozen=True)
class OutOfPlace:
    """An entry that contradicts adjacent ones, or (`entry_stays`) a correct one before which offsets are missing."""

    row: int
    reason: str
    expected: str
    found: int
    entry_stays: bool = False


class _Place(NamedTuple):
    """The place of an entry.

    `base` is its last offset if the first is not known (not `exact`). A compressed v0 set has its offsets inside, covered by a
    checksum, except the last one, in its header: that one is `unproven`.
    """

    base: int
    last: int
    epoch: int
    start: int
    stop: int
    exact: bool
    unproven: bool
    contradicts_checkpoint: bool


class Order:
    """Checks the order of one partition's entries, given in file order. Damaged ones may be left out."""

    def __init__(self, partition: Partition, *, neighbours: bool) -> None:
        self.partition = partition
        self.contiguous = neighbours
        self.checkpointed = neighbours
        self.last_offset = NOTHING_YET
        self.epoch = NOTHING_YET
        self.stop = 0  # the position after the last entry in place: an entry that begins later has damage before it
        self.skipped = False

    def begin(self, segment: Segment, *, skipped: bool = False) -> None:
        """The following entries belong to `segment`; `skipped`: those at its start were skipped on purpose."""
        self.segment = segment
        self.skipped = skipped
        self.stop = 0
        if self.last_offset < segment.base_offset - 1:
            self.last_offset = segment.base_offset - 1

    def follows(self, window: Window) -> bool:
        """Whether a window without compressed v0/v1 sets is in order and continues from here; if so, it is accepted.

        False is not a verdict: `check` then has to examine each entry.
        """
        facts = window.facts
        fits = (
            bool(facts.in_order)
            and not facts.wrapper_count
            and not self.contiguous
            and not self.checkpointed
            and facts.first_base > self.last_offset
            and facts.greatest_last <= self._highest()
            and (facts.first_epoch == NO_LEADER_EPOCH or facts.first_epoch >= self.epoch)
        )
        if fits:
            self.skipped = False
            self._accept(facts.greatest_last, facts.greatest_epoch, window.position + window.size)
        return fits

    def check(self, entries: EntryTable, base_offsets: NDArray[np.int64]) -> list[OutOfPlace]:
        """Those of the entries that are out of place; the others are accepted.

        `base_offsets` are the true first offsets; -1 where unknown (a wrapper that was not decoded).
        """
        if not len(entries):
            return []
        lasts = entries.last_offset
        bases = np.where(base_offsets < 0, lasts, base_offsets)
        if self.skipped:
            self.last_offset = max(self.last_offset, int(bases[0]) - 1)
            self.stop = int(entries.position[0])
            self.skipped = False
        before = np.concatenate(([self.last_offset], lasts[:-1]))
        epochs = entries.leader_epoch
        suspicious = (bases <= before) | (lasts < bases) | (lasts > self._highest()) | (epochs < NO_LEADER_EPOCH)
        known = epochs >= 0
        suspicious |= known & (epochs < np.maximum.accumulate(np.concatenate(([self.epoch], epochs[:-1]))))
        if self.contiguous:
            suspicious |= (base_offsets >= 0) & (bases != before + 1)
        if self.checkpointed:
            suspicious |= self._contradict_checkpoint(entries, bases)
        if not suspicious.any():
            self._accept(int(lasts[-1]), int(epochs.max()), entries.header(-1).stop)
            return []
        return self._check_one_by_one(entries, bases, base_offsets >= 0)

    def _highest(self) -> int:
        after = self.segment.next_base_offset
        return MAX_OFFSET if after is None else after - 1

    def _accept(self, last_offset: int, epoch: int, stop: int) -> None:
        self.last_offset = last_offset
        self.epoch = max(self.epoch, epoch)
        self.stop = stop

    def _contradict_checkpoint(self, entries: EntryTable, bases: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not self.partition.epochs:
            return np.zeros(len(bases), np.bool_)
        starts, known = self._known_epochs
        at = np.searchsorted(starts, bases, side="right") - 1
        expected = known[np.maximum(at, 0)]
        epochs = entries.leader_epoch
        contradicts: NDArray[np.bool_] = (entries.magic == 2) & (at >= 0) & (epochs != expected)
        if not self.contiguous:  # a cleaner since 4.0 turns v0/v1 messages, which have no epoch, into v2 batches
            contradicts &= epochs != NO_LEADER_EPOCH
        return contradicts

    @cached_property
    def _known_epochs(self) -> tuple[Ints, Ints]:
        """Start offsets and epochs of the checkpoint."""
        return np.array(self.partition.epoch_starts, np.int64), np.array([each.epoch for each in self.partition.epochs], np.int64)

    def _places(self, entries: EntryTable, bases: NDArray[np.int64], exact: NDArray[np.bool_]) -> list[_Place]:
        contradicts = self._contradict_checkpoint(entries, bases) if self.checkpointed else np.zeros(len(bases), np.bool_)
        lasts, epochs, starts = entries.last_offset, entries.leader_epoch, entries.position
        unproven = exact & (entries.magic == 0) & (header_bases(entries) < 0)
        columns = (bases, lasts, epochs, starts, entries.stop, exact, unproven, contradicts)
        return [_Place(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _check_one_by_one(self, entries: EntryTable, bases: NDArray[np.int64], exact: NDArray[np.bool_]) -> list[OutOfPlace]:
        found: list[OutOfPlace] = []
        places = self._places(entries, bases, exact)
        for row, here in enumerate(places):
            following = places[row + 1 : row + 1 + WITNESSES]
            problem = self._wrong_offsets(row, here, following) or self._wrong_epoch(row, here, following)
            if problem is None and self.contiguous and here.exact and here.base != self.last_offset + 1:
                problem = self._gap(row, here, following)
            if problem is not None:
                found.append(problem)
            if problem is None or problem.entry_stays:
                self._accept(here.last, here.epoch, here.stop)
        return found

    def _wrong_offsets(self, row: int, here: _Place, following: list[_Place]) -> OutOfPlace | None:
        if here.last < here.base:
            return OutOfPlace(row, "offset-range", f"a last offset of at least {here.base}", here.last)
        if here.base <= self.last_offset:
            return OutOfPlace(row, "offset-order", f"an offset above {self.last_offset}", here.base)
        if here.last > self._highest():
            return OutOfPlace(
                row, "offset-order", f"an offset below {self._highest() + 1}, where the next segment begins", here.last
            )
        chained = here.exact and not here.unproven and here.base == self.last_offset + 1
        witnesses = following[:1] if here.unproven else following
        if witnesses and not chained and all(self.last_offset < later.base <= here.last for later in witnesses):
            return OutOfPlace(row, "offset-order", f"an offset below {following[0].base}, that of the next entry", here.last)
        return None

    def _wrong_epoch(self, row: int, here: _Place, following: list[_Place]) -> OutOfPlace | None:
        if here.contradicts_checkpoint:
            return OutOfPlace(row, "epoch", f"epoch {self.partition.epoch_at(here.base)} of the checkpoint", here.epoch)
        if here.epoch < NO_LEADER_EPOCH:
            return OutOfPlace(row, "epoch", "at least 0, or -1", here.epoch)
        if NO_LEADER_EPOCH < here.epoch < self.epoch:
            return OutOfPlace(row, "epoch", f"at least {self.epoch}", here.epoch)
        if following and all(max(self.epoch, 0) <= later.epoch < here.epoch for later in following):
            return OutOfPlace(row, "epoch", f"at most {following[0].epoch}, that of the next entry", here.epoch)
        return None

    def _gap(self, row: int, here: _Place, following: list[_Place]) -> OutOfPlace | None:
        """Offsets are missing before this entry: its own offset is wrong, or others were lost. What follows decides."""
        after_damage = here.start != self.stop
        if following and following[0].start == here.stop and following[0].exact:
            fits = following[0].base == here.last + 1
        elif here.stop == self.segment.log.size and self.segment.next_base_offset is not None:
            fits = here.last + 1 == self.segment.next_base_offset
        else:
            fits = after_damage
        if after_damage and fits:
            return None
        return OutOfPlace(row, "gap", f"base offset {self.last_offset + 1}", here.base, entry_stays=fits)

    def missing_at_end(self) -> tuple[int, int] | None:
        """The offsets missing between the last entry of this segment and the next one, with `neighbours`."""
        after = self.segment.next_base_offset
        if not self.contiguous or after is None or self.last_offset + 1 >= after:
            return None
        return self.last_offset + 1, after - 1


def order_error(file: str, entries: EntryTable, problem: OutOfPlace) -> CorruptBatch:
    header = entries.header(problem.row)
    return CorruptBatch(
        problem.reason,
        file=file,
        position=header.position,
        length=0 if problem.entry_stays else header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        expected=problem.expected,
        found=problem.found,
    )


def header_bases(entries: EntryTable) -> NDArray[np.int64]:
    """The first offsets by the headers: -1 for compressed v0/v1 sets."""
    wrapper = (entries.magic < 2) & (entries.attributes & batch.CODEC_MASK != 0)
    return np.where(wrapper, -1, entries.base_offset)
