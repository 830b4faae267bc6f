"""Logs that are cut, flipped, overwritten or lie, under `verify`: each fault must be reported, at the right place.

A fault is **reported** if a finding covers each entry that is not as it was written. Faults that the bytes do not show are
counted as residue, by rule:

- a hostile batch with the right checksum that Kafka's own reader would return (the reference decoder says so) is a batch like
  any other, whoever made it;
- a cut between two entries of the newest segment leaves a shorter log;
- a sector from elsewhere that holds a whole entry: the copy is as good as the original, so the entries around it are named.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from random import Random

from kafkalog import codecs
from kafkalog.errors import INFO, SegmentError
from kafkalog.format import batch, message, reference
from kafkalog.format.varint import encode_varint, encode_varlong
from kafkalog.log.checks.finding import Finding
from kafkalog.log.checks.run import check_partitions
from kafkalog.log.folders import find_partitions
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.storage import open_store
from tests.builders.memory_store import MemoryStore

from . import disorder, hostile_batches, moving_files
from .bytes_damage import OPERATORS
from .golden_set import BASE_OFFSET, FOLDER, VARIANTS, Entry, GoldenSegment, decompress, golden_segment, golden_set, segment_path
from .hostile_batches import PLAIN, make_batch, make_record, repair_crc
from .tally import Tally

FRONT = 17
FRONT_MORE_OFTEN = 30
WRITTEN_LATER = 1000  # bytes


def found_in(files: Mapping[str, bytes], *, log_directory: str | None = None, folder: str = FOLDER) -> list[Finding]:
    """The findings of verify in a partition made of `files`; each segment gets an index without entries if it has none."""
    whole = {path.removesuffix("log") + "index": b"" for path in files if path.endswith(".log")} | dict(files)
    store = MemoryStore(whole)
    partitions = find_partitions(store, log_directory or folder)
    found = check_partitions(partitions, ReadOptions(frozenset(), threads=1), ReadReport(), log_directory)
    return [finding for finding in found if finding is not None]


def covers(finding: Finding, path: str, start: int, stop: int) -> bool:
    """Whether a finding names any of these bytes."""
    if finding.file != path or finding.position is None:
        return False
    return finding.position < stop and finding.position + max(finding.length or 0, 1) > start


def _short(finding: Finding) -> tuple[str, str, int | None, int | None]:
    return finding.severity, finding.reason, finding.position, finding.length


def harmed_entries(segment: GoldenSegment, data: bytes) -> list[Entry]:
    return [entry for entry in segment.entries if data[entry.position : entry.stop] != segment.entry_bytes(entry)]


def judge(segment: GoldenSegment, data: bytes, case: str, tally: Tally) -> None:
    """The segment with `data` in its place, between its neighbours: all that is harmed is named, and nothing else as an error."""
    harmed = harmed_entries(segment, data)
    if not harmed:
        return
    tally.reads += 1
    found = found_in(segment.among_neighbours(data))
    path, case = segment_path(BASE_OFFSET), f"{segment.name} {case}: {list(map(_short, found))}"
    named = [entry for entry in segment.entries if any(covers(each, path, entry.position, entry.stop) for each in found)]
    tally.expect(bool(found), case)
    if not found or (set(named) != set(harmed) and _has_copies(segment, data)):
        tally.leave("a sector from elsewhere that holds a whole entry")
        return
    tally.expect(set(harmed) <= set(named), f"{case}, but harmed are {harmed}", "lost")
    # A finding of no length lies before its entry, where something is missing.
    wrong = [each for each in found if each.length and not any(covers(each, path, one.position, one.stop) for one in harmed)]
    tally.expect(not wrong, f"{case}: only {harmed} are harmed", "lost")


def _has_copies(segment: GoldenSegment, data: bytes) -> bool:
    """Whether a whole entry lies where another was written."""
    pieces = ((entry, segment.entry_bytes(entry)) for entry in segment.entries)
    return any(data.count(piece) > (data[entry.position : entry.stop] == piece) for entry, piece in pieces)


def check_healthy() -> Tally:
    """No finding in the undamaged segments."""
    tally = Tally()
    for segment in golden_set():
        for files in (segment.alone(), segment.among_neighbours()):
            with tally.case(segment.name):
                tally.reads += 1
                found = found_in(files)
                tally.expect(not found, f"{segment.name}: {list(map(_short, found))}")
    return tally


def check_cuts(name: str, step: int) -> Tally:
    """T-01, of a closed segment and of the newest one."""
    tally = Tally()
    segment = golden_segment(name)
    boundaries = {0} | {entry.stop for entry in segment.entries}
    for size in sorted(set(range(0, len(segment.data), step)) | boundaries - {len(segment.data)}):
        case = f"{name} cut at byte {size}"
        with tally.case(case):
            tally.reads += 2
            start = max(stop for stop in boundaries if stop <= size)
            closed = found_in(segment.among_neighbours(segment.data[:size]))
            tally.expect(any(finding.position == start for finding in closed), f"{case}: {list(map(_short, closed))}")
            newest = found_in(segment.alone(segment.data[:size]))
            if size in boundaries:
                tally.expect(not newest, f"{case}: a shorter log is no fault: {newest}", "lost")
                tally.leave("cut between two entries of the newest segment")
            else:
                right = [(each.position, each.severity) for each in newest] == [(start, INFO)]
                tally.expect(right, f"{case}: {list(map(_short, newest))}")
    return tally


def check_flips(name: str, start: int, stop: int, step: int) -> Tally:
    """T-02: every bit; in a sample the first bytes of entries, which no checksum covers, more often."""
    tally = Tally()
    segment = golden_segment(name)
    data = bytearray(segment.data)
    for bit in range(start * 8, min(stop, len(data)) * 8):
        position = bit // 8
        entry = segment.entries[segment.entry_at(position)]
        in_front = position - entry.position < FRONT
        if bit % (step // FRONT_MORE_OFTEN or 1 if in_front else step):
            continue
        data[position] ^= 1 << bit % 8
        case = f"bit {bit % 8} of byte {position} (byte {position - entry.position} of its entry)"
        with tally.case(f"{name} {case}"):
            judge(segment, bytes(data), case, tally)
        data[position] ^= 1 << bit % 8
    return tally


def check_operator(number: int, start: int, stop: int) -> Tally:
    """T-03."""
    tally = Tally()
    names = list(VARIANTS)
    for seed in range(start, stop):
        segment = golden_segment(names[seed % len(names)])
        data = bytearray(segment.data)
        case = f"seed {seed}: {OPERATORS[number](data, Random(seed))}"
        with tally.case(case):
            judge(segment, bytes(data), case, tally)
    return tally


def check_lengths(quick: bool) -> Tally:
    """T-05."""
    tally = Tally()
    for number_of_segment, segment in enumerate(golden_set()):
        for number, entry in enumerate(segment.entries):
            for lie in hostile_batches.lying_lengths(segment, number):
                if quick and (number_of_segment + number + lie) % 11:
                    continue
                data = bytearray(segment.data)
                struct.pack_into(">i", data, entry.position + 8, lie)
                case = f"length {lie} in entry {number}"
                with tally.case(f"{segment.name} {case}"):
                    judge(segment, bytes(data), case, tally)
    return tally


# Batches whose checksum is right


def judge_hostile(data: bytes, case: str, tally: Tally, base_offset: int = 0) -> None:
    """Batches that Kafka's reader refuses are reported at their place; those that it returns may be."""
    tally.reads += 1
    path = segment_path(base_offset)
    found = found_in({path: data})
    try:
        for entry in reference.decode_entries(data):
            reference.decode_records(entry, decompress)
    except SegmentError as refusal:
        named = any(covers(finding, path, 0, len(data)) for finding in found)
        tally.expect(named, f"{case}: the reference refuses it ({refusal}), {list(map(_short, found))}")
        return
    if not found:
        tally.leave("a batch that Kafka's own reader gives out")


