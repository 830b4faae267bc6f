"""One read of a damaged partition, and its outcome: the records, the error, the report."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafkalog.errors import KafkaLogError
from kafkalog.format.reference import Record
from kafkalog.log.folders import find_partitions
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import RECORDS
from tests.builders.memory_store import MemoryStore

from .golden_set import BASE_OFFSET, FOLDER, golden_segment, segment_path

COLUMNS = (
    "offset",
    "timestamp_ms",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers_raw",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "is_control",
)
SCHEMA = RECORDS.schema(COLUMNS)
WINDOW_BYTES = 64 << 10


@dataclass
class Outcome:
    """`records` is everything returned before the end or the error."""

    records: pa.Table
    error: KafkaLogError | None
    report: ReadReport

    @property
    def reason(self) -> str:
        return "" if self.error is None else str(getattr(self.error, "reason", type(self.error).__name__))

    @property
    def offsets(self) -> list[int]:
        return list(self.records["offset"].to_pylist())


def read(files: Mapping[str, bytes], *, on_damage: str = "strict", neighbours: bool = False, **options: Any) -> Outcome:
    """The records of the partition that is made of `files`. An error outside kafkalog's own tree is not caught: it is a crash."""
    bounds = {name: options.pop(name) for name in RecordRange.__dataclass_fields__ if name in options}
    options = {"include_control": True, "threads": 1, "window_bytes": WINDOW_BYTES, **options}
    wanted = ReadOptions(
        frozenset(SCHEMA.names), record_range=RecordRange(**bounds), on_damage=on_damage, neighbours=neighbours, **options
    )
    report = ReadReport()
    batches: list[pa.RecordBatch] = []
    error: KafkaLogError | None = None
    try:
        partitions = find_partitions(MemoryStore(files), FOLDER)
        batches.extend(record_batches(partitions, SCHEMA, wanted, report))
    except KafkaLogError as problem:
        error = problem
    return Outcome(pa.Table.from_batches(batches, SCHEMA), error, report)


def table_of(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Records of the reference decoder in the form that `rows` gives those of a read."""
    return [
        (each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers, each.sequence) for each in records
    ]


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a read, as plain values."""
    columns = [table[name].to_pylist() for name in ("offset", "timestamp_ms", "timestampType", "key", "value")]
    headers = [tuple((pair["key"], pair["value"]) for pair in found or ()) for found in table["headers_raw"].to_pylist()]
    return list(zip(*columns, headers, table["sequence"].to_pylist(), strict=True))


def warm_up() -> None:
    """Compile or load every kernel that a read may need, so that no case is charged for it."""
    for magic in (0, 1, 2):
        segment = golden_segment(f"v{magic}-gzip")
        damaged = bytearray(segment.data)
        damaged[segment.entries[1].position + 9] ^= 0xFF
        for on_damage in ("strict", "skip", "salvage"):
            for files in (segment.alone(), segment.among_neighbours(bytes(damaged))):
                read(files, on_damage=on_damage, neighbours=True)
        index = struct.pack(">ii", 4, segment.entries[1].position)
        read({**segment.alone(), segment_path(BASE_OFFSET, "index"): index}, start_offset=BASE_OFFSET + 9)
