"""The work behind `kafkalog table`: open, read, write, and say at the end what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

import kafkalog
from kafkalog.errors import SegmentError, StorageError, UsageError
from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import TABLES

from .arguments import require_known
from .escape import printable
from .failure import exit_code, report_failure, warn
from .progress import ReadProgress
from .summary import report_exit_code, summarise, write_report
from .table import Request
from .target import STDOUT, Sink, open_target, refuse_kafka_file
from .text import TextWriter
from .writers import BINARY_FORMATS, Writer, open_writer

# Options that a table does not have a use for are refused: silence would look like an answer.
ONLY_RECORDS = ("start_time", "stop_time", "isolation", "include_control", "neighbours")
ONLY_RECORDS_AND_BATCHES = ("start_offset", "stop_offset", "allow_disorder", "skip_io_errors")
NOT_GIVEN = (None, False, "read_uncommitted")


class _ReadFailed(Exception):
    """A read that ended early. It passes the output on its way out, so that an unfinished file is never published."""

    def __init__(self, cause: SegmentError | StorageError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def write_table(request: Request) -> int:
    """Write the table that was asked for; the exit code."""
    _check(request)
    logs = kafkalog.open(request.path)
    partitions = _chosen(logs, request)
    report = ReadReport()
    reader = logs.read(request.name, request.columns, **request.choices, report=report)
    ended: SegmentError | StorageError | None = None
    try:
        with ReadProgress(report, sum(found.size for found in partitions), wanted=_progress_wanted(request)) as progress:
            _write_rows(request, reader, report, progress)
    except _ReadFailed as failed:
        ended = failed.cause
    code = report_exit_code(report) if ended is None else exit_code(ended)
    if ended is not None:
        report_failure(ended, on_damage=request.choices["on_damage"])
        if request.output != STDOUT:
            warn(f"{printable(request.output)} was not written")
    if request.report is not None:
        write_report(request.report, report, ended, code)
    line = summarise(report)
    if line and not request.quiet:
        warn(line)
    return code


def _check(request: Request) -> None:
    kind = TABLES[request.name]
    known = [column.name for column in kind.columns]
    for name in request.columns or ():
        require_known(f"column of {request.name}", name, known)
    for names, tables in ((ONLY_RECORDS, ("records",)), (ONLY_RECORDS_AND_BATCHES, ("records", "batches"))):
        for name in names:
            if request.choices[name] not in NOT_GIVEN and request.name not in tables:
                option = "--" + name.replace("_", "-")
                raise UsageError(f"{option} has no meaning for {request.name}; it works on {' and '.join(tables)}")
    refuse_kafka_file("--output", request.output)
    if request.report is not None:
        refuse_kafka_file("--report", request.report)


def _chosen(logs: Logs, request: Request) -> list[Partition]:
    """The partitions that will be read, for the progress bar; UsageError when topics and numbers leave none."""
    topics, numbers = request.choices["topics"], request.choices["partitions"]
    alone = len(logs.partitions) == 1
    live = [found for found in logs.partitions if alone or not found.state]
    for topic in topics or ():
        require_known("topic", topic, sorted({found.topic for found in live}))
    in_topics = [found for found in live if topics is None or found.topic in topics]
    for number in numbers or ():
        if number not in {found.partition for found in in_topics}:
            there = ", ".join(map(str, sorted({found.partition for found in in_topics}))) or "none"
            raise UsageError(f"{logs.path}: no partition {number} here; there are: {there}")
    return [found for found in in_topics if numbers is None or found.partition in numbers]


def _progress_wanted(request: Request) -> bool:
    """Rows and a bar on the same terminal would overwrite each other."""
    return not request.quiet and (request.output != STDOUT or not Sink(1, STDOUT).isatty())


def _write_rows(request: Request, reader: pa.RecordBatchReader, report: ReadReport, progress: ReadProgress) -> None:
    with closing(reader), open_target(request.output) as sink:
        if request.format in BINARY_FORMATS and sink.isatty():
            raise UsageError(f"{request.format} is not for a terminal: give --output FILE, or pipe it into a program")
        writer = open_writer(request.format, sink, reader.schema, request.encoding)
        try:
            for batch in limited(_read(reader), request.limit):
                writer.write(batch)
                progress.update()
        except _ReadFailed:
            if request.output == STDOUT:
                writer.finish()
            raise
        writer.finish()
        _tell_left_out(request, writer)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches; an error of reading is told apart from one of writing."""
    batches = iter(reader)
    while True:
        try:
            batch = next(batches, None)
        except (SegmentError, StorageError) as error:
            raise _ReadFailed(error) from error
        if batch is None:
            return
        yield batch


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows."""
    remaining = limit
    for batch in batches if limit != 0 else ():
        if remaining is None or batch.num_rows < remaining:
            yield batch
            remaining = None if remaining is None else remaining - batch.num_rows
        else:
            yield batch.slice(0, remaining)
            return


def _tell_left_out(request: Request, writer: Writer) -> None:
    if isinstance(writer, TextWriter) and writer.left_out and not request.quiet:
        names = ", ".join(writer.left_out)
        warn(f"no room on this terminal for {names}; choose with --columns, or see everything with --format json")
