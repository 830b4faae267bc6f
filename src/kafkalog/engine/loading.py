"""Load the segments of a folder as a broker does at start.

First replacements of segments that a crash interrupted are completed or undone: the file names say how far they got. Then
segments that may not be durable are recovered, and the state of producers is rebuilt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from kafkalog.errors import CorruptIndex, CorruptRecord, InvalidOffset, InvalidRecord, InvalidState, SegmentOffsetOverflow
from kafkalog.format.java import MAX_INT32
from kafkalog.format.names import MAX_OFFSET, SEGMENT_KINDS, parse_file_name, segment_file_name
from kafkalog.log.swap_segments import CLEANED, DELETED, SWAP

from .config import LogConfig
from .leader_epochs import LeaderEpochs
from .log_segment import LogSegment
from .log_segments import LogSegments
from .offsets import OffsetMetadata
from .producers import ProducerStates, SnapshotFile
from .recovery import recover_segment
from .schedule import Clock, Schedule
from .segment_files import SegmentFiles, StorageGuard

INDEX_KINDS: Final = ("index", "timeindex", "txnindex")
Result = TypeVar("Result")


@dataclass(frozen=True)
class LoadedOffsets:
    """Where a loaded log begins and ends, and the offset up to which it is durable."""

    log_start_offset: int
    recovery_point: int
    log_end: OffsetMetadata


class LogLoader:
    """Fills `files.segments`, `leader_epochs` and `producers` from the folder."""

    def __init__(
        self,
        files: SegmentFiles,
        producers: ProducerStates,
        leader_epochs: LeaderEpochs,
        *,
        log_start_offset: int,
        recovery_point: int,
        clean: bool,
    ) -> None:
        self.files = files
        self.fs = files.fs
        self.segments = files.segments
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.clean = clean
        # Those in the folder, while one segment after another is recovered: listing them for each takes a square of time.
        self._known_snapshots: Mapping[int, SnapshotFile] | None = None

    def load(self) -> LoadedOffsets:
        settle_replacements(self.files)
        try:
            self._splitting_overflows(self._load_segments)
        except (CorruptRecord, InvalidRecord):
            # A segment without an index follows a damaged one, which must be recovered first. Kafka gives up here.
            if self.clean:
                raise
            self.recovery_point = 0
            self._splitting_overflows(lambda: self._load_segments(recover=False))
        recovery_point, next_offset = self._splitting_overflows(self._recover_log)
        active = self.segments.active
        active.resize_indexes(self.files.config.segment_index_bytes)
        self.leader_epochs.truncate_from_end(next_offset)
        first = self.segments.first
        assert first is not None
        log_start_offset = max(self.log_start_offset, first.base_offset)
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        if not self.producers.is_empty:
            raise InvalidState("there is producer state although the log is not loaded yet")
        self.producers.remove_stray_snapshots(self.segments.base_offsets)
        rebuild_producers(
            self.producers, self.segments, log_start_offset, next_offset, self.files.clock, after_clean_shutdown=self.clean
        )
        for segment in self.segments.values[:-1]:
            segment.release_files()
        return LoadedOffsets(log_start_offset, recovery_point, OffsetMetadata(next_offset, active.base_offset, active.size))

    def _splitting_overflows(self, action: Callable[[], Result]) -> Result:
        """Run `action`, and repeat it after each split of a segment whose offsets are too far from its base."""
        while True:
            try:
                return action()
            except SegmentOffsetOverflow as overflow:
                assert isinstance(overflow.segment, LogSegment)
                _, deleted = self.files.split_overflowed(overflow.segment)
                self._delete_snapshots(deleted)

    def _load_segments(self, *, recover: bool = True) -> None:
        self.segments.close()
        self.segments.clear()
        names = _list_files(self.files)
        for name in names:
            parsed = parse_file_name(name)
            if parsed is None or parsed.suffix:
                continue
            if parsed.kind in INDEX_KINDS and segment_file_name(parsed.base_offset) not in names:
                self.fs.remove(_path(self.files, name))
            elif parsed.kind == "log":
                self._load_segment(parsed.base_offset, recover=recover)

    def _load_segment(self, base_offset: int, *, recover: bool) -> None:
        segment = self.files.open_segment(base_offset, exists=True)
        if recover:
            try:
                segment.sanity_check()
            except (FileNotFoundError, CorruptIndex):
                self._recover_segment(segment)
        self.segments.add(segment)

    def _recover_segment(self, segment: LogSegment) -> int:
        """Recover a segment, starting from the producers' state before it; how many bytes were cut off."""
        known, self._known_snapshots = self._known_snapshots, None
        producers = ProducerStates(self.fs, self.files.folder, self.files.clock, self.producers.settings, known)
        rebuild_producers(producers, self.segments, self.log_start_offset, segment.base_offset, self.files.clock)
        truncated = recover_segment(segment, producers, self.leader_epochs)
        producers.take_snapshot()
        self._known_snapshots = producers.snapshots
        segment.release_files()
        return truncated

    def _recover_log(self) -> tuple[int, int]:
        """Recover what may not be durable; returns the recovery point and the log end offset."""
        if not self.clean:
            self._recover_unflushed(self.segments.between(self.recovery_point, MAX_OFFSET))
        next_offset = self._delete_if_start_after_end()
        if not len(self.segments):
            self.segments.add(self.files.open_segment(self.log_start_offset))
        if self.clean and next_offset is not None:
            return next_offset, next_offset
        if next_offset is None:
            next_offset = self.segments.active.read_next_offset()
        return min(self.recovery_point, next_offset), next_offset

    def _recover_unflushed(self, unflushed: list[LogSegment]) -> None:
        for number, segment in enumerate(unflushed):
            try:
                truncated = self._recover_segment(segment)
            except InvalidOffset:  # Kafka does so for a failing disk as well, which would destroy an undamaged log
                truncated = segment.truncate_to(segment.base_offset)
            if truncated:
                self._remove(unflushed[number + 1 :])
                return

    def _delete_if_start_after_end(self) -> int | None:
        """The log end offset; None if there are no segments, or if all were deleted because the log starts after them."""
        if not len(self.segments):
            return None
        log_end_offset = self.segments.active.read_next_offset()
        if log_end_offset >= self.log_start_offset:
            return log_end_offset
        self.files.remove(self.segments.values)
        self.files.sync_names()
        self.leader_epochs.clear_and_flush()
        self.producers.truncate_fully_and_start_at(self.log_start_offset)
        return None

    def _remove(self, segments: list[LogSegment]) -> None:
        if segments:
            self.files.remove(segments)
            self.files.sync_names()  # or they could reappear after what is appended next
            self._delete_snapshots(segments)

    def _delete_snapshots(self, segments: list[LogSegment]) -> None:
        self._known_snapshots = None
        delete_snapshots(self.producers, segments, self.files.schedule, self.files.config, self.files.guard)


