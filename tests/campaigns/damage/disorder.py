"""Offsets that go back (T-13) and implausible timestamps (T-14)."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog import codecs
from kafkalog.format import reference
from kafkalog.format.varint import encode_varint, encode_varlong

from .golden_set import framed
from .hostile_batches import PLAIN, at_offset_zero, make_batch, make_record
from .outcome import read
from .tally import Tally

MAX_INT64 = (1 << 63) - 1
MAX_TYPED_MS = 9_223_372_036_854_775
TIMESTAMPS = (
    *(-(1 << 63), -MAX_TYPED_MS - 1, -MAX_TYPED_MS, -5, -1, 0, 1, 253_402_300_800_000),
    *(MAX_TYPED_MS, MAX_TYPED_MS + 1, MAX_INT64 - 1, MAX_INT64),
)
STATED_MAXIMUM = 12
STARTS = {"twice the same": (0, 0), "an overlap": (0, 2), "far back": (100, 3), "thrice": (5, 5, 5)}


def overlaps() -> Iterator[tuple[str, bytes, list[int]]]:
    """Segments in which offsets or epochs go back, with all the offsets that are stored in them."""
    for magic in (0, 1, 2):
        for codec in (codecs.NONE, codecs.GZIP):
            name = f"v{magic} codec {codec}"
            for case, starts in STARTS.items():
                offsets = [[start + number for number in range(4)] for start in starts]
                data = b"".join(_entries(magic, codec, group) for group in offsets)
                yield f"{name}: {case}", data, [offset for group in offsets for offset in group]
    first, second = (reference.encode_batch([_record(2, offset)], leader_epoch=7 - offset) for offset in (0, 1))
    yield "v2: the leader epoch goes back", first + second, [0, 1]


def _record(magic: int, offset: int) -> reference.Record:
    return reference.Record(offset, 1000 if magic else -1, b"k", b"v")


def _entries(magic: int, codec: int, offsets: list[int]) -> bytes:
    records = [_record(magic, offset) for offset in offsets]
    if magic == 2:
        return reference.encode_batch(records, codec=codec, compress=framed, leader_epoch=1)
    if codec:
        return reference.encode_wrapper(records, codec=codec, compress=framed, magic=magic)
    return b"".join(reference.encode_message(record, magic=magic) for record in records)


def check_disorder(quick: bool) -> Tally:
    """T-13: strict stops with offset-order (or epoch), skip reports what it left out, allow_disorder gives everything."""
    tally = Tally()
    for case, data, offsets in overlaps():
        with tally.case(case):
            tally.reads += 4
            strict = read(at_offset_zero(data))
            tally.expect(strict.reason in ("offset-order", "epoch"), f"{case}: strict ended with {strict.reason!r}")
            for mode in ("skip", "salvage"):
                outcome = read(at_offset_zero(data), on_damage=mode)
                tally.expect(outcome.error is None and bool(outcome.report.dropped), f"{case}: {mode} says nothing")
                tally.expect(outcome.offsets == sorted(set(outcome.offsets)), f"{case}: {mode} gave {outcome.offsets}")
                everything = read(at_offset_zero(data), on_damage=mode, allow_disorder=True)
                tally.expect(everything.offsets == offsets, f"{case}: {mode} in disorder gave {everything.offsets}", "lost")
            everything = read(at_offset_zero(data), allow_disorder=True)
            tally.expect(everything.offsets == offsets, f"{case}: with disorder allowed {everything.offsets}", "lost")
    return tally


def timestamp_cases(timestamp: int) -> Iterator[tuple[str, bytes, int]]:
    """A record with that timestamp in every way a format can store it, and what a reader has to return."""
    record = make_record(*PLAIN)
    yield "base", make_batch(record, base_timestamp=timestamp, max_timestamp=timestamp), timestamp
    yield "maximum lies", make_batch(record, base_timestamp=timestamp, max_timestamp=STATED_MAXIMUM), timestamp
    yield "append time", make_batch(record, attributes=8, base_timestamp=5, max_timestamp=timestamp), timestamp
    far = make_record(encode_varlong(MAX_INT64), *PLAIN[1:])
    wrapped = (timestamp + MAX_INT64 + (1 << 63)) % (1 << 64) - (1 << 63)
    yield "delta overflows", make_batch(far, base_timestamp=timestamp), wrapped
    far = make_record(encode_varlong(-(1 << 63)), encode_varint(0), *PLAIN[2:])
    wrapped = timestamp % (1 << 64) - (1 << 63) if timestamp < 0 else timestamp - (1 << 63)
    yield "delta underflows", make_batch(far, base_timestamp=timestamp), wrapped
    if timestamp >= -1:
        yield "v1", reference.encode_message(reference.Record(0, timestamp, b"k", b"v"), magic=1), timestamp


def check_timestamps(quick: bool) -> Tally:
    """T-14: the stored number always comes out; the typed column is null where it cannot hold it."""
    tally = Tally()
    for timestamp in TIMESTAMPS:
        for name, data, expected in timestamp_cases(timestamp):
            case = f"timestamp {timestamp} as {name}"
            with tally.case(case):
                tally.reads += 1
                outcome = read(at_offset_zero(data))
                found = outcome.records["timestamp_ms"].to_pylist()
                tally.expect(outcome.error is None and found == [expected], f"{case}: {found}, {outcome.error}")
                fits = -MAX_TYPED_MS <= expected <= MAX_TYPED_MS
                typed = outcome.records["timestamp"]
                tally.expect(typed.null_count == (not fits), f"{case}: typed column is {typed.cast('int64')}")
                tally.expect(not fits or typed.cast("int64").to_pylist() == [expected], f"{case}: typed column differs")
    return tally