def check_hostile_flips(name: str, step: int) -> Tally:
    """T-04."""
    tally = Tally()
    segment = golden_segment(name)
    first = segment.data[: segment.entries[0].stop]
    covered = batch.CRC_START if segment.magic == 2 else message.CRC_START
    for bit in range(covered * 8, len(first) * 8, step):
        changed = bytearray(first)
        changed[bit // 8] ^= 1 << bit % 8
        case = f"{name} bit {bit % 8} of byte {bit // 8}, checksum repaired"
        with tally.case(case):
            judge_hostile(repair_crc(changed), case, tally, BASE_OFFSET)
    return tally


def hostile_cases(random_varints: int) -> Iterator[tuple[str, bytes]]:
    """T-06, T-07, T-10, T-11 and T-12."""
    records = b"".join(make_record(encode_varlong(0), encode_varint(number), *PLAIN[2:]) for number in range(4))
    for codec, value in product((codecs.NONE, codecs.ZSTD), hostile_batches.COUNTS):
        payload = codecs.compress(codec, records)
        yield f"count {value}", make_batch(payload, count=value, last_offset_delta=3, attributes=codec)
        yield f"last offset delta {value}", make_batch(payload, count=4, last_offset_delta=value, attributes=codec)
    random = Random(7)
    for field in range(-1, len(PLAIN)):
        for pattern in [random.randbytes(random.randint(1, 12)) for _ in range(random_varints)]:
            yield f"varint {field} = {pattern.hex()}", make_batch(hostile_batches.with_varint(field, pattern))
    for magic, depth in product((0, 1), (1, 2, 3, 1000)):
        yield f"v{magic} {depth} deep", hostile_batches.nest(depth, magic, codecs.GZIP)
    for case, tail in hostile_batches.header_cases():
        yield case, make_batch(make_record(*PLAIN[:4], tail))
    for offset in hostile_batches.OFFSETS:
        for name, data in hostile_batches.offset_cases(offset):
            yield f"{name} at offset {offset}", data


def check_hostile_batches(random_varints: int) -> Tally:
    tally = Tally()
    for case, data in hostile_cases(random_varints):
        with tally.case(case):
            judge_hostile(data, case, tally)
    return tally


def check_disorder(quick: bool) -> Tally:
    """T-13 and T-14: offsets that go back are reported there; a largest timestamp that lies, and one beyond all calendars."""
    tally = Tally()
    for case, data, _ in disorder.overlaps():
        with tally.case(case):
            tally.reads += 1
            found = found_in({segment_path(0): data})
            reasons = {finding.reason for finding in found}
            tally.expect(bool(reasons & {"offset-order", "epoch", "gap"}), f"{case}: {list(map(_short, found))}")
    for timestamp in disorder.TIMESTAMPS:
        for name, data, given in disorder.timestamp_cases(timestamp):
            case = f"timestamp {timestamp} as {name}"
            with tally.case(case):
                tally.reads += 1
                reasons = {finding.reason for finding in found_in({segment_path(0): data})}
                beyond = not -disorder.MAX_TYPED_MS <= given <= disorder.MAX_TYPED_MS
                tally.expect(("time-range" in reasons) == (beyond and name != "v1"), f"{case}: {reasons}")
                lies = name == "maximum lies" and given >= 0 and given != disorder.STATED_MAXIMUM
                tally.expect("max-timestamp" in reasons or not lies, f"{case}: {reasons}")
    return tally


def check_moving_files(moments: int) -> Tally:
    """T-15 and T-16: a file that grows is healthy; one that is cut, renamed, deleted or replaced meanwhile ends in no crash."""
    tally = Tally()
    random = Random(16)
    data, other = moving_files.make_segment(random, 3_000), moving_files.make_segment(Random(99), 3_000)
    for moment in range(moments):
        action = ("append", "truncate", "rename", "unlink", "replace")[moment % 5]
        case = f"{action} at moment {moment}"
        with moving_files.partition_folder() as folder, tally.case(case):
            path = moving_files.segment_file(folder)
            path.write_bytes(data[:-WRITTEN_LATER] if action == "append" else data)
            path.with_suffix(".index").write_bytes(b"")
            tally.reads += 1
            found = _verify_disturbed(path, action, data[-WRITTEN_LATER:] if action == "append" else other, random)
            allowed = {"append": {"torn"}, "truncate": {"changed", "torn"}}.get(action, {"changed"})
            tally.expect({finding.reason for finding in found} <= allowed, f"{case}: {list(map(_short, found))}")
    return tally


def _verify_disturbed(path: Path, action: str, other: bytes, random: Random) -> list[Finding]:
    """The findings of verify while `action` changes the segment, after a random number of steps."""
    store, place = open_store(path.parent)
    options = ReadOptions(frozenset(), threads=1 + random.randrange(2))
    when, size = random.randrange(4), random.randrange(path.stat().st_size)
    found = []
    for step, finding in enumerate(check_partitions(find_partitions(store, place), options, ReadReport())):
        if step == when and action == "append":
            with path.open("ab") as file:
                file.write(other)
        elif step == when:
            moving_files.disturb(path, action, other, size)
        if finding is not None:
            found.append(finding)
    return found


def check_tails(quick: bool) -> Tally:
    """T-17 and T-18: zeros after the newest segment, and a last batch with some sectors missing."""
    tally = Tally()
    data = moving_files.make_segment(Random(17), 20)
    for size in (1, 11, 12, 16, 17, 26, 61, 512, 4096):
        with tally.case(f"a tail of {size} zeros"):
            tally.reads += 1
            found = list(map(_short, found_in({segment_path(BASE_OFFSET): data + bytes(size)})))
            tally.expect(found == [(INFO, "zero-tail", len(data), size)], f"a tail of {size} zeros: {found}")
    for missing, first, last in moving_files.torn_images():
        with tally.case(f"sectors {missing:08b} missing"):
            tally.reads += 1
            found = list(map(_short, found_in({segment_path(BASE_OFFSET): first + last})))
            right = [(severity, position) for severity, _, position, _ in found] == ([(INFO, len(first))] if missing else [])
            tally.expect(right, f"sectors {missing:08b} missing: {found}")
    return tally


def check_embedded(quick: bool) -> Tally:
    """T-24: values hold whole batches with plausible offsets. With the outer length corrupt, the outer batch is reported,
    up to the next real one, and no batch inside a value is taken for one."""
    tally = Tally()
    outer_offset, count = 10, 3
    inside = b"".join(make_batch(make_record(*PLAIN), base_offset=outer_offset + row) for row in range(1, count + 1))
    record = make_record(*PLAIN[:3], encode_varint(len(inside)) + inside, PLAIN[4])
    first = make_batch(make_record(*PLAIN), count=1, base_offset=9)
    outer = make_batch(record, base_offset=outer_offset)
    after = make_batch(make_record(*PLAIN), base_offset=outer_offset + 1)
    for bit in range(32):
        data = bytearray(first + outer + after)
        data[len(first) + 8 + bit // 8] ^= 1 << bit % 8
        case = f"bit {bit} of the outer length"
        with tally.case(case):
            tally.reads += 1
            found = found_in({segment_path(9): bytes(data)})
            named = [finding.position for finding in found if finding.severity != INFO]
            tally.expect(bool(found) and found[0].position == len(first), f"{case}: {list(map(_short, found))}")
            forged = [position for position in named if position is not None and len(first) < position < len(first + outer)]
            tally.expect(not forged, f"{case}: taken for batches: {list(map(_short, found))}", "lost")
    return tally
