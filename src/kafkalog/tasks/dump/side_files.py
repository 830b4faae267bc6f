"""The lines of index files, with the checks against their log that DumpLogSegments makes, and of producer snapshots."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from crc32c import crc32c

from kafkalog.errors import CorruptBatch, Limits, StorageError, UnsupportedFormat
from kafkalog.format import batch, index, message, snapshot
from kafkalog.format.batch import decrement_sequence
from kafkalog.format.entry_front import FRONT_SIZE, peek_last_offset
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.store import ByteSource

from .findings import DumpFindings
from .odd_entries import OddEntry
from .options import DumpOptions, GivenFile
from .place import Place

INDEX_BYTES = 256 << 20  # no index that Kafka wrote comes near it
# Kafka looks into the last 8 KiB of an index first. Where entries are in no order (a zero tail) that decides what it finds.
WARM_BYTES = 8192
TXN_ENTRY = np.dtype([("version", "i1"), ("unread", "i1"), *index.TXN_INDEX_ENTRY.descr[1:]])
FRONT_BYTES = batch.LAST_OFFSET_DELTA_POSITION + 4
_FIRST_FIELDS = struct.Struct(">hIi")
NOT_A_SNAPSHOT = "Snapshot failed schema validation: "


@dataclass
class Walk:
    """Position and last offset of every entry from some position of a log on, and what Kafka's reader throws at their end."""

    positions: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    problem: CorruptBatch | None = None

    def find_row(self, position: int) -> int | None:
        row = bisect_left(self.positions, position)
        return row if row < len(self.positions) and self.positions[row] == position else None


class SegmentLog:
    """A log as index checks see it: entries found by Kafka's rules, nothing else about them trusted."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.walks: list[Walk] = []

    def last_offset_at(self, position: int, stop: int) -> int:
        """The last offset of the entry at `position`; CorruptBatch where none ends before `stop`: Kafka's tool dies of it."""
        size = self._entry_size(position, min(stop, self.source.size))
        if size is None:
            raise self._corrupt(position, "the index names this position, and no whole entry begins there")
        return self._last_offset(position)

    def find_entry(self, position: int, offset: int) -> tuple[int, int] | None:
        """(position, last offset) of the first entry from `position` on that reaches `offset`.

        CorruptBatch if the log after `position` is damaged anywhere: Kafka's tool reads all of it first.
        """
        walk, row = self._walk_from(position)
        if walk.problem is not None:
            raise walk.problem
        for each in range(row, len(walk.positions)):
            if walk.last_offsets[each] >= offset:
                return walk.positions[each], walk.last_offsets[each]
        return None

    def _walk_from(self, position: int) -> tuple[Walk, int]:
        """A walk that passes `position`, and the row where it does; each part of a log is walked once."""
        if not self.walks:
            self.walks.append(self._walk(0))
        for walk in self.walks:
            row = walk.find_row(position)
            if row is not None:
                return walk, row
        self.walks.append(self._walk(position))
        return self.walks[-1], 0

    def _walk(self, position: int) -> Walk:
        walk = Walk()
        try:
            while True:
                headers = SegmentWalk(self.source, position, self.source.size, Limits())
                for table in headers.headers():
                    walk.positions += table.position.tolist()
                    walk.last_offsets += table.last_offset.tolist()
                size = self._entry_size(headers.position, self.source.size)
                if size is None:
                    return walk
                walk.positions.append(headers.position)  # an entry by Kafka's rules only
                walk.last_offsets.append(self._last_offset(headers.position))
                position = headers.position + size
        except CorruptBatch as error:
            walk.problem = error
            return walk

    def _entry_size(self, position: int, stop: int) -> int | None:
        """The whole size of the entry there, None where Kafka's reader ends the file."""
        if not 0 <= position <= self.source.size:
            raise self._corrupt(position, "the index names a position outside the log")
        if position >= stop - FRONT_SIZE:
            return None
        size = int.from_bytes(self.source.read(position + batch.BATCH_LENGTH_POSITION, 4), "big", signed=True)
        if size < message.MIN_MESSAGE_SIZE:
            expected = f"at least {message.MIN_MESSAGE_SIZE}"
            raise CorruptBatch("length", file=self.source.path, position=position, expected=expected, found=size)
        return None if position > stop - batch.LOG_OVERHEAD - size else size + batch.LOG_OVERHEAD

    def _last_offset(self, position: int) -> int:
        return peek_last_offset(self.source.read(position, FRONT_BYTES))

    def max_timestamp_at(self, position: int) -> int:
        """The greatest timestamp of the records of an entry, -1 if it has none."""
        size = self._entry_size(position, self.source.size)
        assert size is not None
        whole = self.source.read(position, max(size, batch.HEADER_SIZE))
        records = OddEntry(Place(self.source.path, position, size), whole).records([])
        return max((record.timestamp for record in records), default=-1)

    def _corrupt(self, position: int, detail: str) -> CorruptBatch:
        return CorruptBatch("record-structure", file=self.source.path, position=position, detail=detail)


