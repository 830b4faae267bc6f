"""Segments of G with their bytes damaged: cut (T-01), flipped (T-02), overwritten (T-03); each read in five ways and judged.

What each mode may do with a segment in which some entries are harmed and all others are as they were written:

strict + neighbours   the next segment and the leader-epoch-checkpoint are there and trusted. The read ends in an error, or gives
                      exactly the records that were written. The rows before the error are the beginning of them. Anything
                      else is **silent wrong**, and may not happen.
strict                the segment alone. The same, but a torn tail is no error: the report names it and records may end there.
                      Differences without error and without a tail are the **residue**: no byte of the file shows them.
skip + neighbours     never an error. Every record given is one that was written, exactly. An unharmed entry may be lost where
                      framing is (after a corrupt length or magic); its bytes are then in a range that the report drops.
salvage + neighbours  the same, and all records of all unharmed entries are there.

`salvage` without neighbours is judged like strict without: a wrong but plausible offset or epoch is residue.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from kafkalog.errors import TornTail

from .golden_set import BASE_OFFSET, FIRST_TIMESTAMP, VARIANTS, Entry, GoldenSegment, golden_segment, segment_path
from .outcome import Outcome, read
from .tally import Tally


@dataclass(frozen=True)
class Truth:
    """The records of a segment as they are read undamaged, and where each offset's row is."""

    alone: pa.Table
    with_next: pa.Table
    row_of: dict[int, int]


@cache
def truth_of(name: str) -> Truth:
    segment = golden_segment(name)
    alone, with_next = read(segment.alone()).records, read(segment.among_neighbours()).records
    offsets = with_next["offset"].to_pylist()
    return Truth(alone.combine_chunks(), with_next.combine_chunks(), {offset: row for row, offset in enumerate(offsets)})


def judge(segment: GoldenSegment, data: bytes, name: str, tally: Tally, *, count_residue: bool = True) -> None:
    """Read `segment` with `data` in its place in every mode; the residue of salvage costs one read more."""
    case = f"{segment.name} {name}"
    unharmed = [entry for entry in segment.entries if data[entry.position : entry.stop] == segment.entry_bytes(entry)]
    truth = truth_of(segment.name)
    alone, among = segment.alone(data), segment.among_neighbours(data)
    tally.reads += 4 + count_residue
    _judge_strict_among_neighbours(read(among, neighbours=True), truth, case, tally)
    _judge_strict_alone(read(alone), truth, case, tally)
    rows = {row for entry in unharmed for row in range(entry.first_row, entry.first_row + entry.row_count)}
    rows |= set(range(len(segment.records), truth.with_next.num_rows))
    for mode, neighbours in (("skip", True), ("salvage", True), ("salvage", False))[: 2 + count_residue]:
        outcome = read(among, on_damage=mode, neighbours=neighbours)
        _judge_continuing(outcome, truth, rows, mode, neighbours, case, tally)
        if mode == "skip":
            for entry in unharmed:
                lost = set(range(entry.first_row, entry.first_row + entry.row_count)).difference(_rows_of(outcome, truth))
                named = not lost or _is_dropped(outcome, entry)
                tally.expect(named, f"{case}: skip lost an entry without naming its bytes", "lost")


def _rows_of(outcome: Outcome, truth: Truth) -> list[int]:
    return [truth.row_of.get(offset, -1) for offset in outcome.offsets]


def _is_dropped(outcome: Outcome, entry: Entry) -> bool:
    """Whether all bytes of the entry lie in ranges that the report drops."""
    position = entry.position
    for dropped in sorted(outcome.report.dropped, key=lambda dropped: dropped.position):
        if dropped.file == segment_path(BASE_OFFSET) and dropped.position <= position:
            position = max(position, dropped.position + dropped.length)
    return position >= entry.stop


def _judge_strict_among_neighbours(outcome: Outcome, truth: Truth, case: str, tally: Tally) -> None:
    given = outcome.records
    if outcome.error is None:
        tally.expect(given.equals(truth.with_next), f"{case}: strict + neighbours gave other records and no error")
    else:
        right = given.equals(truth.with_next.slice(0, given.num_rows))
        tally.expect(right, f"{case}: strict + neighbours gave other records before its error")


def _judge_strict_alone(outcome: Outcome, truth: Truth, case: str, tally: Tally) -> None:
    given = outcome.records
    if outcome.error is not None:
        return
    expected = truth.alone.slice(0, given.num_rows) if outcome.report.tails else truth.alone
    if not given.equals(expected):
        noted = " (segment-overflow noted)" if "segment-overflow" in outcome.report.notes else ""
        tally.leave(_difference(given, expected) + noted)


