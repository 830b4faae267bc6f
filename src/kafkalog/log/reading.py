"""Read the records of partitions: scan ahead, decode windows on a few threads, yield them in order.

The scan is cheap and runs one window at a time; each window is then decoded on its own. Damage found by either is handled where
windows come out, in log order: `strict` raises there, after everything before it has been yielded.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, Limits, SegmentError, StorageError, TornTail
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels.resync import ResyncBounds, find_next_entry
from kafkalog.segment.columns import RecordColumns
from kafkalog.segment.decode import HIGHEST, LOWEST, DecodedWindow, EntryProblem, RecordDecoder, RecordRange
from kafkalog.segment.salvage import SalvageWalk
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import WINDOW_BYTES, SegmentWalk, Window, WindowBuffers, rows_of
from kafkalog.storage.local import PatchedSource
from kafkalog.storage.store import ByteSource

from .entry_order import MAX_INDEX_DELTA, Order, header_bases, order_error
from .partition import Partition, Segment
from .report import ReadReport
from .transactions import AbortedRanges, Committed, replay_transactions

DEFAULT_THREADS = 4
AHEAD = 2  # windows in progress, done or waiting, per thread
NARROW_OFFSETS = 1000
NARROW_WINDOW_BYTES = 256 << 10

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ReadOptions:
    """What to read and how to handle damage; `Logs.read` explains each option."""

    columns: frozenset[str]
    record_range: RecordRange = field(default_factory=RecordRange)
    isolation: str = "read_uncommitted"
    on_damage: str = "strict"
    include_control: bool = False
    include_empty: bool = False  # also slices of entries without records
    neighbours: bool = False
    allow_disorder: bool = False
    skip_io_errors: bool = False
    views: bool = False  # keys and values as views of where they are, not copied
    check_crcs: bool = False  # for batches, read strictly: a wrong checksum is damage, not just a column
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)
    window_bytes: int | None = None
    committed: Committed | None = None  # for a part of a partition, which cannot replay all transactions

    @property
    def thread_count(self) -> int:
        return self.threads if self.threads is not None else min(DEFAULT_THREADS, len(os.sched_getaffinity(0)))


@dataclass
class _Scanned:
    """A window to be decoded or, without one, only problems of the walk."""

    segment: Segment
    window: Window | None
    entries: NDArray[np.int64] | None = None
    problems: list[SegmentError] = field(default_factory=list)
    begins: bool = False
    skipped: bool = False
    ends: bool = False
    file_stop: int = -1


@dataclass
class RecordSlice:
    """Rows `start..stop` of decoded columns: those of its entries `first_entry..stop_entry`, both half-open."""

    partition: Partition
    columns: RecordColumns
    start: int
    stop: int
    first_entry: int
    stop_entry: int


def open_log(partition: Partition, segment: Segment, options: ReadOptions, report: ReadReport) -> ByteSource:
    """The segment's log file, on request with zeros where the device fails; the report lists those places."""
    source = partition.open_log(segment)
    if not options.skip_io_errors:
        return source
    file = segment.log.path
    return PatchedSource(
        source, lambda position, size: report.drop(CorruptBatch("unreadable", file=file, position=position, length=size))
    )


def read_records(partitions: Iterable[Partition], options: ReadOptions, report: ReadReport) -> Iterator[RecordSlice]:
    """The records of each partition in turn, in log order."""
    for partition in partitions:
        yield from _PartitionRead(partition, options, report).run()


