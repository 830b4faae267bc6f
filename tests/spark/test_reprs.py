"""An ingest, a plan and a lag in a notebook: one line that says what happened, bounded whatever it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog.spark import SourceLag
from kafkalog.spark.ingestion.ingest_options import IngestOptions
from kafkalog.spark.ingestion.ingest_plan import plan_ingest
from kafkalog.spark.ingestion.layout import FolderLayout
from kafkalog.spark.ingestion.manifest import Commit, Gap
from kafkalog.spark.ingestion.run import IngestSummary, PartitionSummary
from kafkalog.spark.ingestion.tables import Tables
from kafkalog.spark.ingestion.target import open_target
from kafkalog.spark.ingestion.task_writing import IngestTask, TaskResult
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import choose_partitions, plan_splits
from kafkalog.spark.source import SplitPartition
from tests.builders.small_logs import made_batch, write_segment

DONE = IngestSummary(
    "/tables", 3, records=1200, parquet_bytes=5 << 20, files=2, partitions=(PartitionSummary("orders", 0, 5, 9, 4),)
)


def test_a_summary_shows_its_commit_and_what_needs_attention() -> None:
    assert repr(DONE) == "IngestSummary('/tables', commit 3, 1200 records of 1 partition, 2 files of 5.0 MiB, 0.0 s)"
    assert repr(DONE.partitions[0]) == "PartitionSummary('orders-0', offsets 5 to 8, 4 records)"
    assert repr(IngestSummary("/tables", None)) == "IngestSummary('/tables', nothing new, 0.0 s)"
    troubled = replace(DONE, damaged_ranges=2, gaps=(Gap("orders", 0, 1, 2, "removed"),), postponed=("orders-1",), seconds=75)
    assert repr(troubled).endswith("2 damaged ranges, 1 lost range, 1 postponed partition, 1 min 15 s)")
    planned = IngestSummary("/tables", None, log_bytes=2048, partitions=DONE.partitions, dry_run=True)
    assert repr(planned) == "IngestSummary('/tables', dry run: 2.0 KiB of log to read in 1 partition, 0.0 s)"


def test_a_lag_shows_its_total() -> None:
    assert repr(SourceLag({("orders", 0): 3, ("orders", 1): 4})) == "SourceLag(7 offsets behind, 2 partitions)"
    assert repr(SourceLag({})) == "SourceLag(0 offsets behind, 0 partitions)"


def test_plans_splits_and_tasks_show_their_size(tmp_path: Path) -> None:
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    options = IngestOptions((str(tmp_path / "logs"),), str(tmp_path / "tables"))
    source = parse_options({"path": str(tmp_path / "logs")})
    (split,) = plan_splits(source)
    assert repr(SplitPartition(split)).startswith("SplitPartition(Split(1 part, ")
    assert repr(split.parts[0]).startswith("Part('orders-0', 1 slice, ")
    assert repr(split.parts[0].slices[0]).endswith(f"{0:020}.log', bytes 0 to {split.parts[0].bytes})")
    assert repr(choose_partitions(source)[0]).startswith("Found('orders-0' at '")
    plan = plan_ingest(options.source_options(), {}, Tables(open_target(options.target), options))
    assert repr(plan) == "IngestPlan(1 partition)"
    assert repr(replace(plan, postponed=(("orders", 1),))) == "IngestPlan(1 partition, 1 postponed partition)"
    assert repr(plan.partitions[0]).startswith("PartitionPlan('orders-0', offsets 0 to ")
    assert repr(IngestTask(4, "run", split, options, FolderLayout("run", "day"), {}, {})).startswith(
        "IngestTask(4, Split(1 part, "
    )
    assert repr(TaskResult(log_bytes=1 << 20)) == "TaskResult(0 records, 0 files, 1.0 MiB of log)"
    assert repr(Commit(7, "run", 0, {}, {})) == "Commit(7, 0 files, 0 partitions)"
    assert repr(open_target("/tables")) == "LocalTarget('/tables')"


@pytest.mark.parametrize("name", ["x" * 5000, "line\nbreak\x1b[31m"])
def test_hostile_names_are_quoted_and_cut(name: str) -> None:
    shown = repr(replace(DONE, target=name)) + repr(PartitionSummary(name, 0, 0, 0, -1)) + repr(open_target(f"/{name}"))
    assert len(shown) < 700
    assert shown.isprintable()