MAX_READ: Final = MAX_INT32


def rebuild_producers(
    producers: ProducerStates,
    segments: LogSegments,
    log_start_offset: int,
    last_offset: int,
    clock: Clock,
    *,
    after_clean_shutdown: bool = False,
) -> None:
    """Rebuild the state of producers as of `last_offset`: from the newest snapshot before it, and the entries in between.

    Takes snapshots at the last two segments and at the end.
    """
    snapshot_offsets = [last_offset]
    if segments.last is not None:
        lower = segments.lower(segments.last.base_offset)
        bases = [segments.last.base_offset] if lower is None else [lower.base_offset, segments.last.base_offset]
        snapshot_offsets = [*bases, last_offset]
    if producers.latest_snapshot_offset is None and after_clean_shutdown:
        # A log from before there were snapshots has no producers.
        for offset in snapshot_offsets:
            producers.map_end_offset = offset
            producers.take_snapshot()
        return
    was_complete = producers.is_empty and producers.map_end_offset >= last_offset
    producers.truncate_and_reload(log_start_offset, last_offset, clock.now_ms())
    if last_offset > producers.map_end_offset and not was_complete:
        last_segment = segments.floor(last_offset)
        for segment in segments.between(producers.map_end_offset, last_offset):
            start_offset = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start_offset
            if segment.base_offset in snapshot_offsets:
                producers.take_snapshot()
            _replay(producers, segment, start_offset, last_offset if segment is last_segment else None)
    producers.map_end_offset = last_offset
    producers.take_snapshot()