class _PartitionRead:
    def __init__(self, partition: Partition, options: ReadOptions, report: ReadReport) -> None:
        self.partition = partition
        self.options = options
        self.report = report
        self.order = Order(partition, neighbours=options.neighbours)
        self.range = replace(
            options.record_range, start_offset=max(options.record_range.start_offset, partition.log_start_offset or 0)
        )
        self.last_checked_offset = self.range.last_offset
        self.aborted: AbortedRanges | None = None
        self.newest_stop = HIGHEST
        if options.isolation == "read_committed":
            committed = options.committed
            if committed is None:
                # Fixed before the replay: what a broker appends later may belong to transactions that the replay has not seen.
                self.newest_stop = self._newest_size()
                committed = replay_transactions(partition, options.limits).committed()
            self.aborted = committed.aborted
            if committed.first_open_offset is not None and committed.first_open_offset < self.range.stop_offset:
                # A transaction without a marker: it is open, or its marker is damaged. Only all that follows shows which.
                self.range = replace(self.range, stop_offset=committed.first_open_offset)
                self.last_checked_offset = HIGHEST
        self.salvage = options.on_damage == "salvage"
        self.strict = options.on_damage == "strict"
        self.decoder = RecordDecoder(
            self.range,
            options.limits,
            options.columns,
            check_crcs=not self.salvage,
            stop_at_problem=self.strict,
            keep_empty=options.include_empty,
            views=options.views,
        )
        self.buffers = WindowBuffers(options.window_bytes or self._window_bytes())

    def _newest_size(self) -> int:
        if not self.partition.segments:
            return 0
        with self.partition.open_log(self.partition.segments[-1]) as source:
            return source.size

    def _window_bytes(self) -> int:
        """A few offsets are not worth a whole window, least of all from an object store."""
        narrow = self.range.last_offset - self.range.start_offset < NARROW_OFFSETS
        return NARROW_WINDOW_BYTES if narrow else WINDOW_BYTES

    def run(self) -> Iterator[RecordSlice]:
        for scanned, decoded in ordered(self._decode, self._scan(), self.options.thread_count):
            for part, found in self._parts(scanned, decoded):
                yield from self._yield_records(part, found)
            if scanned.window is not None:
                self.buffers.give_back(scanned.window)

    def _parts(self, scanned: _Scanned, decoded: DecodedWindow | None) -> Iterator[tuple[_Scanned, DecodedWindow | None]]:
        """What was decoded, then the rest of the window part by part, so that only one part is in memory."""
        window = scanned.window
        while window is not None and decoded is not None and decoded.left is not None:
            entries = np.arange(window.count) if scanned.entries is None else scanned.entries
            done = int(np.searchsorted(entries, decoded.left))
            yield replace(scanned, entries=entries[:done], problems=[], ends=False), decoded
            decoded.groups.clear()
            scanned = replace(scanned, entries=entries[done:], begins=False)
            decoded = self._decode_window(scanned, window, leave_large=False)
        yield scanned, decoded

    # -- scanning ------------------------------------------------------------------------------------------------------------

    def _scan(self) -> Iterator[_Scanned]:
        for segment in self.partition.segments_from(self.range.start_offset):
            if segment.base_offset > self.last_checked_offset:
                return
            try:
                with open_log(self.partition, segment, self.options, self.report) as source:
                    yield from self._scan_segment(segment, source)
            except StorageError as error:
                if self.strict:
                    raise
                self.report.leave_unread(error)

    def _scan_segment(self, segment: Segment, source: ByteSource) -> Iterator[_Scanned]:
        stop = segment.stop_in(source)
        if segment.is_newest:
            stop = min(stop, self.newest_stop)
        start = min(max(self._seek(segment, source), segment.start_position), stop)
        yield _Scanned(segment, None, begins=True, skipped=start > 0)
        if self.salvage:
            placement = SegmentPlacement(self.partition, segment, self.options, skipped=start > 0)
            for salvaged in SalvageWalk(source, start, stop, self.options.limits, placement).windows(self.buffers):
                yield _Scanned(segment, salvaged.window, salvaged.entries, salvaged.problems, file_stop=stop)
        else:
            walk = SegmentWalk(source, start, stop, self.options.limits)
            for window in walk.windows(self.buffers):
                yield _Scanned(segment, window, file_stop=stop)
                if self._is_beyond(window):
                    return
            if walk.problem is not None:
                yield _Scanned(segment, None, problems=[explain_end(segment, source, walk.problem, self.options.limits)])
        yield _Scanned(segment, None, ends=True)

    def _seek(self, segment: Segment, source: ByteSource) -> int:
        index = segment.siblings.get("index")
        return seek_position(
            source,
            self.partition.store,
            index.path if index else None,
            segment.base_offset,
            self.range.start_offset,
            self.options.limits,
        )

    def _is_beyond(self, window: Window) -> bool:
        """Whether the offsets to check end before this window does."""
        return int(window.entries.base_offset[-1]) > self.last_checked_offset

    # -- decoding (on worker threads) ----------------------------------------------------------------------------------------

    def _decode(self, scanned: _Scanned) -> DecodedWindow | None:
        if scanned.window is None:
            return None
        decoded = self._decode_window(scanned, scanned.window, leave_large=True)
        if decoded.left is None:
            self.buffers.let_go(scanned.window)
        return decoded

    def _decode_window(self, scanned: _Scanned, window: Window, *, leave_large: bool) -> DecodedWindow:
        if scanned.entries is None and self._wants_all(window):
            return self.decoder.decode(window, np.arange(window.count), leave_large=leave_large)
        entries = scanned.entries if scanned.entries is not None else np.arange(window.count)
        table = rows_of(window.entries, entries)
        in_range = self._in_range(table)
        if not in_range.all():
            entries, table = entries[in_range], table[in_range]
        wanted = self._wanted(table)
        return self.decoder.decode(window, entries, None if wanted.all() else wanted, leave_large=leave_large)

    def _wants_all(self, window: Window) -> bool:
        """Whether, by a few facts, every entry lies within the range and none is to be left out: the common case."""
        facts = window.facts
        return (
            bool(facts.in_order)
            and not facts.wrapper_count
            and facts.first_base >= self.range.start_offset
            and facts.greatest_last <= self.range.last_offset
            and (self.options.include_control or not facts.control_count)
            and self.range.start_time_ms == LOWEST
            and self.aborted is None
        )

    def _in_range(self, table: EntryTable) -> NDArray[np.bool_]:
        """Entries that may hold offsets within the range; the others are not even checked."""
        impossible = (table.last_offset < table.base_offset) | (table.last_offset < 0)
        chosen: NDArray[np.bool_] = (table.last_offset >= self.range.start_offset) | impossible
        chosen &= header_bases(table) <= self.last_checked_offset
        return chosen

    def _wanted(self, table: EntryTable) -> NDArray[np.bool_]:
        """Entries that may hold requested records, by their headers, which count only if the checksum matches."""
        exact = header_bases(table)
        wanted: NDArray[np.bool_] = exact <= self.range.last_offset
        # A v1 wrapper's timestamp may be stale (0.10.0 brokers), so only v2 headers and single messages can exclude a time.
        latest_known = (table.magic == 2) | ((table.magic == 1) & (exact >= 0))
        wanted &= ~latest_known | (table.max_timestamp >= self.range.start_time_ms)
        if not self.options.include_control:
            wanted &= (table.attributes & batch.CONTROL == 0) | (table.magic < 2)
        if self.aborted is not None:
            wanted &= ~self.aborted.mask(table)
        return wanted

    # -- yielding, in order --------------------------------------------------------------------------------------------------

    def _yield_records(self, scanned: _Scanned, decoded: DecodedWindow | None) -> Iterator[RecordSlice]:
        if scanned.begins:
            self.order.begin(scanned.segment, skipped=scanned.skipped)
        if decoded is not None:
            problems = decoded.problems
            if not self.options.allow_disorder:
                problems = sorted([*problems, *self._out_of_place(scanned, decoded)], key=lambda problem: problem.entry)
            yield from self._slices(decoded, problems)
            for problem in problems:
                self._handle(torn_by_crash(problem.error, scanned.file_stop), scanned.segment)
        for error in scanned.problems:
            self._handle(torn_by_crash(error, scanned.file_stop), scanned.segment)
        if scanned.ends:
            self._check_end(scanned.segment)

    def _out_of_place(self, scanned: _Scanned, decoded: DecodedWindow) -> list[EntryProblem]:
        """Intact entries whose offsets or epochs contradict adjacent entries."""
        window = decoded.window
        if scanned.entries is None and not decoded.problems and self.order.follows(window):
            self._note_overflow(scanned.segment, window.entries, window.facts.greatest_last)
            return []
        rows = np.arange(window.count) if scanned.entries is None else scanned.entries
        damaged = [problem.entry for problem in decoded.problems]
        if damaged:
            rows = rows[rows < damaged[0]] if self.strict else np.setdiff1d(rows, damaged)
        table = rows_of(window.entries, rows)
        found = self.order.check(table, decoded_bases(decoded, rows))
        self._note_overflow(scanned.segment, table, int(table.last_offset.max(initial=0)))
        return [
            EntryProblem(int(rows[problem.row]), order_error(window.file, table, problem), problem.entry_stays)
            for problem in found
        ]

    def _note_overflow(self, segment: Segment, table: EntryTable, greatest_last: int) -> None:
        """Note offsets too far from the segment's base for an index (KAFKA-6264): readable, but worth a note."""
        if segment.base_offset >= 0 and greatest_last - segment.base_offset > MAX_INDEX_DELTA:
            self.report.note("segment-overflow", int((table.last_offset - segment.base_offset > MAX_INDEX_DELTA).sum()))

    def _slices(self, decoded: DecodedWindow, problems: list[EntryProblem]) -> Iterator[RecordSlice]:
        bad = [problem.entry for problem in problems if self.strict or not problem.entry_stays]
        for group in decoded.groups:
            if not bad:
                self.report.count(group.rows, len(group.entries), int(group.entry_table.size.sum()))
                yield RecordSlice(self.partition, group, 0, group.rows, 0, len(group.entries))
                continue
            kept = group.entries < bad[0] if self.strict else ~np.isin(group.entries, bad)
            for start, stop in _runs(kept):
                first, last = group.first_rows[start], group.first_rows[stop - 1] + group.row_counts[stop - 1]
                self.report.count(int(last - first), stop - start, int(group.entry_table.size[start:stop].sum()))
                if last > first or self.options.include_empty:
                    yield RecordSlice(self.partition, group, int(first), int(last), start, stop)

    def _handle(self, error: SegmentError, segment: Segment) -> None:
        if isinstance(error, TornTail) and segment.is_newest:
            self.report.end_at_tail(error)
        elif self.strict:
            raise error
        else:
            self.report.drop(error)

    def _check_end(self, segment: Segment) -> None:
        missing = self.order.missing_at_end()
        if missing is not None:
            first, last = missing
            detail = f"offsets {first} to {last} are missing before the next segment"
            self._handle(
                TornTail(
                    "gap-at-end",
                    file=segment.log.path,
                    position=segment.log.size,
                    length=0,
                    base_offset=first,
                    last_offset=last,
                    at_tail=True,
                    detail=detail,
                ),
                segment,
            )


