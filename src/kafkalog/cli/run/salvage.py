"""The work of `kafkalog salvage`."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.log.replicas import MergeOptions
from kafkalog.tasks.journal import SalvageResult
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure, chosen_from
from kafkalog.tasks.salvage import SalvageOptions, salvage_partitions

from .repairs import describe_salvage, run_repair, salvage_as_dict


def run_salvage(
    paths: list[str],
    *,
    out: str,
    topics: list[str] | None,
    partitions: list[int] | None,
    dry_run: bool,
    fill_gaps: bool,
    unverified: bool,
    index_interval_bytes: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    options = SalvageOptions(dry_run, index_interval_bytes, MergeOptions(fill_gaps, unverified))
    total = sum(found.size for found in chosen_from(paths, topics, partitions))

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[SalvageResult]:
        return salvage_partitions(
            paths, out, options, topics=topics, partitions=partitions, progress=progress, on_failure=on_failure
        )

    return run_repair(work, total, quiet, as_json, describe_salvage, salvage_as_dict)