def _judge_continuing(
    outcome: Outcome, truth: Truth, rows: set[int], mode: str, neighbours: bool, case: str, tally: Tally
) -> None:
    case = f"{case}: {mode}{' + neighbours' if neighbours else ''}"
    if outcome.error is not None:
        tally.fail("crashes", f"{case} ended in {outcome.error!r}")
        return
    given = _rows_of(outcome, truth)
    right = -1 not in given and outcome.records.equals(truth.with_next.take(given))
    missing = len(rows.difference(given))
    if neighbours:
        tally.expect(right, f"{case} gave records that were never written")
    elif not right:
        tally.leave(f"{mode}: {_difference(outcome.records, truth.with_next)}")
    if mode == "salvage" and neighbours:
        tally.kept += len(rows) - missing
        tally.keepable += len(rows)
        tally.expect(not missing, f"{case} lost {missing} of {len(rows)} unharmed records; {outcome.report.reasons}", "lost")
    elif mode == "salvage" and missing and right:
        tally.leave(f"{mode}: unharmed records lost")
    tally.expect(
        not missing or bool(outcome.report.dropped or outcome.report.tails), f"{case} lost {missing} records without a word"
    )


def _difference(given: pa.Table, expected: pa.Table) -> str:
    """The column that differs first, in words for the table of residues."""
    if given.num_rows != expected.num_rows:
        return "records missing" if given.num_rows < expected.num_rows else "records added"
    return next((name for name in given.column_names if not given[name].equals(expected[name])), "nothing")


# T-01


def judge_cut(segment: GoldenSegment, size: int, tally: Tally) -> None:
    """The segment cut to `size` bytes: all whole entries are read, and the cut is reported wherever anything shows it."""
    data = segment.data[:size]
    case = f"{segment.name} cut at byte {size}"
    truth = truth_of(segment.name)
    whole = [entry for entry in segment.entries if entry.stop <= size]
    count = sum(entry.row_count for entry in whole)
    inside = bool(size) and (not whole or whole[-1].stop != size)
    kept = truth.alone.slice(0, count)
    tally.reads += 5

    newest = read(segment.alone(data))
    tally.expect(newest.error is None, f"{case}: the newest segment ended in {newest.error!r}", "crashes")
    tally.expect(newest.records.equals(kept), f"{case}: the newest segment gave {newest.records.num_rows} of {count} records")
    tally.expect(bool(newest.report.tails) == inside, f"{case}: tails {newest.report.tails}")

    among = segment.among_neighbours(data)
    for neighbours in (True, False):
        closed = read(among, neighbours=neighbours)
        reported = inside or neighbours
        if reported:
            tally.expect(isinstance(closed.error, TornTail), f"{case}: a closed segment ended in {closed.error!r}")
            tally.expect(closed.records.equals(kept), f"{case}: a closed segment gave {closed.records.num_rows} of {count}")
        else:
            tally.leave("cut between two entries, seen only with neighbours")
    rest = truth.with_next.take([*range(count), *range(len(segment.records), truth.with_next.num_rows)])
    for mode in ("skip", "salvage"):
        outcome = read(among, on_damage=mode, neighbours=True)
        tally.keepable += rest.num_rows
        tally.kept += outcome.records.num_rows
        tally.expect(outcome.error is None, f"{case}: {mode} ended in {outcome.error!r}", "crashes")
        tally.expect(outcome.records.equals(rest), f"{case}: {mode} gave {outcome.records.num_rows} of {rest.num_rows}", "lost")
        tally.expect(bool(outcome.report.dropped), f"{case}: {mode} without a word")


def check_cuts(name: str, step: int) -> Tally:
    """T-01: every prefix of a segment of G (with `step` 1)."""
    tally = Tally()
    segment = golden_segment(name)
    boundaries = {entry.stop for entry in segment.entries}
    for size in range(len(segment.data)):
        if size % step == 0 or size in boundaries:
            with tally.case(f"{name} cut at byte {size}"):
                judge_cut(segment, size, tally)
    return tally


# T-02

# Offset, length, checksum or epoch, magic: no checksum covers them, so a sample takes them more often.
FRONT = 17
FRONT_MORE_OFTEN = 30


