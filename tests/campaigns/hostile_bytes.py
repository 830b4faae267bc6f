"""Hostile batches with right checksums, given to Kafka and to us: bits flipped, bytes cut off or added, then the CRC repaired.

    python -m tests.campaigns.hostile_bytes            compare every case (about a minute)
    python -m tests.campaigns.hostile_bytes --update   write that list again; keep its reasons

Where both accept, the records must be the same. Where only one of us accepts, `data/hostile_differences.json` has
that difference and says why.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import crc32c
import numpy as np

import kafkalog
from kafkalog import codecs
from kafkalog.errors import SegmentError
from kafkalog.format import batch, message
from kafkalog.format.reference import Record, decode_entry, decode_records, encode_batch, encode_message, encode_wrapper
from tests.interop.kafka import NEWEST, KafkaPeer, NoPeer, Refused

DIFFERENCES = Path(__file__).resolve().parent / "data" / "hostile_differences.json"
FORMATS = tuple((magic, codec) for magic in (0, 1, 2) for codec in range(5 if magic == 2 else 4))
ACCEPTED = "accepted"
COLUMNS = ("offset", "timestamp_ms", "key", "value", "headers", "timestampType", "sequence")
# The reader also compares an entry's records with the offsets of its header, and those with the log; the reference does not.
STRICTER = {"offset-range", "offset-order", "count"}
# Framing, and fields that are repaired anyway; other tests flip bits there.
LEFT_ALONE = {"batch_length", "partition_leader_epoch", "message_size", "magic", "crc"}

TEXT = b"the quick brown fox jumps over the lazy dog, again and again and again and again"
RECORDS = (
    Record(1000, 1_600_000_000_000, b"first", TEXT, ((b"trace", b"0123456789"), (b"empty", b""), (b"none", None))),
    Record(1001, 1_600_000_000_070, None, b"\x00\x01\x02" + TEXT[:40]),
    Record(1003, 1_599_999_999_000, b"", None),
    Record(1004, 1_600_000_000_000, b"last", b"", ((b"", b"v"),)),
)


@dataclass(frozen=True)
class Case:
    """One entry with one change; `place` is the field it lies in."""

    magic: int
    codec: int
    place: str
    change: str
    data: bytes

    @property
    def format(self) -> str:
        return f"v{self.magic} {codecs.NAMES[self.codec]}"

    @property
    def name(self) -> str:
        return f"{self.format} {self.place} {self.change}"


@dataclass(frozen=True, order=True)
class Difference:
    """A kind of case that only one of us accepts: where the bit lies, and what each side says."""

    place: str
    kafkalog: str
    kafka: str


def original(magic: int, codec: int) -> bytes:
    """The entry that is damaged: sent by an idempotent producer, where the format has them."""
    if magic == 2:
        return encode_batch(
            RECORDS, codec=codec, compress=_compress, leader_epoch=3, producer_id=7, producer_epoch=1, base_sequence=100
        )
    plain = [Record(each.offset, each.timestamp if magic else -1, each.key, each.value) for each in RECORDS]
    return encode_wrapper(plain, codec=codec, compress=_compress, magic=magic) if codec else encode_message(plain[0], magic=magic)


def iter_cases(magic: int, codec: int) -> Iterator[Case]:
    """Every bit of the stored entry and of what it holds flipped, every cut of both, the payload and a beginning of it again."""
    data = original(magic, codec)
    for position in range(len(data)):
        place = _place(magic, position)
        for bit in range(8) if place not in LEFT_ALONE else ():
            yield Case(magic, codec, place, f"byte {position} bit {bit}", with_crc(_flipped(data, position, bit)))
    front, payload = data[: _payload_start(magic)], data[_payload_start(magic) :]
    for size in range(len(payload)):
        yield Case(magic, codec, "payload-cut", f"to {size} bytes", _refilled(front, payload[:size]))
        yield Case(magic, codec, "payload-added", f"{size + 1} bytes", _refilled(front, payload + payload[: size + 1]))
    if codec:
        for change, content in _iter_contents(magic, _decompress(codec, payload, magic)):
            place = "content-cut" if change.startswith("to") else "content"
            yield Case(magic, codec, place, change, _refilled(front, _compress(codec, content, magic)))


def _iter_contents(magic: int, content: bytes) -> Iterator[tuple[str, bytes]]:
    """(change, decompressed records or messages with it); checksums of inner messages are repaired too."""
    for position in range(len(content)):
        yield f"to {position} bytes", content[:position]
        for bit in range(8):
            changed = _flipped(content, position, bit)
            if magic < 2:
                changed = _with_inner_crc(content, changed, position)
            if changed != content:
                yield f"byte {position} bit {bit}", changed


def _flipped(data: bytes, position: int, bit: int) -> bytes:
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


def _payload_start(magic: int) -> int:
    """Where records begin, or the value of a wrapper, which has no key."""
    return (message.KEY_POSITION_V0 + 4, message.KEY_POSITION_V1 + 4, batch.HEADER_SIZE)[magic]


def _place(magic: int, position: int) -> str:
    front: np.dtype[np.void] = (message.MESSAGE_V0, message.MESSAGE_V1, batch.HEADER)[magic]
    if position >= front.itemsize:
        return "payload"
    assert front.fields is not None
    return max((start, name) for name, (_, start, *_) in front.fields.items() if start <= position)[1]


def with_crc(data: bytes) -> bytes:
    if data[batch.MAGIC_POSITION] == 2:
        crc = crc32c.crc32c(data[batch.CRC_START :])
        return data[: batch.CRC_POSITION] + struct.pack(">I", crc) + data[batch.CRC_START :]
    crc = zlib.crc32(data[message.CRC_START :])
    return data[: message.CRC_POSITION] + struct.pack(">I", crc) + data[message.CRC_START :]


def _with_inner_crc(content: bytes, changed: bytes, position: int) -> bytes:
    """`changed` with the checksum of the message around `position` repaired; messages begin where they do in `content`."""
    start = 0
    while True:
        (size,) = struct.unpack_from(">i", content, start + message.MESSAGE_SIZE_POSITION)
        stop = start + batch.LOG_OVERHEAD + size
        if position < stop:
            return changed[:start] + with_crc(changed[start:stop]) + changed[stop:]
        start = stop


def _refilled(front: bytes, payload: bytes) -> bytes:
    """An entry with another payload: lengths and checksum follow."""
    size = struct.pack(">i", len(front) - batch.LOG_OVERHEAD + len(payload))
    front = front[: batch.BATCH_LENGTH_POSITION] + size + front[batch.LOG_OVERHEAD :]
    if front[batch.MAGIC_POSITION] < 2 and front[message.ATTRIBUTES_POSITION]:
        front = front[:-4] + struct.pack(">i", len(payload))
    return with_crc(front + payload)


def _compress(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def _decompress(codec: int, payload: bytes, magic: int) -> bytes:
    out = bytearray(1 << 20)
    return bytes(out[: codecs.decompress(codec, payload, memoryview(out), magic=magic)])


class Comparison:
    """The outcomes of the cases so far."""

    def __init__(self, peer: KafkaPeer, folder: Path) -> None:
        self.peer = peer
        self.file = folder / "00000000000000000000.log"
        self.cases = 0
        self.both_accept = 0
        self.different_records: list[str] = []
        self.differences: dict[Difference, Counter[str]] = {}
        self.examples: dict[tuple[Difference, str], str] = {}

    def compare(self, case: Case) -> None:
        self.cases += 1
        ours, records = self._read_ours(case.data)
        try:
            theirs, expected = ACCEPTED, [_content(each) for each in self.peer.read(case.data)]
        except Refused as refused:
            theirs, expected = str(refused.args[0]), []
        if ours == theirs == ACCEPTED:
            self.both_accept += 1
            if records != expected:
                self.different_records.append(case.name)
        elif ACCEPTED in (ours, theirs):
            difference = Difference(case.place, ours, theirs)
            self.differences.setdefault(difference, Counter())[case.format] += 1
            self.examples.setdefault((difference, case.format), case.name)

    def unexpected(self) -> list[str]:
        """An example of each difference that the list does not have for its format, or has without a reason."""
        known = known_differences()
        return [name for (difference, form), name in self.examples.items() if form not in known.get(difference, {})]

    def _read_ours(self, data: bytes) -> tuple[str, list[tuple[object, ...]]]:
        """(accepted or our reason code, records); the reader and the reference codec must agree."""
        self.file.unlink(missing_ok=True)  # some file systems flush a file that is cut and written again
        self.file.write_bytes(data)
        try:
            table = kafkalog.open(str(self.file)).read("records", COLUMNS, include_control=True, threads=1).read_all()
            rows = [tuple(row.values()) for row in table.to_pylist()]
            records = [(*row[:4], tuple((each["key"], each["value"]) for each in row[4] or ()), *row[5:]) for row in rows]
            found = ACCEPTED
        except SegmentError as error:
            found, records = error.reason, []
        reference = _read_reference(data)
        if reference != (records if found == ACCEPTED else None) and found not in STRICTER:
            raise AssertionError(f"the reader ({found}) and the reference codec differ: {data.hex()} {reference} {records}")
        return found, records


def _read_reference(data: bytes) -> list[tuple[object, ...]] | None:
    try:
        return [_content(each) for each in decode_records(decode_entry(data, 0), _decompress)]
    except SegmentError:
        return None


def _content(record: Record) -> tuple[object, ...]:
    headers = tuple((key.decode(errors="replace"), value) for key, value in record.headers)
    return record.offset, record.timestamp, record.key, record.value, headers, record.timestamp_type, record.sequence


def _listed() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(DIFFERENCES.read_text(encoding="utf-8"))["differences"]
    return listed


def known_differences() -> dict[Difference, dict[str, int]]:
    """The known differences that have a reason: in which formats, in how many cases."""
    return {_difference(entry): entry["cases"] for entry in _listed() if entry["why"]}


def _difference(entry: dict[str, Any]) -> Difference:
    return Difference(entry["place"], entry["kafkalog"], entry["kafka"])


def _update(comparison: Comparison) -> None:
    reasons = {_difference(entry): entry["why"] for entry in _listed()} if DIFFERENCES.exists() else {}
    entries = [
        {**asdict(each), "why": reasons.get(each, ""), "cases": dict(sorted(comparison.differences[each].items()))}
        for each in sorted(comparison.differences)
    ]
    content = {"kafka": NEWEST, "cases": comparison.cases, "both_accept": comparison.both_accept, "differences": entries}
    DIFFERENCES.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def compare_all() -> Comparison:
    """The outcome of every case."""
    with tempfile.TemporaryDirectory() as folder, KafkaPeer(NEWEST) as peer:
        comparison = Comparison(peer, Path(folder))
        for magic, codec in FORMATS:
            for case in iter_cases(magic, codec):
                comparison.compare(case)
    return comparison


def main(arguments: list[str] | None = None) -> int:
    """0 if both sides read the same records wherever both read, and every difference is known and has its reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.hostile_bytes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the list of differences again")
    options = parser.parse_args(arguments)
    try:
        comparison = compare_all()
    except NoPeer as error:
        print(error, file=sys.stderr)
        return 2
    if options.update:
        _update(comparison)
    one_sided = sum(counts.total() for counts in comparison.differences.values())
    print(f"{comparison.cases} cases, {comparison.both_accept} accepted by both, {one_sided} by one side only")
    print(f"{len(comparison.different_records)} accepted by both with different records")
    unexpected = [*comparison.different_records, *comparison.unexpected()]
    for name in unexpected:
        print(f"not expected: {name}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
