"""The readers that run in Python: each is bound to a segment file and returns how many rows it saw."""

from __future__ import annotations

import importlib.metadata
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Reader = Callable[[], int]

PACKAGES = {"kafkalog": "kafkalog", "floor": "kafkalog", "aiokafka": "aiokafka", "kafka-python": "kafka-python"}
KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
BATCH_HEADER_COLUMNS = (
    "topic",
    "partition",
    "file",
    "position",
    "size",
    "magic",
    "base_offset",
    "last_offset",
    "record_count",
    "crc",
    "codec",
    "timestamp_type",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "is_transactional",
    "is_control",
    "delete_horizon_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "leader_epoch",
)
FLOOR_WINDOW_BYTES = 8 << 20
BATCH_START = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
BATCH_HEADER_BYTES = 61
RECORD_COUNT_POSITION = 57
CRC_STARTS = 21


def find_version(contestant: str) -> str | None:
    """The version of the package behind a contestant, None when it is not installed."""
    try:
        return importlib.metadata.version(PACKAGES[contestant])
    except importlib.metadata.PackageNotFoundError:
        return None


def kafka_python_reader(path: Path) -> Reader:
    """kafka-python's parser over the file's bytes."""
    from kafka.record.memory_records import MemoryRecords

    return lambda: _touch_records(MemoryRecords(path.read_bytes()))


def aiokafka_reader(path: Path) -> Reader:
    """aiokafka's parser, its C extension where the wheel has it, over the file's bytes."""
    from aiokafka.record.memory_records import MemoryRecords

    return lambda: _touch_records(MemoryRecords(path.read_bytes()))


def _touch_records(entries: Any) -> int:
    """Both libraries share this interface: check the CRC of each batch, look at every field of each record."""
    rows = 0
    while entries.has_next():
        batch = entries.next_batch()
        if not batch.validate_crc():
            raise ValueError("the benchmark's own data has a bad CRC")
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value, record.headers
            rows += 1
    return rows


def kafkalog_reader(path: Path, table: str, columns: tuple[str, ...], threads: int) -> Reader:
    """kafkalog's table of one partition folder, as Arrow batches."""
    import kafkalog

    def read() -> int:
        reader = kafkalog.open(str(path.parent)).read(table, columns=list(columns), threads=threads)
        return sum(batch.num_rows for batch in reader)

    return read


def floor_reader(path: Path) -> Reader:
    """What no reader can avoid: read the file, check the CRCs, decompress. Batch positions are found beforehand, untimed."""
    from crc32c import crc32c

    from kafkalog.codecs import NONE, decompress

    windows, rows = _plan_windows(path)
    window = memoryview(bytearray(max(size for _, size, _ in windows)))
    arena = memoryview(bytearray(FLOOR_WINDOW_BYTES))

    def read() -> int:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            for position, size, batches in windows:
                os.preadv(descriptor, [window[:size]], position)
                for start, stop, crc, codec in batches:
                    if crc32c(window[start + CRC_STARTS : stop]) != crc:
                        raise ValueError("the benchmark's own data has a bad CRC")
                    if codec != NONE:
                        decompress(codec, window[start + BATCH_HEADER_BYTES : stop], arena)
        finally:
            os.close(descriptor)
        return rows

    return read


def _plan_windows(path: Path) -> tuple[list[tuple[int, int, list[tuple[int, int, int, int]]]], int]:
    """Windows of whole v2 batches (position, size, [(start, stop, crc, codec)]) and the number of records in them."""
    data = path.read_bytes()
    windows: list[tuple[int, int, list[tuple[int, int, int, int]]]] = []
    batches: list[tuple[int, int, int, int]] = []
    window_position = position = rows = 0
    while position < len(data):
        _, length, _, _, crc, attributes, _ = BATCH_START.unpack_from(data, position)
        rows += struct.unpack_from(">i", data, position + RECORD_COUNT_POSITION)[0]
        stop = position + 12 + length
        batches.append((position - window_position, stop - window_position, crc, attributes & 7))
        position = stop
        if position - window_position >= FLOOR_WINDOW_BYTES or position == len(data):
            windows.append((window_position, position - window_position, batches))
            window_position, batches = position, []
    return windows, rows
