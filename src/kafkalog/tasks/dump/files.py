"""Dump files of a log directory as DumpLogSegments does: one after the other, then the findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkalog.errors import KafkaLogError, UnsupportedFormat
from kafkalog.format.names import BOOTSTRAP_CHECKPOINT, parse_file_name
from kafkalog.format.quantities import plural, repr_text

from .findings import DumpFindings
from .old_style import OldSegmentDump, old_index_lines
from .options import NEW_STYLE, OLD_STYLE, DumpOptions, GivenFile, shown_path
from .segment import SegmentDump
from .side_files import IndexDump, find_snapshot_problem, snapshot_lines

SNAPSHOT_BYTES = 128 << 20  # of nearly three million producers
TEXT_BYTES = 1 << 16

Chunk = bytes | memoryview


class Dump:
    """The dump of some files.

    While `chunks` are read, `warnings` collects what DumpLogSegments would write to standard error at that moment; `findings`
    has the rest, after the last chunk. It raises where that tool would die.
    """

    def __init__(self, files: Sequence[str], options: DumpOptions) -> None:
        self.files = files
        self.options = options
        self.findings = DumpFindings()
        self.warnings: list[str] = []

    def chunks(self) -> Iterator[Chunk]:
        """The text in order; each chunk is valid until the next one is requested."""
        for given in self.files:
            yield f"Dumping {shown_path(given)}\n".encode()
            yield from self._dump(GivenFile.open(given))

    def __repr__(self) -> str:
        first, *others = [shown_path(given) for given in self.files] or ["no files"]
        style = "" if self.options.style == NEW_STYLE else f"in the style of {self.options.style}"
        return repr_text("Dump", first, plural(len(others), "more file") if others else "", style)

    def lines(self) -> Iterator[str]:
        """The text line by line, without line ends; bytes that are no UTF-8 are escaped."""
        held = b""
        for chunk in self.chunks():
            *lines, held = (held + bytes(chunk)).split(b"\n")
            for line in lines:
                yield line.decode(errors="backslashreplace")
        if held:
            yield held.decode(errors="backslashreplace")

    def _dump(self, file: GivenFile) -> Iterator[Chunk]:
        entry = file.store.stat(file.path)
        if entry is not None and entry.kind == "folder":
            self.warnings.append(f"Ignoring unknown file {file.shown}: it is a folder, give the files in it")
        elif self.options.style == OLD_STYLE:
            yield from _encoded(self._old_lines(file))
        elif file.suffix in ("log", "checkpoint"):
            yield _head(file).encode()
            yield from self._segment(file)
        elif file.suffix == "snapshot":
            yield from _encoded(self._snapshot(file))
        elif file.suffix in ("index", "timeindex", "txnindex"):
            index = IndexDump(file, self.options, self.findings)
            lines = {"index": index.offset_index, "timeindex": index.time_index, "txnindex": index.txn_index}
            yield from _encoded(lines[file.suffix]())
        else:
            self.warnings.append(f"Ignoring unknown file {file.shown}")

    def _segment(self, file: GivenFile) -> Iterator[Chunk]:
        with file.store.open(file.path) as source:
            dump = SegmentDump(source, self.options)
            yield from dump.lines()
        if dump.gaps.parts:
            self.findings.gaps[file.absolute] = dump.gaps

    def _snapshot(self, file: GivenFile) -> Iterator[str]:
        data = file.store.read_small(file.path, SNAPSHOT_BYTES)
        problem = find_snapshot_problem(data)
        if problem is None:
            yield from snapshot_lines(data)
        else:
            self.warnings.append(problem)  # the one kind of damage that DumpLogSegments continues after

    def _old_lines(self, file: GivenFile) -> Iterator[str]:
        if file.suffix == "log":
            yield from self._old_segment(file)
        elif file.suffix == "index":
            yield from old_index_lines(IndexDump(file, self.options, self.findings))
        else:
            self.warnings.append(f"Ignoring unknown file {file.shown}")

    def _old_segment(self, file: GivenFile) -> Iterator[str]:
        yield f"Starting offset: {file.base_offset}\n"
        with file.store.open(file.path) as source:
            dump = OldSegmentDump(source, self.options)
            yield from dump.lines()
        if dump.gaps.pairs:
            self.findings.gaps[file.absolute] = dump.gaps


def _head(file: GivenFile) -> str:
    if file.suffix == "log":
        return f"Log starting offset: {file.base_offset}\n"
    if file.name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot\n"
    parsed = parse_file_name(file.name)
    if parsed is None or parsed.kind != "checkpoint":
        raise UnsupportedFormat("not-a-segment", file=file.path, detail="a KRaft snapshot is named <offset>-<epoch>.checkpoint")
    return f"Snapshot end offset: {parsed.base_offset}, epoch: {parsed.epoch}\n"


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    """Lines in chunks; the text before an error is yielded before it is raised."""
    waiting: list[str] = []
    size = 0
    try:
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size > TEXT_BYTES:
                yield "".join(waiting).encode()
                waiting, size = [], 0
    except KafkaLogError:
        yield "".join(waiting).encode()
        raise
    yield "".join(waiting).encode()
