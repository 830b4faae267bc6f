"""The child process of a contestant that writes: one pass for each line on standard input, one JSON line for each pass.

    python -m benchmarks.write_worker WHAT SOURCE WORK [--codec NAME]

WHAT is append, encode, copy, build (aiokafka), floor, single, convert, recover or verify; SOURCE the folder of a partition, or
of `single` a number of batches; WORK a folder that is emptied before each pass.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from cramjam import lz4 as lz4_block

import kafkalog
from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.format import reference
from kafkalog.format.batch import HEADER_SIZE, RECORDS_COUNT_POSITION
from kafkalog.segment.encode import EncodeOptions, encode_batches, encode_runs

BATCH_BYTES = 32 << 10  # about 150 records
FLOOR_WRITE_BYTES = 4 << 20
FIRST_TIMESTAMP_MS = 1_767_225_600_000

Pass = Callable[[], tuple[float, int]]


def main() -> None:
    arguments = _parse()
    one_pass = PASSES[arguments.what](arguments)
    for _ in sys.stdin:
        seconds, rows = one_pass()
        sys.stdout.write(json.dumps({"seconds": seconds, "rows": rows}) + "\n")
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


def encode(arguments: argparse.Namespace) -> Pass:
    """Arrow columns into batches in memory, as append makes them: each to be used before the next megabyte is made."""
    table = _table(arguments.source)

    def batches() -> Iterator[memoryview]:
        for run in encode_runs(table, EncodeOptions(arguments.codec, batch_bytes=BATCH_BYTES)):
            yield from run.batches()

    return lambda: _timed(lambda: sum(map(_record_count, batches())))


def copy(arguments: argparse.Namespace) -> Pass:
    """The same, each batch copied into a `bytes` of its own."""
    table = _table(arguments.source)
    options = EncodeOptions(arguments.codec, batch_bytes=BATCH_BYTES)
    return lambda: _timed(lambda: sum(map(_record_count, encode_batches(table, options))))


def _record_count(batch: memoryview | bytes) -> int:
    return int.from_bytes(batch[RECORDS_COUNT_POSITION : RECORDS_COUNT_POSITION + 4], "big")


def floor(arguments: argparse.Namespace) -> Pass:
    """The cost of the batches of the same table without us: the compressor called on their records, or a plain write of them."""
    table = _table(arguments.source)
    rows = int(table.num_rows)
    batches = list(encode_batches(table, EncodeOptions(batch_bytes=BATCH_BYTES)))
    whole = memoryview(b"".join(batches))
    target = bytearray(2 * BATCH_BYTES)

    def compress() -> int:
        for batch in batches:
            lz4_block.compress_block_into(memoryview(batch)[HEADER_SIZE:], target, store_size=False)
        return rows

    def write() -> int:
        with (arguments.work / "floor").open("wb", buffering=0) as file:
            for start in range(0, len(whole), FLOOR_WRITE_BYTES):
                file.write(whole[start : start + FLOOR_WRITE_BYTES])
        return rows

    def one_pass() -> tuple[float, int]:
        _emptied(arguments.work)
        return _timed(write if arguments.codec == "none" else compress)

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
    """Open a log as after a crash: every batch checked, indexes rebuilt."""
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


PASSES = {
    "append": append,
    "encode": encode,
    "copy": copy,
    "build": build,
    "floor": floor,
    "single": single,
    "convert": convert,
    "recover": recover,
    "verify": verify,
}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.write_worker")
    parser.add_argument("what", choices=sorted(PASSES))
    parser.add_argument("source")
    parser.add_argument("work", type=Path)
    parser.add_argument("--codec", default="none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
