"""Memory that decoding uses: the arena that is reused for window after window, and how large the columns of a group are made.

Columns are sized in proportion to what the groups before needed. That is a guess, and no number in a file may make it large: a
payload that turns out to be larger gets its exact room.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels import layout, native
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.decode import expect
from kafkalog.kernels.decode_messages import MIN_INNER_ENTRY
from kafkalog.kernels.decompress import TOOL_COUNT

from .columns import SLOT_OF_VIEW, RecordColumns, Room

ARENA_BYTES = 1 << 20
MAX_KEPT_BYTES = 16 << 20
MAX_KEPT = 8


class DecodeScratch:
    """The arena for one decompressed payload, and what libzstd and ISA-L's inflate work in; for one thread at a time."""

    def __init__(self) -> None:
        self.enlarge_arena(ARENA_BYTES)
        self._zstd_context: native.ZstdContext | None = None
        self._tools: Ints | None = None

    def enlarge_arena(self, size: int) -> None:
        self.arena: Bytes = np.empty(size, np.uint8)

    def tools(self, payload_limit: int, *, check_crcs: bool) -> Ints:
        """C functions and limits for `kernels.decode`."""
        tools = self._tools if self._tools is not None else self._make_tools()
        tools[layout.CRC32C_FUNCTION] = native.crc32c_function() if check_crcs else native.NOT_FOUND
        tools[layout.MESSAGE_CRC_FUNCTION] = native.crc32_function() if check_crcs else native.NOT_FOUND
        tools[layout.PAYLOAD_LIMIT] = payload_limit
        return tools

    def _make_tools(self) -> Ints:
        tools = self._tools = np.zeros(TOOL_COUNT, np.int64)
        tools[layout.LZ4_FUNCTION] = native.lz4_function()
        tools[layout.XXH32_FUNCTION] = native.xxh32_function()
        tools[layout.ZSTD_FUNCTION] = native.zstd_function()
        if tools[layout.ZSTD_FUNCTION]:
            self._zstd_context = native.ZstdContext()
            tools[layout.ZSTD_CONTEXT] = self._zstd_context.address
        tools[layout.INFLATE_FUNCTION] = native.inflate_function()
        tools[layout.CRC32_FUNCTION] = native.crc32_function()
        native.initialise_inflate(tools[layout.INFLATE_STATE :].ctypes.data)
        return tools


_free: list[DecodeScratch] = []


@contextmanager
def borrowed_scratch() -> Iterator[DecodeScratch]:
    """A scratch for this thread alone, kept for the next one afterwards."""
    try:
        scratch = _free.pop()
    except IndexError:
        scratch = DecodeScratch()
    yield scratch
    if len(_free) < MAX_KEPT and len(scratch.arena) <= MAX_KEPT_BYTES:
        _free.append(scratch)


# A group of about this many bytes is worth its overhead; a larger one is split.
GROUP_BYTES = 8 << 20
SLACK = 1.125


@dataclass
class Expectation:
    """The output per byte of log in the last group: a guess that affects only the number of groups."""

    payload: float = 2.0
    keys: float = 0.5
    values: float = 2.0
    headers: float = 0.05
    header_bytes: float = 0.25

    def room(self, entries: EntryTable, payloads: Ints, first: int, wants: int) -> Room:
        """Room for the payloads from `first` on, or some of them; always for the first, if its size is known."""
        total, greatest, records = expect(entries.fields, payloads, first)
        known_records, known = _known(entries, payloads, first)
        # The kernel begins a payload only if all of it fits, whatever it contains.
        reserve = max(min(int(greatest * max(self.payload, 1.0)), GROUP_BYTES), known)
        scale = min(total * SLACK, GROUP_BYTES / max(self.values, self.keys, self.payload, 1.0))
        most_records = max(int(scale * self.payload) + min(reserve, GROUP_BYTES), GROUP_BYTES) // batch.MIN_RECORD_SIZE
        wants_headers = wants & layout.HEADERS != 0
        return Room(
            records=max(min(records, most_records), known_records),
            key_bytes=int(scale * self.keys) + reserve if wants & layout.KEY else 0,
            value_bytes=int(scale * self.values) + reserve if wants & layout.VALUE else 0,
            headers=int(scale * self.headers) + reserve // layout.LEAST_HEADER if wants_headers else 0,
            header_bytes=int(scale * self.header_bytes) + reserve if wants_headers else 0,
        )

    def view_room(self, entries: EntryTable, payloads: Ints, first: int, wants: int) -> Room:
        """As `room` for views of v2 batches: instead of keys and values the decompressed payloads are kept."""
        room = self.room(entries, payloads, first, wants & ~(layout.KEY | layout.VALUE))
        is_compressed = payloads[layout.STATE, first:] & layout.COMPRESSED != 0
        sizes = (payloads[layout.STOP, first:] - payloads[layout.START, first:])[is_compressed]
        payload_bytes = 0
        if len(sizes):
            ratio = max(self.payload, 1.0)
            payload_bytes = int(min(sizes.sum() * SLACK * ratio, GROUP_BYTES) + min(sizes.max() * SLACK * ratio, GROUP_BYTES))
        return replace(room, payload_bytes=payload_bytes, slot=SLOT_OF_VIEW)

    def learn(self, group: RecordColumns, payloads: Ints) -> None:
        """Update the guess from a group that was filled from these payloads."""
        stored = max(int(group.window.table.size[payloads[layout.ENTRY]].sum()), 1)
        self.payload = max(int((payloads[layout.STOP] - payloads[layout.START]).sum()), 1) / stored
        used = group.used()
        self.keys, self.values = used.key_bytes / stored, used.value_bytes / stored
        self.headers, self.header_bytes = used.headers / stored, used.header_bytes / stored


def least_room(entries: EntryTable, payloads: Ints, number: int, wants: int) -> Room:
    """The room that the payload needs alone if it is decompressed or was never compressed; otherwise less than it needs."""
    records, content = _known(entries, payloads, number)
    return Room(
        records=records,
        key_bytes=content if wants & layout.KEY else 0,
        value_bytes=content if wants & layout.VALUE else 0,
        headers=content // layout.LEAST_HEADER if wants & layout.HEADERS else 0,
        header_bytes=content if wants & layout.HEADERS else 0,
    )


def _known(entries: EntryTable, payloads: Ints, number: int) -> tuple[int, int]:
    """(records, bytes of their contents) that a payload holds at most if it is decompressed or was never compressed."""
    entry = int(payloads[layout.ENTRY, number])
    size = int(payloads[layout.STOP, number] - payloads[layout.START, number])
    if entries.magic[entry] < 2:
        return size // MIN_INNER_ENTRY + 1, size
    count = min(max(int(entries.record_count[entry]), 0), size // batch.MIN_RECORD_SIZE)
    return count + 1, size - count * layout.LEAST_FRONT
