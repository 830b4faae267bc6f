"""The lines of a `.log` or `.checkpoint` file: windows of entries are decoded and written as text by kernels.

A single thread does everything: with two, the work per line is so little that they only waited for each other (measured).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, KafkaLogError, LimitExceeded, Limits
from kafkalog.format import batch, message
from kafkalog.format.entry_front import FRONT_SIZE
from kafkalog.kernels import dump_lines as kernel
from kafkalog.kernels import layout
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
MAX_CODEC = len(batch.CODEC_NAMES) - 1
ALL_COLUMNS = frozenset({"key", "value", "headers"})
NO_ROOM = Room(0, 0, 0, 0, 0)


# Text, and how much of the buffer it is in.
Chunk = tuple[Bytes, int]


class SegmentDump:
    """The dump of one segment; `gaps` is filled while lines are read."""

    def __init__(self, source: ByteSource, options: DumpOptions) -> None:
        self.source = source
        self.options = options
        self.stop = min(source.size, options.max_bytes)
        self.position = 0
        self.gaps = Gaps()
        self.buffers = WindowBuffers()
        self.decoder = LineDecoder(options, Limits(), self.gaps)

    def lines(self) -> Iterator[memoryview]:
        """Text in chunks; each is valid until the next one is requested."""
        for piece in self._pieces():
            written = self.decoder.write_odd(piece) if isinstance(piece, OddEntry) else self.decoder.write(piece)
            for chunk, size in written:
                yield chunk.data[:size]
                self.decoder.chunks.give_back(chunk)
            if isinstance(piece, Window):
                self.buffers.give_back(piece)
            if self.decoder.failure is not None:
                raise self.decoder.failure
        if self.position < self.stop and self.options.max_bytes == MAX_BYTES:
            name = os.path.basename(self.source.path)
            yield memoryview(f"Found {self.stop - self.position} invalid bytes at the end of {name}\n".encode())

    def _pieces(self) -> Iterator[Window | OddEntry]:
        """The file up to where Kafka's reader ends it; CorruptBatch where that reader throws."""
        while True:
            walk = SegmentWalk(self.source, self.position, self.stop, self.decoder.limits)
            for window in walk.windows(self.buffers):
                self.position = window.position + len(window.data)
                yield window
            if isinstance(walk.problem, LimitExceeded):
                raise walk.problem
            odd = self._odd_entry()
            if odd is None:
                return
            yield odd
            self.position += odd.place.size

    def _odd_entry(self) -> OddEntry | None:
        """The entry that our walk refused and Kafka's accepts; None where the file ends for both."""
        left = self.stop - self.position
        if left <= FRONT_SIZE:
            return None
        front = self.source.read(self.position, FRONT_SIZE)
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


def _chunk(text: list[str]) -> Chunk:
    encoded = np.frombuffer("".join(text).encode(), np.uint8)
    return encoded, len(encoded)


def _odd_entry(window: Window, entry: int) -> OddEntry:
    data = entry_bytes(window, entry).tobytes()
    return OddEntry(Place(window.file, int(window.entries.position[entry]), len(data)), data)


class LineDecoder(RecordDecoder):
    """Decodes entries and writes each group of records as text, which is not kept: it can be much larger than the records.

    `failure` is what DumpLogSegments would have died of after the text so far.
    """

    def __init__(self, options: DumpOptions, limits: Limits, gaps: Gaps) -> None:
        super().__init__(RecordRange(), limits, ALL_COLUMNS, check_crcs=False, stop_at_problem=True)
        self.options = options
        self.chunks = Chunks(CHUNK_BYTES)
        self.gaps = gaps
        self.failure: KafkaLogError | None = None
        self.waiting: list[tuple[RecordColumns, Ints]] = []
        self.valid: Bytes = np.empty(0, np.uint8)
        self.what = kernel.RECORDS if options.prints_records else 0
        self.what |= 0 if options.skip_record_metadata else kernel.METADATA
        self.what |= kernel.CONTENTS if options.prints_contents else 0
        self.what |= kernel.DECODED_BY_CALLER if options.contents is not None else 0

    def write(self, window: Window) -> Iterator[Chunk]:
        """The lines of a window."""
        entries = np.arange(window.count)
        self.valid = crc_matches(window, entries).astype(np.uint8)
        while len(entries) and self.failure is None:
            entries = yield from self._write_some(window, entries)

    def _write_some(self, window: Window, entries: NDArray[np.int64]) -> Generator[Chunk, None, NDArray[np.int64]]:
        """As much as is decoded at once, up to the first entry that only plain Python can handle; returns the entries left."""
        unnamed = np.flatnonzero((window.entries.attributes[entries] & batch.CODEC_MASK) > MAX_CODEC)
        ready = entries[: unnamed[0]] if len(unnamed) else entries
        odd = entries[len(ready)] if len(unnamed) else None
        if not self.options.prints_records:
            yield from self._write_headers(window, ready)
        elif len(ready):
            decoded = self.decode(window, ready)
            while self.waiting:
                yield from self._write_group(*self.waiting.pop(0))
            if decoded.left is not None:
                return entries[entries >= decoded.left]
            if decoded.problems:
                odd = decoded.problems[0].entry
        if odd is None:
            return entries[:0]
        if self.failure is None:
            yield from self.write_odd(_odd_entry(window, int(odd)))
        following: NDArray[np.int64] = entries[entries > odd]
        return following

    def _write_headers(self, window: Window, entries: NDArray[np.int64]) -> Iterator[Chunk]:
        payloads: Ints = np.zeros((layout.PAYLOAD_FIELDS, len(entries)), np.int64)
        lay_out(window.table.fields, entries, window.position, payloads)
        yield from self._write_group(RecordColumns(window, self.wants, NO_ROOM), payloads)

    def write_odd(self, odd: OddEntry) -> Iterator[Chunk]:
        """The lines of an odd entry, up to where it fails."""
        offsets: list[int] = []
        yield from self._encoded(odd.lines(self.options, offsets))
        self.gaps.add(np.array(offsets, np.int64))

    def _encoded(self, parts: Iterator[str]) -> Iterator[Chunk]:
        """Text made piece by piece, up to where it fails."""
        text: list[str] = []
        size = 0
        try:
            for part in parts:
                text.append(part)
                size += len(part)
                if size > CHUNK_BYTES:
                    yield _chunk(text)
                    text, size = [], 0
        except KafkaLogError as error:
            self.failure = error
        yield _chunk(text)

    def keep(self, group: RecordColumns, payloads: Ints, decoded: DecodedWindow) -> None:
        if group.rows:
            self.expectation.learn(group, payloads)
        self.waiting.append((group, payloads))

    def _write_group(self, group: RecordColumns, payloads: Ints) -> Iterator[Chunk]:
        self.gaps.add(group.offsets[: group.rows])
        columns, headers = group.kernel_columns()
        number, row, status, out = 0, kernel.BATCH_LINE, kernel.FULL, self.chunks.take()
        while status != kernel.DONE and self.failure is None:
            status, number, row, size = kernel.write_lines(
                group.window.data,
                group.window.table.fields,
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
                yield out[:size].copy(), size
                entry = int(payloads[layout.ENTRY, number])
                yield from self._encoded(_odd_entry(group.window, entry).record_lines(self.options, []))
                number, row = number + 1, kernel.BATCH_LINE
            elif size:
                yield out, size
                out = self.chunks.take() if status == kernel.FULL else out
            elif status == kernel.FULL:
                out = np.empty(4 * len(out), np.uint8)  # a line longer than a chunk
