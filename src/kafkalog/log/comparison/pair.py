"""Two copies of one partition compared entry by entry, in the order of offsets, as both are read.

Entries with the same header and checksum on both sides are the same bytes, because every checksum was verified; so they are only
counted. What remains up to the offset that both copies have reached is compared record by record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import SegmentError
from kafkalog.format.entry_table import LEADER_EPOCH, SIZE, EntryHeader, Ints
from kafkalog.format.names import MAX_OFFSET
from kafkalog.log.checks.partition import COMPACTED_TOPICS
from kafkalog.log.checks.record_rules import is_rewritten
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions

from .copies import CopyEntries, Damage, Rows
from .difference import A, B, Difference, Differences, Spot
from .ends import describe_end, describe_start
from .keys import MissingKeys
from .records import Aligned, Block, DecodedRows, align, first_difference

Flags = NDArray[np.bool_]
# The header fields that must be equal: all that are stored, from the size to the leader epoch.
STORED = slice(SIZE, LEADER_EPOCH + 1)
Ranges = list[tuple[int, int]]
Offsets = tuple[int, int]
Spots = tuple[Spot | None, Spot | None]


class PairComparison:
    """Compares two copies; `differences` is complete after `finish`."""

    def __init__(self, a: Partition, b: Partition, options: ReadOptions, *, compacted: bool) -> None:
        self.copies = CopyEntries(A, a, options), CopyEntries(B, b, options)
        self.options = options
        self.differences = Differences(a.topic, a.partition)
        self.is_compacted = compacted or a.topic in COMPACTED_TOPICS
        self.missing = {A: Differences(a.topic, a.partition), B: Differences(a.topic, a.partition)}
        self.keys = {A: MissingKeys(b, a, options), B: MissingKeys(a, b, options)}
        self.equal_batches = 0
        self.rewritten: Difference | None = None
        self.done = -1
        self._agreed: Ints = np.empty(0, np.int64)
        self._last_agreed = -1

    def copy(self, side: str) -> CopyEntries:
        return self.copies[side == B]

    def other(self, side: str) -> CopyEntries:
        return self.copies[side == A]

    # -- as far as both have come --------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Compare what both copies have up to the offset that both have reached."""
        for copy, other in (self.copies, self.copies[::-1]):
            copy.catch_up(other.last_offset)
        reached = min(copy.reach for copy in self.copies)
        if reached > self.done:
            self._compare(reached)
            self.done = reached

    def _compare(self, up_to: int) -> None:
        rows = [copy.rows_up_to(up_to) for copy in self.copies]
        if not self.is_compacted:
            self.is_compacted = any(len(each) and is_rewritten(each.entries) for each in rows)
        equal = _equal_rows(rows[0], rows[1])
        self.equal_batches += int(equal[0].sum())
        self._note_agreed(rows[0].lasts[equal[0]])
        a, b = (each.chosen(~same) if same.any() else each for each, same in zip(rows, equal, strict=True))
        if len(a) or len(b):
            a, b = self._without_other_offsets(*self._without_other_epochs(a, b))
            self._compare_unequal(a, b, up_to)
        self._settle_damages(up_to)
        if len(self._agreed):
            self._last_agreed = max(self._last_agreed, int(self._agreed[-1]))
            self._agreed = self._agreed[:0]

    def _compare_unequal(self, a: Rows, b: Rows, up_to: int) -> None:
        """Leave out what begins or ends a copy or is damaged, and compare the records of the rest."""
        holes = {side: self._holes(side, up_to) for side in (A, B)}
        a, b = self._without_holes(a, holes[B], B, up_to), self._without_holes(b, holes[A], A, up_to)
        if not len(a) and not len(b):
            return
        decoded = DecodedRows(self.copies[0], a, self.options.limits), DecodedRows(self.copies[1], b, self.options.limits)
        found = _Unequal(self, decoded, holes)
        for part in align(*decoded, self.done, up_to):
            self._note_agreed(part.a.offsets[part.both_a[part.equal]] if part.a is not None else part.both_a)
            found.add(part)
        found.finish()

    def _without_other_epochs(self, a: Rows, b: Rows) -> tuple[Rows, Rows]:
        """Note batches that differ in nothing but their leader epoch, which no checksum covers."""
        same = _equal_rows(a, b, slice(SIZE, LEADER_EPOCH))
        if not same[0].any():
            return a, b
        for at, beside in zip(np.flatnonzero(same[0]).tolist(), np.flatnonzero(same[1]).tolist(), strict=True):
            spots = self.copies[0].spot(a, at), self.copies[1].spot(b, beside)
            self.add(self.row("epoch", "", a.offsets_of(at), spots, int(a.entries.record_count[at])))
        return a.chosen(~same[0]), b.chosen(~same[1])

    def _without_other_offsets(self, a: Rows, b: Rows) -> tuple[Rows, Rows]:
        """Note batches that differ in nothing but their offset, which no checksum covers either."""
        fields = [EntryHeader._fields.index(name) for name in ("size", "magic", "crc", "leader_epoch")]
        places = {tuple(column): row for row, column in enumerate(b.entries.fields[fields].T.tolist())}
        kept = np.ones(len(a), np.bool_), np.ones(len(b), np.bool_)
        for at, column in enumerate(a.entries.fields[fields].T.tolist()):
            beside = places.get(tuple(column))
            if beside is None or not kept[1][beside] or a.lasts[at] == b.lasts[beside]:
                continue
            kept[0][at] = kept[1][beside] = False
            spots = self.copies[0].spot(a, at), self.copies[1].spot(b, beside)
            offsets = int(min(a.bases[at], b.bases[beside])), int(max(a.lasts[at], b.lasts[beside]))
            detail = f"offset {a.bases[at]} in a, {b.bases[beside]} in b"
            self.add(self.row("offset", "", offsets, spots, int(a.entries.record_count[at]), detail))
        return a.chosen(kept[0]), b.chosen(kept[1])

    # -- rows ----------------------------------------------------------------------------------------------------------------

    def row(self, reason: str, side: str, offsets: Offsets, spots: Spots, records: int = 0, detail: str = "") -> Difference:
        """A row about one batch, and so many records of it."""
        topic, partition = self.differences.topic, self.differences.partition
        count = max(records, 0)
        return Difference(reason, topic, partition, side, *offsets, *spots, batch_count=1, record_count=count, detail=detail)

    def add(self, row: Difference, rows: Differences | None = None) -> None:
        """Add a row, to the last one of its kind if nothing lies between them on which the copies agree."""
        target = self.differences if rows is None else rows
        before = target.last_of(row.reason, row.side)
        continues = before is not None and not self._agree_between(before.last_offset or 0, row.first_offset or 0)
        target.add(row, continues=continues)

    def _note_agreed(self, offsets: Ints) -> None:
        if len(offsets):
            self._agreed = np.union1d(self._agreed, offsets)

    def _agree_between(self, after: int, before: int) -> bool:
        """Whether both copies have the same record or batch between these offsets."""
        if after < self._last_agreed < before:
            return True
        at = int(np.searchsorted(self._agreed, after, side="right"))
        return at < len(self._agreed) and int(self._agreed[at]) < before

    # -- where a copy has nothing --------------------------------------------------------------------------------------------

    def _holes(self, side: str, up_to: int) -> dict[str, Ranges]:
        """Offsets that a copy lacks because it begins later, is damaged there or ends earlier."""
        copy = self.copy(side)
        start = copy.start_offset
        holes: dict[str, Ranges] = {"damage": [], "start": [(0, start - 1)], "end": []}
        holes["damage"] = [copy.hole_of(damage) for damage in copy.damages if damage.after < up_to]
        if copy.has_ended:
            holes["end"].append((max(copy.last_offset + 1, start), MAX_OFFSET))
        return holes

    def _without_holes(self, rows: Rows, holes: dict[str, Ranges], side: str, up_to: int) -> Rows:
        """The rows of one copy without those that lie where the other, `side`, has nothing; these are noted."""
        for kind, ranges in holes.items():
            for number, (first, last) in enumerate(ranges):
                inside = (rows.bases >= first) & (rows.lasts <= last)
                whole = rows.chosen(inside & (rows.lasts <= up_to))  # one that reaches further comes again
                if len(whole) and kind == "damage":
                    self._lose(whole, side, number)
                elif len(whole):
                    self._add_end(whole, side, kind)
                rows = rows.chosen(~inside) if inside.any() else rows
        return rows

    def _lose(self, rows: Rows, side: str, number: int) -> None:
        """Batches of the other copy that the damage of `side` has taken: each belongs to the damage that names its offset."""
        damages = self.copy(side).damages
        same_hole = [each for each in damages if each.after == damages[number].after]
        by_base = {each.error.base_offset: each for each in reversed(same_hole) if each.error.base_offset >= 0}
        for row in range(len(rows)):
            damage = by_base.get(int(rows.bases[row]), same_hole[0])
            spot = self.other(side).spot(rows, row)
            damage.lose(int(rows.bases[row]), int(rows.lasts[row]), spot, int(rows.entries.record_count[row]))

    def _add_end(self, rows: Rows, side: str, kind: str) -> None:
        spot = self.other(side).spot(rows, 0)
        records = int(np.maximum(rows.entries.record_count, 1).sum())
        self.add_end(side, kind, (int(rows.bases[0]), int(rows.lasts[-1])), spot, (len(rows), records))

    def add_end(self, side: str, kind: str, offsets: Offsets, spot: Spot, counts: tuple[int, int]) -> None:
        """Note so many batches and records of the other copy that lie before the start ("start") or after the end of `side`."""
        copy = self.copy(side)
        if copy.partition.file is not None:  # a single file is compared for the offsets that it holds
            return
        reason, detail = describe_start(copy) if kind == "start" else describe_end(copy)
        row = self.row(reason, side, offsets, beside(side, None, spot), counts[1], detail)
        before = self.differences.last_of(reason, side)
        self.differences.add(replace(row, batch_count=counts[0]), continues=before is not None)

    def _settle_damages(self, up_to: int) -> None:
        """Note the damage that lies before this offset, with what the other copy has there."""
        for side in (A, B):
            copy = self.copy(side)
            due = [damage for damage in copy.damages if damage.until <= up_to]
            for damage in due:
                self._add_damage(damage, side)
            copy.damages = [damage for damage in copy.damages if damage.until > up_to]

    def _add_damage(self, damage: Damage, side: str) -> None:
        error = damage.error
        first, last = damage.first_lost, damage.last_lost
        if first is None and error.base_offset >= 0:
            first, last = error.base_offset, max(error.last_offset, error.base_offset)
        topic, partition = self.differences.topic, self.differences.partition
        a, b = beside(side, damage.spot, damage.other)
        counts = damage.batch_count, damage.record_count
        self.differences.add(Difference(error.reason, topic, partition, side, first, last, a, b, *counts, detail=error.detail))

    def add_undecodable(self, side: str, rows: Rows, row: int, error: SegmentError) -> None:
        """A batch whose checksum matches, and whose records cannot be read all the same."""
        spots = beside(side, self.copy(side).spot(rows, row), None)
        count = int(rows.entries.record_count[row])
        self.differences.add(self.row(error.reason, side, rows.offsets_of(row), spots, count, error.detail))

    # -- at the end ----------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Both copies have ended."""
        self.advance()
        for side in (A, B):
            copy = self.copy(side)
            if copy.tail is not None:
                self._add_damage_of_tail(copy, side)
            self._add_missing(side)
        self._add_rewritten()
        rows = sorted(self.differences.rows, key=lambda row: MAX_OFFSET if row.first_offset is None else row.first_offset)
        self.differences.rows = [self._with_byte(row) for row in rows]

    def _with_byte(self, row: Difference) -> Difference:
        """With the first byte in which the two batches of a row differ, if nothing explains it."""
        if row.is_explained or row.a is None or row.b is None:
            return row
        a, b = self.copies
        found = first_difference(a.partition, b.partition, row.a, row.b)
        return row if found is None else replace(row, byte=found[0], byte_a=found[1], byte_b=found[2])

    def _add_damage_of_tail(self, copy: CopyEntries, side: str) -> None:
        assert copy.tail is not None
        a, b = beside(side, Spot(copy.tail.file, copy.tail.position, max(copy.tail.length, 0)), None)
        topic, partition = self.differences.topic, self.differences.partition
        self.differences.add(Difference("unfinished", topic, partition, side, a=a, b=b, detail=copy.tail.reason))

    def _add_missing(self, side: str) -> None:
        """Missing records, now that it is known whether the topic was compacted."""
        missing = self.missing[side]
        if not self.is_compacted:
            self.differences.rows += missing.rows
            self.differences.left_out += missing.left_out
            return
        if not missing.rows:
            return
        keys = self.keys[side]
        keys.settle()
        self._add_lost_keys(side, keys)
        first = missing.rows[0]
        records = missing.record_count - keys.lost.count
        if records > 0 or not keys.lost.count:
            offsets = first.first_offset or 0, missing.last_offset
            row = self.row("compacted", side, offsets, (first.a, first.b), records)
            self.differences.add(replace(row, batch_count=missing.batch_count))

    def _add_lost_keys(self, side: str, keys: MissingKeys) -> None:
        for offset in keys.lost.offsets:
            self.differences.add(self.row("key-lost", side, (offset, offset), (None, None), 1))
        self.differences.left_out += keys.lost.count - len(keys.lost.offsets)

    def _add_rewritten(self) -> None:
        if self.rewritten is not None:
            reason = "rewritten" if self.is_compacted else "re-encoded"
            self.differences.add(replace(self.rewritten, reason=reason))

    def add_rewritten(self, offsets: Offsets, spots: Spots, batches: int) -> None:
        """Batches of both copies that hold the same records."""
        row = replace(self.row("re-encoded", "", offsets, spots), batch_count=batches)
        before = self.rewritten
        count = batches + (0 if before is None else before.batch_count)
        self.rewritten = row if before is None else replace(before, last_offset=offsets[1], batch_count=count)


