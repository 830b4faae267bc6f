"""The child process of a Python contestant: one pass for each line on standard input, one JSON line for each pass.

    python -m benchmarks.worker CONTESTANT FILE [--table NAME] [--columns a,b,c] [--threads N] [--views]

With `--peak-memory` it makes one pass at once and prints its peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from benchmarks import peers


def main() -> None:
    arguments = _parse()
    if arguments.contestant == "kafkalog":
        columns = tuple(arguments.columns.split(","))
        reader = peers.kafkalog_reader(arguments.file, arguments.table, columns, arguments.threads, views=arguments.views)
    else:
        makers = {"aiokafka": peers.aiokafka_reader, "kafka-python": peers.kafka_python_reader, "floor": peers.floor_reader}
        reader = makers[arguments.contestant](arguments.file)
    if arguments.peak_memory:
        _answer({"rows": reader(), "bytes": peak_memory_bytes()})
        return
    for _ in sys.stdin:
        started = time.perf_counter()
        rows = reader()
        _answer({"seconds": time.perf_counter() - started, "rows": rows})


def peak_memory_bytes() -> int:
    """The high-water mark of this process's own memory.

    `ru_maxrss` is only the second choice: after a fork it starts at the parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _answer(fields: dict[str, float | int]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker")
    parser.add_argument("contestant", choices=sorted(peers.PACKAGES))
    parser.add_argument("file", type=Path)
    parser.add_argument("--table", default="records")
    parser.add_argument("--columns", default=",".join(peers.KAFKA_COLUMNS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--views", action="store_true")
    parser.add_argument("--peak-memory", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
