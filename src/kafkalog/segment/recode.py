"""Rewritten entries: v0 and v1 messages as v2 batches, batches with another codec, records in other batches.

Offsets and timestamps stay. So does what brokers, coordinators and idempotent producers rely on: control and empty batches are
not touched, and only the compression may change of a batch that has a producer or a delete horizon, or from which compaction
removed records. Windows go in and bytes come out; where batches are cut does not depend on the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalog import codecs
from kafkalog.errors import CodecError, CorruptBatch, LimitExceeded, Limits, OutputFull
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable, Ints
from kafkalog.format.java import MAX_INT32

from .arrays import Constants
from .decode import DecodedWindow, RecordDecoder, RecordRange, entry_place
from .encode import BATCH_BYTES, BatchFields, EncodeOptions, encode_batches
from .windows import Window

KEPT, RECOMPRESSED, REENCODED = range(3)
COLUMNS = frozenset({"offset", "timestamp_ms", "key", "value", "headers_raw"})
UNTOUCHABLE = batch.CONTROL | batch.TRANSACTIONAL | batch.DELETE_HORIZON

ENOUGH_ROWS = 1 << 16
ENOUGH_BYTES = 8 << 20

Encode = Callable[[pa.Table], Iterator[bytes]]
EpochsAt = Callable[[Ints], Ints]


@dataclass(frozen=True)
class Recoding:
    """How batches are rewritten. Without a codec each keeps its own; without `batch_bytes`, its bounds.

    Single messages have no bounds: they are gathered into batches of the producer's default size.
    """

    codec: int | None = None
    level: int | None = None
    batch_bytes: int | None = None

    def actions(self, entries: EntryTable) -> NDArray[np.int64]:
        """What is done with each entry, by its header; recompressed with its own codec at a level, it may come out unchanged."""
        attributes = entries.attributes
        control_or_empty = (attributes & batch.CONTROL != 0) | (entries.record_count == 0)
        other_codec = self.codec is not None and (attributes & batch.CODEC_MASK != self.codec)
        again = self.level is not None and (attributes & batch.CODEC_MASK != codecs.NONE)
        actions = np.where(other_codec | again, RECOMPRESSED, KEPT)
        if self.batch_bytes is not None:
            actions = np.where(_is_free(entries), REENCODED, actions)
        actions = np.where(control_or_empty, KEPT, actions)
        return np.where(entries.magic < 2, REENCODED, actions).astype(np.int64)


def _is_free(entries: EntryTable) -> NDArray[np.bool_]:
    """Batches whose records may share a batch with others."""
    whole = entries.record_count == entries.last_offset - entries.base_offset + 1
    free: NDArray[np.bool_] = whole & (entries.producer_id < 0) & (entries.attributes & UNTOUCHABLE == 0)
    return free


class _Kind(NamedTuple):
    """What consecutive entries must have in common to be written together."""

    action: int
    codec: int  # of the result
    append_time: bool
    leader_epoch: int
    is_set: bool  # compressed v0 or v1 sets, which become a batch each unless another size is requested


class Gatherer:
    """Holds rows back until there are many, and their last batch until the next rows are known.

    So where batches are cut depends only on the rows, not on the pieces in which they come.
    """

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self._held: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    def add(self, table: pa.Table) -> Iterator[bytes]:
        """The batches that are now complete."""
        self._held.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows < ENOUGH_ROWS and self._bytes < ENOUGH_BYTES:
            return
        rows = pa.concat_tables(self._held)
        written = 0
        last: bytes | None = None
        for encoded in self.encode(rows):
            if last is not None:
                written += record_count(last)
                yield last
            last = encoded
        self._hold(rows.slice(written))

    def _hold(self, table: pa.Table) -> None:
        self._held = [table]
        self._rows = 0  # not worth encoding again before enough more rows have come
        self._bytes = 0

    def finish(self) -> Iterator[bytes]:
        """The batches of the remaining rows."""
        held, self._held = self._held, []
        self._rows = self._bytes = 0
        if held:
            yield from self.encode(pa.concat_tables(held))


def record_count(encoded: bytes) -> int:
    """The record count in the header of a v2 batch."""
    return int.from_bytes(encoded[batch.RECORDS_COUNT_POSITION : batch.HEADER_SIZE], "big")


class Recoder:
    """Turns the windows of a segment, in order, into its new bytes."""

    def __init__(self, recoding: Recoding, limits: Limits, epochs_at: EpochsAt) -> None:
        self.recoding = recoding
        self.limits = limits
        self.epochs_at = epochs_at  # for v0 and v1 entries, which have none
        self.decoder = RecordDecoder(RecordRange(), limits, COLUMNS, check_crcs=True, stop_at_problem=True)
        self.constants = Constants()
        self._kind: _Kind | None = None
        self._last_time: int | None = None  # of the records of this kind so far
        self._gatherer: Gatherer | None = None

    def recode(self, window: Window) -> Iterator[bytes | memoryview]:
        """New bytes as far as they are final, some of them views of the window; SegmentError at damage, after all before it."""
        entries = window.entries
        actions = self.recoding.actions(entries)
        start = 0
        while start < window.count:
            decoded = self.decoder.decode(window, np.arange(start, window.count), actions[start:] == REENCODED)
            stop = window.count if decoded.left is None else decoded.left
            if decoded.problems:
                stop = decoded.problems[0].entry
            rows = _DecodedRows(decoded, self.constants)
            for first, last, kind in self._runs(entries[start:stop], actions[start:stop]):
                if kind.action == REENCODED:
                    yield from self._gather(kind, rows.table(start + first, start + last, each_begins=kind.is_set))
                else:
                    yield from self.finish()
                    yield from self._copied(window, start + first, start + last, kind.action)
            if decoded.problems:
                raise decoded.problems[0].error
            start = stop

    def finish(self) -> Iterator[bytes]:
        """The bytes still held, at the end of a segment."""
        gatherer, self._gatherer, self._kind, self._last_time = self._gatherer, None, None, None
        if gatherer is not None:
            yield from gatherer.finish()

    def _runs(self, entries: EntryTable, actions: Ints) -> Iterator[tuple[int, int, _Kind]]:
        if not len(actions):
            return
        old = entries.magic < 2
        attributes = entries.attributes
        is_encoded = actions == REENCODED
        columns = (
            actions,
            np.where(is_encoded, attributes & batch.CODEC_MASK if self.recoding.codec is None else self.recoding.codec, 0),
            np.where(is_encoded & (entries.magic > 0), attributes & batch.LOG_APPEND_TIME, 0),
            np.where(is_encoded, np.where(old, self.epochs_at(entries.last_offset), entries.leader_epoch), 0),
            old & (attributes & batch.CODEC_MASK != 0) & (self.recoding.batch_bytes is None),
        )
        kinds = np.stack([column.astype(np.int64) for column in columns])
        changes = np.flatnonzero((np.diff(kinds) != 0).any(axis=0)) + 1
        bounds = [0, *changes.tolist(), len(actions)]
        for first, last in pairwise(bounds):
            action, codec, append_time, epoch, is_set = kinds[:, first].tolist()
            yield first, last, _Kind(action, codec, bool(append_time), epoch, bool(is_set))

    def _gather(self, kind: _Kind, table: pa.Table) -> Iterator[bytes]:
        if kind != self._kind:
            yield from self.finish()
            self._kind, self._gatherer = kind, self._new_gatherer(kind)
        assert self._gatherer is not None
        yield from self._gatherer.add(self._cut_by_time(table) if kind.append_time else table)

    def _cut_by_time(self, table: pa.Table) -> pa.Table:
        """Begin a new batch where the append time changes: a batch has only one."""
        times = table.column("timestamp_ms").to_numpy()
        begins = np.asarray(table.column("batch_start").to_numpy()).copy()
        if len(times):
            begins |= np.diff(times, prepend=times[0] if self._last_time is None else self._last_time) != 0
            self._last_time = int(times[-1])
        return table.set_column(table.schema.get_field_index("batch_start"), "batch_start", pa.array(begins))

    def _new_gatherer(self, kind: _Kind) -> Gatherer:
        batch_bytes = self.recoding.batch_bytes or (MAX_INT32 if kind.is_set else BATCH_BYTES)
        level = self.recoding.level if kind.codec != codecs.NONE else None
        options = EncodeOptions(codecs.NAMES[kind.codec], level, batch_bytes=batch_bytes)
        fields = BatchFields(kind.leader_epoch, has_append_times=kind.append_time)
        return Gatherer(lambda table: encode_batches(table, options, fields))

    def _copied(self, window: Window, first: int, last: int, action: int) -> Iterator[bytes | memoryview]:
        entries = window.entries
        starts = entries.position[first:last] - window.position
        stops = starts + entries.size[first:last]
        if action == KEPT:
            yield window.data.data[int(starts[0]) : int(stops[-1])]
            return
        for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True), first):
            yield self._recompressed(window, number, window.data.data[start:stop])

    def _recompressed(self, window: Window, entry: int, stored: memoryview) -> bytes:
        """A batch with its records compressed by the requested codec and everything else unchanged."""
        attributes = int(window.entries.attributes[entry])
        records = self._decompressed(window, entry, attributes & batch.CODEC_MASK, stored[batch.HEADER_SIZE :])
        codec = self.recoding.codec if self.recoding.codec is not None else attributes & batch.CODEC_MASK
        payload = codecs.compress(codec, records, level=self.recoding.level if codec != codecs.NONE else None)
        header = np.frombuffer(stored[: batch.HEADER_SIZE], batch.HEADER).copy()
        header["batch_length"] = batch.MIN_BATCH_LENGTH + len(payload)
        header["attributes"] = attributes & ~batch.CODEC_MASK | codec
        front = header.tobytes()
        header["crc"] = crc32c(payload, crc32c(front[batch.CRC_START :]))
        return header.tobytes() + payload

    def _decompressed(self, window: Window, entry: int, codec: int, payload: memoryview) -> bytes | memoryview:
        limit = self.limits.decompressed_bytes
        if codec == codecs.NONE:
            return payload
        try:
            return codecs.decompressed(codec, payload, limit=limit)
        except OutputFull:
            place = entry_place(window, entry)
            raise LimitExceeded("decompressed-limit", **place, expected=f"at most {limit} bytes") from None
        except CodecError as error:
            raise CorruptBatch(error.reason, **entry_place(window, entry), detail=str(error)) from error


class _DecodedRows:
    """The records of a decoded window, by entry."""

    def __init__(self, decoded: DecodedWindow, constants: Constants) -> None:
        names = sorted(COLUMNS)
        tables = [
            pa.table([group.column(name, constants) for name in names], names=names) for group in decoded.groups if group.rows
        ]
        self.rows = pa.concat_tables(tables) if tables else None
        self.entries = np.concatenate([group.entries for group in decoded.groups]) if tables else np.empty(0, np.int64)
        counts = np.concatenate([group.row_counts for group in decoded.groups]) if tables else np.empty(0, np.int64)
        self.row_starts = np.concatenate([[0], np.cumsum(counts)])

    def table(self, first: int, last: int, *, each_begins: bool) -> pa.Table:
        """The records of the entries from `first` to before `last`; with `each_begins` every entry becomes a batch of its own."""
        at, after = np.searchsorted(self.entries, [first, last]).tolist()
        start, stop = int(self.row_starts[at]), int(self.row_starts[after])
        assert self.rows is not None
        table = self.rows.slice(start, stop - start)
        begins = np.zeros(stop - start, np.bool_)
        if each_begins:
            begins[self.row_starts[at:after] - start] = True
        return table.append_column("batch_start", pa.array(begins))
