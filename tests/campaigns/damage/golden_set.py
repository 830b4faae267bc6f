"""G: one small segment for every format and codec that Kafka ever wrote, with everything in it that the format has.

Each segment has eight batches (v0/v1 without a codec: as many messages as the other formats have records in theirs), begins at
offset 1000 and holds headers, nulls, empty values, tombstones, an idempotent and a transactional producer, a transaction marker,
a batch with log append time and two leader epochs, as far as its format has them. As a partition it is followed by a second
segment and has a leader-epoch-checkpoint: the neighbours that show what no checksum covers. Every byte is made here, by the
reference encoders and our own codecs, and is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

import cramjam

from kafkalog import codecs
from kafkalog.format import control, reference
from kafkalog.format.checkpoint import EpochStart, encode_leader_epoch_checkpoint
from kafkalog.format.reference import Record

BASE_OFFSET = 1000
FIRST_TIMESTAMP = 1_700_000_000_000
FIRST_EPOCH, SECOND_EPOCH = 3, 4
BATCHES = 8
RECORDS_PER_BATCH = 4
SECOND_EPOCH_FROM_BATCH = 5
APPEND_TIME_BATCH, IDEMPOTENT_BATCH, TRANSACTIONAL_BATCH, MARKER_BATCH = 6, 2, 3, 4
IDEMPOTENT_PRODUCER, TRANSACTIONAL_PRODUCER = 7, 9
FOLDER = "/logs/golden-0"


@dataclass(frozen=True)
class Entry:
    """Where an entry of a segment lies, and which rows of the segment's records are its own."""

    position: int
    size: int
    first_row: int
    row_count: int

    @property
    def stop(self) -> int:
        return self.position + self.size


@dataclass(frozen=True)
class GoldenSegment:
    """One of G: the segment, the one after it, and its records as the reference decoder reads them."""

    name: str
    magic: int
    codec: int
    data: bytes
    entries: tuple[Entry, ...]
    records: tuple[Record, ...]
    next_offset: int
    next_data: bytes
    next_records: tuple[Record, ...]

    def alone(self, data: bytes | None = None) -> dict[str, bytes]:
        """The files of a partition with nothing but this segment, or with `data` in its place."""
        return {segment_path(BASE_OFFSET): self.data if data is None else data}

    def among_neighbours(self, data: bytes | None = None) -> dict[str, bytes]:
        """The same with the next segment and, where the format has epochs, the checkpoint."""
        files = {**self.alone(data), segment_path(self.next_offset): self.next_data}
        if self.magic == 2:
            starts = [EpochStart(FIRST_EPOCH, BASE_OFFSET), EpochStart(SECOND_EPOCH, self._second_epoch_offset())]
            files[f"{FOLDER}/leader-epoch-checkpoint"] = encode_leader_epoch_checkpoint(starts)
        return files

    def _second_epoch_offset(self) -> int:
        return self.records[self.entries[SECOND_EPOCH_FROM_BATCH].first_row].offset

    def entry_bytes(self, entry: Entry) -> bytes:
        return self.data[entry.position : entry.stop]

    def entry_at(self, position: int) -> int:
        """The number of the entry that the byte at `position` belongs to."""
        return next(number for number, entry in enumerate(self.entries) if entry.position <= position < entry.stop)


def segment_path(base_offset: int, kind: str = "log") -> str:
    return f"{FOLDER}/{base_offset:020d}.{kind}"


def raw_snappy(codec: int, data: bytes, magic: int) -> bytes:
    """One bare block, as librdkafka writes it."""
    assert codec == codecs.SNAPPY
    return bytes(cramjam.snappy.compress_raw(data))


def framed(codec: int, data: bytes, magic: int) -> bytes:
    """As Kafka's own writers: xerial snappy, and in v0 the lz4 frame with the header checksum that KIP-57 kept broken."""
    return codecs.compress(codec, data, magic=magic)


def right_lz4(codec: int, data: bytes, magic: int) -> bytes:
    """The lz4 frame of v1 and v2 whatever the format: librdkafka put it into v0 as well."""
    return codecs.compress(codec, data, magic=2)


Compressor = Callable[[int, bytes, int], bytes]
VARIANTS: dict[str, tuple[int, int, Compressor]] = {
    "v0-none": (0, codecs.NONE, framed),
    "v0-gzip": (0, codecs.GZIP, framed),
    "v0-snappy-raw": (0, codecs.SNAPPY, raw_snappy),
    "v0-snappy-xerial": (0, codecs.SNAPPY, framed),
    "v0-lz4": (0, codecs.LZ4, right_lz4),
    "v0-lz4-old-framing": (0, codecs.LZ4, framed),
    "v1-none": (1, codecs.NONE, framed),
    "v1-gzip": (1, codecs.GZIP, framed),
    "v1-snappy-raw": (1, codecs.SNAPPY, raw_snappy),
    "v1-snappy-xerial": (1, codecs.SNAPPY, framed),
    "v1-lz4": (1, codecs.LZ4, framed),
    "v2-none": (2, codecs.NONE, framed),
    "v2-gzip": (2, codecs.GZIP, framed),
    "v2-snappy-raw": (2, codecs.SNAPPY, raw_snappy),
    "v2-snappy-xerial": (2, codecs.SNAPPY, framed),
    "v2-lz4": (2, codecs.LZ4, framed),
    "v2-zstd": (2, codecs.ZSTD, framed),
}


