"""The work behind `kafkalog salvage`, `reindex` and `undelete`: call the task, tell what it did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import click

from kafkalog.errors import Limits
from kafkalog.kernels._jit import announce_compilation
from kafkalog.log.rebuild import RebuildOptions
from kafkalog.log.replicas import MergeOptions
from kafkalog.log.report import ReadReport
from kafkalog.tasks.journal import SalvageResult, describe
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure, chosen_from, chosen_partitions
from kafkalog.tasks.reindex import ReindexOptions, ReindexResult, reindex
from kafkalog.tasks.salvage import SalvageOptions, salvage
from kafkalog.tasks.undelete import Deleted, find_deleted, undelete

from ..failure import CLEAN, Failures
from ..render.escape import printable
from ..render.progress import ReadProgress
from ..render.summary import report_exit_code

NAMES_TOLD = 12


class Reported(Protocol):
    """A result that tells what was left out."""

    report: ReadReport


Result = TypeVar("Result", bound=Reported)


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
        return salvage(paths, out, options, topics=topics, partitions=partitions, progress=progress, on_failure=on_failure)

    return _tell(work, total, quiet, as_json, _describe_salvage, _salvage_as_dict)


def run_reindex(
    path: str,
    *,
    out: str | None,
    discard: bool,
    now: int | None,
    topics: list[str] | None,
    partitions: list[int] | None,
    dry_run: bool,
    index_interval_bytes: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    options = ReindexOptions(out, dry_run, discard, index_interval_bytes, RebuildOptions(now_ms=now), Limits())
    total = sum(found.size for found in chosen_partitions(path, topics, partitions))

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[ReindexResult]:
        return reindex(path, options, topics=topics, partitions=partitions, progress=progress, on_failure=on_failure)

    return _tell(
        work, total, quiet, as_json, _describe_reindex, lambda result: {**asdict(result), "report": result.report.as_dict()}
    )


def run_undelete(
    path: str,
    out: str | None,
    *,
    topics: list[str] | None,
    partitions: list[int] | None,
    dry_run: bool,
    index_interval_bytes: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    deleted = find_deleted(path, topics=topics, partitions=partitions)
    if out is None or not deleted:
        _list_deleted(deleted, as_json)
        return CLEAN
    options = SalvageOptions(dry_run, index_interval_bytes=index_interval_bytes)

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[SalvageResult]:
        return undelete(deleted, out, options, progress=progress, on_failure=on_failure)

    return _tell(work, sum(each.size for each in deleted), quiet, as_json, _describe_salvage, _salvage_as_dict)


def _tell(
    work: Callable[[Progress, OnFailure], Iterable[Result]],
    total: int,
    quiet: bool,
    as_json: bool,
    text: Callable[[Result], list[str]],
    as_dict: Callable[[Result], dict[str, Any]],
) -> int:
    """Do the work, and say of each partition what became of it; the gravest of their exit codes."""
    announce_compilation()
    counted = ReadReport()
    code = CLEAN
    with ReadProgress(counted, total, wanted=not quiet) as bar:

        def progress(size: int) -> None:
            counted.kept_bytes += size
            bar.update()

        failures = Failures(as_json=as_json, before_telling=bar.hide)
        for result in work(progress, failures.add):
            click.echo(json.dumps(as_dict(result)) if as_json else "\n".join(map(printable, text(result))))
            code = max(code, report_exit_code(result.report))
    return max(code, failures.finish())


def _describe_salvage(result: SalvageResult) -> list[str]:
    name, *facts = describe(result)
    return [f"{name}: {result.state}" + ("" if result.state == "not written" else f", {result.folder}"), *facts]


def _salvage_as_dict(result: SalvageResult) -> dict[str, Any]:
    report = result.report.as_dict()
    del report["kept"]  # of the first replica alone; the result counts what was kept in all
    return {**asdict(result), "report": report}


def _describe_reindex(result: ReindexResult) -> list[str]:
    is_done = result.state != "not written"
    rebuilt, removed = ("rebuilt", "removed") if is_done else ("to be rebuilt", "to be removed")
    files = f"{len(result.changed)} files {rebuilt}, {len(result.unchanged)} right as they were"
    lines = [f"{result.folder}: {result.state}, {files}"]
    for what, names in ((rebuilt, result.changed), (removed, result.removed), ("kept aside", result.kept_aside)):
        lines += [f"  {what} {name}" for name in names[:NAMES_TOLD]]
        lines += [f"  {what} {len(names) - NAMES_TOLD} more (--json names them)"] if len(names) > NAMES_TOLD else []
    for dropped in result.report.dropped:
        lines.append(f"  ended at damage: {dropped.message}")
        lines.append("  a broker would cut the log there and delete what follows; `kafkalog salvage` keeps it")
    lines += [
        f"  ended before a tail of {tail.length} bytes, which a broker would cut: {tail.message}" for tail in result.report.tails
    ]
    return lines


def _list_deleted(deleted: list[Deleted], as_json: bool) -> None:
    for each in deleted:
        row = {
            "what": each.what,
            "topic": each.topic,
            "partition": each.partition,
            "segments": len(each.base_offsets),
            "bytes": each.size,
            "first_offset": each.base_offsets[0],
            "folder": each.folder,
        }
        if as_json:
            click.echo(json.dumps(row))
        else:
            facts = f"{row['segments']} segments, {each.size} bytes, from offset {row['first_offset']}"
            click.echo(printable(f"{each.topic}-{each.partition}: {each.what}, {facts}, in {each.folder}"))
    if not deleted and not as_json:
        click.echo("nothing deleted is left here: neither -delete folders nor .deleted segments")
