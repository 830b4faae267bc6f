"""Iceberg tables, through PyIceberg. A commit's number and run are properties of the table, set in the transaction of its files.

PyIceberg repeats a commit by itself when another writer was faster, on a table that may by then have this commit of another run.
So it only builds a transaction, which is committed here: once, on the snapshot that was looked at.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from kafkalog.errors import UsageError, path_text
from kafkalog.storage import is_file_uri, path_of_file_uri
from kafkalog.storage.s3 import s3_settings

from ..errors import TARGET_BUSY, SparkSourceError, bad_option
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
    parsed_number,
    run_mark,
)
from .manifest import WrittenFile, staging_folder
from .target import Target

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.table.update import AssertTableUUID
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform
    from pyiceberg.typedef import Record
    from pyiceberg.types import PrimitiveType

    from .iceberg_schema import bound_bytes, iceberg_schema, leaf_ids, require_types, with_field_ids
except ImportError as error:
    raise UsageError(f"Iceberg tables need PyIceberg ({error}): pip install 'kafkalog[iceberg]'") from None

CATALOG: Final = "kafkalog"
CATALOG_FILE: Final = "catalog.db"
# Every commit writes the metadata of the table once more and adds a manifest: old ones are deleted, or merged, after so many.
UPKEEP: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "100",
}


class LazyCatalog:
    """The catalog of a target: one that PyIceberg knows, or the one in the target's own folder, which the first table makes."""

    def __init__(self, target: Target, options: IngestOptions, run: str) -> None:
        self.target = target
        self.run = run
        self.lake = options.lake
        self.properties = {**_storage_properties(options.target), **options.lake.catalog_properties}
        self.is_embedded = self.lake.catalog is None and not self.lake.catalog_properties
        if self.is_embedded and "://" in target.name:
            advice = "an object store has no catalog of its own: name one (--catalog, --catalog-property)"
            raise bad_option("target", path_text(target.name), advice)
        self.file = os.path.join(target.name, CATALOG_FILE)

    def load(self, identifier: tuple[str, ...]) -> Table | None:
        """A table as it is now; None if there is none."""
        if self.is_embedded and not os.path.exists(self.file):
            return None
        with suppress(NoSuchTableError), _uncollected():
            return self.opened.load_table(identifier)
        return None

    @cached_property
    def opened(self) -> Catalog:
        if self.is_embedded:
            from sqlalchemy.engine import URL

            if not os.path.exists(self.file):
                self._make()
            path = URL.create("sqlite", database=self.file).render_as_string()
            return load_catalog(CATALOG, **{"type": "sql", "uri": path, "warehouse": self.target.name, **self.properties})
        name = self.lake.catalog or CATALOG
        try:
            return load_catalog(name, **self.properties)
        except ValueError as error:
            advice = "PyIceberg's configuration (.pyiceberg.yaml, PYICEBERG_CATALOG__…) or --catalog-property must say what it is"
            raise bad_option("catalog", name, f"{error}; {advice}") from error

    def _make(self) -> None:
        """The catalog's file appears with its tables in it: a reader that opens it at once would make them too, and one fails."""
        try:
            self.target.publish(CATALOG_FILE, _empty_catalog(), f"{staging_folder(self.run)}/{CATALOG_FILE}")
        except SparkSourceError as error:
            if error.code != TARGET_BUSY or not os.path.exists(self.file):
                raise


def _empty_catalog() -> bytes:
    from pyiceberg.catalog.sql import SqlCatalogBaseTable
    from sqlalchemy import create_engine

    with create_engine("sqlite://").connect() as connection:
        SqlCatalogBaseTable.metadata.create_all(connection)
        connection.commit()
        content: bytes = connection.connection.driver_connection.serialize()  # type: ignore[union-attr]
        return content


class LightTransaction(Transaction):
    """PyIceberg copies all metadata at each of some fifteen looks: most of the time of a commit with a thousand snapshots."""

    @property
    def table_metadata(self) -> TableMetadata:
        return super().table_metadata if self._updates else self._table.metadata


