"""`kafkalog.open`: the partitions at a path, and each of their tables as a stream of Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog.errors import Limits, NoLogs, StorageError, UsageError, name_text
from kafkalog.format.html_table import html_table
from kafkalog.format.names import META_PROPERTIES
from kafkalog.format.quantities import plural, size_text
from kafkalog.log.checks.finding import Finding
from kafkalog.log.checks.run import check_partitions
from kafkalog.log.folders import choose, find_partitions, live_partitions
from kafkalog.log.follow import follow_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.places import Copies, as_one
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.segment.decode import HIGHEST, LOWEST, RecordRange
from kafkalog.storage import open_store

from . import rows
from .batches import batch_batches
from .choices import Names, Numbers, Time, milliseconds, several_names, several_numbers, whole_number
from .cluster_rows import ClusterSource, cluster_rows
from .records import iter_record_batches, record_batches
from .schemas import CLUSTER_TABLES, METADATA_TABLES, find_table, with_views
from .text_columns import ERRORS, TextColumns

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

ISOLATIONS = ("read_uncommitted", "read_committed")
DAMAGE_MODES = ("strict", "skip", "salvage")

ROW_TABLES: dict[str, Callable[[Iterable[Partition], ReadOptions, ReadReport], Iterator[rows.Row]]] = {
    "segments": rows.segment_rows,
    "index_entries": rows.index_entry_rows,
    "producers": rows.producer_rows,
    "epochs": rows.epoch_rows,
    "transactions": rows.transaction_rows,
}
# They show files as they are stored.
FILE_TABLES = ("segments", "index_entries")


Path = str | os.PathLike[str]


def open_logs(path: Path | Sequence[Path], *, topic_ids: Names | None = None, filesystem: FileSystem | None = None) -> Logs:
    """The logs at `path`: a log directory, a partition folder, one file, or any of these as s3://bucket/…

    A list of them is read as one: log directories of one broker, or of several. Each partition then comes from one copy, the
    one whose last batch has the highest leader epoch, then the highest offset. `topic_ids`: which topic is meant where one was
    deleted and another created with its name.
    """
    several = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not several:
        raise UsageError("give at least one path")
    places = list(_open_each(several, filesystem))
    return places[0] if len(places) == 1 and topic_ids is None else SeveralLogs(places, several_names("topic_ids", topic_ids))


def _open_each(paths: Sequence[Path], filesystem: FileSystem | None) -> Iterator[Logs]:
    for path in paths:
        store, place = open_store(path, filesystem=filesystem)
        try:
            yield Logs(place, find_partitions(store, place))
        except NoLogs:  # one of the log directories of a broker may have no partition yet
            if len(paths) == 1 or store.stat(store.join(place, META_PROPERTIES)) is None:
                raise
            yield Logs(place, [])


# Users know it as kafkalog.open: help() shows that name.
open_logs.__module__, open_logs.__name__, open_logs.__qualname__ = "kafkalog", "open", "open"


@dataclass(frozen=True)
class ReadChoices:
    """What callers of `Logs.read` and `Logs.follow` chose, as they passed it."""

    topics: Names | None = None
    partitions: Numbers | None = None
    start_offset: int | None = None
    stop_offset: int | None = None
    start_time: Time | None = None
    stop_time: Time | None = None
    isolation: str = ISOLATIONS[0]
    on_damage: str = DAMAGE_MODES[0]
    include_control: bool = False
    neighbours: bool = False
    allow_disorder: bool = False
    skip_io_errors: bool = False
    views: bool = False
    text: Names | None = None
    text_errors: str = ERRORS[0]
    at: int | None = None
    threads: int | None = None
    limits: Limits | None = None
    report: ReadReport | None = None

    @property
    def text_columns(self) -> TextColumns:
        return TextColumns(tuple(several_names("text", self.text) or ()), self.text_errors)

    def options(self, columns: Iterable[str]) -> ReadOptions:
        """The same as readers take it; UsageError for what is not allowed."""
        if self.skip_io_errors and self.on_damage == "strict":
            raise UsageError('skip_io_errors needs on_damage="skip" or "salvage": "strict" would stop at what could not be read')
        return ReadOptions(
            columns=frozenset(columns),
            record_range=self._record_range(),
            isolation=_allowed("isolation", self.isolation, ISOLATIONS),
            on_damage=_allowed("on_damage", self.on_damage, DAMAGE_MODES),
            include_control=self.include_control,
            neighbours=self.neighbours,
            allow_disorder=self.allow_disorder,
            skip_io_errors=self.skip_io_errors,
            views=self.views,
            threads=_positive("threads", self.threads),
            limits=self.limits or Limits(),
        )

    def _record_range(self) -> RecordRange:
        return RecordRange(
            LOWEST if self.start_offset is None else _int64(whole_number("start_offset", self.start_offset)),
            HIGHEST if self.stop_offset is None else _int64(whole_number("stop_offset", self.stop_offset)),
            LOWEST if self.start_time is None else _int64(milliseconds("start_time", self.start_time)),
            HIGHEST if self.stop_time is None else _int64(milliseconds("stop_time", self.stop_time)),
        )


class Logs:
    """The partitions found at a path. Nothing is read before a table is requested."""

    def __init__(self, path: str, partitions: Sequence[Partition]) -> None:
        self.path = path
        self.partitions = list(partitions)
        self.report = ReadReport()

    def __repr__(self) -> str:
        counts = (
            plural(len({partition.topic for partition in self.partitions}), "topic"),
            plural(len(self.partitions), "partition"),
            plural(sum(len(partition.segments) for partition in self.partitions), "segment"),
            size_text(sum(partition.size for partition in self.partitions)),
        )
        return f"Logs({name_text(self.path)}, {', '.join(counts)})"

    def _repr_html_(self) -> str:
        rows = [
            (topic, len(found), sum(len(each.segments) for each in found), size_text(sum(each.size for each in found)))
            for topic, found in self.topics.items()
        ]
        return html_table(repr(self), ("topic", "partitions", "segments", "size"), rows)

    @property
    def topics(self) -> dict[str, list[Partition]]:
        """The partitions that `read` returns when none are chosen, by topic: list(logs.topics) are the names."""
        topics: dict[str, list[Partition]] = {}
        for partition in self.choose(None, None):
            topics.setdefault(partition.topic, []).append(partition)
        return topics

    def read(
        self,
        table: str = "records",
        columns: Names | None = None,
        *,
        topics: Names | None = None,
        partitions: Numbers | None = None,
        start_offset: int | None = None,
        stop_offset: int | None = None,
        start_time: Time | None = None,
        stop_time: Time | None = None,
        isolation: str = "read_uncommitted",
        on_damage: str = "strict",
        include_control: bool = False,
        neighbours: bool = False,
        allow_disorder: bool = False,
        skip_io_errors: bool = False,
        views: bool = False,
        text: Names | None = None,
        text_errors: str = "strict",
        at: int | None = None,
        threads: int | None = None,
        limits: Limits | None = None,
        report: ReadReport | None = None,
    ) -> pa.RecordBatchReader:
        """A table as a stream of Arrow batches.

        A single name or number stands for a list of one. Offsets and times are half-open ranges of records; `batches` takes the
        offsets. A time is milliseconds since 1970, a datetime, a date, or ISO 8601; without a time zone it is UTC.
        `isolation="read_committed"` leaves out aborted data and stops at the last stable offset.
        `on_damage`: "strict" raises at the first damage, after all records before it; "skip" leaves damaged batches out;
        "salvage" also resynchronises after a corrupt length field. `report`, or `self.report`, lists what was left out.
        `neighbours` assumes a log that was never compacted and a correct leader-epoch-checkpoint: a contradiction is damage.
        `allow_disorder` reads entries whose offsets or epochs go back.
        `skip_io_errors` (not with "strict") reads blocks of 4 KiB that the device cannot read as zeros, which are then damage.
        `views` (records only): key and value have the Arrow type `binary_view` and point to where they were read or decompressed:
        less work, but each batch keeps its windows of the log in memory.
        `text` (records only): "key", "value" or both as text columns instead of bytes. What is not UTF-8 is a UsageError; with
        `text_errors="replace"` it has U+FFFD in place of such bytes, and `report.notes["not-utf8"]` counts it.
        `at` (topics, configs, acls and other tables of the cluster's metadata): the state right after the record at that offset
        of the metadata log; by default at its end.
        `threads`: how many windows are decoded at once; by default one per core of this process, at most 4.
        """
        choices = ReadChoices(
            topics=topics,
            partitions=partitions,
            start_offset=start_offset,
            stop_offset=stop_offset,
            start_time=start_time,
            stop_time=stop_time,
            isolation=isolation,
            on_damage=on_damage,
            include_control=include_control,
            neighbours=neighbours,
            allow_disorder=allow_disorder,
            skip_io_errors=skip_io_errors,
            views=views,
            text=text,
            text_errors=text_errors,
            at=at,
            threads=threads,
            limits=limits,
            report=report,
        )
        schema = _schema(table, columns, choices)
        options = choices.options(schema.names)
        self.report = _report_of(choices)
        if table in CLUSTER_TABLES:
            return self._read_cluster(table, schema, choices, options)
        if table == "findings":
            found = rows.finding_rows(self.check(topics=topics, partitions=partitions, options=options, report=self.report))
            return pa.RecordBatchReader.from_batches(schema, rows.row_batches(found, schema))
        found = _batches(table, self.choose(topics, partitions), schema, options, self.report)
        if not choices.text_columns.names:
            return pa.RecordBatchReader.from_batches(schema, found)
        texts, report = choices.text_columns, self.report
        return pa.RecordBatchReader.from_batches(texts.schema(schema), (texts.convert(batch, report) for batch in found))

    def _read_cluster(self, table: str, schema: pa.Schema, choices: ReadChoices, options: ReadOptions) -> pa.RecordBatchReader:
        """Rows of the whole cluster: topics are those that it had, not those of this path."""
        source = ClusterSource(
            [found for place in self.places for found in place.partitions if not found.state],  # every copy
            options.limits,
            self.report,
            strict=options.on_damage == "strict",
            at=None if choices.at is None else whole_number("at", choices.at),
            columns=options.columns,
        )
        topics, numbers = several_names("topics", choices.topics), several_numbers("partitions", choices.partitions)
        return pa.RecordBatchReader.from_batches(schema, rows.row_batches(cluster_rows(table, source, topics, numbers), schema))

    def check(
        self,
        *,
        topics: Names | None = None,
        partitions: Numbers | None = None,
        options: ReadOptions | None = None,
        report: ReadReport | None = None,
    ) -> Iterator[Finding | None]:
        """What is wrong with these logs, as it is found, and None now and then: `report` then says how far the check has come.

        Only threads and limits of `options` count. Without topics and partitions the log directory itself is checked, too.
        """
        chosen = self.choose(topics, partitions)
        whole = self.is_log_directory and topics is None and partitions is None
        return self.check_these(self.partitions if whole else chosen, options, report, self.path if whole else None)

    def check_these(
        self,
        partitions: Sequence[Partition],
        options: ReadOptions | None = None,
        report: ReadReport | None = None,
        log_directory: str | None = None,
    ) -> Iterator[Finding | None]:
        """What is wrong with these partitions, and with their log directory if its path is given."""
        known = report if report is not None else self.report
        return check_partitions(partitions, options or ReadOptions(frozenset()), known, log_directory)

    @property
    def places(self) -> list[Logs]:
        """The logs at each path that was given."""
        return [self]

    @property
    def is_log_directory(self) -> bool:
        """Whether the path is a folder of partition folders."""
        return all(found.folder != self.path and found.file is None for found in self.partitions)

    def follow(
        self,
        columns: Names | None = None,
        *,
        poll_seconds: float = 0.5,
        stop: Callable[[], bool] | None = None,
        start_offsets: Mapping[str, int] | None = None,
        **choices: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Records as `read` returns them, and then those that a running broker appends, until `stop()` is true.

        Takes the choices of `read`; `start_offsets` overrides the start offset by partition folder. Each batch belongs to one
        partition. New segments are picked up as they appear; a write in progress is waited for, and with
        `isolation="read_committed"` so is an open transaction. Records present when `stop()` turns true are still returned.
        """
        given = ReadChoices(**choices)
        schema = _schema("records", columns, given)
        chosen = self.choose(given.topics, given.partitions)
        self.report = _report_of(given)
        options = given.options(schema.names)
        found = follow_partitions(
            chosen,
            options,
            lambda found, following, report: iter_record_batches([found], schema, following, report),
            poll_seconds,
            stop,
            self.report,
            start_offsets or {},
        )
        texts, report = given.text_columns, self.report
        return (texts.convert(batch, report) for batch in found) if texts.names else found

    def choose(self, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
        """The partitions to read: all live ones, or the one that this path names, whatever its state."""
        topics, numbers = several_names("topics", topics), several_numbers("partitions", numbers)
        return choose(self.live, self.path, topics, numbers)

    def chosen_at(self, place: Logs, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
        """What is to be checked at one of `places`."""
        return place.choose(topics, numbers)

    @property
    def live(self) -> list[Partition]:
        """The partitions that no broker has deleted or moved aside, and the one that this path names."""
        return live_partitions(self.partitions, self.path)


class SeveralLogs(Logs):
    """The logs at several paths as one: each partition once. `copies` has the others, too."""

    def __init__(self, places: Sequence[Logs], topic_ids: Sequence[str] | None) -> None:
        whole = as_one((partition for logs in places for partition in logs.live), topic_ids)
        live = {partition.folder for logs in places for partition in logs.live}
        aside = [partition for logs in places for partition in logs.partitions if partition.folder not in live]
        super().__init__(", ".join(logs.path for logs in places), [*whole.partitions, *aside])
        self._places = list(places)
        self._whole = whole

    @property
    def copies(self) -> list[Copies]:
        """Each partition with the copy that is read and the others."""
        return self._whole.copies

    def other_copies(self, chosen: Sequence[Partition]) -> list[Partition]:
        """The other copies of these partitions."""
        folders = {partition.folder for partition in chosen}
        return [other for each in self.copies if each.chosen[0].folder in folders for other in each.others]

    @property
    def places(self) -> list[Logs]:
        return self._places

    @property
    def is_log_directory(self) -> bool:
        return False

    @property
    def live(self) -> list[Partition]:
        return self._whole.partitions

    def choose(self, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
        """The copies to read; UsageError for a name that belongs to two topics."""
        chosen = super().choose(topics, numbers)
        for topic in dict.fromkeys(partition.topic for partition in chosen):
            if topic in self._whole.refused:
                refusal = self._whole.refused[topic]
                raise UsageError(f"{refusal}; choose one of them by its id: --topic-id ID, in Python topic_ids=[…]")
        return chosen

    def check(
        self,
        *,
        topics: Names | None = None,
        partitions: Numbers | None = None,
        options: ReadOptions | None = None,
        report: ReadReport | None = None,
    ) -> Iterator[Finding | None]:
        """What is wrong at each of the places, with every copy of a partition."""
        for logs in self._places:
            chosen = self.chosen_at(logs, topics, partitions)
            whole = topics is None and partitions is None and logs.is_log_directory
            if logs.partitions and (whole or chosen):
                yield from logs.check_these(logs.partitions if whole else chosen, options, report, logs.path if whole else None)

    def chosen_at(self, place: Logs, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
        """Every copy at one of the places of what is to be checked; UsageError for what is at none of them."""
        topics, numbers = several_names("topics", topics), several_numbers("partitions", numbers)
        choose(self.live, self.path, topics, numbers)
        of_topics = [each for each in place.live if topics is None or each.topic in topics]
        return [each for each in of_topics if numbers is None or each.partition in numbers]


def _schema(table: str, columns: Names | None, choices: ReadChoices) -> pa.Schema:
    schema = find_table(table).schema(several_names("columns", columns))
    texts = choices.text_columns
    if texts.names and table != "records":
        raise UsageError(f"text={choices.text!r} is for the table records; table {table} has no keys and values")
    texts.schema(schema)  # refuses a column that is not read
    if choices.at is not None and table not in METADATA_TABLES:
        raise UsageError(f"at={choices.at!r} has no meaning for {table}; it works on {', '.join(METADATA_TABLES)}")
    if not choices.views:
        return schema
    if table != "records":
        raise UsageError(f"views=True is for the table records; table {table} has no keys and values")
    return with_views(schema)


def _report_of(choices: ReadChoices) -> ReadReport:
    return choices.report if choices.report is not None else ReadReport()


def _batches(
    table: str, partitions: list[Partition], schema: pa.Schema, options: ReadOptions, report: ReadReport
) -> Iterator[pa.RecordBatch]:
    chosen = readable(partitions, options, report, as_stored=table in FILE_TABLES)
    if table == "records":
        return record_batches(chosen, schema, options, report)
    if table == "batches":
        return batch_batches(chosen, schema, options, report)
    return rows.row_batches(ROW_TABLES[table](chosen, options, report), schema)


def readable(
    partitions: Iterable[Partition], options: ReadOptions, report: ReadReport, *, as_stored: bool = False
) -> Iterator[Partition]:
    """The partitions in turn; what could not be listed of one is an error, or noted in the report.

    Segments that an interrupted compaction finished belong to a partition, unless its files are shown `as_stored`.
    """
    for partition in partitions:
        for problem in partition.problems:
            if options.on_damage == "strict":
                raise StorageError(problem, file=partition.folder)
            report.unread.append(problem)
        yield partition if as_stored else _with_finished_segments(partition, options, report)


def _with_finished_segments(partition: Partition, options: ReadOptions, report: ReadReport) -> Partition:
    try:
        return with_finished_segments(partition, options.limits)
    except StorageError as error:
        if options.on_damage == "strict":
            raise
        report.leave_unread(error)
        return partition


def _int64(bound: int) -> int:
    """A bound that fits into 64 bits, and so does the number below it; nothing is stored beyond them."""
    return min(max(bound, LOWEST + 1), HIGHEST)


def _allowed(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise UsageError(f"{name}={value!r} is unknown; allowed are {', '.join(allowed)}")
    return value


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"{name}={value!r}: at least 1")
    return value
