"""`python -m benchmarks.commits FORMAT RUNS`: how long an ingest's commit to a table takes after so many earlier runs.

Every run adds one record to a log and ingests it without Spark. A line of JSON for each stage: the earlier runs, and the median
milliseconds of twenty runs and of their commits, by the clock and by the processor.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import kafkalog
from kafkalog.spark.ingestion import lake_ledger, lake_table

STAGES = (10, 100, 250, 500, 1000)
COUNT = 20


class Watch:
    """The times of the calls of one function, by the clock and by the processor."""

    def __init__(self, measured: Callable[..., Any]) -> None:
        self.measured = measured
        self.clock: list[float] = []
        self.processor: list[float] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        clock, processor = time.perf_counter(), time.process_time()
        try:
            return self.measured(*arguments, **named)
        finally:
            self.clock.append(time.perf_counter() - clock)
            self.processor.append(time.process_time() - processor)

    def last(self) -> dict[str, float]:
        """Median milliseconds of the last calls."""
        return {
            "clock": statistics.median(self.clock[-COUNT:]) * 1000,
            "processor": statistics.median(self.processor[-COUNT:]) * 1000,
        }


def main(table_format: str, runs: int) -> None:
    commits = Watch(lake_table.commit_once)
    vars(lake_ledger)["commit_once"] = commits
    ingests = Watch(kafkalog.ingest)
    with tempfile.TemporaryDirectory() as folder:
        logs, lake = Path(folder) / "logs", Path(folder) / "lake"
        for done in range(1, runs + COUNT + 1):
            kafkalog.append(pa.table({"value": [b"%d" % done]}), logs / "orders-0")
            ingests(logs, lake, master="none", table_format=table_format)
            if done - COUNT in STAGES:
                os.sync()
                answer = {"earlier": done - COUNT, "commit": commits.last(), "run": ingests.last()}
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