@cache
def golden_segment(name: str) -> GoldenSegment:
    magic, codec, compress = VARIANTS[name]
    random = Random(name)
    data, next_offset = b"", BASE_OFFSET
    for number in range(BATCHES):
        records = _records(random, number, next_offset, magic, codec)
        data += _encode(number, records, magic, codec, compress)
        next_offset = records[-1].offset + 1
    next_data = _encode(BATCHES, _records(random, BATCHES, next_offset, magic, codec), magic, codec, compress)
    entries: list[Entry] = []
    records_of_all: list[Record] = []
    for entry, found in _decoded(data):
        entries.append(Entry(entry.position, entry.size, len(records_of_all), len(found)))
        records_of_all += found
    next_records = [record for _, found in _decoded(next_data) for record in found]
    return GoldenSegment(
        name, magic, codec, data, tuple(entries), tuple(records_of_all), next_offset, next_data, tuple(next_records)
    )


def golden_set() -> list[GoldenSegment]:
    return [golden_segment(name) for name in VARIANTS]


def decompress(codec: int, data: bytes, magic: int) -> bytes:
    """The decompressor for the reference decoder; room for a mebibyte."""
    out = bytearray(1 << 20)
    return bytes(out[: codecs.decompress(codec, data, memoryview(out), magic=magic)])


def _decoded(data: bytes) -> Iterator[tuple[reference.Entry, list[Record]]]:
    for entry in reference.decode_entries(data):
        yield entry, reference.decode_records(entry, decompress)


def _records(random: Random, batch_number: int, offset: int, magic: int, codec: int) -> list[Record]:
    """A few records that take 500 to 600 bytes as stored; the start of each value does not compress."""
    if magic == 2 and batch_number == MARKER_BATCH:
        marker = control.encode_end_txn_marker(control.EndTxnMarker(commit=True, coordinator_epoch=11))
        return [Record(offset, _timestamp(batch_number, 0), *marker)]
    records = []
    for number in range(RECORDS_PER_BATCH):
        key = None if number == 2 else f"key-{offset + number}".encode()
        value: bytes | None = random.randbytes(50 if not codec else 90) + b"the same words " * 5
        if batch_number == 1 and number == 1:
            value = None
        elif batch_number == 1 and number == 2:
            value = b""
        headers = _headers(random, number) if magic == 2 and batch_number in (0, 5) else ()
        records.append(Record(offset + number, _timestamp(batch_number, number) if magic else -1, key, value, headers))
    return records


def _headers(random: Random, number: int) -> reference.Headers:
    few: reference.Headers = ((b"trace", random.randbytes(8)), ("größe".encode(), None), (b"", b""))
    return few[:number]


def _timestamp(batch_number: int, number: int) -> int:
    return FIRST_TIMESTAMP + 1000 * batch_number + (7 * number) % 5


def _encode(number: int, records: list[Record], magic: int, codec: int, compress: Compressor) -> bytes:
    append_time = FIRST_TIMESTAMP + 50_000 if number == APPEND_TIME_BATCH else None
    if magic == 2:
        return _encode_batch(number, records, codec, compress, append_time)
    append_time = append_time if magic else None
    if codec:
        return reference.encode_wrapper(records, codec=codec, compress=compress, magic=magic, log_append_time=append_time)
    return b"".join(reference.encode_message(record, magic=magic, log_append_time=append_time is not None) for record in records)


def _encode_batch(number: int, records: list[Record], codec: int, compress: Compressor, append_time: int | None) -> bytes:
    epoch = FIRST_EPOCH if number < SECOND_EPOCH_FROM_BATCH else SECOND_EPOCH
    if number == MARKER_BATCH:
        key, value = records[0].key, records[0].value
        assert key is not None
        assert value is not None
        return reference.encode_control_batch(
            key,
            value,
            offset=records[0].offset,
            timestamp=records[0].timestamp,
            leader_epoch=epoch,
            producer_id=TRANSACTIONAL_PRODUCER,
            producer_epoch=1,
        )
    producer_id = {IDEMPOTENT_BATCH: IDEMPOTENT_PRODUCER, TRANSACTIONAL_BATCH: TRANSACTIONAL_PRODUCER}.get(number, -1)
    return reference.encode_batch(
        records,
        leader_epoch=epoch,
        codec=codec,
        compress=compress,
        log_append_time=append_time,
        transactional=number == TRANSACTIONAL_BATCH,
        producer_id=producer_id,
        producer_epoch=1 if producer_id >= 0 else -1,
        base_sequence=5 * number if producer_id >= 0 else -1,
    )
