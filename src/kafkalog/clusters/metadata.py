"""The cluster's state from `__cluster_metadata`: the newest snapshot of any copy, and the log that follows it.

A metadata log is never compacted and never has gaps, so everything that contradicts this is damage, and the replay ends before
it: a state that leaves a change out never was. Where a copy is damaged, another one that goes as far takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafkalog.errors import CorruptBatch, KafkaLogError, Limits, NoLogs, SegmentError, StorageError, UsageError
from kafkalog.format import control, names
from kafkalog.format.quantities import repr_text
from kafkalog.log.partition import Partition, Segment, StoredFile
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.payloads.cluster_image import ClusterImage
from kafkalog.payloads.internal_topics import KRAFT_TYPES, decode_cluster_metadata, decode_control_record, metadata_kind
from kafkalog.segment.decode import HIGHEST, RecordRange

from .copies import COLUMNS, METADATA_TOPIC, Copy, StoredRecord, iter_stored_records, rank_copies

Problem = SegmentError | StorageError
SNAPSHOT_KINDS: Final = ("checkpoint", names.BOOTSTRAP_CHECKPOINT)


@dataclass(frozen=True)
class Snapshot:
    """A KRaft snapshot: the state before `end_offset`, in `epoch`."""

    partition: Partition
    file: StoredFile
    end_offset: int
    epoch: int

    @property
    def rank(self) -> tuple[int, int]:
        return self.epoch, self.end_offset


@dataclass
class ClusterRead:
    """A cluster's state, and where it is from. `problems` are damages that made the replay use another copy, or end early."""

    image: ClusterImage
    snapshot: str | None = None
    log: str | None = None
    problems: list[Problem] = field(default_factory=list)
    is_complete: bool = True

    def __repr__(self) -> str:
        return repr_text("ClusterRead", self.log or self.snapshot, repr(self.image), "" if self.is_complete else "ends early")

    @property
    def rank(self) -> tuple[int, int]:
        return self.image.epoch, self.image.offset


def metadata_copies(partitions: Iterable[Partition]) -> list[Partition]:
    """The copies of the metadata log, and snapshots that are given as files."""
    return [
        found
        for found in partitions
        if (found.topic == METADATA_TOPIC and found.partition == 0 and not found.state) or _lone(found)
    ]


def _lone(partition: Partition) -> bool:
    return partition.file is not None and partition.files[0].kind in SNAPSHOT_KINDS


def read_image(
    partitions: Iterable[Partition],
    *,
    at: int | None = None,
    limits: Limits | None = None,
    report: ReadReport | None = None,
    strict: bool = False,
) -> ClusterRead:
    """The cluster's state by its newest copy among the partitions, at the end of the log or right after the record at `at`.

    NoLogs without any metadata. What is damaged is in `problems` and in the report; with `strict` it is raised if the state
    would end before what a copy promises. UsageError for an offset that no copy reaches.
    """
    limits = limits or Limits()
    copies = metadata_copies(partitions)
    snapshots = sorted(_snapshots(copies), key=lambda each: each.rank, reverse=True)
    report = report if report is not None else ReadReport()
    logs = rank_copies([copy for copy in copies if not _lone(copy)], limits, report)
    logs = [log for log in logs if log.end.epoch >= 0]
    if not logs and not snapshots:
        raise NoLogs(_no_metadata(copies))
    _check_reachable(logs, snapshots, at)
    return _Replay(logs, snapshots, at, limits, report).best(strict=strict)


def _no_metadata(copies: Sequence[Partition]) -> str:
    if copies:
        return f"{copies[0].folder}: the metadata log holds no record and no snapshot; give the folders of another controller"
    return (
        f"no cluster metadata here: none of the log directories has {METADATA_TOPIC}-0 (it is in the first of log.dirs, or in "
        "metadata.log.dir, of each controller and broker of a KRaft cluster); give that folder too: kafkalog cluster FOLDER…"
    )


