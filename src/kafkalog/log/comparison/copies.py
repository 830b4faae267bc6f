"""The entries of one copy of a partition in the order of their offsets, checked, until they have been compared.

Windows come from the threads of the run with their checksums verified. After damage the rest of a segment is walked from one
intact entry to the next, as `verify` does, but only as far as the other copy has come: so memory stays flat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import KafkaLogError, SegmentError, TornTail
from kafkalog.format.batch import NO_LEADER_EPOCH
from kafkalog.format.entry_table import FIELD_COUNT, POSITION, EntryTable, Ints
from kafkalog.format.names import MAX_OFFSET
from kafkalog.log.entry_order import Order, header_bases, order_error
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.reading import ReadOptions, SegmentPlacement, torn_by_crash
from kafkalog.segment.salvage import SalvageWalk
from kafkalog.segment.windows import Window, WindowBuffers

from .difference import Spot

NO_ENTRIES = EntryTable(np.empty((FIELD_COUNT, 0), np.int64))
NOTHING_READ = -1


@dataclass
class Rows:
    """Entries of one copy, each with its first offset and the number of its segment.

    The first offset of a compressed v0/v1 set is not in its header; here it is the one after the entry before.
    """

    entries: EntryTable
    bases: Ints
    segments: Ints

    def __len__(self) -> int:
        return len(self.bases)

    def chosen(self, rows: slice | Ints | NDArray[np.bool_]) -> Rows:
        return Rows(self.entries[rows], self.bases[rows], self.segments[rows])

    @property
    def lasts(self) -> Ints:
        return self.entries.last_offset

    def offsets_of(self, row: int) -> tuple[int, int]:
        """The first and the last offset of one entry."""
        return int(self.bases[row]), int(self.lasts[row])


@dataclass
class Damage:
    """Bytes of one copy that are not intact entries, and the offsets that may have been there: after `after`, up to `until`."""

    error: SegmentError
    after: int
    until: int = MAX_OFFSET
    first_lost: int | None = None
    last_lost: int | None = None
    other: Spot | None = None  # what the other copy has there
    batch_count: int = 0
    record_count: int = 0

    @property
    def spot(self) -> Spot:
        return Spot(self.error.file, self.error.position, max(self.error.length, 0))

    def lose(self, first: int, last: int, spot: Spot, records: int) -> None:
        """The other copy has a batch of these offsets."""
        self.first_lost = first if self.first_lost is None else self.first_lost
        self.last_lost = last
        self.other = self.other or spot
        self.batch_count += 1
        self.record_count += max(records, 0)


class CopyEntries:
    """One copy: what was read of it and not compared yet."""

    def __init__(self, side: str, partition: Partition, options: ReadOptions) -> None:
        self.side = side
        self.partition = partition
        self.options = options
        self.order = Order(partition, neighbours=False)
        self.waiting: list[Rows] = []
        self.damages: list[Damage] = []
        self.tail: SegmentError | None = None
        self.unread: list[tuple[str, KafkaLogError]] = []
        self.first_offset: int | None = None
        self.last_offset = NOTHING_READ
        self.last_epoch = NO_LEADER_EPOCH
        self.has_ended = False
        self.batch_count = 0
        self.log_bytes = 0
        self._number = -1
        self._segment: Segment | None = None
        self._salvage: Iterator[None] | None = None
        self._is_salvaged = False

    @property
    def reach(self) -> int:
        """No entry up to this offset is still to come."""
        return MAX_OFFSET if self.has_ended else self.last_offset

    @property
    def start_offset(self) -> int:
        """Where the copy begins: what lies before it was deleted."""
        segments, first = self.partition.segments, self.first_offset
        if not segments:
            return 0
        if segments[0].base_offset < 0:  # a file whose name has no offset
            return first or 0
        return self.partition.start_offset if first is None else min(self.partition.start_offset, first)

    def hole_of(self, damage: Damage) -> tuple[int, int]:
        """The offsets that may have been where the damage is. At the end of a log it reaches no further than it says itself."""
        if damage.until < MAX_OFFSET:
            return damage.after + 1, damage.until
        said = max(each.error.last_offset for each in self.damages if each.after == damage.after)
        return damage.after + 1, said if said > damage.after else MAX_OFFSET

    def spot(self, rows: Rows, row: int) -> Spot:
        """Where an entry is."""
        header = rows.entries.header(row)
        file = self.partition.segments[int(rows.segments[row])].log.path
        return Spot(file, header.position, header.size, header.leader_epoch)

    # -- what comes from the run, in log order -------------------------------------------------------------------------------

    def begin(self, number: int) -> None:
        """The following entries belong to the segment of this number."""
        self._number = number
        self._segment = self.partition.segments[number]
        self._is_salvaged = False
        self.order.begin(self._segment)

    def add(self, window: Window, entries: EntryTable, valid: NDArray[np.bool_] | None) -> None:
        """Add the entries of a window; `valid` says which checksums match, None that all do."""
        self.log_bytes += window.size
        if self._is_salvaged:
            return
        if valid is None and self.order.follows(window):
            self._append(entries)
            return
        stop = len(entries) if valid is None else int(np.argmin(valid))
        self._add_checked(entries[:stop], window.file)
        if stop < len(entries):
            self._salvage_from(int(entries.position[stop]))

    def stop_at(self, problem: SegmentError) -> None:
        """The entries of the segment cannot be walked from here on."""
        if not self._is_salvaged:
            self._salvage_from(problem.position)

    def fail(self, error: KafkaLogError) -> None:
        """The file of the segment could not be read."""
        assert self._segment is not None
        self.unread.append((self._segment.log.path, error))
        if not isinstance(error, SegmentError):
            error = SegmentError("unreadable", file=self._segment.log.path, position=0, length=0, detail=str(error))
        self._damage(error)

    def end_segment(self) -> None:
        self.catch_up(MAX_OFFSET)

    def end(self) -> None:
        """All segments are done."""
        self.has_ended = True

    def catch_up(self, offset: int) -> None:
        """Continue a walk after damage until entries up to this offset have been read."""
        while self._salvage is not None and self.last_offset < offset:
            try:
                next(self._salvage)
            except StopIteration:
                self._salvage = None
            except KafkaLogError as error:
                self._salvage = None
                self.fail(error)

    def close(self) -> None:
        if self._salvage is not None:
            self._salvage = None

    # -- entries and damage --------------------------------------------------------------------------------------------------

    def _add_checked(self, entries: EntryTable, file: str) -> None:
        """Add intact entries, except those that contradict adjacent ones."""
        if not len(entries):
            return
        misplaced = [problem for problem in self.order.check(entries, header_bases(entries)) if not problem.entry_stays]
        kept = 0
        for problem in misplaced:
            self._append(entries[kept : problem.row])
            self._damage(order_error(file, entries, problem))
            kept = problem.row + 1
        self._append(entries[kept:])

    def _append(self, entries: EntryTable) -> None:
        if not len(entries):
            return
        lasts = entries.last_offset
        bases = header_bases(entries)
        if (bases < 0).any():
            bases = np.where(bases < 0, np.concatenate(([self.last_offset], lasts[:-1])) + 1, bases)
        open_damages = [damage for damage in self.damages if damage.until == MAX_OFFSET]
        if open_damages and header_bases(entries[:1])[0] < 0:  # where a set begins after damage is not known
            bases[0] = lasts[0]
        for damage in open_damages:
            damage.until = int(bases[0]) - 1
        self.waiting.append(Rows(entries, bases, np.full(len(entries), self._number)))
        self.batch_count += len(entries)
        self.first_offset = int(bases[0]) if self.first_offset is None else self.first_offset
        self.last_offset = int(lasts[-1])
        self.last_epoch = max(self.last_epoch, int(entries.leader_epoch.max()))

    def _damage(self, error: SegmentError) -> None:
        assert self._segment is not None
        if isinstance(error, TornTail) and self._segment.is_newest:
            self.tail = error
        else:
            self.damages.append(Damage(error, self.last_offset))

    def _salvage_from(self, position: int) -> None:
        assert self._segment is not None
        self._is_salvaged = True
        self._salvage = self._salvaged(self._segment, position)

    def _salvaged(self, segment: Segment, position: int) -> Iterator[None]:
        """Adds intact entries and damage in the order of their positions; each step is one window."""
        placement = SegmentPlacement(self.partition, segment, self.options, skipped=False)
        placement.order.last_offset, placement.order.epoch = self.order.last_offset, self.order.epoch
        placement.order.stop = position
        buffers = WindowBuffers()
        with self.partition.open_log(segment) as source:
            stop = min(segment.stop_in(source), segment.log.size)
            for salvaged in SalvageWalk(source, position, stop, self.options.limits, placement).windows(buffers):
                entries = NO_ENTRIES
                if salvaged.window is not None:
                    entries = salvaged.window.entries[salvaged.entries]
                    buffers.give_back(salvaged.window)
                self._merge(entries, [torn_by_crash(problem, stop) for problem in salvaged.problems], source.path)
                yield

    def _merge(self, entries: EntryTable, problems: list[SegmentError], file: str) -> None:
        done = 0
        for problem in sorted(problems, key=lambda problem: problem.position):
            row = int(np.searchsorted(entries.fields[POSITION], problem.position))
            self._add_checked(entries[done:row], file)
            self._damage(problem)
            done = max(row, done)
        self._add_checked(entries[done:], file)

    # -- what is compared ----------------------------------------------------------------------------------------------------

    def rows_up_to(self, offset: int) -> Rows:
        """The entries that begin up to this offset; those that end there are forgotten here."""
        if not self.waiting:
            return Rows(NO_ENTRIES, NO_ENTRIES.position, NO_ENTRIES.position)
        waiting = self.waiting
        joined = waiting[0] if len(waiting) == 1 else _joined(waiting)
        begun = int(np.searchsorted(joined.bases, offset, side="right"))
        ended = int(np.searchsorted(joined.lasts, offset, side="right"))
        self.waiting = [joined.chosen(slice(ended, None))] if ended < len(joined) else []
        return joined.chosen(slice(begun))


def _joined(parts: list[Rows]) -> Rows:
    return Rows(
        EntryTable.joined([part.entries for part in parts]),
        np.concatenate([part.bases for part in parts]),
        np.concatenate([part.segments for part in parts]),
    )
