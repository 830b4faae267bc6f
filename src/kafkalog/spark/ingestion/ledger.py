"""How far the runs on a target have come, and how the next one publishes what it has staged.

Folders of Parquet have commit files (`folder_ledger`); the tables of a lake carry it themselves (`lake_ledger`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from kafkalog.errors import path_text

from ..errors import BAD_TARGET, SparkSourceError
from ..options import TopicPartition
from .ingest_options import IngestOptions
from .ingest_plan import IngestPlan
from .layout import GENERATION, Layout
from .manifest import Commit, Progress, WrittenFile
from .tables import Places, SetAside, Tables
from .task_writing import PartitionResult, TaskResult


@dataclass(frozen=True)
class TableSummary:
    """What a run did to one table of a lake: its commit there, and how long that took."""

    name: str
    location: str
    commit: int
    records: int
    files: int
    commit_seconds: float


@dataclass(frozen=True)
class Published:
    """The number of a run's commit, and in a lake what it did to each table."""

    number: int
    tables: tuple[TableSummary, ...] = ()


@dataclass(frozen=True)
class Staged:
    """What a run has staged: everything that its commit names."""

    plan: IngestPlan
    options: IngestOptions
    results: Sequence[TaskResult]
    seen: Mapping[TopicPartition, PartitionResult]
    aside: Mapping[str, SetAside]

    @cached_property
    def progress(self) -> Mapping[TopicPartition, Progress]:
        """How far each planned partition has come with it."""
        return {
            each.key: each.progress(self.seen[each.key].last_offset, self.seen[each.key].reached) for each in self.plan.partitions
        }

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        return _sorted(file for result in self.results for file in result.files)

    @property
    def damaged(self) -> tuple[WrittenFile, ...]:
        return _sorted(file for result in self.results for file in result.damaged)

    def commit(
        self, number: int, run: str, before: Mapping[TopicPartition, Progress], topics: Collection[str] | None = None
    ) -> Commit:
        """The commit of all that is staged, or of what belongs to some topics; its files are those of all topics."""
        aside = [found for topic, found in self.aside.items() if topics is None or topic in topics]
        return Commit(
            number,
            run,
            time.time_ns() // 1_000_000,
            self.options.settings(),
            {**before, **{key: value for key, value in self.progress.items() if topics is None or key[0] in topics}},
            self.files,
            self.damaged,
            tuple(gap for gap in self.plan.gaps if topics is None or gap.topic in topics),
            tuple(file for each in aside for file in each.rewritten),
            tuple(file for each in aside for file in each.superseded),
            tuple(path for each in aside for path in each.replaced),
        )


def _sorted(files: Any) -> tuple[WrittenFile, ...]:
    return tuple(sorted(files, key=lambda file: file.path))


class Ledger(Protocol):
    """One run's view of what a target records."""

    @property
    def run(self) -> str:
        """The name of this run."""
        ...

    @property
    def options(self) -> IngestOptions:
        """The options of this run, with what earlier runs have settled."""
        ...

    @property
    def is_first(self) -> bool:
        """Whether no run has settled anything yet."""
        ...

    @property
    def progress(self) -> Mapping[TopicPartition, Progress]: ...

    @property
    def tables(self) -> Tables:
        """The rows of earlier runs."""
        ...

    @property
    def places(self) -> Places:
        """Where rows go that are set aside."""
        ...

    def settle(self) -> None:
        """Complete or undo what killed runs have left."""
        ...

    def layout(self, topics: Collection[str], options: IngestOptions) -> Layout:
        """The layout of this run's files, which are of these topics; called before anything is staged."""
        ...

    def publish(self, staged: Staged) -> Published:
        """Publish what is staged: from here on the run has happened."""
        ...

    def discard(self) -> None:
        """Free the space of this run, which failed before it published."""
        ...


def agreed(options: IngestOptions, settings: Mapping[str, Any], place: str) -> IngestOptions:
    """The options with the settings of earlier runs; SparkSourceError if files would have another shape than theirs."""
    if not settings.get(GENERATION, False):  # tables of an earlier kafkalog
        options = replace(options, generation=False)
    found = settings.get("value")
    payload = options.payload
    if payload is not None and found is not None and payload.schema is None:
        same = replace(payload, schema=found["schema"], is_inferred=found["is_inferred"])
        options = replace(options, payload=same)
    for name, value in options.settings().items():
        stored = settings.get(name, False if name != "table" else None)
        if stored != value:
            raise SparkSourceError(
                BAD_TARGET,
                f"{path_text(place)}: earlier runs had {name}={stored!r}, this one has {name}={value!r}; "
                "use the same setting, or choose another target",
            )
    return options
