"""Producers: their sequence numbers, and their state in `.snapshot` files compared with a replay of the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkalog.errors import KafkaLogError
from kafkalog.format import batch
from kafkalog.format.batch import MAX_SEQUENCE
from kafkalog.format.entry_table import EntryHeader, EntryTable
from kafkalog.format.snapshot import ENTRY, HEADER_SIZE, decode_snapshot
from kafkalog.storage.store import SMALL_FILE

from ..partition import Partition, StoredFile
from ..producer_replay import NONE, ReplayedProducer, producer_rows
from .finding import Finding, Place, finding_of, make_finding
from .record_rules import place_of

# Field of a snapshot's entry: attribute of the replayed state.
COMPARED = {
    "producer_epoch": "producer_epoch",
    "last_sequence": "last_sequence",
    "last_offset": "last_offset",
    "offset_delta": "offset_delta",
    "timestamp": "last_timestamp_ms",
    "coordinator_epoch": "coordinator_epoch",
    "current_txn_first_offset": "current_transaction_first_offset",
}
LAST_BATCH = ("last_sequence", "offset_delta")


class Sequences:
    """Every producer numbers its records without gaps; a new epoch begins with 0.

    What a producer wrote before the first entry, or inside damage, is unknown: any number is then right.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.last: dict[int, tuple[int, int]] = {}  # producer id: its epoch and last sequence number

    def forget(self) -> None:
        """Entries may be missing here."""
        self.last.clear()

    def check(self, entries: EntryTable, file: str) -> Iterator[Finding]:
        """Findings for batches out of sequence; the entries are in order and without gaps."""
        is_data = (entries.base_sequence >= 0) & (entries.attributes & batch.CONTROL == 0)
        rows = np.flatnonzero(is_data & (entries.producer_id >= 0))
        if not len(rows):
            return
        rows = rows[np.argsort(entries.producer_id[rows], kind="stable")]
        ordered = entries[rows]
        producers, epochs, bases = ordered.producer_id, ordered.producer_epoch, ordered.base_sequence
        lasts = (bases + ordered.last_offset - ordered.base_offset) & MAX_SEQUENCE
        first = np.append(True, producers[1:] != producers[:-1])
        epoch_before, last_before = np.roll(epochs, 1), np.roll(lasts, 1)
        for at in np.flatnonzero(first).tolist():
            epoch_before[at], last_before[at] = self.last.get(int(producers[at]), (NONE, NONE))
        expected = np.where(epochs == epoch_before, (last_before + 1) & MAX_SEQUENCE, 0)
        wrong = (epoch_before != NONE) & ((epochs < epoch_before) | (bases != expected))
        for at in np.flatnonzero(np.append(first[1:], True)).tolist():
            self.last[int(producers[at])] = int(epochs[at]), int(lasts[at])
        for at in np.flatnonzero(wrong).tolist():
            before = int(epoch_before[at]), int(expected[at])
            yield self._finding(ordered.header(at), file, *before)

    def _finding(self, header: EntryHeader, file: str, epoch_before: int, expected: int) -> Finding:
        epoch, base = header.producer_epoch, header.base_sequence
        if epoch < epoch_before:
            reason, wanted, found = "producer-epoch", f"epoch {epoch_before} or above", epoch
        else:
            is_repeated = (expected - base) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
            reason = "sequence-duplicate" if is_repeated else "sequence-gap"
            wanted, found = f"sequence {expected}", base
        detail = f"producer {header.producer_id}, epoch {epoch}"
        place = place_of(header)
        return make_finding(reason, file, self.partition, place, expected=wanted, found=found, detail=detail)