class IndexDump:
    """Dumps one index file; what does not match its log goes to `findings`."""

    def __init__(self, file: GivenFile, options: DumpOptions, findings: DumpFindings) -> None:
        self.file = file
        self.base_offset = file.base_offset
        self.options = options
        self.findings = findings

    def offset_index(self) -> Iterator[str]:
        """The lines of an .index."""
        data = self.read()
        entries = offset_entries(data, self.base_offset)
        with self.open_log() as source:
            if not entries:
                yield f"{self.file.shown} is empty.\n"
                return
            if self.options.index_sanity_check:
                self._check_sanity(data, index.OFFSET_INDEX_ENTRY.itemsize, entries[-1][0])
                yield f"{self.file.shown} passed sanity check.\n"
                return
            yield from self._offset_lines(entries, SegmentLog(source))

    def _offset_lines(self, entries: list[tuple[int, int]], log: SegmentLog) -> Iterator[str]:
        for number, (offset, position) in enumerate(entries):
            if number and offset == self.base_offset:
                return  # a zero entry: the rest was never written
            found = log.last_offset_at(position, position + self.options.index_slice_bytes)
            if found != offset:
                self.findings.index_mismatches.setdefault(self.file.absolute, {})[offset] = found
            if not self.options.verify_index_only:
                yield f"offset: {offset} position: {position}\n"

    def time_index(self) -> Iterator[str]:
        """The lines of a .timeindex, whose entries are looked up through the .index next to it."""
        data = self.read()
        entries = _time_entries(data, self.base_offset)
        with self.open_log() as source:
            positions = self._sibling_index()
            if self.options.index_sanity_check:
                last_offset = entries[-1][1] if entries else self.base_offset
                self._check_sanity(data, index.TIME_INDEX_ENTRY.itemsize, last_offset, entries)
                yield f"{self.file.shown} passed sanity check.\n"
                return
            yield from self._time_lines(entries, positions, SegmentLog(source))

    def _time_lines(self, entries: list[tuple[int, int]], positions: list[tuple[int, int]], log: SegmentLog) -> Iterator[str]:
        previous = -1
        for number, (timestamp, offset) in enumerate(entries):
            if number and offset == self.base_offset:
                return
            self._check_timestamp(timestamp, offset, previous, log, _look_up(positions, offset))
            if not self.options.verify_index_only:
                yield f"timestamp: {timestamp} offset: {offset}\n"
            previous = timestamp

    def _check_timestamp(self, timestamp: int, offset: int, previous: int, log: SegmentLog, start: int) -> None:
        position, found = log.find_entry(start, offset) or (-1, -1)
        if found != offset or position < 0:
            self.findings.offsets_not_found.setdefault(self.file.absolute, []).append((offset, found))
            return
        stored = log.max_timestamp_at(position)
        if stored != timestamp:
            self.findings.timestamp_mismatches.setdefault(self.file.absolute, []).append((timestamp, stored))
        if previous >= timestamp:
            self.findings.disordered_timestamps.setdefault(self.file.absolute, []).append((timestamp, previous))

    def txn_index(self) -> Iterator[str]:
        """The lines of a .txnindex. Kafka reads only the first byte of the version, and dies of one above 0."""
        data = self.read()
        stored = np.frombuffer(data, TXN_ENTRY, len(data) // TXN_ENTRY.itemsize)
        newer = np.flatnonzero(stored["version"] > index.TXN_INDEX_VERSION)
        if len(newer):
            position, version = int(newer[0]) * TXN_ENTRY.itemsize, int(stored["version"][newer[0]])
            raise UnsupportedFormat(
                "version", file=self.file.path, position=position, expected=index.TXN_INDEX_VERSION, found=version
            )
        for version, _, producer_id, first_offset, last_offset, last_stable_offset in stored.tolist():
            yield (
                f"version: {version} producerId: {producer_id} firstOffset: {first_offset} lastOffset: {last_offset} "
                f"lastStableOffset: {last_stable_offset}\n"
            )

    def read(self) -> bytes:
        return self.file.store.read_small(self.file.path, INDEX_BYTES)

    def open_log(self) -> ByteSource:
        path = self.file.sibling("log")
        if self.file.store.stat(path) is None:
            raise StorageError(f"{self.file.path}: needs {self.file.stem}.log next to it, which is missing", file=path)
        return self.file.store.open(path)

    def _sibling_index(self) -> list[tuple[int, int]]:
        """The entries of the .index; without one everything is looked up from the start of the log."""
        path = self.file.sibling("index")
        if self.file.store.stat(path) is None:
            return []
        return offset_entries(self.file.store.read_small(path, INDEX_BYTES), self.base_offset)

    def _check_sanity(self, data: bytes, entry_size: int, last_offset: int, times: list[tuple[int, int]] | None = None) -> None:
        """The check by which a broker decides at its start whether to rebuild an index."""
        if times and times[-1][0] < times[0][0]:
            raise self._not_sane(f"the last timestamp {times[-1][0]} is less than the first one, {times[0][0]}")
        if last_offset < self.base_offset:
            raise self._not_sane(f"the last offset {last_offset} is less than the base offset {self.base_offset}")
        if len(data) % entry_size:
            raise self._not_sane(f"{len(data)} bytes are no multiple of {entry_size}")

    def _not_sane(self, detail: str) -> UnsupportedFormat:
        return UnsupportedFormat("file-format", file=self.file.path, detail=f"{detail}; a broker would rebuild this index")


def offset_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(offset, position) of all entries, those of a zero tail too."""
    stored = np.frombuffer(data, index.OFFSET_INDEX_ENTRY, len(data) // index.OFFSET_INDEX_ENTRY.itemsize)
    return [(base_offset + relative, position) for relative, position in stored.tolist()]


def _time_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(timestamp, offset) of all entries."""
    stored = np.frombuffer(data, index.TIME_INDEX_ENTRY, len(data) // index.TIME_INDEX_ENTRY.itemsize)
    return [(timestamp, base_offset + relative) for timestamp, relative in stored.tolist()]


def _look_up(entries: list[tuple[int, int]], offset: int) -> int:
    """The position that the index gives for an offset, by the very steps of Kafka's binary search."""
    if not entries:
        return 0
    warm = max(0, len(entries) - 1 - WARM_BYTES // index.OFFSET_INDEX_ENTRY.itemsize)
    if entries[warm][0] < offset:
        low, high = warm, len(entries) - 1
    elif entries[0][0] > offset:
        return 0
    else:
        low, high = 0, warm
    while low < high:
        middle = (low + high + 1) // 2
        if entries[middle][0] > offset:
            high = middle - 1
        elif entries[middle][0] < offset:
            low = middle
        else:
            return entries[middle][1]
    return entries[low][1]


def snapshot_lines(data: bytes) -> Iterator[str]:
    """One line per producer, in the order stored; of a snapshot in which `find_snapshot_problem` finds nothing."""
    for producer in snapshot.decode_snapshot(data):
        yield _producer_line({name: int(producer[name]) for name in producer.dtype.names})


def find_snapshot_problem(data: bytes) -> str | None:
    """Kafka's message for bytes that are not a snapshot; None if they are one."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) >= 2 and version != snapshot.VERSION:
        return f"{NOT_A_SNAPSHOT}Snapshot contained an unknown file version {version}"
    if len(data) < snapshot.HEADER_SIZE:
        return f"{NOT_A_SNAPSHOT}null"
    _, stored, count = _FIRST_FIELDS.unpack_from(data)
    left = len(data) - snapshot.HEADER_SIZE
    if count < 0:
        return f"{NOT_A_SNAPSHOT}non-nullable field producerEntries was serialized as null"
    if count > left:
        return f"{NOT_A_SNAPSHOT}Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
    if count * snapshot.ENTRY.itemsize > left:
        return f"{NOT_A_SNAPSHOT}null"
    computed = crc32c(memoryview(data)[snapshot.CRC_START :])
    if computed != stored:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    return None


def _producer_line(producer: dict[str, int]) -> str:
    first_offset = producer["current_txn_first_offset"]
    transaction = "OptionalLong.empty" if first_offset < 0 else f"OptionalLong[{first_offset}]"
    line = (
        f"producerId: {producer['producer_id']} producerEpoch: {producer['producer_epoch']} "
        f"coordinatorEpoch: {producer['coordinator_epoch']} currentTxnFirstOffset: {transaction} "
        f"lastTimestamp: {producer['timestamp']}"
    )
    if producer["last_offset"] >= 0:
        first_sequence = decrement_sequence(producer["last_sequence"], producer["offset_delta"])
        line += (
            f" firstSequence: {first_sequence} lastSequence: {producer['last_sequence']} "
            f"lastOffset: {producer['last_offset']} offsetDelta: {producer['offset_delta']} timestamp: {producer['timestamp']}"
        )
    return line + "\n"