def _snapshots(copies: Iterable[Partition]) -> Iterator[Snapshot]:
    for copy in copies:
        for stored in copy.files:
            if stored.kind == "checkpoint" and not stored.suffix:
                parsed = names.parse_file_name(copy.store.name(stored.path))
                yield Snapshot(copy, stored, stored.base_offset, parsed.epoch if parsed else -1)
            elif stored.kind == names.BOOTSTRAP_CHECKPOINT:
                yield Snapshot(copy, stored, 0, 0)


def _check_reachable(logs: Sequence[Copy], snapshots: Sequence[Snapshot], at: int | None) -> None:
    if at is None:
        return
    ends = [*(log.end.offset for log in logs), *(each.end_offset for each in snapshots)]
    starts = [each.end_offset - 1 for each in snapshots if each.end_offset]
    starts += [log.partition.start_offset for log in logs if log.partition.start_offset == 0]
    if not starts or not min(starts) <= at < max(ends):
        known = f"{min(starts)} to {max(ends) - 1}" if starts else "none"
        raise UsageError(f"no state at offset {at}: the metadata on these disks has the states at the offsets {known}")


class _Replay:
    """Tries combinations of snapshot and log, the most promising first, until one is intact."""

    def __init__(
        self, logs: Sequence[Copy], snapshots: Sequence[Snapshot], at: int | None, limits: Limits, report: ReadReport
    ) -> None:
        self.logs = logs
        self.snapshots = [each for each in snapshots if at is None or each.end_offset - 1 <= at]
        self.at = at
        self.limits = limits
        self.report = report
        self.trusts_checkpoints = True
        self.damaged: set[str] = set()
        self.problems: list[Problem] = []

    def best(self, *, strict: bool) -> ClusterRead:
        found = self._furthest(None)
        if (found is None or not found.is_complete) and any(_is_about_epochs(problem) for problem in self.problems):
            # A checkpoint of epochs that a crash left out of date looks like damage: without a copy that agrees with its own,
            # none of them counts.
            self.trusts_checkpoints = False
            found = self._furthest(found)
        if found is None:
            raise self.problems[0] if self.problems else self._out_of_reach()
        found.problems = self.problems
        found.is_complete = found.is_complete and (found.image.epoch, found.image.offset + 1) >= self._promised
        if self.problems and strict and not found.is_complete:
            raise self.problems[0]
        for problem in () if found.is_complete else self.problems:
            if isinstance(problem, StorageError):
                self.report.leave_unread(problem)
            else:
                self.report.drop(problem)
        return found

    def _furthest(self, found: ClusterRead | None) -> ClusterRead | None:
        """The state that goes furthest, also compared with one found before; a complete one ends the search."""
        for read in self._attempts():
            if found is None or (read.rank, read.is_complete) > (found.rank, found.is_complete):
                found = read
            if read.is_complete:
                break
        return found

    @property
    def _promised(self) -> tuple[int, int]:
        """What the newest copy says it has: epoch and end offset."""
        if self.at is not None:
            return -1, 0  # an attempt that does not reach it is not complete
        return max([*(log.promised for log in self.logs), *(each.rank for each in self.snapshots)])

    def _out_of_reach(self) -> KafkaLogError:
        where = self.logs[0].partition.folder if self.logs else ""
        start = self.logs[0].partition.start_offset if self.logs else 0
        return NoLogs(
            f"{where}: the metadata log begins at offset {start}, and no snapshot here covers what came before; give the folders "
            "of another controller too: kafkalog cluster FOLDER…"
        )

    def _attempts(self) -> Iterator[ClusterRead]:
        newest = self.snapshots[:1]
        ahead = [each for each in newest if not any(log.promised >= each.rank for log in self.logs)]
        for snapshot in ahead:
            yield from self._attempt(snapshot, None)
        for log in self.logs:
            for snapshot in [each for each in self.snapshots if self._continues(log, each)]:
                if snapshot.file.path not in self.damaged:
                    yield from self._attempt(snapshot, log)
            if log.partition.start_offset == 0:
                yield from self._attempt(None, log)
        for snapshot in self.snapshots:
            if snapshot not in ahead and snapshot.file.path not in self.damaged:
                yield from self._attempt(snapshot, None)

    @staticmethod
    def _continues(log: Copy, snapshot: Snapshot) -> bool:
        return log.partition.start_offset <= snapshot.end_offset <= log.end.offset and snapshot.epoch <= log.end.epoch

    def _attempt(self, snapshot: Snapshot | None, log: Copy | None) -> Iterator[ClusterRead]:
        image = ClusterImage()
        read = ClusterRead(image, None if snapshot is None else snapshot.file.path, None if log is None else log.partition.folder)
        if snapshot is not None:
            try:
                _replay_snapshot(image, snapshot, self.limits)
            except (SegmentError, StorageError) as error:
                self._note(error)
                self.damaged.add(snapshot.file.path)
                return
        if log is not None:
            try:
                self._replay_log(image, log.partition)
            except (SegmentError, StorageError) as error:
                self._note(error)
                read.is_complete = False
        if self.at is not None and image.offset < self.at:
            read.is_complete = False
        if image.offset >= 0 or snapshot is not None:
            yield read

    def _note(self, error: Problem) -> None:
        if all(str(error) != str(known) for known in self.problems):
            self.problems.append(error)

    def _replay_log(self, image: ClusterImage, partition: Partition) -> None:
        wanted = RecordRange(image.offset + 1, HIGHEST if self.at is None else self.at + 1)
        report = ReadReport()
        if not self.trusts_checkpoints:
            others = tuple(each for each in partition.files if each.kind != names.LEADER_EPOCH_CHECKPOINT)
            partition = replace(partition, files=others)
        for record in iter_stored_records(partition, _options(wanted, self.limits), report):
            apply_record(image, record)
            image.offset, image.epoch = record.offset, max(record.leader_epoch, image.epoch)
            image.timestamp_ms = record.timestamp_ms
        self.report.add(report)


