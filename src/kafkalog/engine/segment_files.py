"""What is done with whole segments: put away, written anew, put in the place of others.

The names say how far it came, so that loading the log completes or undoes what a crash interrupted: `.cleaned` files are not
complete, `.swap` files are and only wait to replace others, `.deleted` files are on their way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final

from kafkalog.errors import InvalidArgument, InvalidState, LogRefusal, MissingEntry
from kafkalog.format.names import segment_file_name
from kafkalog.storage.fs import Fs

from .config import LogConfig
from .log_segment import LogSegment
from .log_segments import LogSegments
from .schedule import Clock, Schedule
from .storage_guard import StorageGuard

_base_offset = attrgetter("base_offset")

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"


class SegmentFiles:
    """The segments of one folder, and what it takes to change them."""

    def __init__(self, folder: str, config: LogConfig, *, fs: Fs, clock: Clock, schedule: Schedule) -> None:
        self.folder = folder
        self.segments = LogSegments()
        self.config = config
        self.fs = fs
        self.clock = clock
        self.schedule = schedule
        self.guard = StorageGuard(folder)

    def sync_names(self) -> None:
        """Make durable which files there are."""
        self.fs.sync_folder(self.folder)

    def open_segment(self, base_offset: int, *, exists: bool = False, suffix: str = "") -> LogSegment:
        return LogSegment.open(self.folder, base_offset, self.config, fs=self.fs, clock=self.clock, exists=exists, suffix=suffix)

    def create_cleaned(self, base_offset: int) -> LogSegment:
        """An empty segment whose files are not complete; what was left of another one is removed."""
        for kind in ("index", "timeindex", "txnindex", "log"):
            with suppress(FileNotFoundError):
                self.fs.remove(f"{self.folder}/{segment_file_name(base_offset, kind)}{CLEANED}")
        return self.open_segment(base_offset, suffix=CLEANED)

    def delete_files(self, segments: Sequence[LogSegment], *, later: bool = True) -> None:
        """Rename the files of these segments, and remove them after file.delete.delay.ms: somebody may still read them."""
        for segment in segments:
            if not segment.has_suffix(DELETED):
                segment.change_suffixes("", DELETED)

        def delete() -> None:
            with self.guard.doing("deleting segments"):
                for segment in segments:
                    segment.delete_if_exists()

        if later:
            self.schedule.submit("delete-file", delete, self.config.file_delete_delay_ms)
        else:
            delete()

    def remove(self, segments: Sequence[LogSegment], *, later: bool = True) -> None:
        """Take segments out of the log, and delete their files."""
        if segments:
            for segment in segments:
                self.segments.remove(segment.base_offset)
            self.delete_files(segments, later=later)

    def replace(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> list[LogSegment]:
        """Put complete `.cleaned` segments in the place of others; those whose base offset no new one has.

        A crash before all of them are `.swap` undoes this, which is why the last one is renamed first: the loader takes a `.swap`
        file for good unless a `.cleaned` one begins before it. A crash later is completed. Names are made durable in between: of
        changes that are not, a disk may keep the last and lose the first. A log that is `.swap` before its indexes have any name
        for certain might be found without them; an index that has its name before its log has would be taken for one of a segment
        that was replaced.
        """
        new = sorted(new, key=_base_offset)
        old = sorted((segment for segment in old if segment.base_offset in self.segments), key=_base_offset)
        self.sync_names()
        for segment in reversed(new):
            segment.change_suffixes(CLEANED, SWAP)
            self.segments.add(segment)
        self.sync_names()
        kept = {segment.base_offset for segment in new}
        for segment in old:
            if segment.base_offset != new[0].base_offset:
                self.segments.remove(segment.base_offset)
            self.delete_files([segment])
        self.sync_names()
        for segment in new:
            segment.change_log_suffix(SWAP, "")
        self.sync_names()
        for segment in new:
            segment.change_index_suffixes(SWAP, "")  # durable with whatever comes next: loading completes it
        return [segment for segment in old if segment.base_offset not in kept]

    def split_overflowed(self, segment: LogSegment) -> tuple[list[LogSegment], list[LogSegment]]:
        """Put several segments in the place of one with offsets too far from its base: those, and what they did not replace."""
        if not segment.has_overflow:
            raise InvalidArgument(f"{segment.log.path}: all its offsets are in reach; there is nothing to split")
        new: list[LogSegment] = []
        try:
            position = 0
            while position < segment.size:
                first = next(segment.log.iter_entries(position), None)
                if first is None:
                    raise MissingEntry(f"{segment.log.path}: no whole entry at byte {position}: it cannot be split there")
                new.append(self.create_cleaned(first.base_offset))
                copied = new[-1].append_from_file(segment.log, position)
                if not copied:
                    raise InvalidState(f"{segment.log.path}: the entry at byte {position} fits into no segment")
                position += copied
            for part in new:
                part.on_become_inactive()
                part.flush()
                part.set_modified_ms(segment.modified_ms)
            return new, self.replace(new, [segment])
        except (LogRefusal, OSError):
            for part in new:
                part.close()
                part.delete_if_exists()
            raise
