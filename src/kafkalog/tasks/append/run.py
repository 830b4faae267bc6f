"""Append records to a partition, or to a topic with several, as a producer and a leader would.

A partition that was not there is filled out of sight and appears complete. One that is there grows at its end, as under a broker:
a crash leaves whole batches of what was to come, and the same command goes on behind them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafkalog.errors import LogRefusal, LogStorageFailure, StorageError, UsageError
from kafkalog.format import names
from kafkalog.log.engine.config import LogConfig
from kafkalog.log.engine.partition_log import PartitionLog
from kafkalog.log.engine.schedule import SystemClock
from kafkalog.storage.fs import Fs
from kafkalog.storage.publish import StagedFolder

from ..in_place import Checkpoints, held, is_log_directory, remove_marker
from ..loading import LogOpening, opening_in_place, require_loadable, told_as_storage_errors
from ..output import Progress, output_folder
from .job import BEGUN, DONE, Job, JobFile
from .partitioning import Partitioner
from .sources import SourceFile, read_tables, with_timestamps
from .writing import Form, PartitionWriter, Start

FIRST_PRODUCER_ID = 1 << 62  # brokers count from 0: a producer of theirs must not find our sequence numbers
MESSAGE_FORMATS = {0: "0.9.0", 1: "0.10.2"}


@dataclass(frozen=True)
class AppendOptions:
    """How to append; `now_ms` None is now.

    Without `partitions` those that are there, or one; `own_partitions` takes each record's own number.
    """

    now_ms: int | None = None
    form: Form = field(default_factory=Form)
    partitions: int | None = None
    own_partitions: bool = False
    keep_timestamps: bool = True
    idempotent: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    again: bool = False


@dataclass
class PartitionAppend:
    """What one partition got."""

    partition: int
    folder: str
    is_new: bool
    records: int = 0
    first_offset: int = -1  # -1: nothing was done, or an interrupted run had done it
    end_offset: int = -1
    size: int = 0  # bytes that were written


@dataclass
class AppendResult:
    """What became of an append. `state` is "written", "already there" (the same was appended last) or "not written"."""

    topic: str
    folder: str
    state: str = "not written"
    records: int = 0
    went_on: bool = False  # behind what an interrupted run had appended
    partitions: list[PartitionAppend] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """A topic in a folder, or one partition of it."""

    folder: str
    topic: str
    only: int | None = None

    @classmethod
    def of(cls, to: str, topic: str | None) -> Target:
        """`to` is the folder of a partition, or, with a topic, the one that holds its partitions."""
        folder = os.path.abspath(to)
        if topic is not None:
            if not names.is_valid_topic(topic):
                raise UsageError(f"{topic!r} cannot be a topic: letters, digits, '.', '_' and '-', at most 249 of them")
            return cls(folder, topic)
        name = names.parse_folder_name(os.path.basename(folder))
        if name is None or name.state or not names.is_valid_topic(name.topic):
            raise UsageError(f"{to}: no partition's folder is named so; write <topic>-<partition>, or give --topic")
        return cls(os.path.dirname(folder), name.topic, name.partition)

    @property
    def name(self) -> str:
        return self.topic if self.only is None else names.partition_folder_name(self.topic, self.only)

    def partition_folders(self, fs: Fs, wanted: int | None) -> list[str]:
        """The folders of its partitions; UsageError if `wanted` is not what is there."""
        if self.only is not None:
            if wanted not in (None, 1):
                raise UsageError("--partitions: the folder of one partition was given; give --topic and the folder above it")
            return [os.path.join(self.folder, self.name)]
        there = 0
        while fs.kind(self._partition_folder(there)) == "folder":
            there += 1
        if there and wanted not in (None, there):
            raise UsageError(f"{self.folder}: {self.topic} has {there} partitions here; a key would not go where it went before")
        return [self._partition_folder(number) for number in range(there or wanted or 1)]

    def _partition_folder(self, number: int) -> str:
        return os.path.join(self.folder, names.partition_folder_name(self.topic, number))


def append(
    sources: Iterable[SourceFile | pa.Table],
    target: Target,
    options: AppendOptions,
    fs: Fs,
    progress: Progress | None = None,
) -> AppendResult:
    """Append all records of the sources, in order."""
    return _Append(list(sources), target, options, fs, progress or (lambda size: None)).run()


class _Append:
    def __init__(
        self, sources: Sequence[SourceFile | pa.Table], target: Target, options: AppendOptions, fs: Fs, progress: Progress
    ) -> None:
        self.sources = sources
        self.target = target
        self.options = options
        self.now_ms = SystemClock().now_ms() if options.now_ms is None else options.now_ms
        self.fs = fs
        self.progress = progress
        form = options.form
        form.check(idempotent=options.idempotent)
        formats = {} if form.magic == 2 else {"message.format.version": MESSAGE_FORMATS[form.magic]}
        self.config = LogConfig.of({**formats, **options.config})
        if self.config.compression_type != "producer":
            form = replace(form, codec=self.config.compression_type.replace("uncompressed", "none"))
        self.form = form
        self.folders = target.partition_folders(fs, options.partitions)
        self.result = AppendResult(target.topic, target.folder)
        self.partitioner = Partitioner(len(self.folders), form.batch_bytes, own=options.own_partitions)

    def run(self) -> AppendResult:
        if self.options.dry_run:
            return self._plan()
        job_file = JobFile(self.fs, self.target.folder, self.target.name)
        request = self._request()
        last = job_file.read()
        is_all_there = all(self.fs.kind(folder) == "folder" for folder in self.folders)
        if is_all_there and not self.options.again and last is not None and last.is_finished(request):
            return self._earlier(last)
        if not is_all_there:
            output_folder(self.target.folder)
        logs = _Logs(self)
        with told_as_storage_errors(logs.failures), ExitStack() as opened:
            unfinished = None if self.options.again else job_file.unfinished(last, request)
            logs.open(opened, unfinished)
            if job_file.read() != last:  # before the logs were ours; what they hold is not what we took it for
                raise StorageError(f"{self.target.folder}: another append to {self.target.name} was faster; run this one again")
            job = unfinished or self._begin(job_file, request, logs)
            try:
                self._write(job, logs)
            except LogStorageFailure:
                raise
            except (UsageError, LogRefusal):
                self._take_back(job, logs)
                job_file.put_back(last)
                raise
            job.state = DONE
            self.result.state = "written"
            job.result = asdict(self.result)
            logs.close()
            job_file.write(job)
        return self.result

    def _request(self) -> dict[str, Any]:
        sources = [
            (source.fingerprint() or {"path": source.path}) if isinstance(source, SourceFile) else {"rows": source.num_rows}
            for source in self.sources
        ]
        form = {name: value for name, value in asdict(self.form).items() if name != "now_ms"}
        chosen = {name: getattr(self.options, name) for name in ("partitions", "own_partitions", "keep_timestamps", "idempotent")}
        return {"sources": sources, "form": form, "config": dict(sorted(self.options.config.items())), **chosen}

    def _earlier(self, job: Job) -> AppendResult:
        told = dict(job.result)
        parts = [PartitionAppend(**part) for part in told.pop("partitions")]
        return AppendResult(**{**told, "state": "already there", "partitions": parts})

    def _begin(self, job_file: JobFile, request: dict[str, Any], logs: _Logs) -> Job:
        """Settle what decides the bytes, and write it down."""
        producer_id = self._producer_id(logs)
        form = self._settled_form(producer_id, self.now_ms)
        starts = {
            os.path.basename(folder): None if folder in logs.staged else Start.at_end_of(log, form)
            for folder, log in logs.logs.items()
        }
        job = Job(request, self.now_ms, producer_id, starts, BEGUN)
        job_file.write(job)
        return job

    def _settled_form(self, producer_id: int, now_ms: int) -> Form:
        epoch = max(self.form.producer_epoch, 0) if producer_id >= 0 else -1
        return replace(self.form, now_ms=now_ms, producer_id=producer_id, producer_epoch=epoch)

    def _producer_id(self, logs: _Logs) -> int:
        if self.form.producer_id >= 0 or not (self.options.idempotent or self.form.transaction):
            return self.form.producer_id
        known = {producer for log in logs.logs.values() for producer in log.producers.active_producers}
        chosen = FIRST_PRODUCER_ID + self.now_ms  # logs forget producers after a day, so what they know is not enough
        return next(number for number in itertools.count(chosen) if number not in known)

    def _write(self, job: Job, logs: _Logs) -> None:
        form = self._settled_form(job.producer_id, job.now_ms)
        self.result.went_on = bool(logs.complete)
        writers: dict[str, PartitionWriter] = {}
        for folder, log in logs.logs.items():
            start = job.starts.get(os.path.basename(folder)) or Start.at_end_of(log, form)
            self.result.went_on |= log.log_end_offset > start.offset
            writers[folder] = PartitionWriter(log, form, start)
        counts = [0] * len(self.folders)
        for table in self._tables(job.now_ms):
            for number, part in self._parts(table):
                counts[number] += part.num_rows
                if (writer := writers.get(self.folders[number])) is not None:
                    writer.add(part)
        for folder, count in zip(self.folders, counts, strict=True):
            part = self._part(folder, count, is_new=folder in logs.staged or folder in logs.complete)
            if (writer := writers.get(folder)) is not None:
                writer.finish()
                part.first_offset, part.end_offset = writer.start.offset, writer.log.log_end_offset
                part.size = writer.appended_bytes

    def _take_back(self, job: Job, logs: _Logs) -> None:
        """One record cannot be appended: then none was, and the source, once put right, is appended as if for the first time."""
        for folder, log in logs.logs.items():
            if (start := job.starts.get(os.path.basename(folder))) is not None:
                log.truncate_to(start.offset)
                logs.close_one(folder, log)

    def _part(self, folder: str, count: int, *, is_new: bool) -> PartitionAppend:
        name = names.parse_folder_name(os.path.basename(folder))
        assert name is not None
        part = PartitionAppend(name.partition, folder, is_new, count)
        self.result.partitions.append(part)
        self.result.records += count
        return part

    def _tables(self, now_ms: int) -> Iterator[pa.Table]:
        for source in self.sources:
            for table in read_tables(source) if isinstance(source, SourceFile) else (source,):
                yield with_timestamps(table, now_ms, keep=self.options.keep_timestamps)
                self.progress(table.nbytes)

    def _parts(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if len(self.folders) == 1 and not self.options.own_partitions:
            yield 0, table
            return
        chosen = self.partitioner.partitions(table)
        for number in np.unique(chosen).tolist():
            yield number, table.take(pa.array(np.flatnonzero(chosen == number)))

    def _plan(self) -> AppendResult:
        """Count what would go where."""
        counts = [0] * len(self.folders)
        for table in self._tables(self.now_ms):
            for number, part in self._parts(table):
                counts[number] += part.num_rows
        for folder, count in zip(self.folders, counts, strict=True):
            self._part(folder, count, is_new=self.fs.kind(folder) == "missing")
        return self.result


class _Logs:
    """The logs that are appended to: those that are there, held in their place, and new ones, out of sight."""

    def __init__(self, work: _Append) -> None:
        self.work = work
        self.logs: dict[str, PartitionLog] = {}
        self.staged: dict[str, StagedFolder] = {}
        self.complete: list[str] = []  # new ones that an interrupted run has finished
        self._now_ms = work.now_ms

    def failures(self) -> Iterator[OSError | None]:
        return (log.guard.failure for log in self.logs.values())

    def open(self, opened: ExitStack, unfinished: Job | None) -> None:
        """Open all of them, as long as `opened` is."""
        self._now_ms = unfinished.now_ms if unfinished else self.work.now_ms
        for folder in self.work.folders:
            name = os.path.basename(folder)
            is_there = self.work.fs.kind(folder) != "missing"
            if unfinished is not None and unfinished.starts.get(name, ()) is None and is_there:
                self.complete.append(folder)
            else:
                self._open(folder, opened)

    def _open(self, folder: str, opened: ExitStack) -> None:
        fs = self.work.fs
        name = names.parse_folder_name(os.path.basename(folder))
        assert name is not None
        opening = LogOpening(name.topic, name.partition, self.work.config, self._now_ms)
        where = folder
        if fs.kind(folder) == "missing":
            self.staged[folder] = staged = opened.enter_context(StagedFolder(fs, folder))
            where, fs = staged.staging, staged.unsynced
        else:
            opened.enter_context(held(fs, folder))
            opening = opening_in_place(fs, folder, self.work.config, self._now_ms)
            require_loadable(fs, folder, opening)
            remove_marker(fs, folder)
        log = opening.open(fs, where)
        opened.callback(_let_go, log)
        self.logs[folder] = log

    def close(self) -> None:
        """Close all, and let the new ones appear."""
        for folder, log in self.logs.items():
            self.close_one(folder, log)
            if (staged := self.staged.get(folder)) is not None:
                staged.sync_files()
                staged.publish()

    def close_one(self, folder: str, log: PartitionLog) -> None:
        """Close a log, and let its directory know how far it goes."""
        end_offset = log.log_end_offset
        with log:
            """Closing it makes everything durable."""
        if folder not in self.staged and is_log_directory(self.work.fs, os.path.dirname(folder)):
            checkpoints = Checkpoints(self.work.fs, os.path.dirname(folder), log.topic, log.partition)
            checkpoints.set(names.RECOVERY_POINT_CHECKPOINT, end_offset)


def _let_go(log: PartitionLog) -> None:
    if not log.local_log.is_closed:
        log.close_handlers()
