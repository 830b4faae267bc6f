"""Whether a log still holds what was read from it: the last entry that was read, and the leader epochs up to there.

A log is truncated and written again under a new leader epoch when a leader with other records takes over, and after a crash that
lost the newest records. Offsets alone do not show it. A follower finds the divergence by asking its leader where an epoch ended;
here the entries themselves are asked first, then the leader-epoch-checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafkalog.errors import Limits
from kafkalog.format.batch import CODEC_MASK, NO_LEADER_EPOCH
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels import scan
from kafkalog.segment.decode import crc_matches
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk, Window
from kafkalog.storage.store import ByteSource

from .partition import Partition, Segment
from .segments import iter_headers


@dataclass(frozen=True)
class EntryMark:
    """An entry and its place: the header fields that distinguish it from any other entry that could be there."""

    segment: int
    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    record_count: int
    crc: int

    def is_same_entry(self, other: EntryMark) -> bool:
        """Whether both are the same entry; compaction of other entries may have moved it."""
        return self._content() == other._content() and self.crc == other.crc

    def is_rewritten_as(self, other: EntryMark) -> bool:
        """Whether `other` has the same offsets with other content, which compaction does not explain.

        A cleaner that changes an entry removes records or sets the delete horizon, a bit of the attributes.
        """
        has_set = self.magic < 2 and self.attributes & CODEC_MASK  # compressed messages: a cleaner recompresses the set
        return not has_set and self._content() == other._content() and self.crc != other.crc

    def _content(self) -> tuple[int, ...]:
        return self.base_offset, self.last_offset, self.leader_epoch, self.magic, self.attributes, self.record_count


@dataclass(frozen=True)
class Lineage:
    """Identity of a log up to `next_offset`: its last entry, and the starts of its leader epochs, ascending.

    `last_entry` is None if it was not recorded, `epochs` is empty if none are known (formats v0 and v1 have no epochs).
    """

    next_offset: int
    last_entry: EntryMark | None = None
    epochs: tuple[EpochStart, ...] = ()

    @property
    def epoch(self) -> int:
        return self.epochs[-1].epoch if self.epochs else NO_LEADER_EPOCH

    @property
    def last_offset(self) -> int:
        return self.next_offset - 1 if self.last_entry is None else self.last_entry.last_offset


@dataclass(frozen=True)
class Divergence:
    """From `offset` on the log no longer holds what was read; None if the content differs but not from where is known."""

    offset: int | None


def trace(partition: Partition, next_offset: int, last_entry: EntryMark | None) -> Lineage:
    """The lineage up to `next_offset`, without epochs of the checkpoint that began after the last entry that was read."""
    if last_entry is None or last_entry.leader_epoch < 0:
        return Lineage(next_offset, last_entry)
    epochs = [
        start
        for start in partition.epochs
        if start.start_offset <= last_entry.last_offset and start.epoch <= last_entry.leader_epoch
    ]
    if not epochs or epochs[-1].epoch != last_entry.leader_epoch:
        epochs.append(EpochStart(last_entry.leader_epoch, last_entry.base_offset))
    return Lineage(next_offset, last_entry, tuple(epochs))


def find_divergence(partition: Partition, read: Lineage, end_offset: int, limits: Limits) -> Divergence | None:
    """Where the log, which now ends at `end_offset`, diverged from what was read; None if it continues from there."""
    here = last_entry_before(partition, read.next_offset, limits)
    mark = read.last_entry
    found = [end_offset] if end_offset < read.next_offset else []
    if here is not None and not _continues(read, here):
        found += [*_by_entries(partition, read, here, limits), *_by_checkpoint(partition, read)]
    if found:
        return Divergence(max(min(found), 0))
    is_rewritten = mark is not None and here is not None and mark.is_rewritten_as(here)
    return Divergence(None) if is_rewritten else None


def _continues(read: Lineage, here: EntryMark) -> bool:
    """Whether the entry that now holds the last offset read has the same epoch as before; this overrides the checkpoint."""
    if read.last_entry is not None and here.is_same_entry(read.last_entry):
        return True
    return here.leader_epoch == read.epoch and here.last_offset >= read.last_offset


def _by_entries(partition: Partition, read: Lineage, here: EntryMark, limits: Limits) -> list[int]:
    """Where the log diverges, judged by the entry that now holds the last offset read, or is the last one before it."""
    if NO_LEADER_EPOCH in (here.leader_epoch, read.epoch) or here.leader_epoch == read.epoch:
        return []
    if here.leader_epoch > read.epoch:
        return [_first_offset_above(partition, read.epoch, here, limits)]
    if here.last_offset < read.last_offset:  # the entry that was read is gone, which compaction explains
        return []
    return [start.start_offset for start in read.epochs if start.epoch > here.leader_epoch]


def _by_checkpoint(partition: Partition, read: Lineage) -> list[int]:
    """The same by the checkpoint: the first offset that was read and that it assigns to another epoch."""
    known, now = read.epochs, partition.epochs
    if not known or not now:
        return []
    first = max(known[0].start_offset, now[0].start_offset, partition.start_offset)
    edges = {first, *(start.start_offset for start in (*known, *now) if start.start_offset > first)}
    differing = [edge for edge in sorted(edges) if edge < read.next_offset and epoch_at(known, edge) != epoch_at(now, edge)]
    later = [start.start_offset for start in now if start.epoch > read.epoch and start.start_offset < read.next_offset]
    return differing[:1] + later[:1]


def epoch_at(epochs: Sequence[EpochStart], offset: int) -> int:
    """The epoch of an offset; NO_LEADER_EPOCH before the first one."""
    found = [start.epoch for start in epochs if start.start_offset <= offset]
    return found[-1] if found else NO_LEADER_EPOCH


def _first_offset_above(partition: Partition, epoch: int, here: EntryMark, limits: Limits) -> int:
    """Where the entries of epochs after `epoch` begin. Reads all headers up to `here`, which is rarely needed."""
    for _, entries in iter_headers(partition, limits):
        above = np.flatnonzero((entries.magic == 2) & (entries.leader_epoch > epoch))
        if len(above):
            return int(entries.base_offset[above[0]])
    return here.base_offset


# -- entries -----------------------------------------------------------------------------------------------------------------


def last_entry_before(partition: Partition, offset: int, limits: Limits) -> EntryMark | None:
    """The last entry that begins before `offset` and whose checksum matches; None if there is none.

    Bytes beyond the listed sizes are not read.
    """
    for segment in reversed(partition.segments):
        if segment.base_offset < offset and (found := last_entry_in(partition, segment, offset, limits)[0]) is not None:
            return found
    return None


def last_entry_in(partition: Partition, segment: Segment, offset: int, limits: Limits) -> tuple[EntryMark | None, bool]:
    """The same in one segment, and whether its entries can be followed from there on to its end."""
    with partition.open_log(segment) as source:
        stop = min(segment.log.size, source.size)
        index = segment.siblings.get("index")
        path = index.path if index else None
        start = seek_position(source, partition.store, path, segment.base_offset, offset - 1, limits, stop)
        found, followed = None, start
        for entries in SegmentWalk(source, start, stop, limits).headers():
            before = entries[entries.base_offset < offset]
            found = last_proven(segment, source, before) or found
            followed = entries.header(-1).stop if len(entries) else followed
            if len(before) < len(entries):
                break
    return found, followed == stop


def last_proven(segment: Segment, source: ByteSource, entries: EntryTable) -> EntryMark | None:
    """The last of these entries whose checksum matches: a header alone may be wrong."""
    for row in range(len(entries) - 1, -1, -1):
        if _is_proven(source, entries.only(row)):
            return mark_of(segment, entries, row)
    return None


def mark_of(segment: Segment, entries: EntryTable, row: int) -> EntryMark:
    found = entries.header(row)
    return EntryMark(
        segment.base_offset,
        found.position,
        found.base_offset,
        found.last_offset,
        found.leader_epoch,
        found.magic,
        found.attributes,
        found.record_count,
        found.crc,
    )


def is_in_place(partition: Partition, mark: EntryMark, limits: Limits) -> bool:
    """Whether the entry is still at its position, so that the file before it has not changed since the entry was read."""
    for segment in partition.segments_from(mark.segment)[:1]:
        if segment.base_offset == mark.segment:
            with partition.open_log(segment) as source:
                return _entry_at(segment, source, mark.position, limits) == mark
    return False


def _entry_at(segment: Segment, source: ByteSource, position: int, limits: Limits) -> EntryMark | None:
    stop = min(segment.log.size, source.size)
    front = np.frombuffer(source.read(position, min(scan.HEADER_REACH, max(stop - position, 0))), np.uint8)
    entries = EntryTable.with_room(1)
    _, count, _ = scan.scan_headers(front, position, stop, limits.batch_bytes, entries.fields)
    return mark_of(segment, entries, 0) if count else None


def _is_proven(source: ByteSource, entry: EntryTable) -> bool:
    header = entry.header(0)
    data = np.frombuffer(source.read(header.position, header.size), np.uint8)
    window = Window(source.path, header.position, data, entry, 1)
    return bool(crc_matches(window, np.arange(1)).all())
