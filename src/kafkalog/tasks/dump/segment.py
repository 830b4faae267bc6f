"""The lines of a `.log` or `.checkpoint` file: windows of entries are decoded and written as text by kernels.

One thread does it all: on two the work per line is so little that they only waited for each other (measured).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, KafkaLogError, LimitExceeded, Limits
from kafkalog.format import batch, message
from kafkalog.kernels import layout, scan
from kafkalog.kernels import lines as kernel
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.decode import lay_out
from kafkalog.segment.columns import RecordColumns, Room
from kafkalog.segment.decode import DecodedWindow, RecordDecoder, RecordRange, crc_matches, entry_bytes
from kafkalog.segment.windows import SegmentWalk, Window, WindowBuffers
from kafkalog.storage.store import ByteSource
from kafkalog.tasks.chunks import Chunks

from .findings import Gaps
from .odd_entries import OddEntry
from .options import MAX_BYTES, DumpOptions
from .place import Place

CHUNK_BYTES = 1 << 20
COMPRESSED_ENTRIES = 64  # of one piece of work: what they decompress to is not known, and its text is held until it is written
MAX_CODEC = len(batch.CODEC_NAMES) - 1
ALL_COLUMNS = frozenset({"key", "value", "headers"})
NO_ROOM = Room(0, 0, 0, 0, 0)


@dataclass
class Piece:
    """Entries of a window, decoded and written together; `ends_window` gives its buffers back."""

    window: Window
    entries: NDArray[np.int64]
    ends_window: bool


@dataclass
class Lines:
    """The text of a piece and the offsets of its records; `failure` is what DumpLogSegments would have died of behind it."""

    chunks: list[tuple[Bytes, int]] = field(default_factory=list)
    offsets: list[NDArray[np.int64]] = field(default_factory=list)
    failure: KafkaLogError | None = None

    def add_text(self, parts: Iterator[str]) -> None:
        """Text made piece by piece, up to where it fails."""
        text: list[str] = []
        try:
            for part in parts:
                text.append(part)
        except KafkaLogError as error:
            self.failure = error
        encoded = np.frombuffer("".join(text).encode(), np.uint8)
        self.chunks.append((encoded, len(encoded)))


class SegmentDump:
    """The dump of one segment; `gaps` is filled while lines are taken."""

    def __init__(self, source: ByteSource, options: DumpOptions) -> None:
        self.source = source
        self.options = options
        self.stop = min(source.size, options.max_bytes)
        self.position = 0
        self.gaps = Gaps()
        self.buffers = WindowBuffers()
        self.decoder = LineDecoder(options, Limits())

    def lines(self) -> Iterator[memoryview]:
        """Text in chunks; each is good until the next one is asked for."""
        for piece in self._pieces():
            lines = self.decoder.write_odd(piece, Lines()) if isinstance(piece, OddEntry) else self.decoder.write(piece)
            for chunk, size in lines.chunks:
                yield chunk.data[:size]
                self.decoder.chunks.give_back(chunk)
            for offsets in lines.offsets:
                self.gaps.add(offsets)
            if isinstance(piece, Piece) and piece.ends_window:
                self.buffers.give_back(piece.window)
            if lines.failure is not None:
                raise lines.failure
        if self.position < self.stop and self.options.max_bytes == MAX_BYTES:
            name = os.path.basename(self.source.path)
            yield memoryview(f"Found {self.stop - self.position} invalid bytes at the end of {name}\n".encode())

    def _pieces(self) -> Iterator[Piece | OddEntry]:
        """The file up to where Kafka's reader ends it; CorruptBatch where that reader throws."""
        while True:
            walk = SegmentWalk(self.source, self.position, self.stop, self.decoder.limits)
            for window in walk.windows(self.buffers):
                self.position = window.position + len(window.data)
                yield from _cut(window)
            if isinstance(walk.problem, LimitExceeded):
                raise walk.problem
            odd = self._odd_entry()
            if odd is None:
                return
            yield odd
            self.position += odd.place.size

    def _odd_entry(self) -> OddEntry | None:
        """The entry that our walk refused and Kafka's takes; None where the file ends for both."""
        left = self.stop - self.position
        if left <= scan.FRONT:
            return None
        front = self.source.read(self.position, scan.FRONT)
        size = int.from_bytes(front[batch.BATCH_LENGTH_POSITION :][:4], "big", signed=True)
        if size < message.MIN_MESSAGE_SIZE:
            raise CorruptBatch(
                "length",
                file=self.source.path,
                position=self.position,
                expected=f"at least {message.MIN_MESSAGE_SIZE}",
                found=size,
                detail="Kafka's own reader ends here with a CorruptRecordException",
            )
        if size > left - batch.LOG_OVERHEAD:
            return None
        # Kafka reads a whole header even where the entry is shorter.
        place = Place(self.source.path, self.position, size + batch.LOG_OVERHEAD)
        return OddEntry(place, self.source.read(self.position, max(place.size, batch.HEADER_SIZE)))


