"""The readers that run in Python: each is bound to a segment file and returns how many rows it saw."""

from __future__ import annotations

import importlib.metadata
import os
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
FLOOR_WINDOW_BYTES = 4 << 20


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


def kafkalog_reader(path: Path, table: str, columns: tuple[str, ...], threads: int, *, views: bool = False) -> Reader:
    """kafkalog's table of one partition folder, as Arrow batches."""
    import kafkalog

    def read() -> int:
        reader = kafkalog.open(str(path.parent)).read(table, columns=list(columns), threads=threads, views=views)
        return sum(batch.num_rows for batch in reader)

    return read


def floor_reader(path: Path) -> Reader:
    """The work that no reader can avoid: read the file, check the CRCs, decompress, with the very calls that kafkalog makes.

    Batch positions are found beforehand, untimed.
    """
    import numpy as np

    from kafkalog.codecs import decompress
    from kafkalog.kernels import layout, native
    from kafkalog.kernels.crc import check_batches
    from kafkalog.kernels.decompress import add_codec
    from kafkalog.segment.memory import DecodeScratch

    from .floor import decompress_each, plan_windows

    windows, rows = plan_windows(path, FLOOR_WINDOW_BYTES)
    buffer = np.empty(max(window.size for window in windows), np.uint8)
    scratch = DecodeScratch()
    tools = scratch.tools(len(scratch.arena), check_crcs=True)
    for codec in {window.codec(number) for window in windows for number in range(window.count)}:
        add_codec(tools, codec)

    def read() -> int:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            for window in windows:
                os.preadv(descriptor, [buffer.data[: window.size]], window.position)
                fits = np.empty(window.count, np.bool_)
                entries = window.payloads[layout.ENTRY]
                check_batches(native.crc32c_function(), buffer, window.fields, entries, window.position, fits)
                if not fits.all():
                    raise ValueError("the benchmark's own data has a bad CRC")
                number = 0
                while number < window.count:
                    number = decompress_each(buffer, scratch.arena, window.fields, window.payloads, number, tools)
                    if number < window.count:
                        start, stop = window.payloads[layout.START : layout.STOP + 1, number].tolist()
                        decompress(window.codec(number), buffer.data[start:stop], scratch.arena.data)
                        number += 1
        finally:
            os.close(descriptor)
        return rows

    return read
