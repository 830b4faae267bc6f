"""`python -m benchmarks.planning_worker WORK SEGMENTS MILLISECONDS KEPT`: one plan of a simulated lake in a process of its own.

Prints a line of JSON. KEPT is the file with the progress after a first ingest, which the later runs begin with.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import kafkalog.log.segments  # noqa: F401  loads Numba, which is not what is measured
from benchmarks.worker import peak_memory_bytes
from kafkalog.log.folders import find_partitions
from kafkalog.spark.ingestion.ingest_options import IngestOptions
from kafkalog.spark.ingestion.ingest_plan import IngestPlan, cut_tasks, plan_ingest
from kafkalog.spark.ingestion.tables import Tables
from kafkalog.spark.ingestion.target import open_target
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import plan_splits
from kafkalog.spark.splits import Split
from tests.builders.lake_store import BUCKET, LakeStore, mounted

SEGMENTS_OF_PARTITION = 500
BATCHES_OF_SEGMENT = 47_000  # about 100 MB
CORES = 64


@dataclass(frozen=True)
class Measured:
    """One plan. `driver_mb` is the most that the process ever occupied, `plan_mb` how much of it came with the plan."""

    seconds: float
    processor_seconds: float
    driver_mb: float
    plan_mb: float
    pages: int
    other_requests: int
    splits: int
    shipped_mb: float


def measured(store: LakeStore, work: Callable[[], list[Split]]) -> Measured:
    before = _occupied_mb()
    store.requests.clear()
    begin, processor = time.perf_counter(), time.process_time()
    splits = work()
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    after = _occupied_mb()
    pages = store.requests["page"]
    shipped = sum(len(pickle.dumps(split)) for split in splits)
    return Measured(seconds, processor, after, after - before, pages, store.requests.total() - pages, len(splits), shipped / 1e6)


def _occupied_mb() -> float:
    return peak_memory_bytes() / 1e6


class Lake:
    """The plans of one lake."""

    def __init__(self, store: LakeStore, target: str) -> None:
        self.store = store
        self.options = IngestOptions((BUCKET,), target)
        self.tables = Tables(open_target(target), self.options)

    def listing(self) -> list[Split]:
        """Only the names: what no plan can do without."""
        find_partitions(self.store, BUCKET)
        return []

    def read(self) -> list[Split]:
        return plan_splits(parse_options({"path": BUCKET}), CORES)

    def one_topic(self) -> list[Split]:
        return plan_splits(parse_options({"path": BUCKET, "subscribe": "topic0000"}), CORES)

    def ingest(self, before: Mapping[Any, Any], kept: Path | None = None) -> list[Split]:
        plan = plan_ingest(self.options.source_options(), before, self.tables)
        if kept is not None:
            kept.write_bytes(pickle.dumps(_progress_after(plan)))
        return cut_tasks(plan.partitions, self.options.source_options(), CORES, None) if plan.partitions else []


def _progress_after(plan: IngestPlan) -> dict[Any, Any]:
    """What a commit records when all tasks have ended."""
    return {each.key: each.progress(each.end.next_offset - 1, each.end.cursor) for each in plan.partitions}


def main() -> None:
    work, segments, milliseconds, kept = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    with tempfile.TemporaryDirectory() as target:
        small = LakeStore(1, 2)
        with mounted(small):
            Lake(small, target).ingest({})  # compiles, or loads, what is not measured
        seconds = milliseconds / 1000
        store = LakeStore(
            segments // SEGMENTS_OF_PARTITION,
            SEGMENTS_OF_PARTITION,
            segment_batches=BATCHES_OF_SEGMENT,
            page_seconds=seconds,
            read_seconds=seconds,
        )
        lake = Lake(store, target)
        before = pickle.loads(kept.read_bytes()) if kept.exists() else {}
        if work == "one-percent":
            store.added = dict.fromkeys(range(0, store.partitions, min(100, store.partitions)), 1)
        works: dict[str, Callable[[], list[Split]]] = {
            "listing": lake.listing,
            "read": lake.read,
            "one-topic": lake.one_topic,
            "first": lambda: lake.ingest({}, kept),
            "nothing-new": lambda: lake.ingest(before),
            "one-percent": lambda: lake.ingest(before),
        }
        with mounted(store):
            found = measured(store, works[work])
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