class Snapshots:
    """The `.snapshot` files of a partition, each compared when the replay reaches its offset."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.waiting: dict[int, StoredFile] = {
            stored.base_offset: stored for stored in partition.files if stored.kind == "snapshot" and not stored.suffix
        }
        self.offsets = sorted(self.waiting)
        self.first_offset = partition.segments[0].base_offset if partition.segments else 0
        self.states: dict[int, ReplayedProducer] = {}
        self.is_whole = True  # False after damage

    def replay(self, entries: EntryTable) -> None:
        if self.waiting:
            for header in entries[producer_rows(entries)]:
                self.states.setdefault(header.producer_id, ReplayedProducer(header.producer_id)).apply(header)

    def compare_at(self, offset: int, *, compacted: bool) -> Iterator[Finding]:
        """Compare the snapshot at this offset, if there is one, with the replayed state."""
        stored = self.waiting.pop(offset, None)
        if stored is None:
            return
        try:
            producers = decode_snapshot(self.partition.store.read_small(stored.path, SMALL_FILE))
        except KafkaLogError as error:
            yield finding_of(error, stored.path, self.partition)
            return
        for row, entry in enumerate(producers if self.is_whole else ()):
            state = self.states.get(int(entry["producer_id"]))
            if state is None:
                continue  # all its batches were deleted or compacted away
            wrong = differences(entry, state, offset, self.first_offset, compacted=compacted)
            if wrong:
                expected = ", ".join(f"{name} {getattr(state, COMPARED[name])}" for name in wrong)
                found = ", ".join(f"{name} {entry[name]}" for name in wrong)
                yield make_finding(
                    "snapshot-mismatch",
                    stored.path,
                    self.partition,
                    Place(HEADER_SIZE + row * ENTRY.itemsize, ENTRY.itemsize),
                    expected=expected,
                    found=found,
                    detail=f"producer {entry['producer_id']}",
                )

    def finish(self, end_offset: int, *, compacted: bool) -> Iterator[Finding]:
        yield from self.compare_at(end_offset, compacted=compacted)
        yield from self._missing()
        for offset in sorted(self.waiting):  # at no segment: a broker would delete it, but it must still be a valid snapshot
            self.is_whole = False
            yield from self.compare_at(offset, compacted=compacted)

    def _missing(self) -> Iterator[Finding]:
        """Brokers before 2.8 kept only the latest few, later ones keep one for each segment."""
        for segment in self.partition.segments if self.offsets else ():
            between = self.offsets[0] < segment.base_offset < self.offsets[-1]
            if between and segment.base_offset not in self.offsets:
                path = segment.log.path.removesuffix("log") + "snapshot"
                yield make_finding("snapshot-missing", path, self.partition)


def differences(
    entry: np.void, state: ReplayedProducer, snapshot_offset: int, first_offset: int, *, compacted: bool
) -> list[str]:
    """The fields of a snapshot's entry that the log contradicts.

    Many differences are not contradictions: releases differ in what they store, retention and compaction remove evidence, and a
    broker drops producers that have been silent for a day.
    """
    stored = {name: int(entry[name]) for name in COMPARED}
    differs = {name for name in COMPARED if stored[name] != getattr(state, COMPARED[name])}
    last_offset = stored["last_offset"]
    if last_offset >= snapshot_offset:
        return ["last_offset"]
    if compacted:
        if last_offset == state.last_offset:
            return [name for name in LAST_BATCH if name in differs]
        return ["last_offset"] if 0 <= last_offset < state.last_offset else []
    if NONE in (stored["coordinator_epoch"], state.coordinator_epoch):
        differs.discard("coordinator_epoch")
    if 0 <= stored["current_txn_first_offset"] < first_offset:
        differs.discard("current_txn_first_offset")
    if NONE in (last_offset, state.last_offset):
        differs -= {"last_offset", "timestamp", *LAST_BATCH}
    elif state.coordinator_epoch != NONE:
        differs.discard("timestamp")  # that of the marker, or before 2.0 of the last batch
        if last_offset > state.last_offset and stored["offset_delta"] == 0:  # 0.11 stores the offset of the marker there
            differs -= {"last_offset", "offset_delta"}
    return [name for name in COMPARED if name in differs]
