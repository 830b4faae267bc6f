"""The end of a partition that a broker may be writing to, kept up to date: each look reads only the headers that are new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafkalog.errors import Limits, SegmentError, TornTail
from kafkalog.format.batch import HEADER_SIZE
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.segment.decode import crc_error, crc_matches
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk, Window
from kafkalog.storage.store import ByteSource

from .partition import Partition, Segment, StoredFile
from .reading import explain_end
from .transactions import Committed, TransactionReplay, without_damaged_markers


class PartitionTail:
    """The end of one partition. `look` again with each new listing; a file that did not change is not opened.

    `end_offset` is that of the next record, `position` where the whole entries of the newest segment end. `damage` is what
    follows there if it is neither the end of the file nor a tail; with `pass_damage` the search for the end continues after it.
    """

    def __init__(self, limits: Limits, *, transactions: bool = False, pass_damage: bool = False) -> None:
        self.limits = limits
        self.pass_damage = pass_damage
        self.end_offset = 0
        self.position = 0
        self.damage: SegmentError | None = None
        self._log: StoredFile | None = None
        self._last_header: tuple[int, bytes] | None = None  # of the last entry, with its position
        self._epochs: list[EpochStart] = []  # of entries read without a gap; those before the first are unknown
        self.restarts = 0
        self._replay = TransactionReplay() if transactions else None

    @property
    def stable_offset(self) -> int:
        """The offset up to which all transactions have ended; the end if transactions are not tracked."""
        first_open = self._replay.first_open_offset if self._replay is not None else None
        return self.end_offset if first_open is None else min(self.end_offset, first_open)

    def committed(self, start_offset: int, stop_offset: int) -> Committed | None:
        """The state that a read_committed reader of these offsets needs."""
        return self._replay.committed(start_offset, stop_offset) if self._replay is not None else None

    def epoch_before(self, offset: int) -> EpochStart | None:
        """The leader epoch of the last entry before `offset`, if that was read here."""
        found = [start for start in self._epochs if start.start_offset < offset]
        return found[-1] if found and offset <= self.end_offset else None

    def forget_before(self, offset: int) -> None:
        """Drop what is known of offsets below `offset`: they will not be asked for again."""
        if self._replay is not None:
            self._replay.forget_before(offset)

    def look(self, partition: Partition) -> None:
        """Read what is new in the listing."""
        before = {**vars(self), "_epochs": [*self._epochs]}
        try:
            self._look(partition)
        except BaseException:
            if self.restarts != before["restarts"]:  # the state of the log as it is now is unknown: keep that of before
                vars(self).update(before)
            raise

    def _look(self, partition: Partition) -> None:
        if not partition.segments or self._log == partition.segments[-1].log:
            return
        if self._went_back(partition):
            self._restart()
        for segment in self._unread(partition):
            with partition.open_log(segment) as source:
                if self._log is not None and self._log.path == segment.log.path and self._is_rewritten(source):
                    self._restart()
                    self._look(partition)
                    return
                self._read(partition, segment, source)
                self._log = segment.log
        self.end_offset = max(self.end_offset, partition.start_offset)

    def _went_back(self, partition: Partition) -> bool:
        """Whether the log was truncated, or deleted and created again."""
        newest = partition.segments[-1].log
        if self._log is None or newest.base_offset > self._log.base_offset:
            return False
        return newest.base_offset < self._log.base_offset or newest.size < self.position

    def _is_rewritten(self, source: ByteSource) -> bool:
        """Whether the last entry is not where it was: the log was truncated and appended to, or compacted."""
        if self._last_header is None:
            return False
        position, header = self._last_header
        return source.read(position, len(header)) != header

    def _restart(self) -> None:
        self.restarts += 1
        self._epochs.clear()
        self.end_offset = self.position = 0
        self._log = self._last_header = None
        if self._replay is not None:
            self._replay = TransactionReplay()

    def _unread(self, partition: Partition) -> Sequence[Segment]:
        """The segments to read: transactions need all of them, the end only the newest."""
        if self._replay is None:
            return partition.segments[-1:]
        seen = self._log.base_offset if self._log is not None else -1
        return tuple(segment for segment in partition.segments if segment.log.base_offset >= seen)

    def _read(self, partition: Partition, segment: Segment, source: ByteSource) -> None:
        self.damage = None
        # Only up to the listed size: what is planned from the listing must not go beyond it.
        stop = min(segment.log.size, source.size)
        start = min(self._start(partition, segment, source, stop), stop)
        if self._log is None or self._log.path != segment.log.path:
            self._last_header = None
            if self._replay is None:  # the last entries of the previous segment were not read
                self._epochs.clear()
        self.end_offset = max(self.end_offset, segment.base_offset)
        while True:
            walk = SegmentWalk(source, start, stop, self.limits)
            for entries in self._settled(walk, segment, source):
                last = entries.header(-1)
                self.end_offset = last.last_offset + 1
                self._note_epochs(entries)
                self._last_header = last.position, source.read(last.position, min(last.size, HEADER_SIZE))
                if self._replay is not None:
                    self._replay.replay([without_damaged_markers(source, entries)])
            if walk.problem is None or not segment.is_newest:
                return
            following = self._position_after(walk.problem, segment, source, stop)
            if following is None:
                return
            self._epochs.clear()
            start = following

    def _note_epochs(self, entries: EntryTable) -> None:
        epochs = entries.leader_epoch
        begins = np.flatnonzero(np.concatenate(([True], epochs[1:] != epochs[:-1])))
        for header in entries[begins]:
            if not self._epochs or self._epochs[-1].epoch != header.leader_epoch:
                self._epochs.append(EpochStart(header.leader_epoch, header.base_offset))

    def _start(self, partition: Partition, segment: Segment, source: ByteSource, stop: int) -> int:
        if self._log is not None and self._log.path == segment.log.path:
            return self.position
        if self._replay is not None:
            return 0
        index = segment.siblings.get("index")
        return seek_position(
            source, partition.store, index.path if index else None, segment.base_offset, MAX_OFFSET, self.limits, stop
        )

    def _settled(self, walk: SegmentWalk, segment: Segment, source: ByteSource) -> Iterator[EntryTable]:
        """The headers of the walk, without a last entry of the newest segment that a power loss left with a hole."""
        self.position = walk.position
        before: EntryTable | None = None
        for entries in walk.headers():
            if before is not None:
                yield before
            before = entries
        self.position = walk.position
        if before is None:
            return
        if segment.is_newest and _is_torn(source, before):
            self.position = int(before.position[-1])
            before = before[:-1]
        if len(before):
            yield before

    def _position_after(self, problem: SegmentError, segment: Segment, source: ByteSource, stop: int) -> int | None:
        """Where to continue after damage; None at a tail, or where the damage ends the read."""
        explained = explain_end(segment, source, problem, self.limits)
        if not self.pass_damage:
            self.damage = None if isinstance(explained, TornTail) else explained
            return None
        bounds = ResyncBounds(minimum_offset=self.end_offset - 1, batch_bytes=self.limits.batch_bytes)
        found = find_next_entry(source.read_into, problem.position + 1, stop, bounds) if problem.reason != "zero-tail" else None
        return None if found is None else found.position


def _is_torn(source: ByteSource, entries: EntryTable) -> bool:
    """Whether the last of these entries has zeroed sectors and so no valid checksum."""
    last = entries.header(-1)
    data = np.frombuffer(source.read(last.position, last.size), np.uint8)
    window = Window(source.path, last.position, data, entries.only(-1), 1)
    return not crc_matches(window, np.arange(1)).all() and crc_error(window, 0).reason == "torn-write"
