"""Turn a window of entries into the columns of its records: checksums, decompression, decoding, one copy into Arrow buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from isal.isal_zlib import crc32
from numpy.typing import NDArray

from kafkalog import codecs
from kafkalog.errors import CodecError, CorruptBatch, LimitExceeded, Limits, OutputFull, SegmentError
from kafkalog.format import batch, message
from kafkalog.kernels import decode as kernel
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.crc import digit_tables, expected_crc32
from kafkalog.kernels.gather import check_messages

from .columns import DecodeScratch, RecordColumns
from .windows import Window, has_zero_sector, rows_of

LOWEST = -(1 << 63)
HIGHEST = (1 << 63) - 1
PAYLOAD_COLUMNS = frozenset({"key", "value"})
HEADER_COLUMNS = frozenset({"headers", "headers_raw"})
LIMIT_STATUSES = (kernel.OVER_RECORD_LIMIT, kernel.OVER_HEADERS_LIMIT)


@dataclass(frozen=True)
class RecordRange:
    """Half-open ranges of offsets and of timestamps in milliseconds; HIGHEST as a stop is no bound, so it is within too."""

    start_offset: int = LOWEST
    stop_offset: int = HIGHEST
    start_time_ms: int = LOWEST
    stop_time_ms: int = HIGHEST

    @property
    def last_offset(self) -> int:
        """The highest offset within the range."""
        return self.stop_offset if self.stop_offset == HIGHEST else self.stop_offset - 1

    @property
    def last_time_ms(self) -> int:
        return self.stop_time_ms if self.stop_time_ms == HIGHEST else self.stop_time_ms - 1

    def array(self, limits: Limits) -> Ints:
        return np.array(
            [
                self.start_offset,
                self.last_offset,
                self.start_time_ms,
                self.last_time_ms,
                limits.record_bytes,
                limits.headers_per_record,
            ],
            np.int64,
        )


@dataclass
class EntryProblem:
    """What is wrong with one entry of a window, or (`entry_stays`) right before one that is itself in order."""

    entry: int
    error: SegmentError
    entry_stays: bool = False


@dataclass
class DecodedWindow:
    """The records of a window in one or more groups, and the entries that gave none because they are damaged."""

    window: Window
    groups: list[RecordColumns] = field(default_factory=list)
    problems: list[EntryProblem] = field(default_factory=list)


class RecordDecoder:
    """Decodes windows, on any thread. With `stop_at_problem` nothing behind the first damaged entry is decoded."""

    def __init__(
        self, record_range: RecordRange, limits: Limits, columns: frozenset[str], *, check_crcs: bool, stop_at_problem: bool
    ) -> None:
        self.bounds = record_range.array(limits)
        self.limits = limits
        self.columns = columns
        self.depth = _depth(columns)
        self.check_crcs = check_crcs
        self.stop_at_problem = stop_at_problem
        self.scratch = DecodeScratch()

    def decode(self, window: Window, entries: NDArray[np.int64], wanted: NDArray[np.bool_] | None = None) -> DecodedWindow:
        """The records within the range of those `entries` (ascending rows of the window) that are `wanted`; all are checked."""
        decoded = DecodedWindow(window)
        chosen = entries if wanted is None else entries[wanted]
        if self.check_crcs:
            bad = entries[~crc_matches(window, entries)]
            if len(bad):
                chosen = self._without(bad, chosen, decoded)
        _Work(self, window, decoded, chosen).run()
        decoded.problems.sort(key=lambda problem: problem.entry)
        return decoded

    def keep(self, group: RecordColumns, decoded: DecodedWindow) -> None:
        """Take what leaves of a decoded group; its window and arena are used again afterwards."""
        if group.rows:
            group.gather(self.columns)
            decoded.groups.append(group)

    def _without(self, bad: NDArray[np.int64], chosen: NDArray[np.int64], decoded: DecodedWindow) -> NDArray[np.int64]:
        """What is left to decode when the checksums of `bad` do not fit."""
        for entry in bad[:1] if self.stop_at_problem else bad:
            decoded.problems.append(EntryProblem(int(entry), crc_error(decoded.window, int(entry))))
        return chosen[chosen < bad[0]] if self.stop_at_problem else np.setdiff1d(chosen, bad, assume_unique=True)


def _depth(columns: frozenset[str]) -> int:
    """How far a record has to be decoded for these columns."""
    if columns & HEADER_COLUMNS:
        return kernel.HEADERS
    return kernel.PAYLOADS if columns & PAYLOAD_COLUMNS else kernel.POSITIONS


def crc_matches(window: Window, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the stored checksum of each entry fits its bytes."""
    fields = rows_of(window.fields, entries)
    starts = fields[scan.POSITION] - window.position
    stops = starts + fields[scan.SIZE]
    if not window.facts[scan.LEGACY_COUNT]:
        return _batches_match(window, starts, stops, fields[scan.CRC])
    legacy = fields[scan.MAGIC] < 2
    if legacy.all():
        return _messages_match(window, starts, stops, fields[scan.CRC])
    matches = np.empty(len(entries), np.bool_)
    matches[legacy] = _messages_match(window, starts[legacy], stops[legacy], fields[scan.CRC, legacy])
    matches[~legacy] = _batches_match(window, starts[~legacy], stops[~legacy], fields[scan.CRC, ~legacy])
    return matches