def _cut(window: Window) -> Iterator[Piece]:
    entries = np.arange(window.count)
    step = COMPRESSED_ENTRIES if (window.fields[scan.ATTRIBUTES] & batch.CODEC_MASK).any() else window.count
    for start in range(0, window.count, step):
        yield Piece(window, entries[start : start + step], start + step >= window.count)


def _odd_entry(window: Window, entry: int) -> OddEntry:
    data = entry_bytes(window, entry).tobytes()
    return OddEntry(Place(window.file, int(window.fields[scan.POSITION, entry]), len(data)), data)


class LineDecoder(RecordDecoder):
    """Decodes entries and writes each group of records as text as soon as it is decoded."""

    def __init__(self, options: DumpOptions, limits: Limits) -> None:
        super().__init__(RecordRange(), limits, ALL_COLUMNS, check_crcs=False, stop_at_problem=True)
        self.options = options
        self.chunks = Chunks(CHUNK_BYTES)
        self.lines = Lines()
        self.valid: Bytes = np.empty(0, np.uint8)
        self.what = kernel.RECORDS if options.prints_records else 0
        self.what |= 0 if options.skip_record_metadata else kernel.METADATA
        self.what |= kernel.CONTENTS if options.prints_contents else 0
        self.what |= kernel.DECODED_BY_CALLER if options.contents is not None else 0

    def write(self, piece: Piece) -> Lines:
        """The lines of a piece."""
        window, entries = piece.window, piece.entries
        self.lines = Lines()
        self.valid = np.zeros(window.count, np.uint8)
        self.valid[entries] = crc_matches(window, entries)
        while len(entries) and self.lines.failure is None:
            entries = self._write_up_to_problem(window, entries)
        return self.lines

    def _write_up_to_problem(self, window: Window, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is left behind the first entry that only the plain-Python path can take."""
        unnamed = np.flatnonzero((window.fields[scan.ATTRIBUTES, entries] & batch.CODEC_MASK) > MAX_CODEC)
        ready = entries[: unnamed[0]] if len(unnamed) else entries
        odd = entries[len(ready)] if len(unnamed) else None
        if not self.options.prints_records:
            self._write_headers(window, ready)
        elif len(ready):
            problems = self.decode(window, ready).problems
            if problems:
                odd = problems[0].entry
        if odd is None:
            return entries[:0]
        self.write_odd(_odd_entry(window, int(odd)), self.lines)
        behind: NDArray[np.int64] = entries[entries > odd]
        return behind

    def _write_headers(self, window: Window, entries: NDArray[np.int64]) -> None:
        payloads: Ints = np.zeros((layout.PAYLOAD_FIELDS, len(entries)), np.int64)
        lay_out(window.table, entries, window.position, payloads)
        self._write_group(RecordColumns(window, self.wants, NO_ROOM), payloads)

    def write_odd(self, odd: OddEntry, lines: Lines) -> Lines:
        """`lines` with those of an odd entry added, and with its failure."""
        offsets: list[int] = []
        lines.add_text(odd.lines(self.options, offsets))
        lines.offsets.append(np.array(offsets, np.int64))
        return lines

    def keep(self, group: RecordColumns, payloads: Ints, decoded: DecodedWindow) -> None:
        if group.rows:
            self.expectation.learn(group, payloads)
        self.lines.offsets.append(group.offsets[: group.rows].copy())
        self._write_group(group, payloads)

    def _write_group(self, group: RecordColumns, payloads: Ints) -> None:
        lines = self.lines
        columns, headers = group.kernel_columns()
        number, row, status, out = 0, kernel.BATCH_LINE, kernel.FULL, self.chunks.take()
        while status != kernel.DONE and lines.failure is None:
            status, number, row, size = kernel.write_lines(
                group.window.data,
                group.window.table,
                self.valid,
                payloads,
                number,
                row,
                group.rows,
                self.what,
                columns,
                headers,
                kernel.WORDS,
                kernel.WORD_STARTS,
                out,
            )
            if status == kernel.LEFT_TO_CALLER:
                lines.chunks.append((out[:size].copy(), size))
                entry = int(payloads[layout.ENTRY, number])
                lines.add_text(_odd_entry(group.window, entry).record_lines(self.options, []))
                number, row = number + 1, kernel.BATCH_LINE
            elif size:
                lines.chunks.append((out, size))
                out = self.chunks.take() if status == kernel.FULL else out
            elif status == kernel.FULL:
                out = np.empty(4 * len(out), np.uint8)  # a line longer than a chunk
