"""Dump files of a log directory as DumpLogSegments does: one after the other, then what did not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkalog.errors import UnsupportedFormat, path_text
from kafkalog.format.names import BOOTSTRAP_CHECKPOINT, MAX_OFFSET, parse_file_name
from kafkalog.storage import open_store
from kafkalog.storage.store import Store

from .findings import Findings
from .indexes import IndexDump
from .old_style import OldSegmentDump, old_index_lines
from .options import OLD_STYLE, DumpOptions
from .segment import SegmentDump
from .snapshot import find_snapshot_problem, snapshot_lines

SNAPSHOT_BYTES = 1 << 30
TEXT_BYTES = 1 << 16

Chunk = bytes | memoryview


class Dump:
    """The dump of some files.

    While `chunks` are taken, `warnings` gets what DumpLogSegments would write to standard error at that moment; `findings` has
    the rest, after the last chunk. It ends with an error where that tool would die.
    """

    def __init__(self, files: Sequence[str], options: DumpOptions) -> None:
        self.files = files
        self.options = options
        self.findings = Findings()
        self.warnings: list[str] = []

    def chunks(self) -> Iterator[Chunk]:
        """The text in order; each chunk is good until the next one is asked for."""
        for file in self.files:
            yield f"Dumping {path_text(file)}\n".encode()
            yield from self._dump(file)

    def _dump(self, file: str) -> Iterator[Chunk]:
        store, path = open_store(file)
        entry = store.stat(path)
        suffix = store.name(path).rpartition(".")[2]
        if entry is not None and entry.kind == "folder":
            self.warnings.append(f"Ignoring unknown file {path_text(file)}: it is a folder, give the files in it")
        elif self.options.style == OLD_STYLE:
            yield from _encoded(self._old_lines(store, path, file, suffix))
        elif suffix in ("log", "checkpoint"):
            yield self._head(store, path, suffix).encode()
            yield from self._segment(store, path)
        elif suffix == "snapshot":
            yield from _encoded(self._snapshot(store, path))
        elif suffix in ("index", "timeindex", "txnindex"):
            index = self._index(store, path, file)
            lines = {"index": index.offset_index, "timeindex": index.time_index, "txnindex": index.txn_index}
            yield from _encoded(lines[suffix]())
        else:
            self.warnings.append(f"Ignoring unknown file {path_text(file)}")

    def _old_lines(self, store: Store, path: str, file: str, suffix: str) -> Iterator[str]:
        if suffix == "log":
            yield from self._old_segment(store, path)
        elif suffix == "index":
            yield from old_index_lines(self._index(store, path, file))
        else:
            self.warnings.append(f"Ignoring unknown file {path_text(file)}")

    def _index(self, store: Store, path: str, file: str) -> IndexDump:
        return IndexDump(store, path, file, _base_offset(store, path), self.options, self.findings)

    def _head(self, store: Store, path: str, suffix: str) -> str:
        name = store.name(path)
        if suffix == "log":
            return f"Log starting offset: {_base_offset(store, path)}\n"
        if name == BOOTSTRAP_CHECKPOINT:
            return "KRaft bootstrap snapshot\n"
        parsed = parse_file_name(name)
        if parsed is None or parsed.kind != "checkpoint":
            raise UnsupportedFormat("not-a-segment", file=path, detail="a KRaft snapshot is named <offset>-<epoch>.checkpoint")
        return f"Snapshot end offset: {parsed.base_offset}, epoch: {parsed.epoch}\n"

    def _segment(self, store: Store, path: str) -> Iterator[Chunk]:
        with store.open(path) as source:
            dump = SegmentDump(source, self.options)
            yield from dump.lines()
        if dump.gaps.parts:
            self.findings.gaps[path] = dump.gaps

    def _old_segment(self, store: Store, path: str) -> Iterator[str]:
        yield f"Starting offset: {_base_offset(store, path)}\n"
        with store.open(path) as source:
            dump = OldSegmentDump(source, self.options)
            yield from dump.lines()
        if dump.gaps.pairs:
            self.findings.gaps[path] = dump.gaps

    def _snapshot(self, store: Store, path: str) -> Iterator[str]:
        data = store.read_small(path, SNAPSHOT_BYTES)
        problem = find_snapshot_problem(data)
        if problem is None:
            yield from snapshot_lines(data)
        else:
            self.warnings.append(problem)  # the one kind of damage that DumpLogSegments goes on after


def _base_offset(store: Store, path: str) -> int:
    stem = store.name(path).partition(".")[0]
    if not (stem.isascii() and stem.isdigit() and int(stem) <= MAX_OFFSET):
        raise UnsupportedFormat("not-a-segment", file=path, detail="a segment and its index are named after its first offset")
    return int(stem)


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    """Lines in chunks of some size; what came before an error comes out before it."""
    waiting: list[str] = []
    size = 0
    try:
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size > TEXT_BYTES:
                yield "".join(waiting).encode()
                waiting, size = [], 0
    except GeneratorExit:
        return
    except Exception:
        yield "".join(waiting).encode()
        raise
    yield "".join(waiting).encode()
