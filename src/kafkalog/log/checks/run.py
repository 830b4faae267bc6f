"""Check partitions: read each file once, decode windows of several files on a few threads, examine them in log order.

A live broker appends, rolls, cleans and deletes segments while files are read one after the other. So an index entry can be of a
replaced segment, a checkpoint of offsets that were not there when the folder was listed, an abort marker in a log whose .txnindex
was read before the entry was written. If something is wrong with a partition whose files have changed since they were listed, it
is checked again from a new listing, and only findings that recur are reported (`look_again`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kafkalog.errors import KafkaLogError, SegmentError
from kafkalog.format import names
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.reading import ReadOptions, ordered
from kafkalog.log.report import ReadReport
from kafkalog.segment.decode import CHECKED, DecodedWindow, RecordDecoder, RecordRange
from kafkalog.segment.windows import SegmentWalk, Window, WindowBuffers
from kafkalog.storage.store import SMALL_FILE, Store

from .directory import LogDirectory, check_log_directory, read_log_directory, root_of
from .finding import Finding, finding_of, make_finding
from .partition import PartitionCheck

INDEX_KINDS = ("index", "timeindex", "txnindex")


@dataclass
class _Scanned:
    """A window to be decoded, or the beginning or end of a segment or a partition."""

    check: PartitionCheck
    segment: Segment | None = None
    window: Window | None = None
    contents: dict[str, bytes] | None = None  # of the index files, where a segment begins
    problem: KafkaLogError | None = None
    found: list[Finding] = field(default_factory=list)


def check_partitions(
    partitions: Sequence[Partition], options: ReadOptions, report: ReadReport, log_directory: str | None = None
) -> Iterator[Finding | None]:
    """Findings about the partitions, and about their log directory if its path is given; None now and then, for progress.

    `report` counts what was checked. Nothing is raised for bad data or for files that cannot be read: these are findings too.
    """
    chosen = list(partitions)
    if log_directory is not None and partitions:
        yield from check_directory(partitions, options, report, log_directory)
        chosen = [partition for partition in partitions if not partition.state]
    for partition, found in _Run(chosen, options, report).by_partition():
        if found is not None:
            yield from look_again(partition, found, lambda fresh: _look(fresh, options))
        yield None


def check_directory(
    partitions: Sequence[Partition], options: ReadOptions, report: ReadReport, log_directory: str
) -> Iterator[Finding | None]:
    """Findings about a log directory, in which all of these partitions were found, but not about what is in them."""
    store = partitions[0].store
    yield from check_log_directory(store, read_log_directory(store, log_directory), partitions)
    yield from check_partitions(_bootstrap(store, log_directory), options, report)


def _look(partition: Partition, options: ReadOptions) -> list[Finding]:
    looked = _Run([partition], options, ReadReport()).by_partition()
    return [finding for _, found in looked if found is not None for finding in found]


def _bootstrap(store: Store, log_directory: str) -> list[Partition]:
    path = store.join(log_directory, names.BOOTSTRAP_CHECKPOINT)
    return find_partitions(store, path) if store.stat(path) is not None else []


class _Run:
    def __init__(self, partitions: Sequence[Partition], options: ReadOptions, report: ReadReport) -> None:
        self.partitions = partitions
        self.options = options
        self.report = report
        self.decoder = RecordDecoder(RecordRange(), options.limits, CHECKED, check_crcs=True, stop_at_problem=False)
        self.buffers = WindowBuffers()
        self.directories: dict[str, LogDirectory] = {}

    def by_partition(self) -> Iterator[tuple[Partition, list[Finding] | None]]:
        """Each partition with its findings once all of it has been checked; with None after each window."""
        held: list[Finding] = []
        for scanned, decoded in ordered(self._decode, self._scan(), self.options.thread_count):
            self._examine(scanned, decoded)
            found, scanned.check.found = [*scanned.found, *scanned.check.found], []
            held += scanned.check.limited(found)
            yield scanned.check.partition, None
            if scanned.segment is None:
                yield scanned.check.partition, held
                held = []

    def _decode(self, scanned: _Scanned) -> DecodedWindow | None:
        if scanned.window is None:
            return None
        decoded = self.decoder.decode(scanned.window, np.arange(scanned.window.count), leave_large=True)
        if decoded.left is None:
            self.buffers.let_go(scanned.window)
        return decoded

    def _examine(self, scanned: _Scanned, decoded: DecodedWindow | None) -> None:
        check, segment = scanned.check, scanned.segment
        if segment is None:
            check.finish()
        elif scanned.contents is not None:
            check.begin(segment, scanned.contents)
        elif scanned.window is not None and decoded is not None:
            self.report.kept_bytes += scanned.window.size
            check.add(scanned.window, decoded)
            self.buffers.give_back(scanned.window)
        elif isinstance(scanned.problem, SegmentError) and scanned.problem.reason != "changed":
            check.stop_at(scanned.problem)
        elif scanned.problem is not None:
            check.fail(scanned.problem, segment.log.path)
        else:
            check.end()

    # -- scanning, in the turn of a worker thread ----------------------------------------------------------------------------

    def _scan(self) -> Iterator[_Scanned]:
        for partition in self._with_snapshots():
            check = PartitionCheck(partition, self._directory_of(partition), self.options, self.decoder, self.report)
            for segment in partition.segments:
                # Indexes first: a live broker writes an entry of the log before that of the index.
                beginning = _Scanned(check, segment, contents={})
                self._read_indexes(beginning, segment)
                yield beginning
                yield from self._scan_segment(check, segment)
                yield _Scanned(check, segment)
            yield _Scanned(check)

    def _with_snapshots(self) -> Iterator[Partition]:
        """The partitions, and each KRaft snapshot as a partition of its own: its offsets start again."""
        for partition in self.partitions:
            yield partition
            for stored in partition.files if partition.file is None else ():
                if stored.kind == "checkpoint" and not stored.suffix:
                    yield replace(partition, segments=(Segment(stored),), files=(), leftovers=(), problems=(), file=stored.path)

    def _directory_of(self, partition: Partition) -> LogDirectory:
        root = root_of(partition)
        if root is None:
            return LogDirectory()
        if root not in self.directories:
            self.directories[root] = read_log_directory(partition.store, root)
        return self.directories[root]

    def _read_indexes(self, beginning: _Scanned, segment: Segment) -> None:
        partition, contents = beginning.check.partition, beginning.contents
        assert contents is not None
        for kind in INDEX_KINDS:
            stored = segment.siblings.get(kind)
            if stored is not None:
                try:
                    contents[kind] = partition.store.read_small(stored.path, SMALL_FILE)
                except KafkaLogError as error:
                    beginning.found.append(finding_of(error, stored.path, partition))
            elif _lacks_index(partition, segment, kind):
                path = segment.log.path.removesuffix("log") + kind
                beginning.found.append(make_finding("index-missing", path, partition))

    def _scan_segment(self, check: PartitionCheck, segment: Segment) -> Iterator[_Scanned]:
        try:
            with check.partition.open_log(segment) as source:
                walk = SegmentWalk(source, segment.start_position, segment.stop_in(source), self.options.limits)
                for window in walk.windows(self.buffers):
                    yield _Scanned(check, segment, window)
                if walk.problem is not None:
                    yield _Scanned(check, segment, problem=walk.problem)
        except KafkaLogError as error:
            yield _Scanned(check, segment, problem=error)


def _lacks_index(partition: Partition, segment: Segment, kind: str) -> bool:
    """Whether a file that brokers create with the segment is missing. There was no .timeindex before 0.10.1."""
    if partition.file is not None or not segment.log.size or segment.base_offset < 0:
        return False
    return kind == "index" or (kind == "timeindex" and any(kind in other.siblings for other in partition.segments))


LOOKS = 4
# A broker writes the index entries of a batch right after it, but may have to wait for the disk.
PAUSES_SECONDS = (0.1, 0.3, 1.0, 1.0)
assert len(PAUSES_SECONDS) == LOOKS


def look_again(partition: Partition, found: list[Finding], look: Callable[[Partition], list[Finding]]) -> Iterator[Finding]:
    """Those findings of one partition that a live broker does not explain; `look` checks a new listing of it."""
    for pause in PAUSES_SECONDS:
        fresh = _listed(partition) if found else partition
        if fresh is None:  # deleted, with its topic
            return
        if not found or _files(fresh) == _files(partition):
            break
        time.sleep(pause)
        partition = _listed(fresh) or fresh
        again = set(look(partition))
        found = [finding for finding in found if finding in again]
    yield from found


def _files(partition: Partition) -> frozenset[tuple[str, int, int]]:
    return frozenset((stored.path, stored.size, stored.mtime_ns) for stored in partition.files)


def _listed(partition: Partition) -> Partition | None:
    """The partition with its files as they are now; None if it is gone. One that cannot be listed stays as it was."""
    if partition.file is not None and not partition.files:  # a KRaft snapshot, which is written once
        return partition
    place = partition.file or partition.folder
    try:
        if partition.store.stat(place) is None:
            return None
        (fresh,) = find_partitions(partition.store, place)
    except (KafkaLogError, ValueError):
        return partition
    return fresh
