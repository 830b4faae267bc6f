"""Turn a window of entries into the columns of its records: checksums, decompression, decoding, one copy into Arrow buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from kafkalog.format.java import MAX_INT32, MAX_INT64, MIN_INT64
from kafkalog.kernels import decode as kernel
from kafkalog.kernels import layout, native
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.crc import check_batches, check_messages
from kafkalog.kernels.decode_messages import message_parts
from kafkalog.kernels.decode_views import decode_views
from kafkalog.kernels.decompress import add_codec

from .columns import RecordColumns, ViewedColumns, allocate
from .memory import DecodeScratch, Expectation, borrowed_scratch, least_room
from .windows import Window, has_zero_sector, rows_of

LOWEST = MIN_INT64
HIGHEST = MAX_INT64
# Instead of columns: only offset and timestamp of every record are kept, but its whole structure is checked.
CHECKED = frozenset({"offset", "structure"})
WANTS = {
    "key": layout.KEY,
    "value": layout.VALUE,
    "headers": layout.HEADERS,
    "headers_raw": layout.HEADERS,
    "structure": layout.CHECK,
}
# The most that one call decodes, as columns; an ordinary window needs less. A single entry may need more, but then comes alone.
DECODED_BYTES = 64 << 20
LIMIT_STATUSES = (layout.OVER_RECORD_LIMIT, layout.OVER_HEADERS_LIMIT)


@dataclass(frozen=True)
class RecordRange:
    """Half-open ranges of offsets and of timestamps in milliseconds; HIGHEST as a stop is no bound and itself in the range."""

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
    """What is wrong with one entry of a window, or (`entry_stays`) directly before an entry that is itself intact."""

    entry: int
    error: SegmentError
    entry_stays: bool = False


@dataclass
class DecodedWindow:
    """The records of a window in one or more groups, and the entries that have none because they are damaged.

    `left` is the first entry (a row of the window) that was left for another call, because this one reached its limit.
    """

    window: Window
    groups: list[RecordColumns] = field(default_factory=list)
    problems: list[EntryProblem] = field(default_factory=list)
    left: int | None = None


class RecordDecoder:
    """Decodes windows, on any thread. With `stop_at_problem` nothing after the first damaged entry is decoded.

    With `keep_empty` there are also groups without records, of entries that hold none. With `views` keys and values are views of
    where they are, which no call copies: those of v2 batches from the start, others as soon as they are columns.
    """

    def __init__(
        self,
        record_range: RecordRange,
        limits: Limits,
        columns: frozenset[str],
        *,
        check_crcs: bool,
        stop_at_problem: bool,
        keep_empty: bool = False,
        views: bool = False,
    ) -> None:
        self.bounds = record_range.array(limits)
        self.limits = limits
        self.columns = columns
        self.wants = _wants(columns)
        self.check_crcs = check_crcs
        self.stop_at_problem = stop_at_problem
        self.keep_empty = keep_empty
        self.views = views
        self.expectation = Expectation()

    def decode(
        self,
        window: Window,
        entries: NDArray[np.int64],
        wanted: NDArray[np.bool_] | None = None,
        *,
        leave_large: bool = False,
    ) -> DecodedWindow:
        """The records within the range of those `entries` (ascending rows of the window) that are `wanted`; all are checked.

        With `leave_large` an entry that alone takes more than DECODED_BYTES is left, too: threads must not all hold one.
        """
        decoded = DecodedWindow(window)
        chosen = entries if wanted is None else entries[wanted]
        checks_in_kernel = self.check_crcs and wanted is None and self._can_check_in_kernel(window)
        if self.check_crcs and not checks_in_kernel:
            bad = entries[~crc_matches(window, entries)]
            if len(bad):
                chosen = self._without(bad, chosen, decoded)
        with borrowed_scratch() as scratch:
            _Work(self, scratch, window, decoded, chosen, leave_large).run(check_crcs=checks_in_kernel)
        if decoded.left is not None:  # a wrong checksum there is found again by the next call
            decoded.problems = [problem for problem in decoded.problems if problem.entry < decoded.left]
        decoded.problems.sort(key=lambda problem: problem.entry)
        return decoded

    def decode_in_parts(self, window: Window, entries: NDArray[np.int64]) -> Iterator[tuple[DecodedWindow, NDArray[np.int64]]]:
        """All of these entries in as many calls as needed: each part, valid until the next, with its entries."""
        while len(entries):
            decoded = self.decode(window, entries)
            done = len(entries) if decoded.left is None else int(np.searchsorted(entries, decoded.left))
            yield decoded, entries[:done]
            decoded.groups.clear()  # a caller that still holds the part must not hold its records while the next one is decoded
            entries = entries[done:]

    def _can_check_in_kernel(self, window: Window) -> bool:
        """Whether the decoding kernel can check too, which saves a pass over the memory."""
        finds_crc32 = not window.facts.legacy_count or native.crc32_function() != native.NOT_FOUND
        return finds_crc32 and native.crc32c_function() != native.NOT_FOUND

    def keep(self, group: RecordColumns, payloads: Ints, decoded: DecodedWindow) -> None:
        """Keep what was decoded of these payloads; their window and arena are reused afterwards."""
        if group.rows or (self.keep_empty and payloads.shape[1]):
            self.expectation.learn(group, payloads)
            group.close(payloads, self.columns)
            decoded.groups.append(group)

    def _without(self, bad: NDArray[np.int64], chosen: NDArray[np.int64], decoded: DecodedWindow) -> NDArray[np.int64]:
        """What is left to decode when the checksums of `bad` do not match."""
        for entry in bad[:1] if self.stop_at_problem else bad:
            decoded.problems.append(EntryProblem(int(entry), crc_error(decoded.window, int(entry))))
        return chosen[chosen < bad[0]] if self.stop_at_problem else np.setdiff1d(chosen, bad, assume_unique=True)


def _wants(columns: frozenset[str]) -> int:
    """What these columns need of a record besides its offset and timestamp."""
    wants = 0
    for name in columns:
        wants |= WANTS.get(name, 0)
    return wants


def crc_matches(window: Window, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the stored checksum of each entry matches its bytes."""
    if not window.facts.legacy_count:
        return _batches_match(window, entries)
    legacy = window.table.magic[entries] < 2
    if legacy.all():
        return _messages_match(window, entries)
    matches = np.empty(len(entries), np.bool_)
    matches[legacy] = _messages_match(window, entries[legacy])
    matches[~legacy] = _batches_match(window, entries[~legacy])
    return matches


