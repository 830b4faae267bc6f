"""Changes to a partition that the engine opens as a broker would: planned without writing, then made in place or on a copy.

In place the plan comes first, on an overlay that keeps every change in memory; if it changes nothing, no file is touched. A copy
is built in a staging folder and appears complete or not at all, with a journal next to it by which a second run recognises its
own work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, TypedDict

from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import SystemClock
from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.format.json_shape import SHAPE_ERRORS, parse_object, require_type, shape_problem
from kafkalog.format.quantities import offsets_text, plural, repr_text, size_text
from kafkalog.log.partition import Partition
from kafkalog.log.replicas import Lost
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.overlay import OverlayFs
from kafkalog.storage.publish import publish_files
from kafkalog.storage.unfinished import path_beside
from kafkalog.tables.choices import Names, Numbers

from .locking import (
    Checkpoints,
    NewCheckpoints,
    drop_segments,
    held,
    is_log_directory,
    like_its_log,
    remove_marker,
    set_log_start,
)
from .losses import Loss, find_damaged_loss, find_keyless_loss, find_loss
from .opening import (
    INTERRUPTED,
    LogOpening,
    find_cut,
    loses_batches,
    opening_in_place,
    require_no_loss,
    settle_interrupted,
    settled_view,
    stored_sizes,
)
from .output import COPY_BYTES, Progress, folder_name, output_folder, staged_copy
from .partitions import (
    OnFailure,
    PathLike,
    asked_partitions,
    chosen_partitions,
    each_partition,
    require_listed,
    require_real_folder,
)

DELETED = "deleted"


@dataclass(frozen=True, repr=False)
class LogState:
    """Where a log begins and ends, and its size."""

    start_offset: int
    end_offset: int
    segments: int
    size: int

    def __repr__(self) -> str:
        return f"LogState({self.described})"

    @property
    def described(self) -> str:
        return f"{offsets_text(self.start_offset, self.end_offset)}, {plural(self.segments, 'segment')}, {size_text(self.size)}"

    @classmethod
    def of(cls, log: PartitionLog) -> LogState:
        return cls(log.log_start_offset, log.log_end_offset, len(log.segments), log.size)


@dataclass(repr=False)
class MaintenanceResult:
    """The result for one partition; in a dry run, the plan. `after` is None where only the work itself can show it.

    `state` is "written", "already there" (an earlier run did it, or there is nothing to do) or "not written". `loss`: the
    records that are deleted, if any.
    """

    command: str
    topic: str
    partition: int
    folder: str
    before: LogState | None = None
    after: LogState | None = None
    details: dict[str, Any] = field(default_factory=dict)
    cut_bytes: int = 0  # after the last whole batch: a write that a crash interrupted
    state: str = "not written"
    loss: Loss | None = None

    def __repr__(self) -> str:
        states = [state.described for state in (self.before, self.after) if state is not None]
        change = states[0] if len(set(states)) == 1 else " -> ".join(states)
        lost = "" if self.loss is None else f"{'loses' if self.state == 'not written' else 'lost'} {self.loss.described}"
        cut = f"{size_text(self.cut_bytes)} cut after the last whole batch" if self.cut_bytes and self.loss is None else ""
        return repr_text("MaintenanceResult", self.folder, self.command, self.state, change, lost, cut)


class Operation(Protocol):
    """A change to an open log."""

    @property
    def name(self) -> str: ...

    @property
    def is_recovery(self) -> bool:
        """Whether this is what a broker does after a crash: then batches after damage may be lost, and no marker is trusted."""
        ...

    @property
    def recovers_all(self) -> bool:
        """Whether the recovery point is not trusted either."""
        ...

    @property
    def is_planned_whole(self) -> bool:
        """Whether `plan` does all that `run` does."""
        ...

    def settings(self) -> Mapping[str, object]:
        """What distinguishes this work from other work; the journal stores it."""
        ...

    def plan(self, log: PartitionLog, checkpoints: Checkpoints) -> dict[str, Any]:
        """Facts for the user; makes the changes of `run` too, if that is cheap."""
        ...

    def prepare(self, plan: MaintenanceResult, checkpoints: Checkpoints, fs: Fs, folder: str) -> None:
        """Before the log is opened in place: makes durable what has to be so first."""
        ...

    def run(self, log: PartitionLog, checkpoints: Checkpoints, progress: Progress) -> dict[str, Any]: ...

    def is_done(self, plan: MaintenanceResult) -> bool:
        """Whether there is nothing to do."""
        ...


@dataclass(frozen=True)
class ChangeRequest:
    """Which partitions to change, and how: in place, or as a copy below `out`. `now_ms` is the time of the whole run; None: now.

    `on_plan` gets each plan before it is carried out, `progress` the bytes done since the last call. `may_lose` is asked before
    records are deleted in place, and before a compaction leaves records without a key out of a copy. With `on_failure` a
    partition that cannot be changed is reported to it, and the others continue.
    """

    out: PathLike | None = None
    in_place: bool = False
    dry_run: bool = False
    now_ms: int | None = None
    topics: Names | None = None
    partitions: Numbers | None = None
    fs: Fs = field(default_factory=LocalFs)
    progress: Progress = lambda size: None
    on_plan: Callable[[Any], None] = lambda result: None
    may_lose: Callable[[MaintenanceResult], bool] = lambda result: True
    on_failure: OnFailure | None = None

    def __post_init__(self) -> None:
        if (self.out is None) != self.in_place:
            raise UsageError("give either --out DIR or --in-place")


def partitions_for(path: PathLike, request: ChangeRequest) -> list[Partition]:
    """The partitions at `path` that were asked for; in place, after completing or undoing what a crash interrupted."""
    if request.out is not None:
        output_folder(request.out)  # refused once, not for each partition
    if request.in_place and not request.dry_run:
        asked = asked_partitions(path, request.topics, request.partitions)
        for _ in each_partition(asked, lambda partition: _settle(partition, request), request.on_failure):
            """One that fails is reported, here and again when it is changed."""
    return chosen_partitions(path, request.topics, request.partitions)


def _settle(partition: Partition, request: ChangeRequest) -> None:
    is_interrupted = any(stored.path.endswith(INTERRUPTED) for stored in partition.leftovers)
    if is_interrupted and isinstance(partition.store, LocalStore):
        require_real_folder(request.fs, partition.folder)
        with held(request.fs, partition.folder):
            settle_interrupted(request.fs, partition.folder, LogConfig(), SystemClock().now_ms())


def maintain(
    path: PathLike, operation: Operation, request: ChangeRequest, config: Mapping[str, str]
) -> Iterator[MaintenanceResult]:
    """Run an operation on the partitions at `path`, with these topic settings."""
    LogConfig.of(config)  # an invalid setting is invalid for all
    now_ms = SystemClock().now_ms() if request.now_ms is None else request.now_ms
    timed = replace(request, now_ms=now_ms)

    def work(partition: Partition) -> MaintenanceResult:
        return maintain_partition(require_listed(partition), operation, timed, config)

    yield from each_partition(partitions_for(path, request), work, request.on_failure)


def maintain_partition(
    partition: Partition, operation: Operation, request: ChangeRequest, config: Mapping[str, str]
) -> MaintenanceResult:
    if partition.file is not None or partition.partition < 0:
        raise UsageError(f"{partition.file or partition.folder}: give the folder of a partition, named <topic>-<partition>")
    work = _Maintenance(partition, operation, request, config)
    is_local = isinstance(partition.store, LocalStore) or not isinstance(request.fs, LocalFs)
    if not is_local and (request.in_place or request.dry_run):
        raise UsageError(f"{partition.folder}: only local folders can be changed in place or planned for; give --out")
    if request.out is not None:
        if is_local:
            planned = work.plan(of_copy=True)
            request.on_plan(planned)
            if request.dry_run:
                return planned
        return work.write_copy(output_folder(request.out), request.may_lose)
    require_real_folder(request.fs, partition.folder)
    with nullcontext() if request.dry_run else held(request.fs, partition.folder):
        planned = work.plan()
        request.on_plan(planned)
        if request.dry_run or (planned.loss is not None and not request.may_lose(planned)):
            return planned
        return work.change_in_place(planned)


class _Maintenance:
    planned: MaintenanceResult | None = None

    def __init__(self, partition: Partition, operation: Operation, request: ChangeRequest, config: Mapping[str, str]) -> None:
        assert request.now_ms is not None
        self.partition = partition
        self.operation = operation
        self.now_ms = request.now_ms
        self.fs = request.fs
        self.progress = request.progress
        self.settings = dict(sorted(config.items()))
        self.config = LogConfig.of({"file.delete.delay.ms": 0, **config})

    def _result(self) -> MaintenanceResult:
        partition = self.partition
        return MaintenanceResult(self.operation.name, partition.topic, partition.partition, partition.folder)

    def _checkpoints(self, fs: Fs, log_directory: str) -> Checkpoints:
        return Checkpoints(fs, log_directory, self.partition.topic, self.partition.partition)

    def _new_checkpoints(self, fs: Fs, log_directory: str) -> NewCheckpoints:
        return NewCheckpoints(fs, log_directory, self.partition.topic, self.partition.partition)

    def _opening(self) -> LogOpening:
        """The partition opened in place."""
        opening = opening_in_place(self.fs, self.partition.folder, self.config, self.now_ms)
        recovers_all, is_recovery = self.operation.recovers_all, self.operation.is_recovery
        recovery_point = 0 if recovers_all else opening.recovery_point
        return replace(opening, recovery_point=recovery_point, clean=opening.clean and not is_recovery)

    def _find_cut(self, result: MaintenanceResult, opening: LogOpening, fs: Fs, folder: str) -> list[int]:
        """Note what opening the log cuts off; returns the segments after that, which have to be dropped too."""
        with opening.opened(OverlayFs(fs), folder) as log:
            cut = find_cut(fs, folder, log)
        if not self.operation.is_recovery:
            require_no_loss(fs, folder, cut)
        result.cut_bytes = cut.size
        result.details["cut_segments"] = cut.following
        is_loss = self.operation.is_recovery and loses_batches(fs, folder, cut)
        result.details["loses_batches"] = is_loss
        if is_loss:
            result.details["cut_at"] = [names.segment_file_name(cut.base_offset), cut.position]
        return cut.following

    def _note_loss(self, result: MaintenanceResult, fs: Fs, folder: str) -> None:
        """Note which records are deleted, and, for a recovery, the state before opening the log cut it."""
        assert result.before is not None
        after = result.after
        if result.details["loses_batches"]:
            assert after is not None
            result.loss = find_damaged_loss(self.partition, after.end_offset, result.cut_bytes)
            sizes = stored_sizes(fs, folder)
            end = max(result.before.end_offset, result.loss.last_offset + 1)
            result.before = LogState(result.before.start_offset, end, len(sizes), sum(sizes.values()))
        elif after is not None and after.end_offset < result.before.end_offset:
            size = result.before.size - after.size
            result.loss = find_loss(self.partition, after.end_offset, result.before.end_offset, size)
            asked = result.details.get("asked_offset")
            if asked is not None and not find_loss(self.partition, after.end_offset, asked, 0).records:
                del result.details["asked_offset"]  # a gap that compaction left: no record below that offset is deleted
        elif after is not None and after.start_offset > result.before.start_offset:
            size = result.before.size - after.size
            result.loss = find_loss(self.partition, result.before.start_offset, after.start_offset, size)

    def _keyless_loss(self, result: MaintenanceResult) -> Loss | None:
        """What a compaction deletes for want of a key; None of another operation."""
        stop_offset = result.details.get("first_uncleanable_offset")
        return None if stop_offset is None else find_keyless_loss(self.partition, stop_offset)

    # in place

    def plan(self, *, of_copy: bool = False) -> MaintenanceResult:
        """What would become of the log, or of a copy of it, by a run that changes nothing."""
        result = self._result()
        folder = self.partition.folder
        if of_copy and isinstance(self.fs, LocalFs):
            folder = os.path.realpath(folder)  # a source that is only read may be a link
        opening = self._copy_opening() if of_copy else self._opening()
        view = settled_view(self.fs, folder, opening)
        overlay = OverlayFs(view)
        drop_segments(overlay, folder, self._find_cut(result, opening, view, folder))
        checkpoints = (self._new_checkpoints if of_copy else self._checkpoints)(overlay, os.path.dirname(folder))
        with opening.opened(overlay, folder) as log:
            result.before = LogState.of(log)
            result.details |= self.operation.plan(log, checkpoints)
            result.after = LogState.of(log) if self.operation.is_planned_whole else None
        self._note_loss(result, view, folder)
        if result.details.get("dirty_bytes"):
            result.loss = self._keyless_loss(result)
        if self.operation.is_recovery:
            result.details["changed_files"] = [os.path.basename(path) for path in overlay.changes()]
        self.planned = result
        return result

    def change_in_place(self, planned: MaintenanceResult) -> MaintenanceResult:
        """Carry out the plan; the caller has held the lock since it was made."""
        if self.operation.is_done(planned):
            planned.state = "already there"
            return planned
        folder = self.partition.folder
        log_directory = os.path.dirname(folder)
        result = self._result()
        log_fs = like_its_log(self.fs, folder)
        checkpoints = self._checkpoints(self.fs, log_directory)
        clean = self._opening().clean
        remove_marker(self.fs, folder)
        drop_segments(self.fs, folder, planned.details["cut_segments"])
        self.operation.prepare(planned, checkpoints, self.fs, folder)
        with replace(self._opening(), clean=clean).opened(log_fs, folder) as log:
            result.before, result.cut_bytes, result.loss = planned.before, planned.cut_bytes, planned.loss
            result.details = planned.details | self.operation.run(log, checkpoints, self.progress)
            result.after = LogState.of(log)
        if is_log_directory(self.fs, log_directory):
            checkpoints.set(names.RECOVERY_POINT_CHECKPOINT, result.after.end_offset)
        result.state = "written"
        return result

    # on a copy

    def write_copy(self, out: str, may_lose: Callable[[MaintenanceResult], bool]) -> MaintenanceResult:
        result = self._result()
        result.folder = os.path.join(out, folder_name(self.partition))
        if os.path.realpath(result.folder) == os.path.realpath(self.partition.folder):
            raise UsageError(f"--out: {result.folder} is the partition itself; choose another folder, or --in-place")
        journal = _Journal(self.fs, path_beside(result.folder, f".{self.operation.name}.json"), self._job())
        if self.fs.kind(result.folder) != "missing":
            return journal.earlier(result)
        if self.planned is not None and not _is_allowed(self.planned, may_lose):
            return self.planned
        with staged_copy(self.fs, result.folder, self.partition) as staged:
            self._copy(staged.unsynced, staged.staging)
            checkpoints = self._new_checkpoints(self.fs, out)
            opening = self._copy_opening()
            view = settled_view(self.fs, staged.staging, opening)
            drop_segments(staged.unsynced, staged.staging, self._find_cut(result, opening, view, staged.staging))
            with opening.opened(staged.unsynced, staged.staging) as log:
                result.before = LogState.of(log)
                result.details |= self.operation.run(log, checkpoints, self.progress)
                result.after = LogState.of(log)
            if self.planned is not None and self.planned.loss is not None:
                result.before, result.loss = self.planned.before, self.planned.loss
            elif self.planned is None:  # of an object store no plan is made
                result.loss = self._keyless_loss(result)
                if not _is_allowed(result, may_lose):
                    return result
            result.state = "written"
            set_log_start(checkpoints, self.partition)
            assert result.before is not None
            if result.after.start_offset > result.before.start_offset:
                checkpoints.set(names.LOG_START_CHECKPOINT, result.after.start_offset)
            checkpoints.keep()
            journal.write(result)
            staged.sync_files()
            staged.publish()
        return result

    def _copy_opening(self) -> LogOpening:
        partition = self.partition
        start = partition.log_start_offset or 0
        return LogOpening(partition.topic, partition.partition, self.config, self.now_ms, log_start_offset=start)

    def _copy(self, fs: Fs, folder: str) -> None:
        """All files except deleted ones; an interrupted compaction is completed when the log is opened."""
        for stored in self.partition.files:
            if stored.suffix == DELETED:
                continue
            with self.partition.store.open(stored.path) as source, writing(folder):
                file = fs.create(os.path.join(folder, os.path.basename(stored.path)))
                try:
                    for position in range(0, source.size, COPY_BYTES):
                        file.write(source.read(position, min(COPY_BYTES, source.size - position)))
                finally:
                    file.close()
                self.fs.set_modified_ms(os.path.join(folder, os.path.basename(stored.path)), stored.mtime_ns // 1_000_000)
            self.progress(stored.size)

    def _job(self) -> dict[str, Any]:
        files = [[os.path.basename(stored.path), stored.size, stored.mtime_ns] for stored in self.partition.files]
        settings = {**self.operation.settings(), "config": self.settings}
        return {"command": self.operation.name, "settings": settings, "source": self.partition.folder, "files": files}


def _is_allowed(result: MaintenanceResult, may_lose: Callable[[MaintenanceResult], bool]) -> bool:
    """Whether a copy may be made: records without a key are not what a compaction is about."""
    return result.loss is None or not result.loss.without_key or may_lose(result)


class _Compaction(TypedDict):
    records_read: int
    records_kept: int
    passes: int


class _Journal:
    """The file next to a copy that says which work on which files made it."""

    def __init__(self, fs: Fs, path: str, job: dict[str, Any]) -> None:
        self.fs = fs
        self.path = path
        self.job = job

    def write(self, result: MaintenanceResult) -> None:
        content = json.dumps({**self.job, "result": asdict(result)}, indent=1).encode() + b"\n"
        publish_files(self.fs, os.path.dirname(self.path), {os.path.basename(self.path): [content]})

    def earlier(self, result: MaintenanceResult) -> MaintenanceResult:
        """The result of the run that made the copy; UsageError if that was another one."""
        known = self._read()
        if known is None or {name: known.get(name) for name in self.job} != json.loads(json.dumps(self.job)):
            raise UsageError(f"{result.folder}: exists already with other content; choose another --out, or move it away")
        try:
            stored = known["result"]
            for name in ("before", "after"):
                setattr(result, name, LogState(**stored[name]))
            result.details, result.cut_bytes, result.state = stored["details"], stored["cut_bytes"], "already there"
            if (loss := stored.get("loss")) is not None:
                result.loss = Loss(**{**loss, "damaged": [Lost(**each) for each in loss["damaged"]]})
            require_type(result, MaintenanceResult, "result")
            if "records_read" in result.details:
                require_type(result.details, _Compaction, "result.details")
        except SHAPE_ERRORS as error:
            what = f"not the journal of the copy next to it ({shape_problem(error)})"
            raise UsageError(f"{self.path}: {what}; choose another --out, or move both away") from None
        return result

    def _read(self) -> dict[str, Any] | None:
        if self.fs.kind(self.path) != "file":
            return None
        try:
            return parse_object(self.fs.read(self.path, 0, COPY_BYTES))
        except ValueError:
            return None
