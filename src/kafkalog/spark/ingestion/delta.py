"""Delta tables, through deltalake. A commit has a transaction identifier for its number and run, and one for each partition.

Delta compares no identifier by itself: it refuses a commit only if one of its identifiers was written since the table was read.
So the head is read first, and both together let one of several runs have a number.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from kafkalog.errors import UsageError, path_text
from kafkalog.storage.s3 import s3_settings

from .file_statistics import FileStatistics
from .ingest_options import IngestOptions
from .lake_table import (
    COMMIT_KEY,
    OFFSETS_KEY,
    RUN_KEY,
    TOPIC_KEY,
    VERSION,
    VERSION_KEY,
    Conflict,
    Head,
    LakeCommit,
    Replaced,
    cannot_take,
    not_ours,
    offsets_json,
    run_mark,
)
from .layout import EPOCH, GRAIN_MS
from .manifest import WrittenFile
from .target import Target, bad_target

try:
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake import Schema as DeltaSchema
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction
except ImportError as error:
    raise UsageError(f"Delta tables need deltalake ({error}): pip install 'kafkalog[delta]'") from None

_MISREAD: Final = re.compile(r"\\|%[0-9A-Fa-f]{2}")
HEAD_ID: Final = "kafkalog"
MARK_BITS: Final = 31
# What deltalake itself can write to; a table that needs more has been changed by another engine.
LAST_WRITER_VERSION: Final = 7


class DeltaLakeTable:
    """One Delta table; see `LakeTable` for what its methods promise."""

    def __init__(self, target: Target, options: IngestOptions, folder: str, topic: str | None) -> None:
        self.options = options
        self.folder = folder
        self.topic = topic
        self.location = f"{target.name}/{folder}"
        if _MISREAD.search(self.location):
            raise bad_target(target.name, "deltalake misreads a path with a backslash or an escape such as %20; choose another")
        self.storage = _storage_options(options.target)
        self.opened: DeltaTable | None = None

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self.location!r})"

    @property
    def name(self) -> str:
        return path_text(self.location)

    def head(self) -> Head | None:
        self.opened = self._open()
        if self.opened is None:
            return None
        if self.opened.metadata().configuration.get(VERSION_KEY) != VERSION:
            raise not_ours(self.name)
        number = self.opened.transaction_version(HEAD_ID)
        if number is None:
            return Head(0, "")
        return Head(number >> MARK_BITS, f"{number & ((1 << MARK_BITS) - 1):08x}")

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.location, storage_options=self.storage)
        except TableNotFoundError:
            return None

    @property
    def _table(self) -> DeltaTable:
        assert self.opened is not None, "head() found it"
        return self.opened

    # -- schema --------------------------------------------------------------------------------------------------------------

    def make(self, schema: pa.Schema) -> None:
        if self.opened is None:
            settings = {VERSION_KEY: VERSION, **({TOPIC_KEY: path_text(self.topic)} if self.topic is not None else {})}
            DeltaTable.create(
                self.location,
                self._columns(schema),
                mode="ignore",
                partition_by=self._partitioning,
                configuration=settings,
                storage_options=self.storage,
                raise_if_key_not_exists=False,
            )
            self.head()

    def writing_schema(self, schema: pa.Schema) -> pa.Schema:
        found = self._table
        self._require_partitioning()
        if found.protocol().min_writer_version > LAST_WRITER_VERSION or "columnMapping" in (
            found.protocol().writer_features or ()
        ):
            raise cannot_take(self.name, "its protocol was upgraded to features that an ingest does not write")
        self._evolve(schema)
        return pa.schema([field for field in schema if field.name not in self._partitioning])

    def _require_partitioning(self) -> None:
        found = list(self._table.metadata().partition_columns)
        if found != self._partitioning:
            columns = ", ".join(map(path_text, found)) or "nothing"
            raise cannot_take(self.name, f"it is partitioned by {columns}, not by {', '.join(self._partitioning)}")

    def _evolve(self, schema: pa.Schema) -> None:
        """Add the columns that the table lacks; SparkSourceError if a column has another type."""
        wanted = DeltaSchema.from_arrow(self._columns(schema)).fields
        present = {field.name: field for field in self._table.schema().fields}
        for field in wanted:
            if field.name in present and present[field.name].type != field.type:
                types = f"{_type_text(present[field.name].type)}, not {_type_text(field.type)}"
                raise cannot_take(self.name, f"its column {path_text(field.name)} is {types}")
        names = {field.name for field in wanted}
        required = [name for name, field in present.items() if not field.nullable and name not in names]
        if required:
            raise cannot_take(self.name, f"its column {path_text(required[0])} must not be null, and records have none such")
        missing = [field for field in wanted if field.name not in present]
        if missing:
            self._table.alter.add_columns(missing)
            self.head()

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*schema, *(field for field in _TIME_COLUMNS if field.name in self._partitioning)])

    @property
    def _partitioning(self) -> list[str]:
        by_topic = ["topic"] if self.topic is None else []
        return [*by_topic, "day", *(["hour"] if self.options.by == "hour" else [])]

    def _partition(self, statistics: FileStatistics) -> dict[str, str | None]:
        moment = EPOCH + timedelta(milliseconds=statistics.bucket * GRAIN_MS[self.options.by]) if statistics.is_timed else None
        values = {
            "topic": path_text(statistics.topic),
            "day": None if moment is None else moment.date().isoformat(),
            "hour": None if moment is None else str(moment.hour),
        }
        return {name: values[name] for name in self._partitioning}

    # -- files ---------------------------------------------------------------------------------------------------------------

    def files(self, topic: str) -> Iterator[str]:
        for action in self._actions():
            if self.topic is not None or action["partition.topic"] == path_text(topic):
                yield f"{self.folder}/{unquote(action['path'])}"

    def _actions(self) -> list[dict[str, Any]]:
        if self._table.protocol().reader_features and pa.table(self._table.deletion_vectors()).num_rows:
            raise cannot_take(self.name, "it has deletion vectors, so that its files hold rows that are not in the table")
        actions: list[dict[str, Any]] = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return actions

    def append(self, commit: LakeCommit) -> None:
        edit = commit.edit
        self._require_partitioning()
        actions: list[AddAction | RemoveAction] = [self._added(file, statistics) for file, statistics in commit.added]
        if commit.removed:
            actions += self._removals(set(commit.removed))
        marks = [
            Transaction(f"{HEAD_ID}:{topic}-{partition}", offset) for (topic, partition), offset in sorted(commit.offsets.items())
        ]
        number = edit.number << MARK_BITS | int(run_mark(edit.run), 16)
        notes = {COMMIT_KEY: str(edit.number), RUN_KEY: edit.run, OFFSETS_KEY: offsets_json(commit.offsets)}
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                self._partitioning,
                commit_properties=CommitProperties(
                    custom_metadata=notes, app_transactions=[Transaction(HEAD_ID, number), *marks]
                ),
            )
        except CommitFailedError as error:
            raise Conflict(str(error)) from error

    def _added(self, file: WrittenFile, statistics: FileStatistics) -> AddAction:
        path = quote(file.path.removeprefix(f"{self.folder}/"), safe="/=")
        now = time.time_ns() // 1_000_000
        return AddAction(path, file.size, self._partition(statistics), now, True, statistics_json(file.records, statistics))

    def _removals(self, paths: set[str]) -> Iterator[RemoveAction]:
        now = time.time_ns() // 1_000_000
        for action in self._actions():
            if f"{self.folder}/{unquote(action['path'])}" in paths:
                values = {name: _text_or_none(action[f"partition.{name}"]) for name in self._partitioning}
                yield RemoveAction(action["path"], True, now, action["size_bytes"], values)
                paths.discard(f"{self.folder}/{unquote(action['path'])}")
        if paths:
            raise Replaced(min(paths))

    def forget(self) -> None:
        """A commit is one file in the log of the table: there is nothing else."""


_TIME_COLUMNS: Final = (pa.field("day", pa.date32()), pa.field("hour", pa.int32()))


def statistics_json(records: int, statistics: FileStatistics) -> str:
    """The statistics of a file as Delta has them."""
    columns = {name: found for name, found in statistics.columns.items() if "." not in name}
    bounded = {name: found for name, found in columns.items() if found.low is not None}
    content = {
        "numRecords": records,
        "minValues": {name: _bound(found.low) for name, found in bounded.items()},
        "maxValues": {name: _bound(found.high) for name, found in bounded.items()},
        "nullCount": {name: found.nulls for name, found in columns.items() if found.nulls is not None},
    }
    return json.dumps(content)


def _bound(value: Any) -> Any:
    """A bound in Delta's JSON; our times have whole milliseconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _type_text(kind: Any) -> str:
    return path_text(kind.type if hasattr(kind, "type") and isinstance(kind.type, str) else str(kind))


def _storage_options(target: str) -> dict[str, str] | None:
    """What deltalake needs to reach the store of the target."""
    if not target.startswith(("s3://", "s3a://")):
        return None
    settings = s3_settings(target)
    named = {
        "AWS_ACCESS_KEY_ID": settings.access_key,
        "AWS_SECRET_ACCESS_KEY": settings.secret_key,
        "AWS_ENDPOINT_URL": settings.endpoint,
        "AWS_REGION": settings.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        "AWS_ALLOW_HTTP": "true" if (settings.endpoint or "").startswith("http://") else None,
    }
    return {name: value for name, value in named.items() if value is not None}