def beside(side: str, own: Spot | None, other: Spot | None) -> Spots:
    """What `side` has and what the other has, as a and b."""
    return (own, other) if side == A else (other, own)


def _equal_rows(a: Rows, b: Rows, fields: slice = STORED) -> tuple[Flags, Flags]:
    """Which rows of each are the same on the other side."""
    first, second = a.entries.fields[fields], b.entries.fields[fields]
    if len(a) == len(b) and np.array_equal(first, second):
        return np.ones(len(a), np.bool_), np.ones(len(b), np.bool_)
    at = np.searchsorted(b.lasts, a.lasts)
    found = at < len(b)
    candidates = np.flatnonzero(found)
    candidates = candidates[b.lasts[at[candidates]] == a.lasts[candidates]]
    same = (first[:, candidates] == second[:, at[candidates]]).all(axis=0)
    equal = np.zeros(len(a), np.bool_), np.zeros(len(b), np.bool_)
    equal[0][candidates[same]] = True
    equal[1][at[candidates[same]]] = True
    return equal


class _Unequal:
    """What the records of unequal batches say about these batches."""

    def __init__(
        self, pair: PairComparison, decoded: tuple[DecodedRows, DecodedRows], holes: dict[str, dict[str, Ranges]]
    ) -> None:
        self.pair = pair
        self.decoded = decoded
        self.holes = holes
        self.rewritten: tuple[set[int], set[int]] = (set(), set())
        self.differing: tuple[set[int], set[int]] = (set(), set())

    def add(self, part: Aligned) -> None:
        if part.a is not None and part.b is not None:
            self._add_shared(part.a, part.b, part)
        if part.a is not None and len(part.only_a):
            self._add_missing(B, part.a, part.only_a)
        if part.b is not None and len(part.only_b):
            self._add_missing(A, part.b, part.only_b)

    def _add_shared(self, a: Block, b: Block, part: Aligned) -> None:
        rows_a, rows_b = a.rows[part.both_a], b.rows[part.both_b]
        entries = [each.rows.entries for each in self.decoded]
        epochs = entries[0].leader_epoch[rows_a], entries[1].leader_epoch[rows_b]
        other_epoch = (epochs[0] != epochs[1]) & (epochs[0] >= 0) & (epochs[1] >= 0)
        same = part.equal & ~other_epoch
        for rewritten, rows in zip(self.rewritten, (rows_a, rows_b), strict=True):
            rewritten.update(np.unique(rows[same]).tolist())
        for reason, wrong in (
            ("epoch", part.equal & other_epoch),
            ("diverged", ~part.equal & other_epoch),
            ("content", ~part.equal & ~other_epoch),
        ):
            if wrong.any():
                self._add_differing(reason, a.offsets[part.both_a[wrong]], rows_a[wrong], rows_b[wrong])

    def _add_differing(self, reason: str, offsets: Ints, rows_a: Ints, rows_b: Ints) -> None:
        """One row for each pair of batches."""
        for differing, rows in zip(self.differing, (rows_a, rows_b), strict=True):
            differing.update(np.unique(rows).tolist())
        pairs = rows_a * (int(rows_b.max()) + 1) + rows_b
        _, starts, counts = np.unique(pairs, return_index=True, return_counts=True)
        for start, count in sorted(zip(starts.tolist(), counts.tolist(), strict=True)):
            a, b = self.decoded
            spots = a.copy.spot(a.rows, int(rows_a[start])), b.copy.spot(b.rows, int(rows_b[start]))
            span = int(offsets[start]), int(offsets[start + count - 1])
            self.pair.add(self.pair.row(reason, "", span, spots, count))

    def _add_missing(self, side: str, block: Block, at: Ints) -> None:
        """Records of one copy that the other, `side`, lacks."""
        having = self.decoded[side == A]
        block = block if len(at) == len(block) else block.taken(at)
        for kind in ("start", "end"):
            cut = np.flatnonzero(~_outside(block.offsets, self.holes[side][kind]))
            if len(cut):  # of a batch that begins or ends on this side of the start or the end
                offsets = int(block.offsets[cut[0]]), int(block.offsets[cut[-1]])
                spot = having.copy.spot(having.rows, int(block.rows[cut[0]]))
                self.pair.add_end(side, kind, offsets, spot, (0, len(cut)))
        holes = [hole for ranges in self.holes[side].values() for hole in ranges] + self._undecodable(side)
        lost = _outside(block.offsets, holes)
        if not lost.any():
            return
        block = block if lost.all() else block.taken(np.flatnonzero(lost))
        rows, starts, counts = np.unique(block.rows, return_index=True, return_counts=True)
        for row, start, count in zip(rows.tolist(), starts.tolist(), counts.tolist(), strict=True):
            spots = beside(side, None, having.copy.spot(having.rows, row))
            span = int(block.offsets[start]), int(block.offsets[start + count - 1])
            self.pair.add(self.pair.row("missing", side, span, spots, count), self.pair.missing[side])
        self.pair.keys[side].add(block, having.rows.entries)

    def _undecodable(self, side: str) -> Ranges:
        lacking = self.decoded[side == B]
        return [(int(lacking.rows.bases[row]), int(lacking.rows.lasts[row])) for row, _ in lacking.problems]

    def finish(self) -> None:
        for side, each in zip((A, B), self.decoded, strict=True):
            for row, error in each.problems:
                self.pair.add_undecodable(side, each.rows, row, error)
        self._add_empty()
        if any(each.is_sparse for each in self.decoded):
            self.pair.is_compacted = True
        rewritten = [sorted(rows - differing) for rows, differing in zip(self.rewritten, self.differing, strict=True)]
        if all(rewritten):
            self._add_rewritten(rewritten)

    def _add_rewritten(self, rows: list[list[int]]) -> None:
        a, b = self.decoded
        spots = a.copy.spot(a.rows, rows[0][0]), b.copy.spot(b.rows, rows[1][0])
        offsets = int(a.rows.bases[rows[0][0]]), int(a.rows.lasts[rows[0][-1]])
        self.pair.add_rewritten(offsets, spots, max(map(len, rows)))

    def _add_empty(self) -> None:
        """Batches without records, which only a cleaner leaves, that the other copy does not have."""
        for side, each, other in ((B, *self.decoded), (A, *self.decoded[::-1])):
            entries = each.rows.entries
            empty = (entries.magic == 2) & (entries.record_count == 0) & ~np.isin(each.rows.lasts, other.rows.lasts)
            for row in np.flatnonzero(empty & (each.rows.bases > self.pair.done)).tolist():
                spots = beside(side, None, each.copy.spot(each.rows, row))
                self.pair.add(self.pair.row("missing", side, each.rows.offsets_of(row), spots), self.pair.missing[side])


def _outside(offsets: Ints, holes: Iterable[tuple[int, int]]) -> Flags:
    outside = np.ones(len(offsets), np.bool_)
    for first, last in holes:
        outside &= (offsets < first) | (offsets > last)
    return outside
