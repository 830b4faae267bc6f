"""Logs too large to hold (T-27): the bytes are made while they are read, so a log of ten gibibytes needs no disk."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kafkalog.errors import LimitExceeded, Limits
from kafkalog.format import reference
from kafkalog.log.partition import Partition, Segment, StoredFile
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.records import record_batches
from tests.builders.memory_store import MemoryFile, MemoryStore

from .golden_set import FOLDER, segment_path
from .hostile_batches import resident_bytes
from .outcome import SCHEMA
from .tally import Tally, time_limit

MIB = 1 << 20
GIB = 1 << 30
ALLOWED_GROWTH = 200 * MIB


class RepeatedFile(MemoryFile):
    """One batch over and over, each with the next offsets: base offsets lie outside the checksum, so all are valid."""

    def __init__(self, path: str, batch: bytes, records_per_batch: int, count: int) -> None:
        super().__init__(path, b"")
        self.batch = np.frombuffer(batch, np.uint8)
        self.records_per_batch = records_per_batch
        self.size = len(batch) * count

    def read_into(self, position: int, target: memoryview) -> int:
        wanted = min(len(target), self.size - position)
        width = len(self.batch)
        first, last = position // width, (position + wanted - 1) // width
        rows = np.tile(self.batch, (last - first + 1, 1))
        offsets = np.arange(first, last + 1, dtype=">i8") * self.records_per_batch
        rows[:, :8] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
        start = position - first * width
        target[:wanted] = rows.reshape(-1)[start : start + wanted].data
        return wanted

    def read(self, position: int, size: int) -> bytes:
        target = bytearray(max(min(size, self.size - position), 0))
        self.read_into(position, memoryview(target))
        return bytes(target)

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        yield start, stop


class OneFileStore(MemoryStore):
    """A store that holds one file, made as it is read."""

    def __init__(self, file: MemoryFile) -> None:
        super().__init__({})
        self.file = file

    def open(self, path: str) -> MemoryFile:
        return self.file


def partition_of(file: MemoryFile) -> Partition:
    stored = StoredFile(file.path, file.size, 0, "log", 0)
    return Partition(OneFileStore(file), FOLDER, "golden", 0, segments=(Segment(stored),), files=(stored,))


def check_memory(batch_bytes: int, total_bytes: int) -> Tally:
    """T-27: a log of `total_bytes` in batches of about `batch_bytes`, read to its end in bounded memory."""
    tally = Tally()
    record_count = max(1, batch_bytes // 1000)
    value = os.urandom(min(batch_bytes, 900))
    records = [reference.Record(offset, 1_700_000_000_000, b"key", value) for offset in range(record_count)]
    batch = reference.encode_batch(records, leader_epoch=1)
    count = total_bytes // len(batch)
    file = RepeatedFile(segment_path(0), batch, record_count, count)
    case = f"{total_bytes // MIB} MiB in batches of {len(batch)} bytes"
    tally.cases, tally.reads = 1, 1
    pa.default_memory_pool().release_unused()
    base = highest = resident_bytes()
    rows = 0
    with time_limit(1200):
        for found in record_batches([partition_of(file)], SCHEMA, ReadOptions(frozenset(SCHEMA.names)), ReadReport()):
            rows += found.num_rows
            highest = max(highest, resident_bytes())
    tally.keepable, tally.kept = count * record_count, rows
    tally.expect(rows == count * record_count, f"{case}: {rows} of {count * record_count} records", "lost")
    grown = (highest - base) // MIB
    tally.expect(highest - base <= ALLOWED_GROWTH, f"{case}: memory grew by {grown} MiB", "hangs")
    return tally


def check_large_claims(quick: bool) -> Tally:
    """T-27: a batch that claims 2 GiB, in a file large enough for it, is refused before anything is allocated."""
    tally = Tally()
    for magic, claim in ((0, (1 << 31) - 1), (1, (1 << 31) - 1), (2, (1 << 31) - 1), (2, Limits.batch_bytes + 1)):
        case = f"v{magic} batch that claims {claim} bytes"
        front = struct.pack(">qiiB", 0, claim, 0, magic)
        file = RepeatedFile(segment_path(0), front + bytes(4096 - len(front)), 0, 3 * GIB // 4096)
        with tally.case(case):
            before = resident_bytes()
            tally.reads += 1
            error: LimitExceeded | None = None
            try:
                list(record_batches([partition_of(file)], SCHEMA, ReadOptions(frozenset(SCHEMA.names)), ReadReport()))
            except LimitExceeded as refusal:
                error = refusal
            tally.expect(error is not None and error.reason == "batch-limit", f"{case}: {error!r}")
            tally.expect(resident_bytes() - before < 64 * MIB, f"{case}: memory grew", "lost")
    return tally
