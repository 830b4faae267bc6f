"""A table of a lake as an ingest uses it: Iceberg or Delta behind the few operations that its protocol needs.

A commit names its number and its run. `commit` compares and commits in one step: of all runs that want a number, one gets it. A
commit whose answer was lost is looked up, never repeated blindly.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from kafkalog.errors import KafkaLogError, StorageError, path_text

from ..errors import BAD_TARGET, STORAGE, TARGET_BUSY, SparkSourceError
from ..options import TopicPartition
from .file_statistics import FileStatistics
from .lake_files import Edit
from .manifest import WrittenFile

LOGGER = logging.getLogger("kafkalog.spark")

VERSION_KEY: Final = "kafkalog.version"
TOPIC_KEY: Final = "kafkalog.topic"
COMMIT_KEY: Final = "kafkalog.commit"
RUN_KEY: Final = "kafkalog.run"
OFFSETS_KEY: Final = "kafkalog.offsets"
VERSION: Final = "1"
# Another engine may commit at the same moment, again and again; a catalog may be away for a while.
TRIES: Final = 8
PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Head:
    """The last commit of an ingest in a table: its number, 0 if there is none, and the mark of its run."""

    number: int
    mark: str

    def is_of(self, edit: Edit) -> bool:
        return self.number == edit.number and self.mark == run_mark(edit.run)


def run_mark(run: str) -> str:
    """What a table remembers of a run's name: 31 bits that fit into a number next to that of the commit."""
    return f"{int(run[-8:], 16) & 0x7FFFFFFF:08x}"


@dataclass(frozen=True)
class LakeCommit:
    """What a run adds to a table and removes from it, and the next offset of each partition after it."""

    edit: Edit
    added: Sequence[tuple[WrittenFile, FileStatistics]]
    removed: Sequence[str]
    offsets: Mapping[TopicPartition, int]


class Conflict(Exception):
    """The table has changed since it was looked at, and nothing was committed."""


class Replaced(Conflict):
    """Another writer has replaced a file that the commit would remove: no attempt can succeed any more."""

    def __init__(self, path: str) -> None:
        super().__init__(f"another writer has replaced {path_text(path)}")


class LakeTable(Protocol):
    """One table. Paths of files are relative to the target."""

    @property
    def name(self) -> str:
        """Its name for people: an identifier or a location."""
        ...

    @property
    def location(self) -> str: ...

    def head(self) -> Head | None:
        """The last commit, read again; None if there is no table. SparkSourceError if it is not ours."""
        ...

    def make(self, schema: pa.Schema) -> None:
        """Make the table, empty, if it is not there."""
        ...

    def writing_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema to write files with; columns that the table lacks are added. SparkSourceError if it cannot take them."""
        ...

    def files(self, topic: str) -> Iterable[str]:
        """The files that now hold rows of the topic."""
        ...

    def append(self, commit: LakeCommit) -> None:
        """Commit on top of the head that was read last. Conflict if it has moved; after any other error it may have happened."""
        ...

    def forget(self) -> None:
        """Remove what attempts have written that are not in the table and never will be."""
        ...


def commit_once(table: LakeTable, commit: LakeCommit, require_files: Callable[[], None]) -> None:
    """Commit, whatever happens on the way, exactly once; SparkSourceError if it surely did not happen and cannot any more.

    StorageError if in the end nobody answers: then the next run finds out what happened. `require_files` is called before each
    attempt; its error is the commit's.
    """
    unclear: Exception | None = None
    for number in range(TRIES + 1):  # the last time only to look
        if number:
            time.sleep(min(PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0))
        try:
            if _has_happened(table, commit.edit, unclear):
                break
            if number < TRIES:
                require_files()
                table.append(commit)
                break
        except KafkaLogError as error:
            if unclear is not None and not (isinstance(error, SparkSourceError) and error.code == TARGET_BUSY):
                raise _unclear(table, commit.edit, error) from error
            raise
        except Conflict as error:
            if isinstance(error, Replaced) and unclear is None:
                table.forget()
                raise SparkSourceError(TARGET_BUSY, f"{table.name}: {error}; run this again") from error
            LOGGER.info("%s: changed by another writer, trying again: %s", table.name, error)
        except Exception as error:
            unclear = error
            LOGGER.warning("%s: no clear answer to a commit, looking it up: %s", table.name, _first_line(error))
    else:
        if unclear is not None:
            raise _unclear(table, commit.edit, unclear)
        table.forget()
        raise SparkSourceError(TARGET_BUSY, f"{table.name}: other writers change the table all the time; run this again")
    table.forget()


def _has_happened(table: LakeTable, edit: Edit, unclear: Exception | None) -> bool:
    """Whether an earlier attempt of this commit is in the table; SparkSourceError if another run has its number.

    After an attempt without an answer, a higher number says nothing: the next run may have continued on top of this one.
    """
    head = table.head()
    if head is None:
        raise SparkSourceError(BAD_TARGET, f"{table.name}: the table was dropped while an ingest was writing to it")
    if head.is_of(edit):
        return True
    if head.number > edit.number and unclear is not None:
        raise _unclear(table, edit, unclear)
    if head.number >= edit.number:
        table.forget()
        raise SparkSourceError(
            TARGET_BUSY, f"{table.name}: another ingest was at work here and has made commit {head.number}; run this again"
        )
    return False


def _unclear(table: LakeTable, edit: Edit, error: Exception) -> StorageError:
    text = f"{table.name}: commit {edit.number} failed: {_first_line(error)}; the next run finds out whether it happened"
    return StorageError(text)


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Turn what a library raises into a StorageError that names the table."""
    try:
        yield
    except (KafkaLogError, OSError) as error:
        if isinstance(error, KafkaLogError):
            raise
        raise StorageError(f"{path_text(name)}: {path_text(str(error))}") from error
    except Exception as error:
        raise StorageError(f"{path_text(name)}: {type(error).__name__}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """What a library says; SQLAlchemy and delta-rs go on for pages."""
    return path_text(str(error).strip().partition("\n")[0])


def offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    """The next offset of each partition, as Spark's Kafka source spells offsets."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(path_text(topic), {})[str(partition)] = offset
    return json.dumps(topics)


def vanished(place: str) -> SparkSourceError:
    """The error for a file that was removed before its commit."""
    return SparkSourceError(
        STORAGE,
        f"{path_text(place)}: removed before the run could commit it; was the table vacuumed, or were orphan files removed, "
        "with a limit shorter than a run takes? Run this again",
    )


def not_ours(name: str) -> SparkSourceError:
    """The error for a table that no ingest has made."""
    return SparkSourceError(
        BAD_TARGET, f"{name}: this table was not made by an ingest; choose another target, table or namespace"
    )


def cannot_take(name: str, what: str) -> SparkSourceError:
    """The error for a table that was changed so that files cannot be added."""
    return SparkSourceError(BAD_TARGET, f"{name}: {what}; undo this change, or choose another target")


def parsed_number(name: str, text: str | None) -> int:
    """A commit number that a table has recorded."""
    if text is None or not text.isascii() or not text.isdigit():
        raise cannot_take(name, f"its property {COMMIT_KEY} is {path_text(str(text))}")
    return int(text)
