"""Arrow batches to the output, in the requested format, and a line at the end about what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from kafkalog.errors import SegmentError, StorageError, UsageError
from kafkalog.format.quantities import plural, size_text
from kafkalog.log.report import ReadReport
from kafkalog.tables.text_columns import REPLACED

from ..commands.shared_options import RowOptions
from ..failure import exit_code, report_failure, warn
from ..render.escape import printable
from ..render.progress import ReadProgress
from ..render.summary import report_exit_code, summarise, write_report
from ..render.target import STDOUT, Sink, open_target, refuse_kafka_file
from ..render.writers import BINARY_FORMATS, Writer, refuse_terminal


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
        if self.rows.text and self.rows.format not in BINARY_FORMATS:
            raise UsageError(f"--text has no meaning for --format {self.rows.format}; it works on arrow and parquet")
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
    written = None
    try:
        with ReadProgress(size, wanted=output.shows_progress and not follow, report=report) as progress:
            written = _write_rows(output, batches, open_writer, progress, follow)
    except _ReadFailed as failed:
        ended = failed.cause
    code = report_exit_code(report) if ended is None else exit_code(ended)
    if ended is not None:
        report_failure(ended, on_damage=output.on_damage, skips_io_errors=output.skips_io_errors)
        if output.rows.output != STDOUT:
            warn(f"{printable(output.rows.output)} was not written")
    if output.rows.report is not None:
        write_report(output.rows.report, report, ended, code)
    if not output.rows.quiet:
        for line in filter(None, (summarise(report), _replaced(report), _written(output, written))):
            warn(line)
    return code


@dataclass
class Written:
    """What reached the output."""

    rows: int = 0
    size: int = 0
    as_bytes: list[str] = field(default_factory=list)  # key and value, where they are columns of bytes


def _written(output: Output, written: Written | None) -> str:
    """What a file holds now; nothing where the rows themselves were seen."""
    if written is None or output.rows.output == STDOUT:
        return ""
    line = f"wrote {plural(written.rows, 'row')}, {size_text(written.size)}, to {printable(output.rows.output)}"
    if not written.as_bytes or output.rows.format not in BINARY_FORMATS:
        return line
    names = written.as_bytes
    are = "are bytes: --text " if len(names) > 1 else "is bytes: --text "
    return f"{line}; {' and '.join(names)} {are}{','.join(names)} makes {'them' if len(names) > 1 else 'it'} text"


def _bytes_of(batch: pa.RecordBatch) -> list[str]:
    return [name for name in ("key", "value") if name in batch.schema.names and batch.schema.field(name).type == pa.binary()]


def _replaced(report: ReadReport) -> str:
    count = report.notes.get(REPLACED, 0)
    return f"{plural(count, 'text')} had bytes that are not UTF-8: U+FFFD is in their place" if count else ""


def _write_rows(
    output: Output,
    batches: Iterator[pa.RecordBatch],
    open_writer: Callable[[Sink], Writer],
    progress: ReadProgress,
    follow: bool,
) -> Written:
    written = Written()
    with open_target(output.rows.output) as sink:
        refuse_terminal(output.rows.format, sink)
        writer = open_writer(sink)
        try:
            for batch in limited(_read(batches), output.rows.limit):
                written.as_bytes = _bytes_of(batch) if output.rows.text is None else []
                writer.write(batch)
                written.rows += batch.num_rows
                if follow:
                    writer.flush()
                progress.update()
        except _ReadFailed:
            if output.rows.output == STDOUT:
                writer.finish()
            raise
        writer.finish()
        written.size = sink.written
        _report_left_out(output, writer)
    return written


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
