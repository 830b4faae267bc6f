"""Buffers for the cleaner's kernels, and the walk through a chunk that feeds them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkalog import codecs
from kafkalog.errors import KafkaLogError, Limits, OutputFull
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.java import MAX_INT32
from kafkalog.kernels import compact_select as kernel
from kafkalog.kernels import compact_write, scan
from kafkalog.kernels.bytes import Bytes, Ints
from kafkalog.kernels.decompress import add_codec
from kafkalog.kernels.lz4 import BLOCK_BOUND
from kafkalog.kernels.native import lz4_compress_function
from kafkalog.kernels.offset_map import Words
from kafkalog.segment.memory import DecodeScratch

from ..entries import Batch, Buffer, Entry, entry_at, entry_size

# No powers of two: columns a multiple of 4 KiB apart would all fall into the same few cache lines.
TABLE_ENTRIES: Final = (1 << 13) - 24
FIRST_RECORDS: Final = (1 << 12) - 24
FIRST_BYTES: Final = 1 << 20
BATCH_LIMIT: Final = MAX_INT32


class Workspace:
    """Buffers of one cleaner, reused for every chunk; they grow to hold one batch at most."""

    def __init__(self) -> None:
        self.entries = EntryTable.with_room(TABLE_ENTRIES)
        self.totals: Ints = np.zeros(compact_write.TOTAL_FIELDS, np.int64)
        self.rules: Ints = np.zeros(kernel.RULE_FIELDS, np.int64)
        self._scratch = DecodeScratch()  # owns the memory that its tools point to
        self.tools = self._scratch.tools(Limits.decompressed_bytes, check_crcs=True)
        self.lz4_compress = lz4_compress_function()
        self.buffers = kernel.Buffers(
            arena := _bytes(FIRST_BYTES),
            _read_only(arena),
            *_record_tables(FIRST_RECORDS),
            raw=_bytes(FIRST_BYTES),
            output=_bytes(FIRST_BYTES),
        )

    @property
    def written(self) -> int:
        """The size of the output."""
        return int(self.totals[compact_write.WRITTEN])

    @property
    def output(self) -> memoryview:
        return self.buffers.output[: self.written].data

    def begin(self) -> None:
        """Start a new chunk: nothing read, nothing written."""
        self.totals[:] = 0
        self.totals[compact_write.MAX_OFFSET] = -1

    def grow(self, records: int, size: int) -> None:
        """Make room after the output for a batch of this many records and `size` uncompressed bytes."""
        needed = 2 * size + records * compact_write.MOST_GROWTH + BLOCK_BOUND + batch.HEADER_SIZE
        if records > self.buffers.records.shape[1]:
            table, hashes = _record_tables(records)
            self.buffers = self.buffers._replace(records=table, hashes=hashes)
        if needed > len(self.buffers.raw):
            self.buffers = self.buffers._replace(raw=_bytes(2 * needed))
        if self.written + needed > len(self.buffers.output):
            output = _bytes(2 * (self.written + needed))
            output[: self.written] = self.buffers.output[: self.written]
            self.buffers = self.buffers._replace(output=output)

    def decompress(self, codec: int, payload: memoryview) -> int:
        """Decompress a payload into the arena; its size there. CodecError if it is damaged or exceeds the limit."""
        while True:
            try:
                return codecs.decompress(codec, payload, self.buffers.arena.data)
            except OutputFull:
                size = len(self.buffers.arena)
                if size >= Limits.decompressed_bytes:
                    raise
            arena = _bytes(min(4 * size, Limits.decompressed_bytes))
            self.buffers = self.buffers._replace(arena=arena, payload=_read_only(arena))

    def put(self, data: Buffer, start: int) -> None:
        """Write bytes to the output."""
        if start + len(data) > len(self.buffers.output):
            self.grow(0, start - self.written + len(data))
        self.buffers.output[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def compress_raw(self, codec: int) -> bytes:
        """Compress the records that wait for it."""
        return codecs.compress(codec, self.buffers.raw[: self.totals[compact_write.RAW]].data)


def _bytes(size: int) -> Bytes:
    return np.empty(size, np.uint8)


def _read_only(array: Bytes) -> Bytes:
    """A read-only view, like the chunks that kernels get: they are compiled for one kind of array."""
    view = array.view()
    view.flags.writeable = False
    return view


def _record_tables(records: int) -> tuple[Ints, Words]:
    columns = records + 8 if records % 512 == 0 else records
    return np.empty((compact_write.RECORD_FIELDS, columns), np.int64), np.empty((2, columns), np.uint64)


class Walk:
    """The entries of one chunk, window by window: `count` headers at a time, in the `entries` of the workspace."""

    def __init__(self, workspace: Workspace, chunk: bytes, position: int) -> None:
        self.workspace = workspace
        self.chunk = chunk
        self.position = position  # in the file, of the chunk
        self.data: Bytes = np.frombuffer(chunk, np.uint8)
        self.at = 0
        self.count = 0

    def next_window(self) -> bool:
        """Read the headers of the entries from `at` on; whether anything follows: more entries, or an odd one."""
        status, self.count, self.at = scan.scan_window(
            self.data, self.at, len(self.chunk), self.position, BATCH_LIMIT, self.workspace.entries.fields
        )
        return bool(status != scan.END)

    @property
    def entries(self) -> EntryTable:
        return self.workspace.entries[: self.count]

    def entry(self, row: int) -> Entry:
        position = int(self.workspace.entries.position[row])
        return entry_at(self.chunk, position - self.position, position)

    def find_odd_entry(self) -> Entry | None:
        """The entry at `at`, which the scan refused; None if it is incomplete. CorruptRecord if it cannot be an entry."""
        size = entry_size(self.chunk, self.at, len(self.chunk))
        if size is None:
            return None
        entry = entry_at(self.chunk, self.at, self.position + self.at)
        self.at += size
        return entry

    def help(self, row: int, status: int) -> int:
        """Do what a kernel requests at an entry; returns the size of its payload if that is now in the arena."""
        if status == compact_write.NO_ROOM:
            self._grow(row)
        return self._decompress(row) if status == kernel.DECOMPRESS else kernel.NOT_READY

    def _decompress(self, row: int) -> int:
        """Decompress the payload of an entry into the arena; its size there, NOT_READY if the plain path must handle it."""
        entry = self.entry(row)
        assert isinstance(entry, Batch)
        add_codec(self.workspace.tools, entry.codec)  # for the next one
        try:
            return self.workspace.decompress(entry.codec, entry.payload)
        except KafkaLogError:  # also an unknown codec
            return kernel.NOT_READY

    def _grow(self, row: int) -> None:
        """Make room for the entry and its records."""
        header = self.workspace.entries.header(row)
        size = header.size
        if header.attributes & batch.CODEC_MASK:
            size = len(self.workspace.buffers.arena)
        self.workspace.grow(min(header.record_count, size // batch.MIN_RECORD_SIZE), size)
