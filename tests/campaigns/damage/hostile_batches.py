"""Batches whose checksum is right and whose content lies (T-04 to T-07, T-10 to T-12), judged against the reference decoder.

The reference decoder accepts and refuses what Kafka's own reader does. Where both accept, the records must be the same. Where
the reader is stricter, the difference has a name in STRICTER; where it is more lenient, the case fails.
"""

from __future__ import annotations

import itertools
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import crc32c

from kafkalog import codecs
from kafkalog.errors import SegmentError
from kafkalog.format import batch, message, reference
from kafkalog.format.varint import encode_varint, encode_varlong

from .bytes_damage import judge
from .golden_set import BASE_OFFSET, GoldenSegment, decompress, golden_segment, golden_set, segment_path
from .outcome import Outcome, read, rows, table_of
from .tally import Tally

TIMESTAMP = 1_700_000_000_000
# Batches that the reader refuses and Kafka's own would return, with the reason code of each.
STRICTER = {
    "count": "more records than the offsets that the batch spans",
    "offset-range": "a last offset below the first",
    "offset-order": "a record below the segment's first offset, or inside a set out of order",
}
# A read takes a millisecond; a trusted count, seconds and gigabytes. Between the two is room for a busy machine, the
# garbage collector and the allocator.
CPU_SECONDS_PER_READ = 1.0
RSS_GROWTH = 64 << 20  # of 180 reads together


def repair_crc(entry: bytes | bytearray) -> bytes:
    """The entry with the checksum that matches its bytes."""
    entry = bytearray(entry)
    if entry[batch.MAGIC_POSITION] == 2:
        struct.pack_into(">I", entry, batch.CRC_POSITION, crc32c.crc32c(bytes(entry[batch.CRC_START :])))
    else:
        struct.pack_into(">I", entry, message.CRC_POSITION, zlib.crc32(entry[message.CRC_START :]))
    return bytes(entry)


def make_batch(
    payload: bytes,
    *,
    count: int = 1,
    last_offset_delta: int | None = None,
    base_offset: int = 0,
    attributes: int = 0,
    base_timestamp: int = TIMESTAMP,
    max_timestamp: int = TIMESTAMP,
) -> bytes:
    """A v2 batch with whatever the fields say, and the right checksum."""
    delta = max(count, 1) - 1 if last_offset_delta is None else last_offset_delta
    covered = struct.pack(">hiqqqhii", attributes, delta, base_timestamp, max_timestamp, -1, -1, -1, count) + payload
    return repair_crc(struct.pack(">qiibI", base_offset, 9 + len(covered), 0, 2, 0) + covered)


def make_record(*parts: bytes) -> bytes:
    body = b"\0" + b"".join(parts)
    return encode_varint(len(body)) + body


PLAIN = (encode_varlong(0), encode_varint(0), encode_varint(1) + b"k", encode_varint(1) + b"v", encode_varint(0))


def at_offset_zero(data: bytes) -> dict[str, bytes]:
    return {segment_path(0): data}


def judge_against_reference(data: bytes, case: str, tally: Tally, base_offset: int = 0) -> Outcome:
    """Read `data` as a segment; the outcome must be the reference decoder's, or one of the known stricter ones."""
    tally.reads += 1
    outcome = read({segment_path(base_offset): data})
    try:
        entries = list(reference.decode_entries(data))
        expected = table_of(record for entry in entries for record in reference.decode_records(entry, decompress))
    except SegmentError as refusal:
        refused = outcome.error is not None or outcome.report.tails
        tally.expect(bool(refused), f"{case}: accepted what the reference refuses with {refusal}")
        return outcome
    if outcome.error is not None:
        if outcome.reason in STRICTER:
            tally.leave(f"stricter than Kafka: {STRICTER[outcome.reason]}")
        else:
            tally.fail("lost", f"{case}: refused with {outcome.error}, the reference accepts")
    else:
        tally.expect(rows(outcome.records) == expected, f"{case}: other records than the reference")
    return outcome


