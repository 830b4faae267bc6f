"""The rows of a reader, compared with the ledger: every record that a consumer would have got, once, and nothing else.

A reader took everything below its next offset. So a record of the ledger below it is in the table, unless it was aborted (for
read_committed), the reader named the loss of its offset, or compaction removed it before the reader came. The last is allowed
only where a later record has its key; and records that a real consumer still gets now were there when the reader came.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.campaigns.living_broker.ledger import History, Ledger, Life, Written

Place = tuple[str, int, int]  # topic, number of its life, partition
Found = tuple[int, bytes | None, bytes | None]  # offset, key, value
SHOWN = 3
LOST, DOUBLED, WRONG, FALSE = "lost", "doubled", "wrong", "false errors"


class Faults:
    """Faults, counted by kind and by finder, with the first examples of each."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.examples: list[str] = []
        self._lock = threading.Lock()

    def add(self, kind: str, reader: str, text: str) -> None:
        with self._lock:
            self.counts[kind, reader] += 1
            if self.counts[kind, reader] <= SHOWN:
                self.examples.append(f"{kind}: {reader}: {text}")
                print(self.examples[-1], flush=True)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def of(self, kind: str) -> int:
        return sum(count for (each, _), count in self.counts.items() if each == kind)

    def __str__(self) -> str:
        return ", ".join(f"{self.of(kind)} {kind}" for kind in (LOST, DOUBLED, WRONG, FALSE))