def decoded_bases(decoded: DecodedWindow, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first offsets of these entries (ascending rows of the window), including compressed v0/v1 sets that were decoded."""
    bases = header_bases(rows_of(decoded.window.entries, rows))
    if (bases < 0).any():
        for group in decoded.groups:
            intact = np.isin(group.entries, rows)
            bases[np.searchsorted(rows, group.entries[intact])] = group.first_offsets[intact]
    return bases


def _runs(kept: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of consecutive True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], kept, [False]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def torn_by_crash(error: SegmentError, file_stop: int) -> SegmentError:
    """A last entry with zeroed sectors was being written when the power failed: a tail, not damage."""
    if error.reason != "torn-write" or error.position + error.length != file_stop:
        return error
    return TornTail("torn-write", **entry_fields(error), at_tail=True)


def entry_fields(error: SegmentError) -> dict[str, Any]:
    """The place of an error, as keyword arguments for another."""
    return {name: getattr(error, name) for name in ("file", "position", "length", "base_offset", "last_offset")}


def explain_end(segment: Segment, source: ByteSource, problem: SegmentError, limits: Limits) -> SegmentError:
    """Classify the end of a walk: it is a tail only if no intact entry follows."""
    if problem.reason not in ("torn", "torn-write"):
        return problem
    bounds = ResyncBounds(minimum_offset=segment.base_offset - 1, batch_bytes=limits.batch_bytes)
    found = find_next_entry(source.read_into, problem.position + 1, problem.position + problem.length, bounds)
    place: dict[str, Any] = {"file": problem.file, "position": problem.position, "length": problem.length}
    if found is None:
        return TornTail("torn", **place, at_tail=True, expected=problem.expected, found=problem.found)
    reason = "length" if problem.reason == "torn" else problem.reason
    detail = f"an intact entry follows at byte {found.position}"
    return CorruptBatch(reason, **place, expected=problem.expected, found=problem.found, detail=detail)


class SegmentPlacement:
    """The order of one segment for the salvage walk, which must know what may follow before it searches."""

    def __init__(self, partition: Partition, segment: Segment, options: ReadOptions, *, skipped: bool) -> None:
        self.order = Order(partition, neighbours=options.neighbours)
        self.order.begin(segment, skipped=skipped)
        self.options = options

    def misplaced(self, table: EntryTable, file: str) -> list[tuple[int, SegmentError]]:
        if self.options.allow_disorder:
            return []
        bases = header_bases(table)
        found = [problem for problem in self.order.check(table, bases) if not problem.entry_stays]
        # Where a compressed v0/v1 set begins is known only once it is decoded; its place is judged then, unless it is impossible.
        certain = [problem for problem in found if bases[problem.row] >= 0 or problem.found > self.bounds().maximum_offset]
        return [(problem.row, order_error(file, table, problem)) for problem in certain]

    def bounds(self) -> ResyncBounds:
        after = self.order.segment.next_base_offset
        return ResyncBounds(
            minimum_offset=self.order.last_offset,
            maximum_offset=ResyncBounds.maximum_offset if after is None else after - 1,
            minimum_epoch=max(self.order.epoch, 0),
            batch_bytes=self.options.limits.batch_bytes,
        )


def ordered(work: Callable[[Item], Result], items: Iterator[Item], threads: int) -> Iterator[tuple[Item, Result]]:
    """Each item with the result of `work` on it, in order; a few items are in progress at once on as many threads.

    Each thread takes its item from `items` itself, in turn: what it reads stays in the caches of its core.
    """
    if threads <= 1:
        for item in items:
            yield item, work(item)
        return

    is_ended = False

    def step(turn: Event, next_turn: Event) -> tuple[Item, Result] | None:
        try:
            turn.wait()
            item = None if is_ended else next(items, None)
        finally:
            next_turn.set()
        return None if item is None else (item, work(item))

    pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="kafkalog")
    waiting: deque[_Step[tuple[Item, Result] | None]] = deque()
    turn = Event()
    turn.set()
    turns = deque([turn], AHEAD * threads)
    try:
        while True:
            while len(waiting) < AHEAD * threads:
                turns.append(Event())
                waiting.append(_Step(pool, partial(step, turn, turns[-1])))
                turn = turns[-1]
            # The caller's thread works too: one more that only waits would compete for the cores and for the GIL.
            while not waiting[0].is_done and any(each.run_here() for each in waiting):
                pass
            done = waiting.popleft().result()
            if done is None:
                return
            yield done
    finally:
        # An interrupted or cancelled step passes no turn on, and a later one on a thread would wait for it forever.
        is_ended = True
        for turn in turns:
            turn.set()
        pool.shutdown(wait=True)


class _Step(Generic[Result]):
    """Work that a thread of the pool does, unless the caller does it before."""

    def __init__(self, pool: ThreadPoolExecutor, work: Callable[[], Result]) -> None:
        self._work = work
        self._future = pool.submit(work)

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def run_here(self) -> bool:
        """Do the work on this thread; False if it has begun elsewhere."""
        if not self._future.cancel():
            return False
        self._future = Future()
        try:
            self._future.set_result(self._work())
        except Exception as error:
            self._future.set_exception(error)
        return True

    def result(self) -> Result:
        return self._future.result()