def _messages_match(window: Window, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
    matches = np.empty(len(entries), np.bool_)
    check_messages(native.crc32_function(), window.data, window.table.fields, entries, window.position, matches)
    return matches


def _batches_match(window: Window, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
    function = native.crc32c_function()
    if function:
        matching = np.empty(len(entries), np.bool_)
        check_batches(function, window.data, window.table.fields, entries, window.position, matching)
        return matching
    view = window.data.data
    table = rows_of(window.entries, entries)
    starts = table.position - window.position
    bounds = zip((starts + batch.CRC_START).tolist(), (starts + table.size).tolist(), strict=True)
    computed = [crc32c(view[start:stop]) for start, stop in bounds]
    matches: NDArray[np.bool_] = np.array(computed, np.int64) == table.crc
    return matches


def entry_place(window: Window, entry: int) -> dict[str, Any]:
    """The place of an entry, as keyword arguments of a SegmentError."""
    header = window.table.header(entry)
    return {
        "file": window.file,
        "position": header.position,
        "length": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
    }


def entry_bytes(window: Window, entry: int) -> Bytes:
    header = window.table.header(entry)
    return window.data[header.position - window.position : header.stop - window.position]


def crc_error(window: Window, entry: int) -> SegmentError:
    """The error for a wrong checksum; a zeroed sector inside the entry means a torn write, not bytes that changed at rest."""
    data = entry_bytes(window, entry)
    header = window.table.header(entry)
    if has_zero_sector(data, header.position):
        return CorruptBatch("torn-write", **entry_place(window, entry), detail="its checksum does not match either")
    found = crc32c(data.data[batch.CRC_START :]) if header.magic == 2 else crc32(data.data[message.CRC_START :])
    return CorruptBatch("crc", **entry_place(window, entry), expected=header.crc, found=found)


class _TooLarge(Exception):
    """A payload that must wait until it is the only large one."""


class _Work:
    """Decodes one window into as many groups of columns as its records need."""

    def __init__(
        self,
        decoder: RecordDecoder,
        scratch: DecodeScratch,
        window: Window,
        decoded: DecodedWindow,
        entries: NDArray[np.int64],
        leave_large: bool,
    ) -> None:
        self.decoder = decoder
        self.leave_large = leave_large
        self.scratch = scratch
        self.window = window
        self.decoded = decoded
        # A row per message v0 or v1 makes this a megabyte for each window: from Arrow's pool it comes without page faults.
        _, payloads = allocate(layout.PAYLOAD_FIELDS * len(entries), np.int64)
        self.payloads: Ints = payloads.reshape(layout.PAYLOAD_FIELDS, len(entries))
        kernel.lay_out(window.table.fields, entries, window.position, self.payloads)
        self.stop = len(entries)
        self.copied_from = -1  # the payload at which views made no progress

    def run(self, *, check_crcs: bool) -> None:
        tools = self.scratch.tools(self.decoder.limits.decompressed_bytes, check_crcs=check_crcs)
        first, taken, wants = 0, 0, self.decoder.wants
        while first < self.stop:
            is_large = least_room(self.window.table, self.payloads, first, wants).size(wants) > DECODED_BYTES
            if taken >= DECODED_BYTES or (is_large and (taken or self.leave_large)):
                self._leave(first)
                return
            group = self._new_group(first)
            after = first + 1 if group is None else self._fill(group, first, tools)
            if group is not None and group.are_views and after == first:
                self.copied_from = first
            if group is not None and after > first:
                payloads = self.payloads[:, first:after]
                intact = payloads[layout.STATE] != layout.DROPPED
                payloads = np.ascontiguousarray(payloads if intact.all() else payloads[:, intact])
                taken += group.used().size(wants)
                self.decoder.keep(group, payloads, self.decoded)
            first = after

    def _leave(self, first: int) -> None:
        self.stop = first
        self.decoded.left = int(self.payloads[layout.ENTRY, first])

    def _new_group(self, first: int) -> RecordColumns | None:
        """None if there is no memory for its first payload, which is then a problem of that entry."""
        wants, expectation, views = self.decoder.wants, self.decoder.expectation, self.decoder.views
        entry = int(self.payloads[layout.ENTRY, first])
        is_viewed = views and first != self.copied_from and self._can_be_viewed(first)
        find_room = expectation.view_room if is_viewed else expectation.room
        room = find_room(self.window.table, self.payloads, first, wants)
        try:
            if is_viewed:
                return ViewedColumns(self.window, wants, room)
            return RecordColumns(self.window, wants, room, as_views=views)
        except (MemoryError, pa.ArrowMemoryError):
            wanted = f"{room.size(wants)} bytes of memory"
            self._drop(first, LimitExceeded("memory-limit", **entry_place(self.window, entry), expected=wanted, found="less"))
            return None

    def _can_be_viewed(self, first: int) -> bool:
        """Whether views can begin at this payload: one that is decompressed already is in an arena that will be reused."""
        entry, state = self.payloads[: layout.STATE + 1, first].tolist()
        is_batch = bool(self.window.table.magic[entry] == batch.MAX_MAGIC) and state != layout.READY
        return is_batch and self.decoder.wants & (layout.KEY | layout.VALUE) != 0 and self.window.size <= MAX_INT32

    def _drop(self, number: int, error: SegmentError) -> None:
        """The entry of this payload has no records, because of `error`."""
        self.payloads[layout.STATE, number] = layout.DROPPED
        self.decoded.problems.append(EntryProblem(int(self.payloads[layout.ENTRY, number]), error))
        if self.decoder.stop_at_problem:
            self.stop = number

    def _fill(self, group: RecordColumns, number: int, tools: Ints) -> int:
        """Decode payloads from `number` on; returns the number of the first one that is not in the group."""
        columns, headers = group.kernel_columns()
        entry = int(self.payloads[layout.ENTRY, number])
        while True:
            arena = group.arena if isinstance(group, ViewedColumns) else self.scratch.arena
            status, number, group.rows = self._kernel(group, entry)(
                self.window.data,
                arena,
                self.window.table.fields,
                self.payloads,
                number,
                self.window.position,
                tools,
                self.decoder.wants,
                self.decoder.bounds,
                group.rows,
                columns,
                headers,
            )
            if status in (layout.OK, layout.NO_ROOM):
                return int(number)
            entry = int(self.payloads[layout.ENTRY, number])
            if status == layout.LEFT and add_codec(tools, self._codec(entry)):
                continue
            if status in (layout.LEFT, layout.OTHER_FORMAT) and group.are_views:
                return int(number)
            if status == layout.OTHER_FORMAT:
                continue
            try:
                error = self._make_ready(number) if status == layout.LEFT else self._error(status, number)
            except _TooLarge:
                self._leave(number)
                return int(number)
            if error is not None:
                self._drop(number, error)
                if self.decoder.stop_at_problem:
                    return int(number)

    def _kernel(self, group: RecordColumns, entry: int) -> Callable[..., tuple[int, int, int]]:
        if group.are_views:
            return decode_views
        if self.window.table.magic[entry] != batch.MAX_MAGIC:
            return kernel.decode_old_formats
        return kernel.decode_records if self.decoder.wants & layout.KEPT else kernel.decode_positions

    def _error(self, status: int, number: int) -> SegmentError:
        entry = int(self.payloads[layout.ENTRY, number])
        if status == layout.BAD_CRC:
            return crc_error(self.window, entry)
        kind: Callable[..., SegmentError] = LimitExceeded if status in LIMIT_STATUSES else CorruptBatch
        return kind(layout.REASON_OF[status], **entry_place(self.window, entry))

    def _make_ready(self, number: int) -> SegmentError | None:
        """Decompress a payload that the kernel left, or return what is wrong with it."""
        entry, _, start, stop = self.payloads[:4, number].tolist()
        magic = int(self.window.table.magic[entry])
        try:
            if magic < 2:
                start, stop = self._wrapped(entry, start, stop, magic)
            size = self._decompress(entry, magic, self.window.data.data[start:stop])
        except SegmentError as error:
            return error
        self.payloads[layout.STATE : layout.STOP + 1, number] = layout.READY, 0, size
        return None

    def _decompress(self, entry: int, magic: int, payload: memoryview) -> int:
        """The size of the decompressed payload, which is at the start of the arena."""
        codec = self._codec(entry)
        limit = self.decoder.limits.decompressed_bytes
        while True:
            room = self.scratch.arena.data[:limit]
            try:
                return codecs.decompress(codec, payload, room, magic=magic)
            except OutputFull:
                place = entry_place(self.window, entry)
                if len(room) == limit:
                    raise LimitExceeded("decompressed-limit", **place, expected=f"at most {limit} bytes") from None
                if self.leave_large and 4 * len(room) > DECODED_BYTES:
                    raise _TooLarge from None
                self._enlarge_arena(min(4 * len(room), limit), place)
            except CodecError as error:
                raise CorruptBatch(error.reason, **entry_place(self.window, entry), detail=str(error)) from error

    def _codec(self, entry: int) -> int:
        return int(self.window.table.attributes[entry]) & batch.CODEC_MASK

    def _enlarge_arena(self, size: int, place: dict[str, Any]) -> None:
        try:
            self.scratch.enlarge_arena(size)
        except MemoryError as error:
            raise LimitExceeded("memory-limit", **place) from error

    def _wrapped(self, entry: int, start: int, stop: int, magic: int) -> tuple[int, int]:
        """Start and stop of the compressed value of a wrapper message."""
        status, _, _, value_start, value_size = message_parts(self.window.data, start, stop, magic)
        if status != layout.OK or value_size < 0:
            raise CorruptBatch("record-structure", **entry_place(self.window, entry), detail="a wrapper message without a value")
        return value_start, value_start + value_size