@dataclass
class Book:
    """The rows that one reader, an ingest's target or a stream, has taken so far."""

    name: str
    isolation: str
    ledger: Ledger
    faults: Faults
    seen: dict[Place, set[int]] = field(default_factory=dict)
    next: dict[Place, int] = field(default_factory=dict)
    first: dict[Place, int] = field(default_factory=dict)
    gaps: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)
    pending_cuts: dict[Place, int] = field(default_factory=dict)
    superseded: dict[Place, Counter[int]] = field(default_factory=dict)
    unknown: list[tuple[Place, Found]] = field(default_factory=list)
    reported: set[tuple[Place, int]] = field(default_factory=set)
    rows: int = 0

    # -- new rows ---------------------------------------------------------------------------------------------------------

    def take(self, place: Place, found: Iterable[Found]) -> None:
        """Rows that a run added."""
        seen = self.seen.setdefault(place, set())
        for row in found:
            self.rows += 1
            if row[0] in seen:
                self.faults.add(DOUBLED, self.name, f"{show(place)} offset {row[0]} is there twice, now {row[2]!r}")
            seen.add(row[0])
            self._check(place, row, is_final=False)

    def _check(self, place: Place, row: Found, *, is_final: bool) -> None:
        offset, key, value = row
        history = self._history(place)
        record = history.records.get(offset)
        if record is None and not is_final:
            self.unknown.append((place, row))  # its acknowledgement may be on the way
        elif record is None and self.ledger.was_sent(place[0], value):
            history.add(offset, Written(key, value))
        elif record is None or (record.key, record.value) != (key, value):
            before = history.superseded.get(offset, [])
            what = "was superseded" if any(value == each.value for each in before) else "was never written there"
            self.faults.add(WRONG, self.name, f"{show(place)} offset {offset}: {value!r} {what}; the log had {record}")
        elif record.is_visible(self.isolation) is False:
            self.faults.add(WRONG, self.name, f"{show(place)} offset {offset}: {value!r} was aborted")

    def settle_unknown(self) -> None:
        """All acknowledgements are in: rows that nobody knew can be judged."""
        unknown, self.unknown = self.unknown, []
        for place, row in unknown:
            if row[0] in self.seen[place]:
                self._check(place, row, is_final=True)

    def begin_at(self, place: Place, first_offset: int) -> None:
        """A log that began later than at 0 when the reader came to it for the first time; now it begins at `first_offset`."""
        self.first[place] = min(self.seen.get(place, set()) | {first_offset})

    def advance(self, place: Place, offset: int) -> None:
        """The reader says that it took everything below `offset`."""
        before = self.next.get(place, self.first.get(place, 0))
        self.next[place] = offset
        self._require_all(place, before, offset)

    def _require_all(self, place: Place, start: int, stop: int) -> None:
        history, seen = self._history(place), self.seen.setdefault(place, set())
        is_compacted = self.ledger.lives[place[0]][place[1]].is_compacted
        for offset in range(start, stop):
            record = history.records.get(offset)
            if record is None or offset in seen or self._is_excused(place, offset, record):
                continue
            if not (is_compacted and history.is_overwritten(offset)):
                self._lose(place, offset, record)

    def _is_excused(self, place: Place, offset: int, record: Written) -> bool:
        if record.is_visible(self.isolation) is not True:  # aborted, or open: that is judged at the end
            return True
        return any(start <= offset < stop for start, stop in self.gaps.get(place, ()))

    def _lose(self, place: Place, offset: int, record: Written) -> None:
        if (place, offset) not in self.reported:
            self.reported.add((place, offset))
            self.faults.add(LOST, self.name, f"{show(place)} offset {offset} is missing: {record.value!r}")

    def require_view(self, place: Place, view: Iterable[Found]) -> None:
        """The reader has taken everything below its next offset that a consumer gets now."""
        seen, stop = self.seen.get(place, set()), self.next.get(place, 0)
        for offset, key, value in view:
            if self.first.get(place, 0) <= offset < stop and offset not in seen:
                self._lose(place, offset, Written(key, value))

    # -- named losses ------------------------------------------------------------------------------------------------------

    def cut(self, place: Place, offset: int, reached: int | None = None) -> None:
        """The log of the partition lost its end; the reader's next run must name the rows that it has of it."""
        if max(self.next.get(place, 0), reached or 0) > offset:
            self.pending_cuts[place] = min(offset, self.pending_cuts.get(place, offset))

    def excuse(self, place: Place, start: int, stop: int) -> None:
        self.gaps.setdefault(place, []).append((start, stop))

    def supersede(self, place: Place, offset: int) -> None:
        """The reader named the cut: its rows from there on leave the table, and are taken again."""
        gone = {each for each in self.seen.get(place, set()) if each >= offset}
        self.seen[place] = self.seen.get(place, set()) - gone
        self.superseded.setdefault(place, Counter()).update(gone)
        self.next[place] = min(self.next.get(place, offset), offset)
        self.pending_cuts.pop(place, None)
        self.unknown = [each for each in self.unknown if each[0] != place or each[1][0] < offset]

    # -- at the end --------------------------------------------------------------------------------------------------------

    def require_everything(self) -> None:
        """Nothing is open any more: judge all rows again."""
        self.settle_unknown()
        for place, stop in self.next.items():
            self._require_all(place, self.first.get(place, 0), stop)

    def compare_table(self, found: Iterable[tuple[Place, Found]]) -> None:
        """The whole table as it is: exactly the rows of all runs together, each row right."""
        there: dict[Place, set[int]] = {}
        for place, row in found:
            offsets = there.setdefault(place, set())
            if row[0] in offsets:
                self.faults.add(DOUBLED, self.name, f"{show(place)} offset {row[0]} is in the table twice")
            offsets.add(row[0])
            self._check(place, row, is_final=False)
        for place, offsets in self.seen.items():
            for offset in sorted(offsets - there.get(place, set())):
                self.faults.add(LOST, self.name, f"{show(place)} offset {offset} was taken, and is no longer in the table")
        for place, offsets in there.items():
            for offset in sorted(offsets - self.seen.get(place, set())):
                self.faults.add(WRONG, self.name, f"{show(place)} offset {offset} is in the table, but no run took it")

    def compare_superseded(self, found: Iterable[tuple[Place, Found]]) -> None:
        """The rows set aside are those that were cut off after they were taken."""
        there: dict[Place, Counter[int]] = {}
        for place, (offset, _, value) in found:
            there.setdefault(place, Counter())[offset] += 1
            values = [each.value for each in self._history(place).superseded.get(offset, [])]
            if value not in values:
                what = f"{show(place)} offset {offset}: {value!r}"
                self.faults.add(WRONG, self.name, f"{what} is set aside, but was not superseded")
        for place in there.keys() | self.superseded.keys():
            expected, here = self.superseded.get(place, Counter()), there.get(place, Counter())
            for offset in sorted((expected - here).keys()):
                self.faults.add(LOST, self.name, f"{show(place)} offset {offset} was superseded, and is not set aside")
            for offset in sorted((here - expected).keys()):
                self.faults.add(DOUBLED, self.name, f"{show(place)} offset {offset} is set aside more than once")

    def _history(self, place: Place) -> History:
        return self.ledger.lives[place[0]][place[1]].history(place[2])


def place_of(life: Life, partition: int) -> Place:
    return life.topic, life.number, partition


def show(place: Place) -> str:
    topic, life, partition = place
    return f"{topic}-{partition}" + (f" (life {life})" if life else "")