def _is_about_epochs(problem: Problem) -> bool:
    return isinstance(problem, SegmentError) and problem.reason == "epoch"


def _options(wanted: RecordRange, limits: Limits) -> ReadOptions:
    return ReadOptions(frozenset(COLUMNS), record_range=wanted, include_control=True, neighbours=True, threads=1, limits=limits)


def _replay_snapshot(image: ClusterImage, snapshot: Snapshot, limits: Limits) -> None:
    """Fill an image from a snapshot; CorruptBatch("snapshot-incomplete") unless it has its first and last control record."""
    source = snapshot.partition
    file = Partition(source.store, source.folder, METADATA_TOPIC, 0, segments=(Segment(snapshot.file),), file=snapshot.file.path)
    report = ReadReport()
    kinds = []
    for record in iter_stored_records(file, _options(RecordRange(), limits), report):
        kinds.append(control.decode_control_type(record.key) if record.is_control else None)
        apply_record(image, record)
        if kinds[-1] == control.SNAPSHOT_HEADER:
            header = decode_control_record(record.key, record.value)
            image.timestamp_ms = header.get("lastContainedLogTimestamp", -1) if isinstance(header, dict) else -1
    if report.tails or not kinds or kinds[0] != control.SNAPSHOT_HEADER or kinds[-1] != control.SNAPSHOT_FOOTER:
        raise CorruptBatch("snapshot-incomplete", file=snapshot.file.path, position=0, length=snapshot.file.size)
    image.offset, image.epoch = snapshot.end_offset - 1, snapshot.epoch


def apply_record(image: ClusterImage, record: StoredRecord) -> None:
    """Take a stored record into account; CorruptBatch with its place if it cannot be decoded."""
    try:
        if record.is_control:
            _apply_control(image, record)
            return
        if record.value is None:
            image.skip("null value")
            return
        name, version, is_known = metadata_kind(record.value)
        if is_known:
            image.apply(decode_cluster_metadata(record.value))
        else:
            image.skip(f"{name} version {version}")
    except CorruptBatch as error:
        raise CorruptBatch(
            error.reason,
            file=record.file,
            position=record.position,
            base_offset=record.offset,
            last_offset=record.offset,
            detail=error.detail,
        ) from None


def _apply_control(image: ClusterImage, record: StoredRecord) -> None:
    found = decode_control_record(record.key, record.value)
    if isinstance(found, dict):
        image.apply_control(KRAFT_TYPES[control.decode_control_type(record.key)][1], found)
