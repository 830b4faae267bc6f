"""Everything that `kafkalog report` shows, from one profile and one check of the logs at some paths."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog.errors import Limits, UsageError
from kafkalog.log.folders import choose, live_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.choices import Names, Numbers, several_names, several_numbers
from kafkalog.tables.logs import Logs, open_logs
from kafkalog.tasks.profile import ProfileRun, check_choices, disk_use, profile_result
from kafkalog.tasks.profile.record_counts import COLUMNS
from kafkalog.tasks.profile.retention import DEFAULT_RETENTION_MS, FutureTimestamps
from kafkalog.tasks.verify import Findings, verify

from .observed import Observed
from .result import Deleted, Overview

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

TOP = 50
Path = str | os.PathLike[str]
# The bytes done, and the bytes to do: the logs are counted, then checked.
Progress = Callable[[int, int], None]


def overview(
    paths: Path | Logs | Sequence[Path],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    top: int = TOP,
    quick: bool = False,
    on_damage: str = "skip",
    now_ms: int | None = None,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Overview:
    """What is at these paths, counted and checked. The logs are read twice, in memory that does not grow with them.

    `quick` reads headers and a few batches only, and checks nothing.
    """
    check_choices(top, on_damage, threads)
    each = open_each(paths, filesystem)
    logs = Logs(", ".join(found.path for found in each), [found for one in each for found in one.partitions])
    topics, numbers = several_names("topics", topics), several_numbers("partitions", partitions)
    live = [found for one in each for found in live_partitions(one.partitions, one.path)]
    chosen = choose(live, logs.path, topics, numbers)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    options = ReadOptions(
        COLUMNS, on_damage=on_damage, include_control=True, include_empty=True, threads=threads, limits=limits or Limits()
    )
    observed = Observed(records=not quick)
    size = sum(partition.size for partition in chosen)
    total = size if quick else 2 * size
    run = ProfileRun(chosen, options, FutureTimestamps(now, DEFAULT_RETENTION_MS), _bytes_of(on_progress, 0, total), observed)
    run.read(quick=quick)
    profile = profile_result(run, logs, now, top, quick=quick, disk=disk_use(logs, chosen, topics, numbers))
    checked = None
    if not quick:
        checked = _check(each, chosen, topics, numbers, threads, limits, _bytes_of(on_progress, size, total))
    deleted = _deleted(logs, chosen, topics, numbers)
    return observed.result(tuple(one.path for one in each), chosen, profile, checked, deleted)


def open_each(paths: Path | Logs | Sequence[Path], filesystem: FileSystem | None) -> list[Logs]:
    """The logs at each path; a single one stands for a list of one."""
    if isinstance(paths, Logs):
        return [paths]
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not several:
        raise UsageError("give at least one path")
    return [open_logs(path, filesystem=filesystem) for path in several]


def _bytes_of(on_progress: Progress | None, before: int, total: int) -> Callable[[ReadReport], None] | None:
    if on_progress is None:
        return None
    return lambda report: on_progress(before + report.kept_bytes + report.dropped_bytes, total)


def _check(
    each: Sequence[Logs],
    chosen: Sequence[Partition],
    topics: Names | None,
    numbers: Numbers | None,
    threads: int | None,
    limits: Limits | None,
    on_progress: Callable[[ReadReport], None] | None,
) -> Findings:
    """The findings of all paths as one result; where one path has none of the chosen partitions, it is passed over."""
    folders = {partition.folder for partition in chosen}
    joined: Findings | None = None
    for logs in each:
        there = [partition for partition in logs.partitions if partition.folder in folders]
        if not there:
            continue
        narrowed = topics is not None or numbers is not None
        target = Logs(logs.path, there) if narrowed else logs
        found = verify(
            target,
            topics=sorted({partition.topic for partition in there}) if narrowed else None,
            threads=threads,
            limits=limits,
            on_progress=on_progress,
        )
        joined = found if joined is None else _joined(joined, found)
    return joined or Findings(", ".join(logs.path for logs in each))


def _joined(first: Findings, second: Findings) -> Findings:
    return replace(
        first,
        path=f"{first.path}, {second.path}",
        findings=[*first.findings, *second.findings],
        partitions=[*first.partitions, *second.partitions],
        batch_count=first.batch_count + second.batch_count,
        record_count=first.record_count + second.record_count,
        log_bytes=first.log_bytes + second.log_bytes,
    )


def _deleted(
    logs: Logs, chosen: Sequence[Partition], topics: Sequence[str] | None, numbers: Sequence[int] | None
) -> tuple[Deleted, ...]:
    """Folders that a broker has deleted or moved aside, and files in live ones that it was about to delete."""
    live = {partition.folder for partition in chosen}
    found = []
    for partition in logs.partitions:
        if (topics is not None and partition.topic not in topics) or (numbers is not None and partition.partition not in numbers):
            continue
        files = partition.leftovers if partition.folder in live else partition.files
        if files:
            size = sum(stored.size for stored in files)
            state = partition.state if partition.folder not in live else "files"
            found.append(Deleted(partition.folder, partition.topic, partition.partition, state, len(files), size))
    return tuple(sorted(found, key=lambda each: -each.bytes))
