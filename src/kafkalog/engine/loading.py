"""Load the segments of a folder as a broker does at start.

First what a crash interrupted is completed or undone, then what may not be durable is recovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from kafkalog.errors import CorruptIndex, CorruptRecord, InvalidOffset, InvalidRecord, InvalidState, SegmentOffsetOverflow
from kafkalog.format.names import MAX_OFFSET, parse_file_name, segment_file_name

from .leader_epochs import LeaderEpochs
from .log_segment import LogSegment
from .offsets import OffsetMetadata
from .producer_rebuild import delete_snapshots, rebuild_producers
from .producers import ProducerStates
from .recovery import recover_segment
from .segment_files import SegmentFiles
from .swap_recovery import list_files, settle_replacements

INDEX_KINDS: Final = ("index", "timeindex", "txnindex")
Result = TypeVar("Result")


@dataclass(frozen=True)
class LoadedOffsets:
    """Where a log that was loaded begins and ends, and from where on it may not be durable."""

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

    def load(self) -> LoadedOffsets:
        settle_replacements(self.files)
        try:
            self._splitting_overflows(self._load_segments)
        except (CorruptRecord, InvalidRecord):
            # A segment without an index follows a damaged one, which has to be recovered first. Kafka gives up here.
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
            raise InvalidState("something is known of producers though the log was not loaded yet")
        self.producers.remove_stray_snapshots(self.segments.base_offsets)
        rebuild_producers(
            self.producers, self.segments, log_start_offset, next_offset, self.files.clock, after_clean_shutdown=self.clean
        )
        for segment in self.segments.values[:-1]:
            segment.release_files()
        return LoadedOffsets(log_start_offset, recovery_point, OffsetMetadata(next_offset, active.base_offset, active.size))

    def _path(self, name: str) -> str:
        return os.path.join(self.files.folder, name)

    def _splitting_overflows(self, action: Callable[[], Result]) -> Result:
        """Do `action`, again and again until no segment holds offsets too far from its base."""
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
        names = list_files(self.files)
        for name in names:
            parsed = parse_file_name(name)
            if parsed is None or parsed.suffix:
                continue
            if parsed.kind in INDEX_KINDS and segment_file_name(parsed.base_offset) not in names:
                self.fs.remove(self._path(name))
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
        """Recover a segment with what is known of the producers before it; how many bytes it lost."""
        producers = ProducerStates(self.fs, self.files.folder, self.files.clock, self.producers.settings)
        rebuild_producers(producers, self.segments, self.log_start_offset, segment.base_offset, self.files.clock)
        truncated = recover_segment(segment, producers, self.leader_epochs)
        producers.take_snapshot()
        segment.release_files()
        return truncated

    def _recover_log(self) -> tuple[int, int]:
        """Recover what may not be durable; the recovery point and the log end offset after that."""
        if not self.clean:
            self._recover_unflushed(self.segments.between(self.recovery_point, MAX_OFFSET))
        next_offset = self._delete_if_start_behind_end()
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
            except InvalidOffset:  # Kafka does the same when the disk fails, which would cost a log that is not damaged
                truncated = segment.truncate_to(segment.base_offset)
            if truncated:
                self._remove(unflushed[number + 1 :])
                return

    def _delete_if_start_behind_end(self) -> int | None:
        """The log end offset; None if there are no segments, or none any more because the log begins behind them."""
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
            self.files.sync_names()  # or they could come back behind what is appended next
            self._delete_snapshots(segments)

    def _delete_snapshots(self, segments: list[LogSegment]) -> None:
        delete_snapshots(self.producers, segments, self.files.schedule, self.files.config, self.files.guard)
