"""The ledger of a target with tables of a lake: the commit of a table is the commit of the run.

A run writes its files where they stay, in folders named after the number and the run of the commit it wants to make. It records
how far its partitions will have come (`_kafkalog/tables/<table>/<number>-<run>.json`). Then it commits to the table, which names
number and run: from that moment the run has happened there, and the record of that name says where the next one continues. Each
table has its own numbers: a run that is killed between two of them has happened in one and not in the other.

What killed runs leave is settled by asking the table. Files of a number that it gave to another run, or that no living run can
get any more, are removed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from kafkalog.errors import KafkaLogError, path_text
from kafkalog.format.json_shape import SHAPE_ERRORS, parse_object, shape_problem
from kafkalog.payloads.values import make_decoder

from ..errors import BAD_TARGET, SparkSourceError, coded
from ..options import TopicPartition
from .ingest_options import IngestOptions
from .lake_files import DATA, Edit, HiveFolders, LakeLayout, hive_part, lake_schema, require_lake_names, table_name
from .lake_table import Head, LakeCommit, LakeTable, commit_once, named_errors, run_mark, vanished
from .layout import DAMAGED, SUPERSEDED
from .ledger import Published, Staged, TableSummary, agreed
from .manifest import COMMITS, STAGING, TABLE, Commit, Progress, WrittenFile, staging_folder
from .tables import Place, Tables
from .target import OWN_FOLDER, Target, bad_target

LAKE: Final = f"{OWN_FOLDER}/lake.json"
RECORDS: Final = f"{OWN_FOLDER}/tables"
WANTED: Final = "tables.json"
# Where Iceberg and Delta keep what they say of a table.
METADATA: Final = ("metadata", "_delta_log")
VERSION: Final = 1
_EDIT: Final = re.compile(r"([0-9]{20})-([0-9]{13}-[0-9a-f]{12})")


def refuse_lake(target: Target) -> None:
    """SparkSourceError if the target has tables of a lake."""
    stored = _read_lake(target)
    if stored is not None:
        kind = stored["settings"]["table_format"]
        raise bad_target(target.name, f"its tables are {kind}: --as {kind} (table_format={kind!r}), or choose another target")


def _read_lake(target: Target) -> dict[str, Any] | None:
    if target.size(LAKE) is None:
        return None
    try:
        stored = parse_object(target.read(LAKE))
        if stored["version"] != VERSION:
            raise ValueError(f"version {stored['version']}, this kafkalog reads version {VERSION}")
        if not isinstance(stored["settings"]["table_format"], str) or not isinstance(stored["place"], dict):
            raise ValueError("its fields have other types")
        return stored
    except SHAPE_ERRORS as error:
        what = f"not the settings of an ingest: {shape_problem(error)}; restore it, or choose another target"
        raise bad_target(f"{target.name}/{LAKE}", what) from error


class LakeLedger:
    """See `Ledger` for what its methods promise."""

    def __init__(self, target: Target, options: IngestOptions) -> None:
        _refuse_root(target)
        self.target = target
        self.run = f"{time.time_ns() // 1_000_000:013}-{secrets.token_hex(6)}"
        stored = _read_lake(target)
        if stored is None:
            _refuse_folders(target, options.lake.table_format)
        self.options = options if stored is None else _agreed(options, stored, target.name)
        self.is_first = stored is None
        self.opener = _opener(target, self.options, self.run)
        self.opened: dict[str, LakeTable] = {}
        self.heads: dict[str, Head | None] = {}
        self.before: dict[str, Commit | None] = {}
        self.edits: dict[str, Edit] = {}  # by topic
        self.kept: set[Edit] = set()  # whose files are in a table, or may be
        self.is_unclear = False
        self.progress = _LazyProgress(self)
        self.tables = Tables(target, self.options, self._files)

    # -- tables --------------------------------------------------------------------------------------------------------------

    def table_of(self, topic: str) -> str:
        """The name of the table that has the records of a topic."""
        return self.options.lake.table or table_name(topic)

    def table(self, name: str, topic: str | None = None) -> LakeTable:
        if name not in self.opened:
            self.opened[name] = self.opener(name, None if self.options.lake.table else topic or name)
            self._look(name)
        return self.opened[name]

    def _look(self, name: str) -> None:
        """Read the head of a table."""
        with named_errors(self.opened[name].name):
            self.heads[name] = self.opened[name].head()

    def latest(self, name: str, topic: str | None = None) -> Commit | None:
        """The record of the last commit in a table; None if it has none."""
        if name not in self.before:
            self.table(name, topic)
            self.before[name] = self._read_latest(name)
        return self.before[name]

    def _read_latest(self, name: str) -> Commit | None:
        head = self.heads[name]
        wanted = sorted(edit for edit in self._recorded(name) if head is not None and head.is_of(edit))
        if head is None or not head.number:
            return None
        if not wanted:
            shown = path_text(f"{self.target.name}/{RECORDS}/{name}")
            raise bad_target(
                shown, f"the record of commit {head.number} is missing, so nobody knows where to continue; restore it"
            )
        return self._read_record(wanted[0])

    def _read_record(self, edit: Edit) -> Commit:
        path = _record_path(edit)
        try:
            return Commit.decode(self.target.read(path))
        except SHAPE_ERRORS as error:
            what = f"not the record of a commit: {shape_problem(error)}; restore it, or choose another target"
            raise bad_target(f"{self.target.name}/{path}", what) from error

    def _recorded(self, name: str) -> list[Edit]:
        """The commits that runs have recorded, made or not."""
        return list(_edits(name, self.target.list(f"{RECORDS}/{name}"), ".json"))

    def _files(self, topic: str) -> Iterator[str]:
        name = self.table_of(topic)
        if self.latest(name, topic) is not None:
            with named_errors(self.opened[name].name):
                found = list(self.opened[name].files(topic))
            yield from found

    # -- what killed runs left -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        for run in self.target.unfinished(STAGING):
            wanted = self._wanted(run)
            for name in wanted:
                self._settle_table(name, wanted[name]["topic"])
            taken = all(self._number(name) >= fields["number"] for name, fields in wanted.items())
            if self.target.staged_are_dead or taken:
                self.target.remove(staging_folder(run))

    def _wanted(self, run: str) -> dict[str, Any]:
        """The tables that a killed run was about to write to."""
        path = f"{staging_folder(run)}/{WANTED}"
        if self.target.size(path) is None:
            return {}
        with suppress(*SHAPE_ERRORS):
            found = parse_object(self.target.read(path))
            if all(_is_table_name(name) and _is_wanted(fields) for name, fields in found.items()):
                return found
        return {}  # cut off while it was written: nothing else was

    def _number(self, name: str) -> int:
        head = self.heads[name]
        return 0 if head is None else head.number

    def _settle_table(self, name: str, topic: str | None = None) -> None:
        """Remove the files of commits that were not made and never will be, and those of attempts that did not count."""
        for folder in METADATA:
            self.target.list(f"{name}/{folder}")  # refuses a link
        self.table(name, topic)
        recorded = self._recorded(name)
        found = {edit for folder in _bases(name) for edit in _edits(name, self.target.unfinished(folder))}
        if self.heads[name] is None and (found or recorded):  # a run makes the table first: it may have come since
            self._look(name)
        head = self.heads[name]
        self._check_head(name, head, recorded)
        made = set() if head is None else self._made_commits(head, recorded)
        unmade = sorted(found.union(recorded) - made)
        if self.target.staged_are_dead and any(edit.number > self._number(name) for edit in unmade):
            self._take_number(name, topic)
        for edit in unmade:
            if self.target.staged_are_dead or edit.number <= self._number(name):
                self._remove(edit)
        last = self.latest(name, topic)
        if last is not None:
            self._remove_unnamed(Edit(name, last.number, last.run), last)

    def _made_commits(self, head: Head, recorded: Collection[Edit]) -> set[Edit]:
        """The recorded commits that are in the table. Where several runs have recorded one number, some of them late, the record
        of the next commit names the run that it followed."""
        by_number: dict[int, list[Edit]] = {}
        for edit in recorded:
            if edit.number < head.number or head.is_of(edit):
                by_number.setdefault(edit.number, []).append(edit)
        for number in sorted((number for number, edits in by_number.items() if len(edits) > 1), reverse=True):
            following = by_number.get(number + 1, [])
            previous = self._read_record(following[0]).previous if len(following) == 1 else None
            by_number[number] = [edit for edit in by_number[number] if previous in (None, edit.run)]
        return {edit for edits in by_number.values() for edit in edits}

    def _take_number(self, name: str, topic: str | None) -> None:
        """Make the next commit of a table with nothing in it, so that no other run can make it.

        The lock says that the run which wanted this number is dead, and its files are about to be removed; but locks do not hold
        on every file system.
        """
        before = self.latest(name, topic)
        if self.heads[name] is None:
            return
        progress = {} if before is None else before.progress
        edit = _following(name, before, self.run)
        commit = Commit(edit.number, edit.run, time.time_ns() // 1_000_000, self.options.settings(), progress)
        commit = _after(before, commit)
        try:
            self._record(edit, commit)
            self._commit(LakeCommit(edit, (), (), {key: each.next_offset for key, each in progress.items()}))
        except SparkSourceError:  # surely not committed
            self._give_up(edit)
            raise
        finally:
            self._remove_staging()
        self._look(name)
        self.before[name] = commit

    def _record(self, edit: Edit, commit: Commit) -> None:
        self.target.publish(_record_path(edit), commit.encode(), f"{staging_folder(self.run)}/{edit.inner}.json")

    def _commit(self, commit: LakeCommit) -> None:
        """SparkSourceError if it surely has not happened; after any other error the next run finds out."""
        self.kept.add(commit.edit)
        self.is_unclear = True
        try:
            commit_once(self.opened[commit.edit.table], commit, lambda: self._require_files(commit))
        except SparkSourceError:
            self.kept.remove(commit.edit)
            self.is_unclear = False
            raise
        self.is_unclear = False

    def _require_files(self, commit: LakeCommit) -> None:
        """SparkSourceError if somebody has removed files that the commit would add: no table names them yet, so a vacuum or a
        removal of orphan files takes those that are older than its limit."""
        if commit.added:
            present = set(self._below(commit.edit.folders[0]))
            gone = [file.path for file, _ in commit.added if file.path not in present]
            if gone:
                raise vanished(f"{self.target.name}/{gone[0]}")

    def _check_head(self, name: str, head: Head | None, recorded: Collection[Edit]) -> None:
        """SparkSourceError if the table is not the one that the records belong to: nothing may be removed then."""
        number = 0 if head is None else head.number
        if recorded and (head is None or max(edit.number for edit in recorded) > number + 1):
            shown = self.opened[name].name
            raise bad_target(
                self.target.name,
                f"the table {path_text(shown)} is missing, or is older than what ingests have recorded: was it dropped, or is "
                f"this another catalog? To start it again, remove its folder and {RECORDS}/{path_text(name)}",
            )

    def _remove(self, edit: Edit) -> None:
        for folder in edit.folders:
            self.target.remove(folder)
        self.target.delete([_record_path(edit)])

    def _remove_unnamed(self, edit: Edit, commit: Commit) -> None:
        """Remove files that attempts of tasks have written and that did not count."""
        named = {file.path for file in (*commit.files, *commit.damaged, *commit.rewritten, *commit.superseded)}
        for folder in edit.folders:
            self.target.delete([path for path in self._below(folder) if path not in named])

    def _below(self, folder: str) -> Iterator[str]:
        """The files below a folder of a commit."""
        for name in self.target.list(folder):
            if "=" in name:
                yield from self._below(f"{folder}/{name}")
            else:
                yield f"{folder}/{name}"

    # -- this run ------------------------------------------------------------------------------------------------------------

    def layout(self, topics: Collection[str], options: IngestOptions) -> LakeLayout:
        value = None if options.payload is None else make_decoder(options.payload).type
        if value is not None:
            require_lake_names(value)
        if self.is_first:
            self._settle_settings(options)
        schema = lake_schema(options, value)
        names = {self.table_of(topic): topic for topic in sorted(topics)}
        edits = {}
        for name, topic in names.items():
            self._settle_table(name, topic)
            edits[name] = _following(name, self.latest(name, topic), self.run)
        wanted = {edit.table: {"topic": path_text(names[edit.table]), "number": edit.number} for edit in edits.values()}
        with self.target.output(f"{staging_folder(self.run)}/{WANTED}") as file:
            file.write(json.dumps(wanted).encode())
        written = {name: self._made(name, schema) for name in names}
        self.edits = {topic: edits[self.table_of(topic)] for topic in topics}
        lake = options.lake
        hive = HiveFolders(options.by, by_topic=lake.table is not None) if lake.table_format == "delta" else None
        return LakeLayout(self.edits, {topic: written[self.table_of(topic)] for topic in topics}, hive)

    def _settle_settings(self, options: IngestOptions) -> None:
        """Record what all runs have to share; the first one decides."""
        content = {"version": VERSION, "settings": options.settings(), "place": _place(options)}
        encoded = (json.dumps(content, indent=1) + "\n").encode()
        self.target.publish(LAKE, encoded, f"{staging_folder(self.run)}/lake")
        self.is_first = False
        self.target.remove(staging_folder(self.run))

    def _made(self, name: str, schema: Any) -> Any:
        """The schema to write with, in a table that is there."""
        table = self.table(name)
        with named_errors(table.name):
            table.make(schema)
            self._look(name)
            return table.writing_schema(schema)

    def places(self, topic: str, path: str, count: int) -> tuple[Place, Place]:
        data, _, superseded = self.edits[topic].folders
        kept, removed = f"{data}/{hive_part(path)}kept-{count:06}.parquet", f"{superseded}/{count:06}.parquet"
        return (kept, kept), (removed, removed)

    def publish(self, staged: Staged) -> Published:
        done: list[TableSummary] = []
        for edit in sorted(set(self.edits.values())):
            try:
                with coded():
                    done.append(self._publish(edit, staged))
            except SparkSourceError as error:
                self.discard()
                raise self._partly(error, done) from error
        self.target.remove(staging_folder(self.run))
        if not self.target.staged_are_dead:
            # A run that was not proved dead before has lost its number now. What cannot be removed is left to the next run.
            with suppress(KafkaLogError, OSError):
                self.settle()
        return Published(max(each.commit for each in done), tuple(done))

    def _publish(self, edit: Edit, staged: Staged) -> TableSummary:
        begin = time.monotonic()
        topics = {topic for topic, each in self.edits.items() if each == edit}
        before = self.before[edit.table]
        commit = _within(edit, staged.commit(edit.number, edit.run, {} if before is None else before.progress, topics))
        commit = _after(before, commit)
        self._record(edit, commit)
        statistics = {path: found for result in staged.results for path, found in result.statistics.items()}
        for topic in topics & staged.aside.keys():
            statistics.update(staged.aside[topic].statistics)
        added = [(file, statistics[file.path]) for file in (*commit.files, *commit.rewritten)]
        offsets = {key: progress.next_offset for key, progress in staged.progress.items() if key[0] in topics}
        table = self.opened[edit.table]
        self._commit(LakeCommit(edit, added, commit.replaced, offsets))
        self.heads[edit.table], self.before[edit.table] = Head(edit.number, run_mark(edit.run)), commit
        with suppress(KafkaLogError, OSError):  # it only costs space, and the next run does it
            self._remove_unnamed(edit, commit)
        records = sum(file.records for file in commit.files)
        return TableSummary(table.name, table.location, edit.number, records, len(added), time.monotonic() - begin)

    def _partly(self, error: SparkSourceError, done: list[TableSummary]) -> SparkSourceError:
        """The error of a run that has committed to some of its tables."""
        if not done:
            return error
        names = ", ".join(path_text(each.name) for each in done)
        return SparkSourceError(
            error.code, f"{error.args[1]}; committed to {names} before that, and the next run continues there"
        )

    def _give_up(self, edit: Edit) -> None:
        with suppress(KafkaLogError, OSError):
            self._remove(edit)

    def discard(self) -> None:
        for edit in set(self.edits.values()) - self.kept:
            self._give_up(edit)
        if not self.is_unclear:  # else the next run has to know which tables this one was about to write to
            self._remove_staging()

    def _remove_staging(self) -> None:
        with suppress(KafkaLogError, OSError):
            self.target.remove(staging_folder(self.run))


class _LazyProgress(Mapping[TopicPartition, Progress]):
    """How far partitions have come, read from the table of a topic when it is asked for."""

    def __init__(self, ledger: LakeLedger) -> None:
        self.ledger = ledger

    def __getitem__(self, key: TopicPartition) -> Progress:
        commit = self.ledger.latest(self.ledger.table_of(key[0]), key[0])
        if commit is None:
            raise KeyError(key)
        return commit.progress[key]

    def __iter__(self) -> Iterator[TopicPartition]:
        for commit in self.ledger.before.values():
            yield from () if commit is None else commit.progress

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _opener(target: Target, options: IngestOptions, run: str) -> Callable[[str, str | None], LakeTable]:
    """A function that opens a table by its name; `topic` is the one that has it alone."""
    if options.lake.table_format == "delta":
        from .delta import DeltaLakeTable

        return lambda name, topic: DeltaLakeTable(target, options, name, topic)
    from .iceberg import IcebergLakeTable, LazyCatalog

    catalog = LazyCatalog(target, options, run)
    return lambda name, topic: IcebergLakeTable(catalog, target, options, name, topic)


def _place(options: IngestOptions) -> dict[str, str | None]:
    """Where the tables are registered; properties of a catalog may hold secrets, so they are not kept."""
    return {"catalog": options.lake.catalog, "namespace": options.lake.namespace}


def _agreed(options: IngestOptions, stored: dict[str, Any], place: str) -> IngestOptions:
    options = agreed(options, stored["settings"], place)
    for name, value in _place(options).items():
        if stored["place"].get(name) != value:
            raise SparkSourceError(
                BAD_TARGET, f"{path_text(place)}: earlier runs had {name}={stored['place'].get(name)!r}, this one has {value!r}"
            )
    return options


def _refuse_root(target: Target) -> None:
    """SparkSourceError for root in the target of another user: libraries write the metadata of tables, follow links there, and
    leave files that their owner could not change."""
    owner = target.owner()
    if os.geteuid() == 0 and owner not in (None, 0):
        raise bad_target(target.name, f"it belongs to user {owner}; run this as that user: sudo -u '#{owner}' kafkalog ingest …")


def _refuse_folders(target: Target, table_format: str) -> None:
    """SparkSourceError if the target has folders of Parquet."""
    if target.list(COMMITS) or any(name.startswith(TABLE) for name in target.list("")):
        raise bad_target(target.name, f"its tables are parquet, not {table_format}: choose another target")


def _within(edit: Edit, commit: Commit) -> Commit:
    """The commit with the files of one table only."""

    def inside(files: Collection[WrittenFile]) -> tuple[WrittenFile, ...]:
        return tuple(file for file in files if file.path.startswith(tuple(f"{folder}/" for folder in edit.folders)))

    return replace(commit, files=inside(commit.files), damaged=inside(commit.damaged))


def _following(name: str, before: Commit | None, run: str) -> Edit:
    """A run's commit on top of the one whose record was read. Not on the table's head, which may have moved since."""
    return Edit(name, 1 if before is None else before.number + 1, run)


def _after(before: Commit | None, commit: Commit) -> Commit:
    return commit if before is None else replace(commit, previous=before.run)


def _record_path(edit: Edit) -> str:
    return f"{RECORDS}/{edit.table}/{edit.name}.json"


def _bases(name: str) -> tuple[str, str, str]:
    """The folders that have a folder for each commit of a table."""
    return f"{name}/{DATA}", f"{DAMAGED}/{name}", f"{SUPERSEDED}/{name}"


def _edits(table: str, names: Collection[str], suffix: str = "") -> Iterator[Edit]:
    for name in names:
        found = _EDIT.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if found:
            yield Edit(table, int(found[1]), found[2])


def _is_wanted(fields: Any) -> bool:
    return isinstance(fields, dict) and isinstance(fields.get("number"), int) and isinstance(fields.get("topic"), str)


def _is_table_name(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9._~-]{1,255}", name)) and name.strip(".") != ""
