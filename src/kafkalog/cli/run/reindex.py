"""The work of `kafkalog reindex`, and its result as text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from kafkalog.errors import Limits
from kafkalog.format.quantities import plural
from kafkalog.format.shell import path_word
from kafkalog.log.rebuild import RebuildOptions
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure, chosen_partitions
from kafkalog.tasks.reindex import ReindexOptions, ReindexResult, reindex_partitions
from kafkalog.tasks.totals import Total, total_reindex

from ..commands.shared_options import RepairOptions
from .repairs import run_repair

NAMES_SHOWN = 12


def run_reindex(path: str, out: str | None, repair: RepairOptions, *, discard: bool, now_ms: int | None) -> int:
    """Rebuild the files; the exit code."""
    rebuild = RebuildOptions(now_ms=now_ms)
    options = ReindexOptions(out, repair.dry_run, discard, repair.index_interval_bytes, rebuild, Limits())
    topics, partitions = repair.topics, repair.partitions
    total = sum(found.size for found in chosen_partitions(path, topics, partitions))

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[ReindexResult]:
        return reindex_partitions(path, options, topics=topics, partitions=partitions, progress=progress, on_failure=on_failure)

    def add_up(results: list[ReindexResult]) -> Total:
        return total_reindex(path, out, results)

    return run_repair(work, total, repair, _describe_reindex, _as_dict, add_up)


def _as_dict(result: ReindexResult) -> dict[str, Any]:
    return {**asdict(result), "report": result.report.as_dict()}


def _describe_reindex(result: ReindexResult) -> list[str]:
    is_done = result.state != "not written"
    rebuilt, removed = ("rebuilt", "removed") if is_done else ("to rebuild", "to remove")
    files = f"{plural(len(result.changed), 'file')} {rebuilt}, {len(result.unchanged)} already correct"
    lines = [f"{result.folder}: {result.state}, {files}"]
    for what, names in ((rebuilt, result.changed), (removed, result.removed), ("kept aside", result.kept_aside)):
        lines += [f"  {what} {name}" for name in names[:NAMES_SHOWN]]
        lines += [f"  {what} {len(names) - NAMES_SHOWN} more (--json names them)"] if len(names) > NAMES_SHOWN else []
    for dropped in result.report.dropped:
        keep = f"kafkalog salvage {path_word(os.path.dirname(dropped.file))} --out DIR"
        lines.append(f"  stopped at damage: {dropped.message}")
        lines.append(f"  a broker would cut the log there and delete what follows; to keep it: {keep}")
    lines += [
        f"  stopped before a tail of {tail.length} bytes, which a broker would cut: {tail.message}"
        for tail in result.report.tails
    ]
    return lines