def _messages_match(window: Window, starts: Ints, stops: Ints, crcs: Ints) -> NDArray[np.bool_]:
    matches = np.ones(len(starts), np.bool_)
    if len(starts) and not _all_messages_match(window, starts, stops, crcs):
        check_messages(window.data, starts + message.CRC_START, stops, crcs, matches)
    return matches


def _all_messages_match(window: Window, starts: Ints, stops: Ints, crcs: Ints) -> bool:
    """Whether one checksum over all of them proves every message right; False if they do not lie side by side, or one is not."""
    if (starts[1:] != stops[:-1]).any():
        return False
    expected = expected_crc32(digit_tables(), window.data, starts, stops, crcs)
    return bool(expected == crc32(window.data.data[int(starts[0]) : int(stops[-1])]))


def _batches_match(window: Window, starts: Ints, stops: Ints, crcs: Ints) -> NDArray[np.bool_]:
    view = window.data.data
    bounds = zip((starts + batch.CRC_START).tolist(), stops.tolist(), strict=True)
    computed = [crc32c(view[start:stop]) for start, stop in bounds]
    matches: NDArray[np.bool_] = np.array(computed, np.int64) == crcs
    return matches


def entry_place(window: Window, entry: int) -> dict[str, Any]:
    """Where an entry is, as the keyword arguments of a SegmentError."""
    fields = window.fields[:, entry]
    return {
        "file": window.file,
        "position": int(fields[scan.POSITION]),
        "length": int(fields[scan.SIZE]),
        "base_offset": int(fields[scan.BASE_OFFSET]),
        "last_offset": int(fields[scan.LAST_OFFSET]),
    }


def entry_bytes(window: Window, entry: int) -> Bytes:
    start = int(window.fields[scan.POSITION, entry]) - window.position
    return window.data[start : start + int(window.fields[scan.SIZE, entry])]


def crc_error(window: Window, entry: int) -> SegmentError:
    """A checksum that does not fit; a zeroed sector inside the entry tells a torn write from bytes that changed at rest."""
    data = entry_bytes(window, entry)
    if has_zero_sector(data, int(window.fields[scan.POSITION, entry])):
        return CorruptBatch("torn-write", **entry_place(window, entry), detail="its checksum does not fit either")
    found = (
        crc32c(data.data[batch.CRC_START :]) if window.fields[scan.MAGIC, entry] == 2 else crc32(data.data[message.CRC_START :])
    )
    return CorruptBatch("crc", **entry_place(window, entry), expected=int(window.fields[scan.CRC, entry]), found=found)