# T-04


def check_hostile_flips(name: str, step: int) -> Tally:
    """T-04: every bit of a batch that the checksum covers flipped, and the checksum made right again."""
    tally = Tally()
    segment = golden_segment(name)
    first, second = (segment.data[entry.position : entry.stop] for entry in segment.entries[:2])
    covered = batch.CRC_START if segment.magic == 2 else message.CRC_START
    for bit in range(covered * 8, len(first) * 8, step):
        changed = bytearray(first)
        changed[bit // 8] ^= 1 << bit % 8
        hostile = repair_crc(changed)
        case = f"{name} bit {bit % 8} of byte {bit // 8}, checksum repaired"
        with tally.case(case):
            outcome = judge_against_reference(hostile, case, tally, BASE_OFFSET)
            _judge_skipped(segment, hostile, second, outcome, case, tally)
    return tally


def _judge_skipped(segment: GoldenSegment, hostile: bytes, second: bytes, strict: Outcome, case: str, tally: Tally) -> None:
    """In `skip` and `salvage` the hostile batch may be first or last: never an error, and the other one is kept.

    One exception: `skip` goes no further than a magic that does not exist, since nothing then says what the length means.
    """
    expected = {record.offset for record in segment.records[segment.entries[1].first_row :][: segment.entries[1].row_count]}
    for mode in ("skip", "salvage"):
        tally.reads += 2
        after = read(segment.alone(hostile + second), on_damage=mode)
        before = read(segment.alone(second + hostile), on_damage=mode, allow_disorder=True)
        for outcome in (after, before):
            if outcome.error is not None:
                tally.fail("crashes", f"{case}: {mode} ended in {outcome.error!r}")
        if strict.error is not None:
            others = {"before": before, "after": after}
            if mode == "skip" and strict.reason == "magic":
                del others["after"]
            for where, outcome in others.items():
                kept = expected <= set(outcome.offsets)
                tally.keepable += 1
                tally.kept += kept
                tally.expect(kept, f"{case}: {mode} lost the batch {where}; {outcome.report.reasons}", "lost")


# T-05

LENGTHS = (-(1 << 31), -1, 0, 1, 13, 14, 48, 49, (1 << 31) - 1)


def lying_lengths(segment: GoldenSegment, number: int) -> Iterator[int]:
    """Lengths for one entry: nonsense, the limits of the formats, past the end of the file, into and to the end of the next."""
    entry = segment.entries[number]
    right = entry.size - batch.LOG_OVERHEAD
    yield from LENGTHS
    yield from (right - 1, right + 1, right + 30, len(segment.data) - entry.position, len(segment.data) + 1000)
    if number + 1 < len(segment.entries):
        yield right + segment.entries[number + 1].size


def check_lengths(quick: bool) -> Tally:
    """T-05: each length of each batch replaced by lies."""
    tally = Tally()
    for number_of_segment, segment in enumerate(golden_set()):
        for number, entry in enumerate(segment.entries):
            for lie in lying_lengths(segment, number):
                if quick and (number_of_segment + number + lie) % 11:
                    continue
                data = bytearray(segment.data)
                struct.pack_into(">i", data, entry.position + 8, lie)
                case = f"length {lie} in entry {number}"
                with tally.case(f"{segment.name} {case}"):
                    judge(segment, bytes(data), case, tally, count_residue=False)
    return tally


# T-06

MAX_COUNT = (1 << 31) - 1
COUNTS = (-(1 << 31), -1000, -2, -1, 0, 1, 2, 3, 5, 6, 7, 8, 100, 127, 128, 10_000, 1 << 20, 1 << 24, MAX_COUNT - 1, MAX_COUNT)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def check_counts(rounds: int) -> Tally:
    """T-06: the record count and the last offset delta lie. Each answer comes at once and costs no memory."""
    tally = Tally()
    records = b"".join(make_record(encode_varlong(0), encode_varint(number), *PLAIN[2:]) for number in range(4))
    for _ in range(rounds):
        before = resident_bytes()
        for codec, value in itertools.product((codecs.NONE, codecs.GZIP, codecs.ZSTD), COUNTS):
            payload = codecs.compress(codec, records)
            for field, data in (
                ("count", make_batch(payload, count=value, last_offset_delta=3, attributes=codec)),
                ("last offset delta", make_batch(payload, count=4, last_offset_delta=value, attributes=codec)),
                ("both", make_batch(payload, count=value, last_offset_delta=max(value - 1, -1), attributes=codec)),
            ):
                case = f"{field} {value}, codec {codec}"
                with tally.case(case):
                    start = time.process_time()
                    read(at_offset_zero(data))
                    seconds = time.process_time() - start
                    tally.expect(seconds < CPU_SECONDS_PER_READ, f"{case}: {seconds * 1000:.1f} ms", "hangs")
                    judge_against_reference(data, case, tally)
        grown = resident_bytes() - before
    tally.expect(grown < RSS_GROWTH, f"counts: memory grew by {grown} bytes", "lost")
    return tally


# T-07


def continuation_patterns(length: int) -> Iterator[bytes]:
    """Varints of up to `length` bytes with every choice of continuation bits, plain and with all other bits set."""
    for pattern in itertools.product((0, 0x80), repeat=length):
        for low in (0x00, 0x01, 0x7F):
            yield bytes(bit | low for bit in pattern)


def check_varints(random_cases: int) -> Tally:
    """T-07: each of the varints of a record replaced by every pattern of continuation bits, and by random bytes."""
    tally = Tally()
    random = Random(7)
    for field in range(-1, len(PLAIN)):
        length = 11 if field == 0 else 6
        patterns = list(continuation_patterns(length if random_cases > 1000 else length - 3))
        patterns += [random.randbytes(random.randint(1, 12)) for _ in range(random_cases // 6)]
        for pattern in patterns:
            case = f"varint {field} = {pattern.hex()}"
            with tally.case(case):
                judge_against_reference(make_batch(with_varint(field, pattern)), case, tally)
    return tally


def with_varint(field: int, pattern: bytes) -> bytes:
    if field < 0:
        return pattern + b"\0" + b"".join(PLAIN)
    parts = list(PLAIN)
    parts[field] = pattern + parts[field][1:]
    return make_record(*parts)


# T-10


def nest(depth: int, magic: int, codec: int) -> bytes:
    """A message in a compressed set, `depth` sets deep."""
    inner = reference.encode_message(reference.Record(0, TIMESTAMP if magic else -1, b"k", b"v"), magic=magic)
    for _ in range(depth):
        value = codecs.compress(codec, inner, magic=magic)
        inner = reference.encode_message(reference.Record(0, TIMESTAMP if magic else -1, None, value), magic=magic, codec=codec)
    return inner


def check_nests(quick: bool) -> Tally:
    """T-10: sets inside sets, and a whole segment inside a value."""
    tally = Tally()
    for magic, codec, depth in itertools.product((0, 1), (codecs.GZIP, codecs.SNAPPY, codecs.LZ4), (1, 2, 3, 1000)):
        case = f"v{magic} codec {codec} {depth} deep"
        with tally.case(case):
            outcome = judge_against_reference(nest(depth, magic, codec), case, tally)
            wanted = "" if depth == 1 else "nested"
            tally.expect(outcome.reason == wanted, f"{case}: {outcome.error!r}")
    for segment in golden_set():
        case = f"a value that holds the segment {segment.name}"
        with tally.case(case):
            record = make_record(*PLAIN[:3], encode_varint(len(segment.data)) + segment.data, PLAIN[4])
            outcome = judge_against_reference(make_batch(record), case, tally)
            tally.expect(outcome.offsets == [0], f"{case}: offsets {outcome.offsets}")
    return tally


# T-11


def header_cases() -> Iterator[tuple[str, bytes]]:
    good = encode_varint(1) + b"h" + encode_varint(1) + b"x"
    for count in (-(1 << 31), -2, -1, 0, 1, 2, 3, 4, 5, 100, 10_000, 10_001, 1 << 20, (1 << 31) - 1):
        yield f"{count} headers said, 2 there", encode_varint(count) + good * 2
    for length in (-(1 << 31), -2, -1, 0, 2, 3, 100, (1 << 31) - 1):
        yield f"header key of length {length}", encode_varint(1) + encode_varint(length) + b"h" + encode_varint(1) + b"x"
        yield f"header value of length {length}", encode_varint(1) + encode_varint(1) + b"h" + encode_varint(length) + b"x"
    for key in (b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", "naïve".encode(), b"\0", b""):
        yield f"header key {key!r}", encode_varint(1) + encode_varint(len(key)) + key + encode_varint(-1)


def check_headers(quick: bool) -> Tally:
    """T-11: header counts and lengths that lie, keys that are null or no UTF-8."""
    tally = Tally()
    for case, tail in header_cases():
        with tally.case(case):
            judge_against_reference(make_batch(make_record(*PLAIN[:4], tail)), case, tally)
    return tally


# T-12

MAX_OFFSET = (1 << 63) - 1
OFFSETS = (
    *(-(1 << 63), -(1 << 32), -2, -1, 0, 1, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53),
    *(MAX_OFFSET - (1 << 31), MAX_OFFSET - 2, MAX_OFFSET - 1, MAX_OFFSET),
)


def offset_cases(offset: int) -> Iterator[tuple[str, bytes]]:
    """Entries of all formats at `offset`: one record, and sets whose last record lies 2 further on."""
    stored = struct.pack(">q", offset)
    yield "v2", make_batch(make_record(*PLAIN), base_offset=offset)
    three = b"".join(make_record(PLAIN[0], encode_varint(number), *PLAIN[2:]) for number in range(3))
    yield "v2 of three", make_batch(three, count=3, base_offset=offset)
    far = make_record(PLAIN[0], encode_varint((1 << 31) - 1), *PLAIN[2:])
    yield "v2 with the largest delta", make_batch(far, last_offset_delta=(1 << 31) - 1, base_offset=offset)
    yield "v2 with a negative delta", make_batch(make_record(PLAIN[0], encode_varint(-1), *PLAIN[2:]), base_offset=offset)
    for magic in (0, 1):
        timestamp = TIMESTAMP if magic else -1
        single = reference.encode_message(reference.Record(0, timestamp, b"k", b"v"), magic=magic)
        yield f"v{magic}", stored + single[8:]
        inner = [reference.encode_message(reference.Record(number, timestamp, b"k", b"v"), magic=magic) for number in range(3)]
        value = codecs.compress(codecs.GZIP, b"".join(inner), magic=magic)
        wrapper = reference.encode_message(reference.Record(0, timestamp, None, value), magic=magic, codec=codecs.GZIP)
        yield f"v{magic} wrapper", stored + wrapper[8:]
        hostile = codecs.compress(codecs.GZIP, stored + inner[0][8:] + inner[1], magic=magic)
        wrapper = reference.encode_message(reference.Record(5, timestamp, None, hostile), magic=magic, codec=codecs.GZIP)
        yield f"v{magic} inner", wrapper


def check_offsets(quick: bool) -> Tally:
    """T-12: offsets at the edges of what 64 and 32 bits hold."""
    tally = Tally()
    for offset in OFFSETS:
        for name, data in offset_cases(offset):
            case = f"{name} at offset {offset}"
            with tally.case(case):
                outcome = judge_against_reference(data, case, tally)
                overflows = outcome.error is None and max(outcome.offsets, default=0) > (1 << 31) - 1
                noted = "segment-overflow" in outcome.report.notes
                tally.expect(noted or not overflows, f"{case}: beyond an index, without a note")
    return tally
