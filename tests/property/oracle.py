"""The reference codec as an oracle: its outcome for any bytes, how far the kernels may differ, and entries with right checksums.

Where the two may differ, and only there:
- Fewer than 17 bytes, or a length beyond the end of the file, are a torn tail whatever else the front says, as for Kafka; the
  reference looks at length and magic first. If an intact entry follows, it is a wrong length.
- A front of zeros with more after it is `torn-write`, or a torn tail if no intact entry follows, where the reference says
  `length`. A bad checksum over a zeroed sector is `torn-write` too.
- A batch with more records than its offsets leave room for is refused (`count`); Kafka and the reference do not compare the two.
- Of two faults in the same entry each may name the other one, if one of them is an offset out of range or that count, or if the
  entry is a compressed set: the reference looks at the frames of all its messages first.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import crc32c

from kafkalog import codecs
from kafkalog.errors import CodecError, Limits, SegmentError
from kafkalog.format import batch, message
from kafkalog.format.reference import decode_entries, decode_records
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table, with_views

DECOMPRESSED_LIMIT = 1 << 16
LIMITS = Limits(decompressed_bytes=DECOMPRESSED_LIMIT)
COLUMNS = ["offset", "timestamp_ms", "key", "value", "headers_raw", "timestampType", "sequence"]
FRONT = 17
SET_REASONS = {"record-structure", "length", "magic", "nested", "inner-crc", "count"}

Row = tuple[Any, ...]


def compress(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def decompress(codec: int, payload: bytes, magic: int) -> bytes:
    out = bytearray(DECOMPRESSED_LIMIT)
    return bytes(out[: codecs.decompress(codec, payload, memoryview(out), magic=magic)])


# -- outcomes ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The outcome of a read of some bytes: rows, and what stopped it ("" if nothing did) at which byte."""

    rows: list[Row]
    reason: str = ""
    position: int = -1


def reference_outcome(data: bytes) -> Outcome:
    """The records of the reference codec up to the first entry that it refuses."""
    rows: list[Row] = []
    try:
        for entry in decode_entries(data):
            rows += [
                (each.offset, each.timestamp, each.key, each.value, each.headers, each.timestamp_type, each.sequence)
                for each in decode_records(entry, decompress)
            ]
    except SegmentError as error:
        return Outcome(rows, error.reason, error.position)
    return Outcome(rows)


def kernel_outcome(
    partition: Partition, *, allow_disorder: bool = True, window_bytes: int | None = None, views: bool = False
) -> Outcome:
    """The outcome of a strict read of everything; a tail is what stopped it, as for the reference."""
    options = ReadOptions(
        frozenset(COLUMNS),
        include_control=True,
        allow_disorder=allow_disorder,
        threads=1,
        limits=LIMITS,
        window_bytes=window_bytes,
        views=views,
    )
    schema = find_table("records").schema(COLUMNS)
    rows: list[Row] = []
    report = ReadReport()
    try:
        for each in record_batches([partition], with_views(schema) if views else schema, options, report):
            each.validate(full=True)
            for row in each.to_pylist():
                row["headers_raw"] = tuple((header["key"], header["value"]) for header in row["headers_raw"] or ())
                rows.append(tuple(row.values()))
    except SegmentError as error:
        return Outcome(rows, error.reason, error.position)
    if report.tails:
        return Outcome(rows, report.tails[0].reason, report.tails[0].position)
    return Outcome(rows)


def agrees(data: bytes, found: Outcome, expected: Outcome) -> bool:
    """Whether the kernels' outcome is the reference's, except for the differences that the module's docstring lists."""
    if found == expected:
        return True
    if found.rows != expected.rows[: len(found.rows)]:
        return False
    if found.position != expected.position:  # refused earlier, for what the reference does not compare
        return found.reason in ("count", "offset-range") and found.position >= 0
    front = data[found.position : found.position + FRONT]
    beyond = int.from_bytes(front[8:12], "big", signed=True) > len(data) - found.position - batch.LOG_OVERHEAD
    both_refuse = found.reason != "" and expected.reason != ""
    if both_refuse and (found.reason == "count" or "offset-range" in (found.reason, expected.reason)):
        return True
    if both_refuse and front[16:] < b"\2" and {found.reason, expected.reason} <= SET_REASONS:
        return True
    pairs = {("torn-write", "crc")}
    if beyond or len(front) < FRONT:
        pairs |= {(reason, other) for reason in ("torn", "length") for other in ("torn", "length", "magic")}
    if not any(front[:12]) and front[16:] in (b"", b"\0"):
        pairs |= {("torn-write", "length"), ("torn", "length")}
    return (found.reason, expected.reason) in pairs


# -- entries with right checksums --------------------------------------------------------------------------------------------


def split_entry(stored: bytes) -> tuple[bytes, int, int, bytes] | None:
    """(bytes before the content, codec, magic, decompressed content) of a v2 batch or a compressed set; None for others."""
    if len(stored) < batch.HEADER_SIZE:
        return None
    magic = stored[batch.MAGIC_POSITION]
    if magic == 2:
        start, codec = batch.HEADER_SIZE, stored[batch.ATTRIBUTES_POSITION + 1] & batch.CODEC_MASK
    else:
        start = message.KEY_LENGTH_POSITION_V1 + 8 if magic == 1 else message.KEY_LENGTH_POSITION_V0 + 8
        codec = stored[message.ATTRIBUTES_POSITION] & batch.CODEC_MASK
        if not codec:
            return None
    try:
        return stored[:start], codec, magic, decompress(codec, stored[start:], magic) if codec else stored[start:]
    except CodecError:
        return None


def joined_entry(front: bytes, codec: int, magic: int, content: bytes) -> bytes:
    """The entry of `split_entry` with other content, compressed, and with the lengths and the checksum that belong to it."""
    payload = compress(codec, content, magic) if codec else content
    stored = bytearray(front + payload)
    if magic < 2:
        struct.pack_into(">i", stored, len(front) - 4, len(payload))
    struct.pack_into(">i", stored, batch.BATCH_LENGTH_POSITION, len(stored) - batch.LOG_OVERHEAD)
    return sealed(bytes(stored))


def sealed(data: bytes) -> bytes:
    """An entry with the checksum that matches its bytes, whatever they are."""
    stored = bytearray(data)
    if len(stored) <= batch.MAGIC_POSITION:
        return data
    if stored[batch.MAGIC_POSITION] >= 2:
        if len(stored) > batch.CRC_START:
            struct.pack_into(">I", stored, batch.CRC_POSITION, crc32c.crc32c(bytes(stored[batch.CRC_START :])))
    else:
        struct.pack_into(">I", stored, message.CRC_POSITION, zlib.crc32(stored[message.CRC_START :]))
    return bytes(stored)


def sealed_messages(content: bytes) -> bytes:
    """Right checksums for the messages of a set, as far as their sizes lead."""
    parts, at = [], 0
    while at + batch.LOG_OVERHEAD <= len(content):
        (size,) = struct.unpack_from(">i", content, at + message.MESSAGE_SIZE_POSITION)
        stop = at + batch.LOG_OVERHEAD + size
        if size < message.MIN_MESSAGE_SIZE or stop > len(content):
            break
        stored = bytearray(content[at:stop])
        struct.pack_into(">I", stored, message.CRC_POSITION, zlib.crc32(stored[message.CRC_START :]))
        parts.append(bytes(stored))
        at = stop
    return b"".join(parts) + content[at:]