def _replay(producers: ProducerStates, segment: LogSegment, start_offset: int, last_offset: int | None) -> None:
    """Replay the entries from `start_offset` up to `last_offset`, or the end of the segment."""
    stop = segment.size
    if last_offset is not None:
        place = segment.translate_offset(last_offset)
        stop = segment.size if place is None else place.position
    found = segment.read(start_offset, MAX_READ, stop)
    if found is not None and found.records is not None:
        producers.load_from_entries(found.records.iter_entries(found.position, found.position + found.size))


def delete_snapshots(
    producers: ProducerStates, segments: Iterable[LogSegment], schedule: Schedule, config: LogConfig, guard: StorageGuard
) -> None:
    """Mark the snapshots of these segments as deleted, and remove them after file.delete.delay.ms."""
    marked = [producers.remove_and_mark_snapshot_for_deletion(segment.base_offset) for segment in segments]

    def delete() -> None:
        with guard.doing("deleting producer snapshots"):
            for snapshot in marked:
                if snapshot is not None:
                    snapshot.delete_if_exists()

    schedule.submit("delete-producer-snapshot", delete, config.file_delete_delay_ms)


def settle_replacements(files: SegmentFiles) -> None:
    """Complete or undo interrupted replacements. Nothing is recovered, and only the last entry of a `.swap` segment is read."""
    _complete_swaps(files, _remove_temporary_files(files))


def _list_files(files: SegmentFiles) -> list[str]:
    """The names of the files in the folder, without subfolders."""
    return [name for name in files.fs.list(files.folder) if files.fs.kind(_path(files, name)) == "file"]


def _path(files: SegmentFiles, name: str) -> str:
    return os.path.join(files.folder, name)


def _remove_temporary_files(files: SegmentFiles) -> list[str]:
    """Remove `.deleted` and incomplete files; the names of the `.swap` files that are to replace others."""
    swaps, cleaned = [], []
    for name in _list_files(files):
        if name.endswith(DELETED) and not name.endswith(".checkpoint.deleted"):
            files.fs.remove(_path(files, name))
        elif name.endswith(CLEANED):
            cleaned.append(name)
        elif name.endswith(SWAP):
            swaps.append(name)
    first_cleaned = min(map(_base_offset, cleaned), default=MAX_OFFSET)
    undone = [name for name in swaps if _base_offset(name) >= first_cleaned]
    for name in (*undone, *cleaned):
        files.fs.remove(_path(files, name))
    return [name for name in swaps if name not in undone]


def _complete_swaps(files: SegmentFiles, swaps: list[str]) -> None:
    """Remove what the `.swap` files replace, and give them their final names."""
    first, stop = MAX_OFFSET, -1
    for name in swaps:
        if name.endswith(".log" + SWAP):
            segment = files.open_segment(_base_offset(name), exists=True, suffix=SWAP)
            first = min(first, segment.base_offset)
            stop = max(stop, segment.read_next_offset())
            segment.close_handlers()
    for name in _list_files(files):
        if not name.endswith(SWAP) and first <= _base_offset(name) < stop:
            files.fs.remove(_path(files, name))
    if swaps:
        files.sync_names()  # what was replaced must not reappear next to what replaced it
    for name in _list_files(files):
        if name.endswith(SWAP):
            files.fs.rename(_path(files, name), _path(files, name.removesuffix(SWAP)))


def _base_offset(name: str) -> int:
    """The base offset in a file name, -1 if there is none."""
    parsed = parse_file_name(name)
    return parsed.base_offset if parsed is not None and parsed.kind in SEGMENT_KINDS else -1
