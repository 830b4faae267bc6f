"""Everything that `kafkalog report` shows, from one profile and one check of the logs at some paths.

It is counted in parts, which can be added up: `overview` counts one part after the other, Spark counts them on its executors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkalog.clusters.metadata import metadata_copies
from kafkalog.clusters.places import Disks, cluster_id_of, directories_of
from kafkalog.errors import KafkaLogError, Limits, UsageError
from kafkalog.log.checks.finding import Finding
from kafkalog.log.checks.run import check_directory, check_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.choices import Names, Numbers, several_names, several_numbers
from kafkalog.tables.logs import Logs, SeveralLogs, open_logs
from kafkalog.tasks.broker_start import find_verdict
from kafkalog.tasks.cluster import Cluster, cluster_of
from kafkalog.tasks.groups import Groups, groups_of
from kafkalog.tasks.profile import ProfileRun, check_choices, disk_use, profile_result
from kafkalog.tasks.profile.record_counts import COLUMNS
from kafkalog.tasks.profile.retention import DEFAULT_RETENTION_MS, FutureTimestamps
from kafkalog.tasks.verdict import Verdict
from kafkalog.tasks.verify import Findings, in_place_order

from .observed import Observed
from .result import Deleted, Overview

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

TOP = 50
Path = str | os.PathLike[str]
# The bytes done, and the bytes to do: the logs are counted, then checked.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class OverviewChoices:
    """What callers of `overview` choose, besides the paths."""

    topics: Names | None = None
    partitions: Numbers | None = None
    top: int = TOP
    quick: bool = False
    on_damage: str = "skip"
    now_ms: int | None = None
    threads: int | None = None
    limits: Limits | None = None

    def __post_init__(self) -> None:
        check_choices(self.top, self.on_damage, self.threads)

    def options(self) -> ReadOptions:
        return ReadOptions(
            COLUMNS,
            on_damage=self.on_damage,
            include_control=True,
            include_empty=True,
            threads=self.threads,
            limits=self.limits or Limits(),
        )


@dataclass
class Counted:
    """What was counted and found in some partitions."""

    run: ProfileRun
    observed: Observed
    findings: list[Finding] = field(default_factory=list)
    checked: ReadReport = field(default_factory=ReadReport)

    def merge(self, other: Counted) -> Counted:
        """Add what was counted in other partitions."""
        self.run.merge(other.run)
        self.observed.merge(other.observed)
        self.findings += other.findings
        self.checked.add(other.checked)
        return self


class OverviewPlan:
    """What is at some paths, listed and not read yet."""

    def __init__(
        self, paths: Path | Logs | Sequence[Path], choices: OverviewChoices, filesystem: FileSystem | None = None
    ) -> None:
        self.each = _open_each(paths, filesystem)
        self.choices = choices
        self.topics = several_names("topics", choices.topics)
        self.numbers = several_numbers("partitions", choices.partitions)
        self.logs = self.each[0] if len(self.each) == 1 else SeveralLogs(self.each, None)
        self.chosen = self.logs.choose(self.topics, self.numbers)
        self.others = self.logs.other_copies(self.chosen) if isinstance(self.logs, SeveralLogs) else []
        for partition in self.chosen:
            if partition.file is not None and not partition.segments:
                raise UsageError(f"{partition.file}: nothing to compare it with; give the folder that it is in")
        self.now_ms = int(time.time() * 1000) if choices.now_ms is None else choices.now_ms
        self.size = sum(partition.size for partition in self.chosen)

    @property
    def total(self) -> int:
        """The bytes to read: to count them, and again to check them."""
        return self.size if self.choices.quick else 2 * self.size

    def begin(self, on_progress: Progress | None = None) -> Counted:
        """Nothing counted yet."""
        observed = Observed(records=not self.choices.quick)
        future = FutureTimestamps(self.now_ms, DEFAULT_RETENTION_MS)
        run = ProfileRun(self.chosen, self.choices.options(), future, _bytes_of(on_progress, 0, self.total), observed)
        return Counted(run, observed)

    def check_directories(self, counted: Counted) -> None:
        """Add the findings about the log directories as a whole, if all of them is asked for."""
        for logs in () if self.choices.quick else self.each:
            if self.is_whole(logs) and logs.partitions:
                found = check_directory(logs.partitions, self.choices.options(), counted.checked, logs.path)
                counted.findings += [finding for finding in found if finding is not None]
        if self.others and not self.choices.quick:  # not counted, but a disk is not well because another one is
            found = check_partitions(self.others, self.choices.options(), counted.checked)
            counted.findings += [finding for finding in found if finding is not None]

    def result(self, counted: Counted) -> Overview:
        run = counted.run
        disk = disk_use(self.logs, self.chosen, self.topics, self.numbers)
        profile = profile_result(run, self.logs, self.now_ms, self.choices.top, quick=self.choices.quick, disk=disk)
        paths = tuple(one.path for one in self.each)
        checked = None if self.choices.quick else self._findings(counted)
        verdicts = () if checked is None else self._verdicts(checked)
        cluster, groups = self._of_the_cluster(paths)
        found = counted.observed.result(paths, self.chosen, profile, checked, self._deleted())
        return replace(found, verdicts=verdicts, cluster=cluster, groups=groups)

    def _of_the_cluster(self, paths: tuple[str, ...]) -> tuple[Cluster | None, Groups | None]:
        """What the metadata and the committed offsets say; None where they are not here, or of two clusters."""
        if self.choices.quick or self.topics is not None or self.numbers is not None:
            return None, None
        copies = [*self.chosen, *self.others]
        disks = Disks(paths, tuple(directories_of(copies)))
        cluster, groups = None, None
        with suppress(KafkaLogError):
            if metadata_copies(copies):
                cluster = cluster_of(disks, limits=self.choices.limits)
        with suppress(KafkaLogError):
            cluster_id_of(disks.directories)
            groups = groups_of(paths, copies, limits=self.choices.limits)
        return cluster, groups

    def _verdicts(self, checked: Findings) -> tuple[Verdict, ...]:
        """What a broker will do that starts on each of the paths."""
        live = {partition.folder for partition in self.chosen}
        found = []
        for logs in self.each:
            there = [partition for partition in logs.partitions if self.is_whole(logs) or partition.folder in live]
            folders = {partition.folder for partition in there} | {logs.path}
            own = [each for each in checked if each.file in folders or os.path.dirname(each.file) in folders]
            found.append(find_verdict(logs.path, there, own, whole=self.is_whole(logs)))
        return tuple(each for each in found if each is not None)

    def is_whole(self, logs: Logs) -> bool:
        """Whether all of a log directory is asked for, its root included."""
        return self.topics is None and self.numbers is None and logs.is_log_directory

    def _findings(self, counted: Counted) -> Findings:
        report = counted.checked
        found = sorted(counted.findings, key=in_place_order)
        names = [str(partition) for partition in self.chosen]
        return Findings(self.logs.path, found, names, report.kept_batches, report.kept_records, report.kept_bytes)

    def _deleted(self) -> tuple[Deleted, ...]:
        """Folders that a broker has deleted or moved aside, and files in live ones that it was about to delete."""
        live = {partition.folder for partition in self.chosen}
        found = []
        for partition in self.logs.partitions:
            if self.topics is not None and partition.topic not in self.topics:
                continue
            if self.numbers is not None and partition.partition not in self.numbers:
                continue
            is_live = partition.folder in live
            files = partition.leftovers if is_live else partition.files
            state = "files" if is_live else partition.state
            if files:
                size = sum(stored.size for stored in files)
                found.append(Deleted(partition.folder, partition.topic, partition.partition, state, len(files), size))
        return tuple(sorted(found, key=lambda each: -each.bytes))


def overview(
    paths: Path | Logs | Sequence[Path],
    choices: OverviewChoices | None = None,
    *,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Overview:
    """What is at these paths, counted and checked. The logs are read twice, in memory that does not grow with them.

    A quick one reads headers and a few batches only, and checks nothing.
    """
    plan = OverviewPlan(paths, choices or OverviewChoices(), filesystem)
    counted = plan.begin(on_progress)
    plan.check_directories(counted)
    count(counted, plan.chosen, quick=plan.choices.quick, on_check=_bytes_of(on_progress, plan.size, plan.total))
    return plan.result(counted)


def part_of(whole: Counted, partitions: list[Partition]) -> Counted:
    """An empty part for some of the partitions, to be counted elsewhere and merged into the whole."""
    observed = Observed(records=whole.observed.records)
    return Counted(whole.run.part(partitions, observed), observed)


def count(
    part: Counted, partitions: Sequence[Partition], *, quick: bool, on_check: Callable[[ReadReport], None] | None = None
) -> Counted:
    """Read the partitions of a part."""
    part.run.read(quick=quick)
    for finding in () if quick else check_partitions(partitions, part.run.options, part.checked):
        if finding is not None:
            part.findings.append(finding)
        elif on_check is not None:
            on_check(part.checked)
    return part


def _open_each(paths: Path | Logs | Sequence[Path], filesystem: FileSystem | None) -> list[Logs]:
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
