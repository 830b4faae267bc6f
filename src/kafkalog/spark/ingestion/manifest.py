"""The log of commits: `TARGET/_kafkalog/commits/<number>.json`, one for each run that changed anything.

A run writes its files under `_kafkalog/staging/<run>`, where no reader looks. Then it publishes its commit, which names them
all: from that moment the run has happened. Then the files are moved to their places, and the staging folder is removed. What a
killed run leaves is settled by what it published: with a commit the moves are completed, without one its files are removed. A
commit records how far every partition has come, so the last one says where the next run continues.

Concurrent runs cannot harm each other. Each has a staging folder of its own, whose name says which number its commit will have,
and the target grants a number once. So the files of a run are removed only when it can no longer publish (its number is taken),
or where the target's lock proves that it has ended; and a commit is published only when the one before it has all its files in
their places. Several runs at once can do both.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypedDict

from crc32c import crc32c

from kafkalog.errors import KafkaLogError, StorageError
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.json_shape import SHAPE_ERRORS, parse_object, require_type, shape_problem
from kafkalog.format.quantities import plural
from kafkalog.log.lineage import EntryMark, Lineage
from kafkalog.storage.store import ByteSource

from ..errors import BAD_TARGET, TARGET_BUSY, SparkSourceError
from ..options import TopicPartition
from .target import OWN_FOLDER, Target, is_plain

COMMITS: Final = f"{OWN_FOLDER}/commits"
STAGING: Final = f"{OWN_FOLDER}/staging"
TABLE: Final = "topic="
VERSION: Final = 1
PROOF_BYTES: Final = 4096


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in the log of a partition: the base offset of a segment and a position in its file. They compare in log order.

    `proof` is a checksum of the bytes before it: a cleaned segment can have the name and size of the one it replaced.
    """

    segment: int
    position: int
    proof: int = field(default=0, compare=False)


def cursor_at(segment: int, position: int, source: ByteSource) -> Cursor:
    """A place in an open file."""
    start = max(position - PROOF_BYTES, 0)
    return Cursor(segment, position, crc32c(source.read(start, position - start)))


BEGINNING: Final = Cursor(-2, 0)