class _Work:
    """The decoding of one window: entries are decompressed into the arena until it is full, then decoded as one group."""

    def __init__(self, decoder: RecordDecoder, window: Window, decoded: DecodedWindow, entries: NDArray[np.int64]) -> None:
        self.decoder = decoder
        self.window = window
        self.decoded = decoded
        self.payloads: Ints = np.empty((kernel.PAYLOAD_FIELDS, len(entries)), np.int64)
        kernel.lay_out(window.table, entries, window.position, self.payloads)
        self.placed: list[tuple[int, int, int]] = []  # number of a payload, and where in the arena it starts and stops
        self.group_start = 0
        self.stop = len(entries)
        self.used = 0

    def run(self) -> None:
        compressed = np.flatnonzero(self.payloads[kernel.IN_ARENA])
        if len(compressed):
            self._decompress_all(compressed)
        self._flush(self.stop)

    def _decompress_all(self, numbers: NDArray[np.int64]) -> None:
        """Decompress the payloads of these numbers one after the other into the arena."""
        entries = self.payloads[kernel.ENTRY, numbers]
        codec_ids = (self.window.table[scan.ATTRIBUTES, entries] & batch.CODEC_MASK).tolist()
        magics = self.window.table[scan.MAGIC, entries].tolist()
        starts, stops = self.payloads[kernel.START, numbers].tolist(), self.payloads[kernel.STOP, numbers].tolist()
        rows = zip(numbers.tolist(), entries.tolist(), codec_ids, magics, starts, stops, strict=True)
        data = self.window.data.data
        for number, entry, codec, magic, start, stop in rows:
            try:
                if magic < 2:
                    start, stop = self._wrapped(entry, start, stop, magic)
                size = self._decompress(number, entry, codec, magic, data[start:stop])
            except SegmentError as error:
                self.placed.append((number, 0, kernel.DROPPED))
                if self._failed(entry, error):
                    self.stop = number
                    return
            else:
                self.placed.append((number, self.used, self.used + size))
                self.used += size

    def _failed(self, entry: int, error: SegmentError) -> bool:
        self.decoded.problems.append(EntryProblem(entry, error))
        return self.decoder.stop_at_problem

    def _decompress(self, number: int, entry: int, codec: int, magic: int, payload: memoryview) -> int:
        """How many bytes the payload gave; they begin at `used` in the arena."""
        limit = self.decoder.limits.decompressed_bytes
        while True:
            room = self.decoder.scratch.view[self.used : self.used + limit]
            try:
                return codecs.decompress(codec, payload, room, magic=magic)
            except OutputFull:
                if len(room) == limit:
                    place = entry_place(self.window, entry)
                    raise LimitExceeded("decompressed-limit", **place, expected=f"at most {limit} bytes") from None
                self._make_room(number)
            except CodecError as error:
                raise CorruptBatch(error.reason, **entry_place(self.window, entry), detail=str(error)) from error

    def _wrapped(self, entry: int, start: int, stop: int, magic: int) -> tuple[int, int]:
        """Where the compressed value of a wrapper message lies."""
        status, _, _, value_start, value_size = kernel.message_parts(self.window.data, start, stop, magic)
        if status != kernel.OK or value_size < 0:
            raise CorruptBatch("record-structure", **entry_place(self.window, entry), detail="a wrapper message without a value")
        return value_start, value_start + value_size

    def _make_room(self, number: int) -> None:
        """An empty arena, or a larger one if it is empty already."""
        if self.used:
            self._flush(number)
            return
        size = min(4 * len(self.decoder.scratch.arena), self.decoder.limits.decompressed_bytes)
        self.decoder.scratch.enlarge_arena(size)

    def _flush(self, stop: int) -> None:
        """Decode the payloads up to number `stop` into a group of columns."""
        if self.placed:
            numbers, starts, stops = np.array(self.placed, np.int64).T
            self.payloads[kernel.START, numbers], self.payloads[kernel.STOP, numbers] = starts, stops
            self.placed = []
        payloads = self.payloads[:, self.group_start : stop]
        intact = payloads[kernel.STOP] != kernel.DROPPED
        payloads = np.ascontiguousarray(payloads if intact.all() else payloads[:, intact])
        self.group_start = stop
        self.used = 0
        if not payloads.shape[1]:
            return
        # A record outside the range is written to the row behind the last one kept.
        capacity = kernel.row_capacity(self.window.table, payloads) + 1
        scratch = self.decoder.scratch
        try:
            group = RecordColumns(self.window, payloads, scratch, capacity)
        except (MemoryError, pa.ArrowMemoryError) as error:
            raise LimitExceeded("memory-limit", **entry_place(self.window, int(payloads[kernel.ENTRY, 0]))) from error
        self._decode(group)
        self.decoder.keep(group, self.decoded)

    def _decode(self, group: RecordColumns) -> None:
        first = 0
        while True:
            status, first, group.rows = kernel.decode(
                self.window.data,
                group.scratch.arena,
                self.window.table,
                group.payloads,
                first,
                self.decoder.depth,
                self.decoder.bounds,
                group.rows,
                group.kernel_columns(),
                group.scratch.totals,
            )
            if status == kernel.OK:
                return
            entry = int(group.payloads[kernel.ENTRY, first])
            kind: Callable[..., SegmentError] = LimitExceeded if status in LIMIT_STATUSES else CorruptBatch
            if self._failed(entry, kind(kernel.REASON_OF[status], **entry_place(self.window, entry))):
                group.payloads = np.ascontiguousarray(group.payloads[:, :first])
                return
            first += 1
