"""The child process of a contestant that writes: one pass for each line on standard input, one JSON line for each pass.

    python -m benchmarks.write_worker WHAT SOURCE WORK [--codec NAME]

WHAT is append, build (aiokafka), single, compact, convert, recover or verify; SOURCE the folder of a partition, or of `single` a
number of batches; WORK a folder that is emptied before each pass. Copying is not part of the time. `dirty` and `keys` make logs
to compact and end; with `--peak-memory` one pass is made at once, and the most memory told that the process ever held.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import kafkalog
from benchmarks.worker import peak_memory_bytes
from kafkalog.format import reference
from kafkalog.log.engine.cleaner import Cleaner, CleanerSelection, OffsetMap, clean_filthiest
from kafkalog.log.engine.config import LogConfig
from kafkalog.log.engine.partition_log import PartitionLog

BATCH_BYTES = 32 << 10  # about 150 records
DISTINCT_KEYS = 100_000
MANY_KEYS = 10_000_000
MAP_BYTES = 256 << 20
DIRTY_SEGMENT_BYTES = 64 << 20
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
FIRST_TIMESTAMP_MS = 1_767_225_600_000

Pass = Callable[[], tuple[float, int]]


def main() -> None:
    arguments = _parse()
    if arguments.what in MAKERS:
        MAKERS[arguments.what](arguments)
        return
    one_pass = PASSES[arguments.what](arguments)
    if arguments.peak_memory:
        _, rows = one_pass()
        _answer({"rows": rows, "bytes": peak_memory_bytes()})
        return
    for _ in sys.stdin:
        seconds, rows = one_pass()
        _answer({"seconds": seconds, "rows": rows})


def _answer(fields: dict[str, float | int]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _timed(action: Callable[[], int]) -> tuple[float, int]:
    started = time.perf_counter()
    rows = action()
    return time.perf_counter() - started, rows


def _emptied(work: Path) -> Path:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def _table(folder: str) -> pa.Table:
    columns = ["key", "value", "timestamp_ms", "headers"]
    return kafkalog.open(folder).read("records", columns).read_all().combine_chunks()


def append(arguments: argparse.Namespace) -> Pass:
    """Arrow columns into a new log."""
    table = _table(arguments.source)

    def one_pass() -> tuple[float, int]:
        folder = str(_emptied(arguments.work) / "append-0")
        with PartitionLog.open(folder, LogConfig()) as log:

            def write() -> int:
                log.append_records(table, codec=arguments.codec, batch_bytes=BATCH_BYTES)
                return log.log_end_offset

            return _timed(write)

    return one_pass


def build(arguments: argparse.Namespace) -> Pass:
    """The same records by aiokafka's builder of batches, in memory only."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    table = _table(arguments.source)
    headers = [[(one["key"], one["value"]) for one in those or ()] for those in table.column("headers").to_pylist()]
    rows = list(zip(*(table.column(name).to_pylist() for name in ("timestamp_ms", "key", "value")), headers, strict=True))
    codec = {"none": 0, "lz4": 3}[arguments.codec]

    def make() -> Any:
        return DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, BATCH_BYTES)

    def write() -> int:
        number, count = 0, 0
        builder = make()
        for timestamp, key, value, those in rows:
            if builder.append(number, timestamp, key, value, those) is None:
                builder.build()
                count, number, builder = count + number, 0, make()
                builder.append(number, timestamp, key, value, those)
            number += 1
        builder.build()
        return count + number

    return lambda: _timed(write)


def single(arguments: argparse.Namespace) -> Pass:
    """Batches of one record of an idempotent producer, one call each."""
    record = reference.Record(0, FIRST_TIMESTAMP_MS, bytes(10), bytes(170), ())
    batches = [
        reference.encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)
        for sequence in range(int(arguments.source))
    ]

    def one_pass() -> tuple[float, int]:
        with PartitionLog.open(str(_emptied(arguments.work) / "single-0"), LogConfig()) as log:

            def write() -> int:
                for data in batches:
                    log.append(data, leader_epoch=0)
                return log.log_end_offset

            return _timed(write)

    return one_pass


