"""How long the first task of a fresh Spark executor takes to its first batch, with and without the kernels of the driver.

    python -m benchmarks.first_task [LOGS]

Each executor is a process of a standalone cluster on this machine whose cache is empty. LOGS is a log directory; without it, a
small one is written. `imports` is what every Python source loads; the rest is ours. Wall time, in seconds.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafkalog.spark import session
from kafkalog.spark.source import KafkaLogDataSource
from tests.builders.small_logs import made_batch, write_segment
from tests.spark.cluster import Cluster, started_cluster

CONF = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.executor.memory": "512m"}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kafkalog-first-task-") as name:
        folder = Path(name)
        logs = sys.argv[1] if len(sys.argv) > 1 else _write_logs(folder / "logs")
        print(f"{'kernels':12}{'sent, KB':>10}{'imports':>10}{'unpack':>10}{'read':>10}")
        for kernels in ("compiled", "unpacked"):
            cache = str(folder / kernels / "cache")
            with started_cluster(folder / kernels, 1, KAFKALOG_CACHE_DIR=cache) as cluster, _spark(cluster) as spark:
                size, spans = _first_task(spark, logs, kernels == "unpacked")
            print(f"{kernels:12}{size / 1000:10.0f}" + "".join(f"{span:10.2f}" for span in spans), flush=True)


def _write_logs(folder: Path) -> str:
    write_segment(folder / "orders-0", 0, *(made_batch(first, codec=4) for first in range(0, 1_000, 10)))
    return str(folder)


@contextmanager
def _spark(cluster: Cluster) -> Iterator[Any]:
    os.environ.update({name: value for name, value in cluster.environment.items() if name.startswith(("SPARK", "PY"))})
    spark = session(cluster.master, **CONF)
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def _first_task(spark: Any, logs: str, has_kernels: bool) -> tuple[int, list[float]]:
    """Bytes of the reader that tasks get, and the spans of the first one."""
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps

    source = KafkaLogDataSource({"path": logs})
    reader = source.reader(source.schema())
    split = pickle.dumps(reader.partitions()[0])
    sent = dumps(reader)
    spans: list[float] = spark.sparkContext.parallelize([0], 1).map(partial(_measure, sent, split, has_kernels)).first()
    return len(sent), spans


def _measure(sent: bytes, split: bytes, has_kernels: bool, _number: int) -> list[float]:
    times = [time.monotonic()]
    import pyspark.sql.conversion
    import pyspark.sql.datasource  # noqa: F401

    reader = pickle.loads(sent)
    times.append(time.monotonic())
    if has_kernels:
        reader.kernels.unpack()
    reader.kernels = None
    times.append(time.monotonic())
    next(reader.read(pickle.loads(split)))
    times.append(time.monotonic())
    return [after - before for before, after in pairwise(times)]


if __name__ == "__main__":
    main()
