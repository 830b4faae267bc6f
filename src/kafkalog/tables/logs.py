"""`kafkalog.open`: the partitions at a path, and every table of them as a stream of Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog.errors import Limits, StorageError, UsageError
from kafkalog.kernels._jit import announce_compilation
from kafkalog.log.checks.finding import Finding
from kafkalog.log.checks.run import check_partitions
from kafkalog.log.choosing import choose, live_partitions
from kafkalog.log.folders import find_partitions
from kafkalog.log.follow import follow_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.segment.decode import HIGHEST, LOWEST, RecordRange
from kafkalog.storage import open_store

from . import rows
from .batches import batch_batches
from .choices import Names, Numbers, Time, milliseconds, several_names, several_numbers, whole_number
from .records import iter_record_batches, record_batches
from .schemas import find_table

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
# They tell of files as they lie there.
FILE_TABLES = ("segments", "index_entries")


def open_logs(path: str | os.PathLike[str], *, filesystem: FileSystem | None = None) -> Logs:
    """The logs at `path`: a log directory, a partition folder, one file, or any of these as s3://bucket/…"""
    store, place = open_store(path, filesystem=filesystem)
    return Logs(place, find_partitions(store, place))


class Logs:
    """The partitions found at a path. Nothing is read before a table is asked for."""

    def __init__(self, path: str, partitions: Sequence[Partition]) -> None:
        self.path = path
        self.partitions = list(partitions)
        self.report = ReadReport()

    def __repr__(self) -> str:
        return f"Logs({self.path!r}, {len(self.partitions)} partitions)"

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
        threads: int | None = None,
        limits: Limits | None = None,
        report: ReadReport | None = None,
    ) -> pa.RecordBatchReader:
        """A table as a stream of Arrow batches.

        One name or number stands for a list of it. Offsets and times are half-open ranges of records; `batches` takes the
        offsets. A time is milliseconds since 1970, a datetime, a date, or ISO 8601; one without a time zone is UTC.
        `isolation="read_committed"` leaves out aborted data and stops at the last stable offset.
        `on_damage`: "strict" raises at the first damage, after all records before it; "skip" leaves damaged batches out;
        "salvage" also finds its way behind a broken length. What is left out is in `report`, or in `self.report`.
        `neighbours` takes the log to be never compacted and its leader-epoch-checkpoint to be right: what differs is damage.
        `allow_disorder` reads entries whose offsets or epochs go back.
        `skip_io_errors` (not with "strict") takes 4 KiB that the device cannot read as zeros: what lies there is damage.
        `threads`: how many windows are decoded at once; by default the cores of this process, at most 4.
        """
        schema = find_table(table).schema(several_names("columns", columns))
        options = _options(
            schema,
            _range(start_offset, stop_offset, start_time, stop_time),
            isolation=isolation,
            on_damage=on_damage,
            include_control=include_control,
            neighbours=neighbours,
            allow_disorder=allow_disorder,
            skip_io_errors=skip_io_errors,
            threads=threads,
            limits=limits,
        )
        self.report = report if report is not None else ReadReport()
        if table == "findings":
            found = rows.finding_rows(self.check(topics=topics, partitions=partitions, options=options, report=self.report))
            return pa.RecordBatchReader.from_batches(schema, rows.row_batches(found, schema))
        chosen = self.choose(topics, partitions)
        announce_compilation()
        return pa.RecordBatchReader.from_batches(schema, _batches(table, chosen, schema, options, self.report))

    def check(
        self,
        *,
        topics: Names | None = None,
        partitions: Numbers | None = None,
        options: ReadOptions | None = None,
        report: ReadReport | None = None,
    ) -> Iterator[Finding | None]:
        """What is wrong with these logs, as it is found, and None now and then: `report` then says how far it has come.

        Of `options` only threads and limits count. Without topics and partitions the log directory itself is looked at, too.
        """
        chosen = self.choose(topics, partitions)
        whole = self.is_log_directory and topics is None and partitions is None
        announce_compilation()
        return check_partitions(
            self.partitions if whole else chosen,
            options or ReadOptions(frozenset()),
            report if report is not None else self.report,
            self.path if whole else None,
        )

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
        """Records as `read` gives them, and then those that a running broker appends, until `stop()` is true.

        Takes the choices of `read`; `start_offsets` has a start of its own for the partitions in these folders. Each batch
        belongs to one partition. New segments are taken up as they appear; a write under way is waited for, and with
        `isolation="read_committed"` an open transaction is. What is there when `stop()` turns true still comes.
        """
        schema = find_table("records").schema(several_names("columns", columns))
        chosen = self.choose(choices.pop("topics", None), choices.pop("partitions", None))
        record_range = _range(*(choices.pop(name, None) for name in ("start_offset", "stop_offset", "start_time", "stop_time")))
        report = choices.pop("report", None)
        self.report = report if report is not None else ReadReport()
        options = _options(schema, record_range, **choices)
        announce_compilation()
        return follow_partitions(
            chosen,
            options,
            lambda found, following, report: iter_record_batches([found], schema, following, report),
            poll_seconds,
            stop,
            self.report,
            start_offsets or {},
        )

    def choose(self, topics: Names | None, numbers: Numbers | None) -> list[Partition]:
        """The partitions to read: all that live, or the one that this path names whatever its state."""
        topics, numbers = several_names("topics", topics), several_numbers("partitions", numbers)
        return choose(live_partitions(self.partitions, self.path), self.path, topics, numbers)


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
    """The partitions in turn; what storage would not show of one is an error, or noted in the report.

    What an interrupted compaction has finished belongs to a partition, unless its files are to be seen as they are stored.
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


def _options(
    schema: pa.Schema,
    record_range: RecordRange,
    *,
    isolation: str = ISOLATIONS[0],
    on_damage: str = DAMAGE_MODES[0],
    include_control: bool = False,
    neighbours: bool = False,
    allow_disorder: bool = False,
    skip_io_errors: bool = False,
    threads: int | None = None,
    limits: Limits | None = None,
) -> ReadOptions:
    if skip_io_errors and on_damage == "strict":
        raise UsageError('skip_io_errors needs on_damage="skip" or "salvage": "strict" would stop at what could not be read')
    return ReadOptions(
        columns=frozenset(schema.names),
        record_range=record_range,
        isolation=_allowed("isolation", isolation, ISOLATIONS),
        on_damage=_allowed("on_damage", on_damage, DAMAGE_MODES),
        include_control=include_control,
        neighbours=neighbours,
        allow_disorder=allow_disorder,
        skip_io_errors=skip_io_errors,
        threads=_positive("threads", threads),
        limits=limits or Limits(),
    )


def _range(start_offset: int | None, stop_offset: int | None, start_time: Time | None, stop_time: Time | None) -> RecordRange:
    return RecordRange(
        LOWEST if start_offset is None else _int64(whole_number("start_offset", start_offset)),
        HIGHEST if stop_offset is None else _int64(whole_number("stop_offset", stop_offset)),
        LOWEST if start_time is None else _int64(milliseconds("start_time", start_time)),
        HIGHEST if stop_time is None else _int64(milliseconds("stop_time", stop_time)),
    )


def _int64(bound: int) -> int:
    """A bound that 64 bits can hold and one less, too; nothing is stored beyond them."""
    return min(max(bound, LOWEST + 1), HIGHEST)


def _allowed(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise UsageError(f"{name}={value!r} is unknown; allowed are {', '.join(allowed)}")
    return value


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"{name}={value!r}: at least 1")
    return value