def check_flips_strictly(name: str, start: int, stop: int, step: int) -> Tally:
    """T-02s: as T-02, in strict + neighbours mode alone, so that every bit can be had in minutes."""
    tally = Tally()
    segment, truth = golden_segment(name), truth_of(name)
    data = bytearray(segment.data)
    for bit in range(start * 8, min(stop, len(data)) * 8, step):
        data[bit // 8] ^= 1 << bit % 8
        case = f"{name} bit {bit % 8} of byte {bit // 8}"
        with tally.case(case):
            tally.reads += 1
            _judge_strict_among_neighbours(read(segment.among_neighbours(bytes(data)), neighbours=True), truth, case, tally)
        data[bit // 8] ^= 1 << bit % 8
    return tally


def check_flips(name: str, start: int, stop: int, step: int) -> Tally:
    """T-02: every bit of bytes start..stop flipped, one at a time; with `step` above 1 a sample."""
    tally = Tally()
    segment = golden_segment(name)
    data = bytearray(segment.data)
    for bit in range(start * 8, min(stop, len(data)) * 8):
        position, entry = bit // 8, segment.entries[segment.entry_at(bit // 8)]
        in_front = position - entry.position < FRONT
        if bit % (step // FRONT_MORE_OFTEN or 1 if in_front else step):
            continue
        data[position] ^= 1 << bit % 8
        case = f"bit {bit % 8} of byte {position} (byte {position - entry.position} of its entry)"
        with tally.case(f"{name} {case}"):
            judge(segment, bytes(data), case, tally, count_residue=in_front or bit % 8 == 0)
        data[position] ^= 1 << bit % 8
    return tally


VIEWS: dict[str, dict[str, Any]] = {
    "read_committed": {"isolation": "read_committed", "include_control": False},
    "from a time on": {"start_time_ms": FIRST_TIMESTAMP + 3000},
    "up to a time": {"stop_time_ms": FIRST_TIMESTAMP + 3000},
    "from an offset on": {"start_offset": BASE_OFFSET + 14},
    "up to an offset": {"stop_offset": BASE_OFFSET + 14},
    "read_committed up to an offset": {"isolation": "read_committed", "include_control": False, "stop_offset": BASE_OFFSET + 14},
}


def check_views(name: str, step: int) -> Tally:
    """T-02 for partial reads: leaving out records by offset, time or isolation may not hide damage that changes the rest."""
    tally = Tally()
    segment = golden_segment(name)
    right = {view: read(segment.among_neighbours(), neighbours=True, **options).records for view, options in VIEWS.items()}
    data = bytearray(segment.data)
    for bit in range(0, len(data) * 8, step):
        data[bit // 8] ^= 1 << bit % 8
        for view, options in VIEWS.items():
            case = f"{name} {view}: bit {bit % 8} of byte {bit // 8}"
            with tally.case(case):
                tally.reads += 1
                outcome = read(segment.among_neighbours(bytes(data)), neighbours=True, **options)
                tally.expect(outcome.error is not None or outcome.records.equals(right[view]), f"{case}: other records, no error")
        data[bit // 8] ^= 1 << bit % 8
    return tally


# T-03


def set_byte(data: bytearray, random: Random) -> str:
    position = random.randrange(len(data))
    data[position] = random.choice((0x00, 0xFF))
    return f"byte {position} set to {data[position]:02x}"


def overwrite_burst(data: bytearray, random: Random) -> str:
    size = random.randint(2, 8)
    position = random.randrange(len(data) - size)
    data[position : position + size] = random.choice((b"\0" * size, b"\xff" * size, random.randbytes(size)))
    return f"{size} bytes at {position}"


def zero_sector(data: bytearray, random: Random) -> str:
    size = random.choice((512, 512, 512, 4096))
    position = random.randrange(0, len(data), size)
    stop = min(position + size, len(data))
    data[position:stop] = bytes(stop - position)
    return f"zeros from {position} to {stop}"


def misdirect_sector(data: bytearray, random: Random) -> str:
    source, target = random.sample(range(0, len(data) - 512, 512), 2)
    data[target : target + 512] = data[source : source + 512]
    return f"sector {source} written to {target}"


def lose_write(data: bytearray, random: Random) -> str:
    """A sector as it was before the last writes to it: it ends in zeros."""
    position = random.randrange(0, len(data), 512)
    stop = min(position + 512, len(data))
    start = random.randrange(position, stop)
    data[start:stop] = bytes(stop - start)
    return f"bytes {start} to {stop} never written"


OPERATORS = (set_byte, overwrite_burst, zero_sector, misdirect_sector, lose_write)


def check_operator(number: int, start: int, stop: int) -> Tally:
    """T-03: one operator, one seed after the other, on the segments of G in turn."""
    tally = Tally()
    names = list(VARIANTS)
    for seed in range(start, stop):
        segment = golden_segment(names[seed % len(names)])
        data = bytearray(segment.data)
        case = f"seed {seed}: {OPERATORS[number](data, Random(seed))}"
        with tally.case(case):
            judge(segment, bytes(data), case, tally, count_residue=False)
    return tally
