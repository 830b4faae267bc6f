"""The segments of an open log as one sequence of entries: read, appended to, rolled, truncated. Independent of producers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import LogRefusal, LogStorageFailure, OffsetOutOfRange
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.names import segment_file_name
from kafkalog.log.swap_segments import DELETED
from kafkalog.storage.fs import Buffer

from .entries import Entry
from .log_segment import LogSegment, Slice
from .offsets import OffsetMetadata
from .segment_files import SegmentFiles
from .transaction_index import AbortedTransaction

SEGMENT_FILES: Final = ("log", "index", "timeindex", "txnindex")


@dataclass
class Fetched:
    """The result of a read; `aborted` lists the transactions to skip, if requested."""

    slice: Slice
    aborted: list[AbortedTransaction] | None = None


class LocalLog:
    """Segments with a log end offset, and the offset up to which they are durable."""

    def __init__(self, files: SegmentFiles, recovery_point: int, log_end: OffsetMetadata) -> None:
        self.files = files
        self.segments = files.segments
        self.recovery_point = recovery_point
        self.log_end = log_end
        self.is_closed = False

    @property
    def log_end_offset(self) -> int:
        return self.log_end.offset

    @property
    def unflushed_messages(self) -> int:
        return self.log_end.offset - self.recovery_point

    def check_open(self) -> None:
        if self.is_closed:
            raise LogStorageFailure(f"{self.files.folder}: the log is closed")

    def update_log_end_offset(self, offset: int) -> None:
        active = self.segments.active
        self.log_end = OffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

    def flush(self, offset: int) -> None:
        """Make everything before `offset` durable."""
        if self.recovery_point > offset:
            return
        unflushed = self.segments.between(self.recovery_point, offset)
        for segment in unflushed:
            segment.flush()
        if any(segment.base_offset >= self.recovery_point for segment in unflushed):
            self.files.sync_names()

    def mark_flushed(self, offset: int) -> None:
        self.check_open()
        self.recovery_point = max(self.recovery_point, offset)

    def close(self) -> None:
        with self.files.guard.doing("closing the log"):
            self.check_open()
            self.segments.close()
            self.files.sync_names()

    def close_handlers(self) -> None:
        self.segments.close_handlers()
        self.is_closed = True

    # appending

    def append(
        self, last_offset: int, data: Buffer, entries: Sequence[Entry] | None = None, table: EntryTable | None = None
    ) -> None:
        """Append a set; `entries` or `table` are its entries or their headers, if the caller has them already."""
        self.segments.active.append(last_offset, data, entries, table)
        self.update_log_end_offset(last_offset + 1)

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """A new active segment; it begins at the log end offset, or at `expected_next_offset` if that is higher."""
        with self.files.guard.doing("rolling the log"):
            self.check_open()
            base_offset = max(expected_next_offset, self.log_end_offset)
            active = self.segments.active
            if base_offset in self.segments:
                if active.base_offset != base_offset or active.size:
                    raise LogRefusal(f"{self.files.folder}: cannot roll to offset {base_offset}: a segment begins there")
                active.make_index_files()
                new = self._replace_segment(base_offset, active)
            elif base_offset < active.base_offset:
                reason = f"the active segment begins after it, at {active.base_offset}"
                raise LogRefusal(f"{self.files.folder}: cannot roll to offset {base_offset}: {reason}")
            else:
                self._remove_strays(base_offset)
                active.on_become_inactive()
                new = self.files.open_segment(base_offset)
                self.segments.add(new)
            self.update_log_end_offset(self.log_end_offset)
            return new

    def _remove_strays(self, base_offset: int) -> None:
        """Remove leftover files that a new segment would take for its own."""
        for kind in SEGMENT_FILES:
            path = os.path.join(self.files.folder, segment_file_name(base_offset, kind))
            if self.files.fs.kind(path) != "missing":
                self.files.fs.remove(path)

    def _replace_segment(self, base_offset: int, old: LogSegment) -> LogSegment:
        """Replace the active segment by an empty one; its files are deleted later."""
        if base_offset == old.base_offset:
            old.change_suffixes("", DELETED)
        new = self.files.open_segment(base_offset)
        self.segments.add(new)
        if base_offset != old.base_offset:
            self.segments.remove(old.base_offset)
        self.files.delete_files([old])
        return new

    # reading

    def read(
        self, offset: int, max_size: int, max_offset: OffsetMetadata, *, min_one: bool = False, with_aborted: bool = False
    ) -> Fetched:
        """Entries from `offset` on, up to `max_offset`."""
        with self.files.guard.doing("reading"):
            segment = self.segments.floor(offset)
            if offset > self.log_end_offset or segment is None:
                raise OffsetOutOfRange(
                    f"{self.files.folder}: offset {offset} does not exist: the log ends at {self.log_end_offset}"
                )
            if offset >= max_offset.offset:
                start = max_offset if offset == max_offset.offset else self.convert_to_offset_metadata(offset)
                return Fetched(Slice(start), [] if with_aborted else None)
            while segment is not None:
                found = segment.read(offset, max_size, _readable_size(segment, max_offset), min_one=min_one)
                if found is not None:
                    return Fetched(found, self._aborted(offset, segment, found) if with_aborted else None)
                segment = self.segments.higher(segment.base_offset)
            return Fetched(Slice(self.log_end))

    def convert_to_offset_metadata(self, offset: int) -> OffsetMetadata:
        """Where the entry of `offset` begins; OffsetOutOfRange if it is not in the log."""
        return self.read(offset, 1, self.log_end).slice.start

    def _aborted(self, offset: int, segment: LogSegment, found: Slice) -> list[AbortedTransaction]:
        upper_bound = segment.fetch_upper_bound_offset(found.start.position, found.size)
        if upper_bound is None:
            following = self.segments.higher(segment.base_offset)
            upper_bound = self.log_end_offset if following is None else following.base_offset
        return self._collect_aborted(offset, upper_bound, segment)

    def collect_aborted_transactions(
        self, log_start_offset: int, base_offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions that may have records in the segments from `base_offset` up to `upper_bound_offset`."""
        segment = self.segments.floor(base_offset)
        return [] if segment is None else self._collect_aborted(log_start_offset, upper_bound_offset, segment)

    def _collect_aborted(self, offset: int, upper_bound_offset: int, first: LogSegment) -> list[AbortedTransaction]:
        aborted: list[AbortedTransaction] = []
        for segment in (first, *self.segments.all_higher(first.base_offset)):
            found, is_complete = segment.transaction_index.collect_aborted(offset, upper_bound_offset)
            aborted += found
            if is_complete:
                break
        return aborted

    # truncation

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Cut off everything from `offset` on; returns the segments that were removed whole."""
        deleted = [segment for segment in self.segments.values if segment.base_offset > offset]
        self.files.remove(deleted)
        if deleted:
            self.files.sync_names()  # or they could reappear after what is appended now
        self.segments.active.truncate_to(offset)
        self.update_log_end_offset(offset)
        return deleted

    def truncate_fully(self, offset: int) -> None:
        """Delete everything and start again at `offset`."""
        with self.files.guard.doing("truncating the log"):
            self.check_open()
            *others, active = self.segments.values
            self.files.remove(others)
            self._replace_segment(offset, active)
            self.files.sync_names()
            self.update_log_end_offset(offset)


def _readable_size(segment: LogSegment, max_offset: OffsetMetadata) -> int | None:
    """How much of a segment lies before `max_offset`; None for nothing."""
    if segment.base_offset < max_offset.segment_base_offset:
        return segment.size
    if segment.base_offset == max_offset.segment_base_offset and not max_offset.offset_only:
        return max_offset.position
    return None
