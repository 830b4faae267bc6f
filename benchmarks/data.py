"""The segment files that the benchmarks read, made once and kept: `DATA/<variant>/bench-0/00000000000000000000.log`.

Records have a key of 10 bytes and a JSON value of about 170, every third v2 record has a header, a batch holds 150. Kafka's
own writer makes them; on a machine without Java kafkalog's reference encoder makes records of the same shape.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from benchmarks.jvm import KAFKA_VERSION, Jvm
from benchmarks.measure import RunFailed
from kafkalog.codecs import codec_id, compress
from kafkalog.format import reference

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_NAME = "00000000000000000000.log"
RECORDS_PER_BATCH = 150
FIRST_TIMESTAMP_MS = 1_767_225_600_000
UNLIMITED = 1 << 40
SHAPE = 1  # raise it when the records change, so that stored files are made again
STATUSES = ("created", "paid", "packed", "shipped", "delivered", "returned")
CITIES = ("Berlin", "Lisbon", "Nairobi", "Osaka", "Quito", "Reykjavik", "Toronto", "Wellington")


@dataclass(frozen=True)
class Variant:
    """A segment to write: it ends at the record count or below the size, whichever comes first."""

    name: str
    magic: int
    codec: str
    record_count: int = UNLIMITED
    max_bytes: int = UNLIMITED


@dataclass(frozen=True)
class Segment:
    """A segment file that exists."""

    variant: str
    path: Path
    records: int
    size: int
    writer: str


def codec_variant(magic: int, codec: str, record_count: int) -> Variant:
    return Variant(f"v{magic}-{codec}", magic, codec, record_count=record_count)


def sized_variant(mebibytes: int) -> Variant:
    return Variant(f"v2-none-{mebibytes}MiB", 2, "none", max_bytes=mebibytes << 20)


def ensure_segment(variant: Variant, folder: Path, jvm: Jvm | None) -> Segment:
    """The variant's segment below `folder`, written now unless it is there already."""
    home = folder / variant.name
    path = home / "bench-0" / SEGMENT_NAME
    note = home / "segment.json"
    writer = f"Kafka {KAFKA_VERSION}" if jvm else "kafkalog's reference encoder"
    wanted = {**asdict(variant), "writer": writer, "shape": SHAPE}
    if note.exists() and path.exists():
        kept = json.loads(note.read_text())
        if kept["wanted"] == wanted and kept["size"] == path.stat().st_size:
            return Segment(variant.name, path, kept["records"], kept["size"], writer)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = home / "unfinished"
    records = _write_with_kafka(variant, unfinished, jvm) if jvm else _write_with_kafkalog(variant, unfinished)
    os.replace(unfinished, path)
    size = path.stat().st_size
    note.write_text(json.dumps({"wanted": wanted, "records": records, "size": size}))
    return Segment(variant.name, path, records, size, writer)


def _write_with_kafka(variant: Variant, path: Path, jvm: Jvm) -> int:
    command = jvm.write_command(path, variant.magic, variant.codec, variant.record_count, variant.max_bytes)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        raise RunFailed(f"Kafka's writer failed on {variant.name}:\n{done.stderr[-2000:]}")
    return int(json.loads(done.stdout)["records"])


def _write_with_kafkalog(variant: Variant, path: Path) -> int:
    written = size = 0
    with path.open("wb") as file:
        for entries in _encoded_batches(variant):
            if size + len(entries) > variant.max_bytes:
                break
            file.write(entries)
            size += len(entries)
            written = min(written + RECORDS_PER_BATCH, variant.record_count)
    return written


def _encoded_batches(variant: Variant) -> Iterator[bytes]:
    """The bytes of one batch after the other: a v2 batch, a v0 or v1 wrapper, or so many bare messages."""
    codec = codec_id(variant.codec)
    source = random.Random(SHAPE)

    def squeeze(codec: int, data: bytes, magic: int) -> bytes:
        return compress(codec, data, magic=magic)

    for base_offset in count(0, RECORDS_PER_BATCH):
        stop = min(base_offset + RECORDS_PER_BATCH, variant.record_count)
        if stop <= base_offset:
            return
        records = [make_record(source, offset, variant.magic) for offset in range(base_offset, stop)]
        if variant.magic == 2:
            yield reference.encode_batch(records, codec=codec, compress=squeeze)
        elif codec:
            yield reference.encode_wrapper(records, codec=codec, compress=squeeze, magic=variant.magic)
        else:
            yield b"".join(reference.encode_message(one, magic=variant.magic) for one in records)


def make_record(source: random.Random, offset: int, magic: int) -> reference.Record:
    """The record of an offset; the same `source` gives the same records again."""
    value = (
        f'{{"order_id":"{source.getrandbits(128):032x}","customer":{source.randrange(100_000, 1_000_000)},'
        f'"amount":{source.randrange(100, 1_000)}.{source.randrange(10, 100)},"status":"{source.choice(STATUSES)}",'
        f'"city":"{source.choice(CITIES)}","token":"{source.getrandbits(96):024x}","sequence":{10_000_000 + offset}}}'
    )
    headers = ((b"trace", b"%08x" % source.getrandbits(32)),) if magic == 2 and offset % 3 == 0 else ()
    timestamp_ms = FIRST_TIMESTAMP_MS + offset if magic else -1
    return reference.Record(offset, timestamp_ms, b"k%09d" % source.randrange(1_000_000_000), value.encode(), headers)