class IcebergLakeTable:
    """One Iceberg table; see `LakeTable` for what its methods promise."""

    def __init__(self, catalog: LazyCatalog, target: Target, options: IngestOptions, folder: str, topic: str | None) -> None:
        self.catalog = catalog
        self.target = target
        self.options = options
        self.folder = folder
        self.topic = topic
        self.location = f"{target.name}/{folder}"
        self.identifier = (*options.lake.namespace.split("."), folder)
        self.opened: Table | None = None
        self.failed: list[Any] = []

    def __repr__(self) -> str:
        return f"IcebergLakeTable({self.name!r})"

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    def head(self) -> Head | None:
        self.opened = self.catalog.load(self.identifier)
        if self.opened is None:
            return None
        properties = self.opened.properties
        if properties.get(VERSION_KEY) != VERSION:
            raise not_ours(self.name)
        if _plain(self.opened.location()) != self.location:
            raise cannot_take(
                self.name, f"its files are in {path_text(self.opened.location())}, not in {path_text(self.location)}"
            )
        number = parsed_number(self.name, properties.get(COMMIT_KEY))
        return Head(number, run_mark(properties[RUN_KEY]) if number else "")

    @property
    def _table(self) -> Table:
        assert self.opened is not None, "head() found it"
        return self.opened

    # -- schema --------------------------------------------------------------------------------------------------------------

    def make(self, schema: pa.Schema) -> None:
        if self.opened is not None:
            return
        columns = iceberg_schema(schema)
        topic = {TOPIC_KEY: path_text(self.topic)} if self.topic is not None else {}
        self.catalog.opened.create_namespace_if_not_exists(self.identifier[:-1])
        try:
            self.catalog.opened.create_table(
                self.identifier,
                columns,
                location=self.location,
                partition_spec=self._spec(columns),
                sort_order=self._order(columns),
                properties={"format-version": "2", **UPKEEP, VERSION_KEY: VERSION, COMMIT_KEY: "0", **topic},
            )
        except TableAlreadyExistsError as error:
            if self.head() is None:  # a view has this name
                raise not_ours(self.name) from error
            return
        self.head()

    def writing_schema(self, schema: pa.Schema) -> pa.Schema:
        self._evolve(schema)
        found = self._table.schema()
        require_types(self.name, iceberg_schema(schema), found)
        self._require_spec()
        return with_field_ids(schema, found)

    def _require_spec(self) -> None:
        wanted, found = self._spec(self._table.schema()), self._table.spec()
        if _partitioning(found) != _partitioning(wanted):
            raise cannot_take(self.name, f"it is partitioned by {_names(found)}, not by {_names(wanted)}")

    def _evolve(self, schema: pa.Schema) -> None:
        """Add the columns that the table lacks."""
        present = set(self._table.schema().column_names)
        missing = [field for field in iceberg_schema(schema).fields if field.name not in present]
        if missing:
            with self._table.update_schema() as update:
                for field in missing:
                    update.add_column(field.name, field.field_type)
            self.head()

    @property
    def _by_topic(self) -> bool:
        return self.topic is None

    def _spec(self, columns: Schema) -> PartitionSpec:
        hourly = self.options.by == "hour"
        time = columns.find_field("timestamp").field_id
        fields = [
            PartitionField(
                time, 1000, HourTransform() if hourly else DayTransform(), "timestamp_hour" if hourly else "timestamp_day"
            )
        ]
        if self._by_topic:
            fields.insert(0, PartitionField(columns.find_field("topic").field_id, 1001, IdentityTransform(), "topic"))
        return PartitionSpec(*fields)

    def _order(self, columns: Schema) -> SortOrder:
        names = ["partition", "offset"]
        return SortOrder(*(SortField(columns.find_field(name).field_id, IdentityTransform()) for name in names))

    # -- files ---------------------------------------------------------------------------------------------------------------

    def files(self, topic: str) -> Iterator[str]:
        for task in self._tasks():
            if self._by_topic and task.file.partition[0] != path_text(topic):
                continue
            if task.delete_files:
                raise cannot_take(self.name, "it has delete files, so that its data files hold rows that are not in the table")
            yield self._relative(task.file.file_path)

    def _tasks(self) -> Sequence[FileScanTask]:
        return list(self._table.scan().plan_files())

    def _relative(self, path: str) -> str:
        plain, root = _plain(path), f"{self.target.name}/"
        if not plain.startswith(root):
            raise cannot_take(self.name, f"its file {path_text(path)} is outside of {path_text(self.target.name)}")
        return plain.removeprefix(root)

    def append(self, commit: LakeCommit) -> None:
        with _uncollected():
            self._append(commit)

    def _append(self, commit: LakeCommit) -> None:
        self._require_spec()
        table, edit = self._table, commit.edit
        marks = {COMMIT_KEY: str(edit.number), RUN_KEY: edit.run, OFFSETS_KEY: offsets_json(commit.offsets)}
        transaction = LightTransaction(table)
        update = transaction.update_snapshot(snapshot_properties=marks)
        producer = update.overwrite() if commit.removed else update.merge_append()
        self.failed.append(producer)
        for each in self._replaced(commit.removed):
            producer.delete_data_file(each)
        for file, statistics in commit.added:
            producer.append_data_file(self._data_file(file, statistics))
        producer.commit()
        transaction.set_properties(marks)
        requirements = (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
        try:
            answer = self.catalog.opened.commit_table(table, requirements, transaction._updates)
        except CommitFailedException as error:
            raise Conflict(str(error)) from error
        self.failed.remove(producer)
        with suppress(Exception):  # as PyIceberg does after its own commits; it only costs space
            self.catalog.opened._delete_old_metadata(table.io, table.metadata, answer.metadata)

    def _replaced(self, paths: Sequence[str]) -> Iterator[DataFile]:
        wanted = set(paths)
        for task in self._tasks() if wanted else ():
            path = self._relative(task.file.file_path)
            if path in wanted:
                wanted.remove(path)
                yield task.file
        if wanted:
            raise Replaced(min(wanted))

    def _data_file(self, file: WrittenFile, statistics: FileStatistics) -> DataFile:
        ids = self._leaf_ids
        known = {ids[name]: found for name, found in statistics.columns.items() if name in ids}
        types = {number: self._table.schema().find_type(number) for number, found in known.items() if found.low is not None}
        bounded = {number: kind for number, kind in types.items() if isinstance(kind, PrimitiveType)}
        made = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self.target.name}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*self._partition(statistics)),
            record_count=file.records,
            file_size_in_bytes=file.size,
            column_sizes={number: found.size for number, found in known.items()},
            value_counts={number: found.values for number, found in known.items()},
            null_value_counts={number: found.nulls for number, found in known.items() if found.nulls is not None},
            nan_value_counts={},
            lower_bounds={number: bound_bytes(kind, known[number].low) for number, kind in bounded.items()},
            upper_bounds={number: bound_bytes(kind, known[number].high) for number, kind in bounded.items()},
            key_metadata=None,
            split_offsets=list(statistics.row_groups),
            equality_ids=None,
            sort_order_id=self._table.metadata.default_sort_order_id if statistics.is_sorted else None,
        )
        made.spec_id = self._table.spec().spec_id
        return made

    @cached_property
    def _leaf_ids(self) -> Mapping[str, int]:
        return leaf_ids(self._table.schema())

    def _partition(self, statistics: FileStatistics) -> list[Any]:
        time = statistics.bucket if statistics.is_timed else None
        return [path_text(statistics.topic), time] if self._by_topic else [time]

    def forget(self) -> None:
        """The answer to an attempt may have been lost: what a snapshot of the table names has to stay."""
        known = {snapshot.snapshot_id for snapshot in self._table.snapshots()}
        for producer in self.failed:
            if producer.snapshot_id not in known:
                producer._clean_all_uncommitted()
        self.failed = []


@contextmanager
def _uncollected() -> Iterator[None]:
    """PyIceberg makes objects of every snapshot, so many that Python would look for cycles among all its objects each time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _partitioning(spec: PartitionSpec) -> list[tuple[int, str]]:
    return [(field.source_id, str(field.transform)) for field in spec.fields]


def _names(spec: PartitionSpec) -> str:
    return ", ".join(path_text(field.name) for field in spec.fields) or "nothing"


def _plain(location: str) -> str:
    """A location as the target spells it: Java's engines write `file:` before a path."""
    return path_of_file_uri(location) if is_file_uri(location) else location


def _storage_properties(target: str) -> Mapping[str, str]:
    """What PyIceberg needs to reach the store of the target."""
    if not target.startswith(("s3://", "s3a://")):
        return {}
    settings = s3_settings(target)
    named = {
        "s3.access-key-id": settings.access_key,
        "s3.secret-access-key": settings.secret_key,
        "s3.endpoint": settings.endpoint,
        "s3.region": settings.region,
    }
    return {name: value for name, value in named.items() if value is not None}
