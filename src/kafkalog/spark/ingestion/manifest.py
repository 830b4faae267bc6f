"""The log of commits: `TARGET/_kafkalog/commits/<number>.json`, one for each run that changed anything.

A run writes its files under `_kafkalog/staging/<run>`, where no reader looks. Then it publishes its commit, which names them
all: from that moment the run has happened. Then the files are moved to their places, and the staging folder goes. Whatever a
killed run leaves is settled by what it published: with a commit the moves are completed, without one its files are removed. A
commit holds how far every partition has come, so the last one says where the next run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from kafkalog.errors import KafkaLogError

from ..errors import BAD_TARGET, SparkSourceError
from ..options import TopicPartition
from .target import Target

COMMITS: Final = "_kafkalog/commits"
STAGING: Final = "_kafkalog/staging"
TABLE: Final = "topic="
VERSION: Final = 1


class Cursor(NamedTuple):
    """A place in the log of a partition: the base offset of a segment and a position in its file. They compare in log order."""

    segment: int
    position: int


BEGINNING: Final = Cursor(-2, 0)


@dataclass(frozen=True)
class Progress:
    """How far a partition has come.

    All before `next_offset` and `cursor` was taken or set aside. `newest` is the newest segment (base offset, size, time) where
    nothing was left in it. `log_end_offset` is where the log ended; `generation` counts how often it began anew.
    """

    next_offset: int
    cursor: Cursor
    newest: tuple[int, int, int] | None = None
    log_end_offset: int = 0
    topic_id: str | None = None
    generation: int = 0


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file: where it belongs, where it was staged, what is in it (`offsets`: partition -> first and last)."""

    path: str
    staged: str
    records: int
    size: int
    offsets: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """Offsets that were gone, or a partition that began anew, when a run with on_data_loss=continue came to it."""

    topic: str
    partition: int
    start_offset: int
    stop_offset: int
    reason: str


@dataclass(frozen=True)
class Commit:
    """What one run did, and where all partitions stand after it."""

    number: int
    run: str
    time_ms: int
    settings: Mapping[str, Any]
    progress: Mapping[TopicPartition, Progress]
    files: tuple[WrittenFile, ...] = ()
    damaged: tuple[WrittenFile, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def encode(self) -> bytes:
        topics: dict[str, dict[str, Any]] = {}
        for (topic, partition), progress in sorted(self.progress.items()):
            topics.setdefault(topic, {})[str(partition)] = asdict(progress)
        content = {
            "version": VERSION,
            "number": self.number,
            "run": self.run,
            "time_ms": self.time_ms,
            "settings": self.settings,
            "partitions": topics,
            "files": [asdict(file) for file in self.files],
            "damaged": [asdict(file) for file in self.damaged],
            "gaps": [asdict(gap) for gap in self.gaps],
        }
        return (json.dumps(content, indent=1) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> Commit:
        found = json.loads(content)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}, this kafkalog knows {VERSION}")
        return cls(
            found["number"],
            found["run"],
            found["time_ms"],
            found["settings"],
            {
                (topic, int(partition)): _progress(fields)
                for topic, partitions in found["partitions"].items()
                for partition, fields in partitions.items()
            },
            tuple(_file(fields) for fields in found["files"]),
            tuple(_file(fields) for fields in found["damaged"]),
            tuple(Gap(**fields) for fields in found["gaps"]),
        )


def _progress(fields: dict[str, Any]) -> Progress:
    newest = fields["newest"]
    return replace(Progress(**fields), cursor=Cursor(*fields["cursor"]), newest=tuple(newest) if newest else None)


def _file(fields: dict[str, Any]) -> WrittenFile:
    return WrittenFile(**{**fields, "offsets": {name: tuple(pair) for name, pair in fields["offsets"].items()}})


class CommitLog:
    """The commits of a target."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def latest(self) -> Commit | None:
        names = [name for name in self.target.list(COMMITS) if name.endswith(".json")]
        if names:
            return self.read(names[-1])
        self._require_no_tables()
        return None

    def _require_no_tables(self) -> None:
        """SparkSourceError where tables are without their commits, as after a copy that left out names with an underscore."""
        tables = [name for name in self.target.list("") if name.startswith(TABLE)]
        if tables:
            raise SparkSourceError(
                BAD_TARGET,
                f"{self.target.name}: {tables[0]} is there, but no commit in {COMMITS} says how far it goes, and rows would come "
                "twice; choose another target, or remove the tables to begin again",
            )

    def read(self, name: str) -> Commit:
        path = f"{COMMITS}/{name}"
        try:
            return Commit.decode(self.target.read(path))
        except (ValueError, KeyError, TypeError) as error:
            raise SparkSourceError(BAD_TARGET, f"{self.target.name}/{path}: not a commit of an ingest: {error}") from error

    def publish(self, commit: Commit) -> None:
        """From here on the run has happened."""
        self.target.publish(commit_path(commit.number), commit.encode(), f"{staging_folder(commit.run)}/commit")
        self.complete(commit)

    def complete(self, commit: Commit) -> None:
        """Give the files of a published commit their names; what a killed run has moved already stays."""
        self.target.move((file.staged, file.path) for file in (*commit.files, *commit.damaged))
        self.target.remove(staging_folder(commit.run))

    def discard(self, run: str) -> None:
        """Give back the room of a run that failed before it published; what is left of it is settled by the next one."""
        with suppress(KafkaLogError, OSError):
            self.target.remove(staging_folder(run))

    def settle(self, latest: Commit | None) -> None:
        """Complete or undo what a killed run has left."""
        for run in self.target.list(STAGING):
            if latest is not None and run == latest.run:
                self.complete(latest)
            else:
                self.target.remove(staging_folder(run))


def commit_path(number: int) -> str:
    return f"{COMMITS}/{number:020}.json"


def staging_folder(run: str) -> str:
    return f"{STAGING}/{run}"
