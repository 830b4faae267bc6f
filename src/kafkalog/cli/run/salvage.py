"""The work of `kafkalog salvage`, and its result as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from kafkalog.log.replicas import MergeOptions
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure, chosen_from
from kafkalog.tasks.salvage import SalvageOptions, SalvageResult, describe, salvage_partitions
from kafkalog.tasks.totals import total_salvage

from ..commands.shared_options import RepairOptions
from .repairs import run_repair


def run_salvage(paths: Sequence[str], out: str, repair: RepairOptions, *, fill_gaps: bool, unverified: bool) -> int:
    """Copy what is intact; the exit code."""
    options = SalvageOptions(repair.dry_run, repair.index_interval_bytes, MergeOptions(fill_gaps, unverified))
    total = sum(found.size for found in chosen_from(paths, repair.topics, repair.partitions))

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[SalvageResult]:
        return salvage_partitions(
            paths, out, options, topics=repair.topics, partitions=repair.partitions, progress=progress, on_failure=on_failure
        )

    return run_repair(work, total, repair, describe_salvage, salvage_as_dict, total_salvage)


def describe_salvage(result: SalvageResult) -> list[str]:
    name, *facts = describe(result)
    return [f"{name}: {result.state}" + ("" if result.state == "not written" else f", {result.folder}"), *facts]


def salvage_as_dict(result: SalvageResult) -> dict[str, Any]:
    report = result.report.as_dict()
    del report["kept"]  # of the first replica only; the result counts what was kept of all replicas
    return {**asdict(result), "report": report}
