"""Arrow batches to the output, in the requested format, and a line at the end about what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafkalog.errors import SegmentError, StorageError, UsageError
from kafkalog.log.report import ReadReport

from ..commands.shared_options import RowOptions
from ..failure import exit_code, report_failure, warn
from ..render.escape import printable
from ..render.progress import ReadProgress
from ..render.summary import report_exit_code, summarise, write_report
from ..render.target import STDOUT, Sink, open_target, refuse_kafka_file
from ..render.writers import Writer, refuse_terminal


@dataclass(frozen=True)
class Output:
    """Where rows go and how; `on_damage` is that of the read."""

    rows: RowOptions
    on_damage: str
    all_shown_by: str = "--format json, or choose with --columns"  # the options for what does not fit a terminal
    skips_io_errors: bool = True  # whether that option has a meaning for what is read

    def check(self) -> None:
        """UsageError for a target that reading must not write to, and for what has no meaning for the format."""
        if self.rows.csv_safe and self.rows.format != "csv":
            raise UsageError(f"--csv-safe has no meaning for --format {self.rows.format}; it works on csv")
        refuse_kafka_file("--output", self.rows.output)
        if self.rows.report is not None:
            refuse_kafka_file("--report", self.rows.report)

    @property
    def shows_progress(self) -> bool:
        """Rows and a bar on the same terminal would overwrite each other."""
        return not self.rows.quiet and (self.rows.output != STDOUT or not Sink(1, STDOUT).isatty())


class _ReadFailed(Exception):
    """A read that failed. It is raised through the output, so that an unfinished file is never published."""

    def __init__(self, cause: SegmentError | StorageError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def write_batches(
    output: Output,
    batches: Iterator[pa.RecordBatch],
    open_writer: Callable[[Sink], Writer],
    report: ReadReport,
    size: int,
    *,
    follow: bool = False,
) -> int:
    """Write the batches; the exit code. `report` is that of the read, `size` the bytes it has to read at most.

    With `follow` each batch is shown immediately.
    """
    ended: SegmentError | StorageError | None = None
    try:
        with ReadProgress(size, wanted=output.shows_progress and not follow, report=report) as progress:
            _write_rows(output, batches, open_writer, progress, follow)
    except _ReadFailed as failed:
        ended = failed.cause
    code = report_exit_code(report) if ended is None else exit_code(ended)
    if ended is not None:
        report_failure(ended, on_damage=output.on_damage, skips_io_errors=output.skips_io_errors)
        if output.rows.output != STDOUT:
            warn(f"{printable(output.rows.output)} was not written")
    if output.rows.report is not None:
        write_report(output.rows.report, report, ended, code)
    line = summarise(report)
    if line and not output.rows.quiet:
        warn(line)
    return code


def _write_rows(
    output: Output,
    batches: Iterator[pa.RecordBatch],
    open_writer: Callable[[Sink], Writer],
    progress: ReadProgress,
    follow: bool,
) -> None:
    with open_target(output.rows.output) as sink:
        refuse_terminal(output.rows.format, sink)
        writer = open_writer(sink)
        try:
            for batch in limited(_read(batches), output.rows.limit):
                writer.write(batch)
                if follow:
                    writer.flush()
                progress.update()
        except _ReadFailed:
            if output.rows.output == STDOUT:
                writer.finish()
            raise
        writer.finish()
        _report_left_out(output, writer)


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; an error while reading must not look like one while writing."""
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


def _report_left_out(output: Output, writer: Writer) -> None:
    left_out = getattr(writer, "left_out", ())  # only text has to fit
    if left_out and not output.rows.quiet:
        warn(f"no room on this terminal for {', '.join(left_out)}; see everything with {output.all_shown_by}")
