"""Operations on whole segments: delete, rewrite, replace, split; and what a failing disk means for their log.

The file names show the progress, so that loading the log completes or undoes what a crash interrupted: `.cleaned` files are
incomplete, `.swap` files are complete and about to replace others, `.deleted` files are about to be removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from types import TracebackType

from kafkalog.errors import InvalidArgument, InvalidState, LogRefusal, LogStorageFailure, MissingEntry
from kafkalog.format.names import segment_file_name
from kafkalog.log.swap_segments import CLEANED, DELETED, SWAP
from kafkalog.storage.fs import Fs

from .config import LogConfig
from .log_segment import LogSegment
from .log_segments import LogSegments
from .schedule import Clock, Schedule


class StorageGuard:
    """Turns failures of the file system into LogStorageFailure. After one the disk's state is unknown: all is refused."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.failure: OSError | None = None

    def fail(self, error: Exception) -> None:
        """Refuse everything from now on: a checkpoint cannot be read, so the state of the disk is unknown."""
        self.failure = error if isinstance(error, OSError) else OSError(str(error))

    def doing(self, action: str) -> GuardedAction:
        """A context for `action`, which may fail, and is refused after an earlier failure."""
        return GuardedAction(self, action)


class GuardedAction:
    """An action on the files of a log."""

    __slots__ = ("_action", "_guard")

    def __init__(self, guard: StorageGuard, action: str) -> None:
        self._guard = guard
        self._action = action

    def __enter__(self) -> None:
        guard = self._guard
        if guard.failure is not None:
            raise LogStorageFailure(
                f"{guard.folder}: {self._action} refused after an earlier failure ({guard.failure}); open the log again"
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, OSError):
            self._guard.failure = error
            raise LogStorageFailure(f"{self._guard.folder}: {self._action} failed: {error}") from error


_base_offset = attrgetter("base_offset")


class SegmentFiles:
    """The segments of one folder, with what is needed to change them."""

    def __init__(self, folder: str, config: LogConfig, *, fs: Fs, clock: Clock, schedule: Schedule) -> None:
        self.folder = folder
        self.segments = LogSegments()
        self.config = config
        self.fs = fs
        self.clock = clock
        self.schedule = schedule
        self.guard = StorageGuard(folder)

    def sync_names(self) -> None:
        """Make the names of the files durable."""
        self.fs.sync_folder(self.folder)

    def open_segment(self, base_offset: int, *, exists: bool = False, suffix: str = "") -> LogSegment:
        return LogSegment.open(self.folder, base_offset, self.config, fs=self.fs, clock=self.clock, exists=exists, suffix=suffix)

    def create_cleaned(self, base_offset: int) -> LogSegment:
        """An empty segment with `.cleaned` names; leftovers of another one are removed."""
        for kind in ("index", "timeindex", "txnindex", "log"):
            with suppress(FileNotFoundError):
                self.fs.remove(f"{self.folder}/{segment_file_name(base_offset, kind)}{CLEANED}")
        return self.open_segment(base_offset, suffix=CLEANED)

    def delete_files(self, segments: Sequence[LogSegment], *, later: bool = True) -> None:
        """Rename the files of these segments, and remove them after file.delete.delay.ms: they may still be read."""
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
        """Remove segments from the log, and delete their files."""
        if segments:
            for segment in segments:
                self.segments.remove(segment.base_offset)
            self.delete_files(segments, later=later)

    def replace(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> list[LogSegment]:
        """Replace `old` segments by complete `.cleaned` ones; returns the old ones whose base offset no new one has.

        A crash before all of them are `.swap` undoes this, which is why the last one is renamed first: the loader accepts a
        `.swap` file unless a `.cleaned` one begins before it. After a later crash the loader completes it. Names are made durable
        in between: of changes that are not, a disk may keep the last and lose the first. A log that is `.swap` before the names
        of its indexes are durable might be found without them; an index that gets its final name before its log does would be
        taken for one of a replaced segment.
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
            segment.change_index_suffixes(SWAP, "")  # becomes durable with the next sync: loading completes it
        return [segment for segment in old if segment.base_offset not in kept]

    def split_overflowed(self, segment: LogSegment) -> tuple[list[LogSegment], list[LogSegment]]:
        """Replace a segment with offsets too far from its base by several; returns them, and what `replace` returns."""
        if not segment.has_overflow:
            raise InvalidArgument(f"{segment.log.path}: all its offsets are in range; there is nothing to split")
        new: list[LogSegment] = []
        try:
            position = 0
            while position < segment.size:
                first = next(segment.log.iter_entries(position), None)
                if first is None:
                    raise MissingEntry(f"{segment.log.path}: no whole entry at byte {position}: cannot split there")
                new.append(self.create_cleaned(first.base_offset))
                copied = new[-1].append_from_file(segment.log, position)
                if not copied:
                    raise InvalidState(f"{segment.log.path}: the entry at byte {position} does not fit in any segment")
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