@dataclass(frozen=True)
class Progress:
    """How far a partition has come.

    Everything before `next_offset` and `cursor` was ingested or set aside. `newest` is the newest segment (base offset, size,
    time) if it was read to its end. The headers could be followed up to `log_end_offset`. `last_entry` and `epochs` show whether
    the log still holds what was ingested (`kafkalog.log.lineage`); `generation` counts how often the topic was created again,
    `truncations` how often rows were set aside since: offsets that are ingested again need files with other names.
    """

    next_offset: int
    cursor: Cursor
    newest: tuple[int, int, int] | None = None
    log_end_offset: int = 0
    topic_id: str | None = None
    generation: int = 0
    last_entry: EntryMark | None = None
    epochs: tuple[EpochStart, ...] = ()
    truncations: int = 0

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.next_offset, self.last_entry, self.epochs)


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file: its place, where it was staged, and its content (`offsets`: partition -> first and last)."""

    path: str
    staged: str
    records: int
    size: int
    offsets: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """Data loss that a run with on_data_loss=continue accepted.

    `removed`: the offsets from `start_offset` up to `stop_offset` were removed before they were ingested. `truncated`: they were
    ingested, but the log no longer holds them, and their rows were set aside. `re-created` and `rewritten`: the log was ingested
    up to `start_offset`; the present one starts at `stop_offset` and is another generation. Tables of earlier versions, without
    a column for that, hold only the rows of the last generation: the others were set aside, too.
    """

    topic: str
    partition: int
    start_offset: int
    stop_offset: int
    reason: str


class _Payload(TypedDict):
    """How values are decoded, as far as a later run takes it over."""

    schema: str | None
    is_inferred: bool


@dataclass(frozen=True, repr=False)
class Commit:
    """What one run did, and how far all partitions have come after it.

    Of the files in `replaced`, rows that the log no longer holds are in `superseded`, the others in `rewritten`. `previous` is
    the run whose commit this one follows in a table of a lake, where several runs may have recorded one number.
    """

    number: int
    run: str
    time_ms: int
    settings: Mapping[str, Any]
    progress: Mapping[TopicPartition, Progress]
    files: tuple[WrittenFile, ...] = ()
    damaged: tuple[WrittenFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    rewritten: tuple[WrittenFile, ...] = ()
    superseded: tuple[WrittenFile, ...] = ()
    replaced: tuple[str, ...] = ()
    previous: str | None = None

    def __repr__(self) -> str:
        return f"Commit({self.number}, {plural(len(self.staged_files), 'file')}, {plural(len(self.progress), 'partition')})"

    @property
    def staged_files(self) -> tuple[WrittenFile, ...]:
        return (*self.files, *self.damaged, *self.rewritten, *self.superseded)

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
            "rewritten": [asdict(file) for file in self.rewritten],
            "superseded": [asdict(file) for file in self.superseded],
            "replaced": list(self.replaced),
            **({} if self.previous is None else {"previous": self.previous}),
        }
        return (json.dumps(content, indent=1) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> Commit:
        found = parse_object(content)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}, this kafkalog reads version {VERSION}")
        commit = cls(
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
            tuple(_file(fields) for fields in found.get("rewritten", ())),
            tuple(_file(fields) for fields in found.get("superseded", ())),
            tuple(found.get("replaced", ())),
            found.get("previous"),
        )
        require_type(commit, cls, "commit")
        require_type(commit.settings.get("value"), _Payload | None, "settings.value")
        for progress in commit.progress.values():
            if not 0 <= progress.generation < 1 << 31:
                raise ValueError(f"generation {progress.generation}")
        return commit


def _progress(fields: dict[str, Any]) -> Progress:
    newest, last_entry = fields["newest"], fields.get("last_entry")
    return Progress(
        fields["next_offset"],
        Cursor(**fields["cursor"]) if isinstance(fields["cursor"], dict) else Cursor(*fields["cursor"]),
        tuple(newest) if newest else None,
        fields["log_end_offset"],
        fields["topic_id"],
        fields["generation"],
        EntryMark(**last_entry) if last_entry else None,
        tuple(EpochStart(*start) for start in fields.get("epochs", ())),
        fields.get("truncations", 0),
    )


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
        """SparkSourceError for tables without their commits, as after a copy that left out names with an underscore."""
        tables = [name for name in self.target.list("") if name.startswith(TABLE)]
        if tables:
            raise SparkSourceError(
                BAD_TARGET,
                f"{self.target.name}: {tables[0]} exists, but no commit in {COMMITS} says how far it goes, so rows would be "
                "written twice; choose another target, or remove the tables to start again",
            )

    def read(self, name: str) -> Commit:
        path = f"{COMMITS}/{name}"
        try:
            commit = Commit.decode(self.target.read(path))
            _check_names(commit, path)
            return commit
        except SHAPE_ERRORS as error:
            what = f"not a commit of an ingest: {shape_problem(error)}; restore it, or choose another target"
            raise SparkSourceError(BAD_TARGET, f"{self.target.name}/{path}: {what}") from error

    def publish(self, commit: Commit) -> None:
        """Publish a commit: from here on the run has happened."""
        self.target.require_room(file.path for file in commit.staged_files)
        try:
            self.target.publish(commit_path(commit.number), commit.encode(), f"{staging_folder(commit.run)}/commit")
        except SparkSourceError as error:
            # After any other error the commit may have been published all the same: the next run finds out.
            if error.code == TARGET_BUSY:
                self.discard(commit.run)
            raise
        try:
            self.complete(commit)
        except StorageError as error:
            if self._is_followed(commit):
                return
            text = f"{error}; commit {commit.number} is published all the same, and the next run moves its files"
            raise StorageError(text, file=error.file) from error
        if not self.target.staged_are_dead:
            # A run that was not proved dead before has lost its number now. What cannot be removed is left to the next run.
            with suppress(KafkaLogError, OSError):
                self.settle(commit)

    def _is_followed(self, commit: Commit) -> bool:
        """Whether another run has published since, and so has completed this one; its files may have been replaced by now."""
        return any(name > f"{commit.number:020}.json" for name in self.target.list(COMMITS) if name.endswith(".json"))

    def complete(self, commit: Commit) -> None:
        """Give the files of a published commit their names; those that a killed run has already moved stay."""
        self.target.move((file.staged, file.path) for file in commit.staged_files)
        self.target.delete(commit.replaced)
        self.target.remove(staging_folder(commit.run))

    def discard(self, run: str) -> None:
        """Free the space of a run that failed before it published; the next run settles the rest."""
        with suppress(KafkaLogError, OSError):
            self.target.remove(staging_folder(run))

    def settle(self, latest: Commit | None) -> None:
        """Complete or undo what other runs have left and can no longer publish."""
        number = 0 if latest is None else latest.number
        for run in self.target.unfinished(STAGING):
            if latest is not None and run == latest.run:
                self.complete(latest)
            elif self.target.staged_are_dead or _wanted_number(run) <= number:
                self.target.remove(staging_folder(run))


def _check_names(commit: Commit, path: str) -> None:
    """ValueError unless a commit moves files of its own run to places in the target, and has the number of its name."""
    if path != commit_path(commit.number):
        raise ValueError(f"it has the number {commit.number}")
    if not is_plain(commit.run) or "/" in commit.run:
        raise ValueError(f"its run is {commit.run!r}, which is not a name")
    for file in commit.staged_files:
        if not is_plain(file.staged) or not file.staged.startswith(f"{staging_folder(commit.run)}/"):
            raise ValueError(f"it names the file {file.staged!r}, which is not below {staging_folder(commit.run)}")
        if not is_plain(file.path) or file.path.partition("/")[0] == OWN_FOLDER:
            raise ValueError(f"it moves a file to {file.path!r}, which is not a place for tables below the target")
    for name in commit.replaced:
        if not is_plain(name) or not name.startswith(TABLE):
            raise ValueError(f"it deletes {name!r}, which is not a file of the tables")


def run_name(before: Commit | None) -> str:
    """A unique name for the run that will publish the commit after this."""
    number = 1 if before is None else before.number + 1
    return f"{number:020}-{time.time_ns() // 1_000_000:013}-{secrets.token_hex(6)}"


def _wanted_number(run: str) -> int:
    """The number that a run's commit would have; 0 for a name that is not a run's."""
    found = re.fullmatch(r"([0-9]{20})-[0-9]{13}-[0-9a-f]{12}", run)
    return int(found[1]) if found else 0


def commit_path(number: int) -> str:
    return f"{COMMITS}/{number:020}.json"


def staging_folder(run: str) -> str:
    return f"{STAGING}/{run}"
