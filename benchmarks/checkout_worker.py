"""The child process of `benchmarks.side_by_side`: one pass for each line on standard input, one JSON line for each pass.

    PYTHONPATH=CHECKOUT/src python benchmarks/checkout_worker.py WHAT SOURCE WORK

Only kafkalog's public interface is used, so that any checkout can be measured, whatever its modules are called. Seconds are the
process's own processor time, which other processes on the machine disturb least.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import kafkalog

BATCH_BYTES = 32 << 10


def decode(source: Path, work: Path) -> Callable[[], int]:
    logs = kafkalog.open(source)
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    return lambda: sum(batch.num_rows for batch in logs.read("records", columns, threads=1))


def dump(source: Path, work: Path) -> Callable[[], int]:
    files = [str(path) for path in sorted(source.glob("*.log"))]
    return lambda: sum(line.count("\n") for line in kafkalog.dump(files, print_data_log=True).lines())


def append(codec: str) -> Callable[[Path, Path], Callable[[], int]]:
    def prepare(source: Path, work: Path) -> Callable[[], int]:
        table = kafkalog.open(source).read("records", ["key", "value", "timestamp_ms", "headers"]).read_all().combine_chunks()

        def one_pass() -> int:
            with kafkalog.PartitionLog.open(str(work / "append-0")) as log:
                log.append_records(table, codec=codec, batch_bytes=BATCH_BYTES)
                return log.log_end_offset

        return one_pass

    return prepare


def compact(source: Path, work: Path) -> Callable[[], int]:
    def one_pass() -> int:
        kafkalog.compact(source, out=work / "compacted", whole=True, roll=True, config={"cleanup.policy": "compact"})
        return sum(path.stat().st_size for path in work.rglob("*.log"))

    return one_pass


def verify(source: Path, work: Path) -> Callable[[], int]:
    return lambda: int(kafkalog.verify(source, threads=1).record_count)


PASSES = {
    "decode": decode,
    "dump": dump,
    "append": append("none"),
    "append-lz4": append("lz4"),
    "compact": compact,
    "verify": verify,
}


def main() -> None:
    what, source, work = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    one_pass = PASSES[what](source, work)
    for _ in sys.stdin:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        started = time.process_time()
        rows = one_pass()
        sys.stdout.write(json.dumps({"seconds": time.process_time() - started, "rows": rows}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
