"""Small files that ask for much: each function writes one bomb, a partition folder or a file of a log directory.

`python -m tests.damage.bombs FOLDER NAME …` writes them next to an ordinary partition, to try commands by hand.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from kafkalog import codecs
from kafkalog.format.batch import MIN_RECORD_SIZE
from kafkalog.format.reference import Record, encode_batch, encode_message
from kafkalog.format.snapshot import encode_snapshot
from kafkalog.format.varint import encode_varint
from tests.campaigns.damage.hostile_batches import make_batch, make_record, repair_crc

MILLION = 1_000_000
TIMESTAMP = 1_700_000_000_000
BOMB, ORDINARY = "bomb-0", "ordinary-0"
SEGMENT = f"{0:020d}.log"
# Without key, value and headers; every one at offset delta 0, so that they compress to nothing.
MINIMAL = encode_varint(6) + b"\0\0\0\1\1\0"
assert len(MINIMAL) == MIN_RECORD_SIZE


def write_ordinary(folder: Path, offsets: int = 1000) -> Path:
    """A partition that has to be read whatever is next to it."""
    records = [Record(offset, TIMESTAMP + offset, b"key-%d" % offset, b'{"n": %d}' % offset, ()) for offset in range(offsets)]
    partition = folder / ORDINARY
    partition.mkdir(parents=True)
    entries = [encode_batch(records[at : at + 100]) for at in range(0, offsets, 100)]
    (partition / SEGMENT).write_bytes(b"".join(entries))
    (partition / f"{0:020d}.index").write_bytes(b"")
    (partition / f"{0:020d}.timeindex").write_bytes(b"")
    return partition


def write_log(folder: Path, *entries: bytes) -> Path:
    partition = folder / BOMB
    partition.mkdir(parents=True, exist_ok=True)
    for kind in ("index", "timeindex"):
        (partition / f"{0:020d}.{kind}").write_bytes(b"")
    path = partition / SEGMENT
    path.write_bytes(b"".join(entries))
    return path


def compressed_batch(payload: bytes, count: int, codec: int, base_offset: int = 0) -> bytes:
    return make_batch(codecs.compress(codec, payload), count=count, attributes=codec, base_offset=base_offset)


def minimal_records(folder: Path, codec: int = codecs.ZSTD, batches: int = 25, count: int = MILLION) -> None:
    """Batches of a million records without anything in them; an ordinary large batch after them."""
    payload = codecs.compress(codec, MINIMAL * count)
    entries = [make_batch(payload, count=count, attributes=codec, base_offset=at * count) for at in range(batches)]
    write_log(folder, *entries, large_batch(batches * count))


def large_batch(base_offset: int, size: int = 1 << 20) -> bytes:
    """A batch unlike those before it: hardly compressible, so large in the file too."""
    value = os.urandom(size)
    return encode_batch([Record(base_offset, TIMESTAMP, None, value, ())])


def zero_values(folder: Path, codec: int = codecs.ZSTD, batches: int = 12, size: int = 200 << 20) -> None:
    """A record of zeros, as large as the limit lets it be, in every batch."""
    record = make_record(b"\0", b"\0", encode_varint(-1), encode_varint(size), bytes(size), b"\0") if size <= 100 << 20 else b""
    payload = record or b"".join([make_record(b"\0", b"\0", b"\1", encode_varint(100 << 20), bytes(100 << 20), b"\0")] * 2)
    count = 1 if record else 2
    stored = codecs.compress(codec, payload)
    entries = [make_batch(stored, count=count, attributes=codec, base_offset=at * count) for at in range(batches)]
    write_log(folder, *entries)


def minimal_headers(folder: Path, batches: int = 3, records: int = 2000) -> None:
    """As many headers without key and value as a record may have."""
    record = make_record(b"\0", b"\0", b"\1", b"\1", encode_varint(10_000), b"\0\1" * 10_000)
    stored = codecs.compress(codecs.ZSTD, record * records)
    write_log(
        folder, *(make_batch(stored, count=records, attributes=codecs.ZSTD, base_offset=at * records) for at in range(batches))
    )


def lying_counts(folder: Path) -> None:
    """Headers that speak of two thousand million records, and one record."""
    record = make_record(b"\0", b"\0", b"\1", b"\1", b"\0")
    count = (1 << 31) - 1
    plain = [make_batch(record, count=count, base_offset=at * count) for at in range(2000)]
    packed = [compressed_batch(record, count, codecs.ZSTD, (2000 + at) * count) for at in range(2000)]
    write_log(folder, *plain, *packed)


def wrapper(folder: Path, count: int = MILLION, codec: int = codecs.GZIP, magic: int = 1) -> None:
    """A v1 message with a million messages inside."""
    inner = b"".join(encode_message(Record(at, TIMESTAMP, None, b"", ()), magic=magic) for at in range(min(count, 1000)))
    if count > 1000:  # relative offsets may repeat: their values do not matter here
        inner = inner * (count // 1000)
    write_log(folder, wrapped(inner, count - 1, codec, magic))


def wrapped(inner: bytes, offset: int, codec: int, magic: int = 1) -> bytes:
    value = codecs.compress(codec, inner, magic=magic)
    front = struct.pack(">IbbqiI", 0, magic, codec, TIMESTAMP, -1, len(value))
    return repair_crc(struct.pack(">qi", offset, len(front) + len(value)) + front + value)


def nested_wrappers(folder: Path, depth: int = 50) -> None:
    entry = encode_message(Record(0, TIMESTAMP, None, b"v" * 1000, ()), magic=1)
    for _ in range(depth):
        entry = wrapped(entry, 0, codecs.GZIP)
    write_log(folder, entry)


def sparse_snapshot(folder: Path, size: int = 20 << 30) -> None:
    """A producer snapshot that is nearly all hole."""
    write_log(folder, encode_batch([Record(0, TIMESTAMP, None, b"v", ())]))
    with (folder / BOMB / f"{1:020d}.snapshot").open("wb") as file:
        file.write(struct.pack(">hIi", 1, 0, (size - 10) // 46))
        file.truncate(size)


def sparse_indexes(folder: Path, size: int = 20 << 30) -> None:
    write_log(folder, encode_batch([Record(0, TIMESTAMP, None, b"v", ())]))
    for kind in ("index", "timeindex", "txnindex"):
        with (folder / BOMB / f"{0:020d}.{kind}").open("wb") as file:
            file.truncate(size)


def long_indexes(folder: Path, size: int = 60_000_000) -> None:
    """Index files of 60 MB that agree with nothing."""
    write_log(folder, encode_batch([Record(0, TIMESTAMP, None, b"v", ())]))
    (folder / BOMB / f"{0:020d}.index").write_bytes(struct.pack(">ii", 7, 3) * (size // 8))
    (folder / BOMB / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 7, 3) * (size // 12))
    (folder / BOMB / f"{0:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 3, 5, 1) * (size // 34))


def many_producers(folder: Path, count: int = MILLION) -> None:
    """A snapshot of a million producers, all of them in order."""
    import numpy as np

    from kafkalog.format.snapshot import PRODUCERS

    write_log(folder, encode_batch([Record(0, TIMESTAMP, None, b"v", ())]))
    producers = np.zeros(count, PRODUCERS)
    producers["producer_id"] = np.arange(count)
    (folder / BOMB / f"{1:020d}.snapshot").write_bytes(encode_snapshot(producers))


def long_checkpoints(folder: Path, count: int = 1_500_000) -> None:
    """Checkpoints of one and a half million lines."""
    write_log(folder, encode_batch([Record(0, TIMESTAMP, None, b"v", ())]))
    lines = "".join(f"topic {number} {number}\n" for number in range(count))
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (folder / name).write_text(f"0\n{count}\n{lines}")
    epochs = "".join(f"{number} {number}\n" for number in range(count))
    (folder / BOMB / "leader-epoch-checkpoint").write_text(f"0\n{count}\n{epochs}")


def nested_json(folder: Path, depth: int = 20_000) -> None:
    values = [b'{"a":' * levels + b"1" + b"}" * levels for levels in (10, 1000, depth)]
    values += [b'{"a":' + b"[" * depth + b"]" * depth + b"}", b"[" * depth]
    records = [Record(at, TIMESTAMP, None, value, ()) for at, value in enumerate(values)]
    write_log(folder, encode_batch(records))


def wide_json(folder: Path, keys: int = 100_000) -> None:
    records = [
        Record(at, TIMESTAMP, None, json.dumps({f"k{at}_{key}": key for key in range(keys)}).encode(), ()) for at in range(3)
    ]
    write_log(folder, encode_batch(records))


BOMBS: dict[str, Callable[[Path], None]] = {
    "zstd-minimal-records": minimal_records,
    "gzip-minimal-records": lambda folder: minimal_records(folder, codecs.GZIP),
    "snappy-minimal-records": lambda folder: minimal_records(folder, codecs.SNAPPY),
    "lz4-minimal-records": lambda folder: minimal_records(folder, codecs.LZ4),
    "zstd-36-million-records": lambda folder: minimal_records(folder, batches=4, count=36 * MILLION),
    "zero-values": zero_values,
    "minimal-headers": minimal_headers,
    "lying-counts": lying_counts,
    "wrapper": wrapper,
    "nested-wrappers": nested_wrappers,
    "sparse-snapshot": sparse_snapshot,
    "sparse-indexes": sparse_indexes,
    "long-indexes": long_indexes,
    "many-producers": many_producers,
    "long-checkpoints": long_checkpoints,
    "nested-json": nested_json,
    "wide-json": wide_json,
}


if __name__ == "__main__":
    for name in sys.argv[2:] or BOMBS:
        target = Path(sys.argv[1]) / name
        write_ordinary(target)
        BOMBS[name](target)