def compact(arguments: argparse.Namespace) -> Pass:
    """One pass of the cleaner over a copy; the records that it wrote."""
    offsets = OffsetMap(MAP_BYTES if arguments.peak_memory else 128 << 20)

    def one_pass() -> tuple[float, int]:
        folder = _emptied(arguments.work) / Path(arguments.source).name
        shutil.copytree(arguments.source, folder)
        with PartitionLog.open(str(folder), LogConfig.of(COMPACTED), clean=True) as log:
            log.roll()
            log.update_high_watermark(log.log_end_offset)
            selection = CleanerSelection(str(arguments.work), [log], log.fs)

            def clean() -> int:
                result = clean_filthiest(selection, Cleaner(offsets), log.clock.now_ms())
                assert result is not None
                assert result.end_offset == log.log_end_offset, "not all of it was cleaned"
                return result.stats.messages_written

            return _timed(clean)

    return one_pass


def convert(arguments: argparse.Namespace) -> Pass:
    """Messages of an old format as v2 batches, into another folder."""

    def one_pass() -> tuple[float, int]:
        target = _emptied(arguments.work) / "out"
        seconds, _ = _timed(lambda: len(kafkalog.convert(arguments.source, out=target)))
        return seconds, _records(str(target))

    return one_pass


def _records(path: str) -> int:
    return sum(batch.num_rows for batch in kafkalog.open(path).read("records", ["offset"]))


def recover(arguments: argparse.Namespace) -> Pass:
    """Open a log as after a crash: every batch checked, indexes made anew."""
    folder = _emptied(arguments.work) / Path(arguments.source).name
    folder.mkdir()
    for name in os.listdir(arguments.source):
        if name.endswith(".log"):
            os.link(os.path.join(arguments.source, name), folder / name)

    def one_pass() -> tuple[float, int]:
        for name in os.listdir(folder):
            if not name.endswith(".log"):
                (folder / name).unlink()
        logs: list[PartitionLog] = []

        def recover() -> int:
            logs.append(PartitionLog.open(str(folder), LogConfig(), clean=False))
            return logs[0].log_end_offset

        seconds, rows = _timed(recover)
        logs[0].close_handlers()
        return seconds, rows

    return one_pass


def verify(arguments: argparse.Namespace) -> Pass:
    return lambda: _timed(lambda: int(kafkalog.verify(arguments.source, threads=1).record_count))


def make_dirty(arguments: argparse.Namespace) -> None:
    """The records of a log with few keys, in segments that are worth compacting."""
    table = _table(arguments.source)
    numbers = np.random.default_rng(1).integers(0, DISTINCT_KEYS, table.num_rows)
    keys = pa.array([b"k%09d" % number for number in numbers.tolist()], pa.binary())
    _write(arguments, table.set_column(0, "key", keys))


def make_keys(arguments: argparse.Namespace) -> None:
    """As many keys as the map must hold, each once."""
    keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), MANY_KEYS, [None, pa.py_buffer(np.arange(MANY_KEYS).tobytes())])
    value = pa.array([b""], pa.binary()).take(pa.array(np.zeros(MANY_KEYS, np.int32)))
    times = pa.array(np.full(MANY_KEYS, FIRST_TIMESTAMP_MS))
    _write(arguments, pa.table({"key": keys.cast(pa.binary()), "value": value, "timestamp_ms": times}))


def _write(arguments: argparse.Namespace, table: pa.Table) -> None:
    config = LogConfig.of({**COMPACTED, "segment.bytes": DIRTY_SEGMENT_BYTES})
    _emptied(arguments.work.parent)
    with PartitionLog.open(str(arguments.work), config) as log:
        log.append_records(table, codec=arguments.codec, batch_bytes=BATCH_BYTES)


MAKERS = {"dirty": make_dirty, "keys": make_keys}
PASSES = {
    "append": append,
    "build": build,
    "single": single,
    "compact": compact,
    "convert": convert,
    "recover": recover,
    "verify": verify,
}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.write_worker")
    parser.add_argument("what", choices=sorted([*PASSES, *MAKERS]))
    parser.add_argument("source")
    parser.add_argument("work", type=Path)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--peak-memory", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
