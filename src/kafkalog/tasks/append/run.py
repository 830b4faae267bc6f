"""Append records to a partition, or to a topic with several, as a producer and a leader would.

A new partition is filled in a staging folder and appears complete. An existing one grows at its end, as under a broker: a crash
leaves some of the batches, whole, and the same command continues after them.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import SystemClock
from kafkalog.errors import LogRefusal, LogStorageFailure, StorageError, UsageError
from kafkalog.format import names
from kafkalog.format.quantities import offsets_text, plural, repr_text, size_text
from kafkalog.storage import local_path
from kafkalog.storage.fs import Fs
from kafkalog.storage.publish import StagedFolder

from ..locking import Checkpoints, held, is_log_directory, like_its_log, remove_marker
from ..opening import LogOpening, as_storage_errors, opening_in_place, require_loadable
from ..output import Progress, output_folder
from ..partitions import require_real_folder
from .job import BEGUN, DONE, Job, JobFile
from .partitioning import Partitioner
from .recognition import Known, Recognition, differing_options, is_still_there, known_sources, require_different
from .sources import STDIN, Content, SourceFile, read_tables, with_timestamps
from .writing import Form, PartitionWriter, Start, end_offset

FIRST_PRODUCER_ID = 1 << 62  # brokers count from 0: a producer of theirs must not find our sequence numbers
MESSAGE_FORMATS = {0: "0.9.0", 1: "0.10.2"}


@dataclass(frozen=True)
class AppendOptions:
    """How to append; `now_ms` None is now.

    Without `partitions` the existing ones, or one; `own_partitions` uses the number that each record names. `again` also appends
    what was appended before, `only_new` the new lines of a source that has grown since then.
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
    only_new: bool = False


@dataclass(repr=False)
class PartitionAppend:
    """What was appended to one partition."""

    partition: int
    folder: str
    is_new: bool
    records: int = 0
    first_offset: int = -1  # -1: nothing was done, or an interrupted run had done it
    end_offset: int = -1
    size: int = 0  # bytes that were written

    def __repr__(self) -> str:
        written = [offsets_text(self.first_offset, self.end_offset), size_text(self.size)] if self.end_offset >= 0 else []
        new = "new" if self.is_new else "existing"
        return repr_text("PartitionAppend", self.folder, new, plural(self.records, "record"), *written)


@dataclass(repr=False)
class AppendResult:
    """The result of an append. `state` is "written", "already there" (all of it was appended before) or "not written"."""

    topic: str
    folder: str
    state: str = "not written"
    records: int = 0
    went_on: bool = False  # after what an interrupted run had appended
    partitions: list[PartitionAppend] = field(default_factory=list)
    appended_before: list[str] = field(default_factory=list)  # sources that are there already, and since when

    def __repr__(self) -> str:
        return repr_text(
            "AppendResult",
            self.folder,
            f"topic {self.topic!r}",
            self.state,
            f"{plural(self.records, 'record')} in {plural(len(self.partitions), 'partition')}",
            size_text(sum(part.size for part in self.partitions)),
            "continued an interrupted run" if self.went_on else "",
            f"{plural(len(self.appended_before), 'source')} appended before" if self.appended_before else "",
        )


@dataclass(frozen=True)
class Target:
    """A topic in a folder, or one partition of it."""

    folder: str
    topic: str
    only: int | None = None

    @classmethod
    def of(cls, to: str, topic: str | None) -> Target:
        """`to` is the folder of a partition, or, with a topic, the one that holds its partitions."""
        folder = os.path.abspath(local_path(to))
        if topic is not None:
            if not names.is_valid_topic(topic):
                raise UsageError(f"{topic!r} cannot be a topic: letters, digits, '.', '_' and '-', at most 249 of them")
            return cls(folder, topic)
        name = names.parse_folder_name(os.path.basename(folder))
        if name is None or name.state or not names.is_valid_topic(name.topic):
            raise UsageError(f"{to}: not the name of a partition's folder; write <topic>-<partition>, or give --topic")
        return cls(os.path.dirname(folder), name.topic, name.partition)

    @property
    def name(self) -> str:
        return self.topic if self.only is None else names.partition_folder_name(self.topic, self.only)

    def partition_folders(self, fs: Fs, wanted: int | None, unfinished: Job | None = None) -> list[str]:
        """The folders of its partitions; UsageError if `wanted` differs from what exists. An unfinished job knows its own."""
        if self.only is not None:
            if wanted not in (None, 1):
                raise UsageError("--partitions: the folder of one partition was given; give --topic and the folder above it")
            return [os.path.join(self.folder, self.name)]
        there = len(self._numbers(fs, len(unfinished.starts) if unfinished is not None else 0))
        if there and wanted not in (None, there):
            has = f"{self.topic} has {plural(there, 'partition')} here, and with {wanted} a key would not go where it went before"
            raise UsageError(f"{self.folder}: {has}; leave out --partitions")
        return [self._partition_folder(number) for number in range(there or wanted or 1)]

    def _numbers(self, fs: Fs, known: int) -> list[int]:
        """The numbers of its partitions, and those up to `known`; UsageError where one is missing, as on a disk of a cluster."""
        parsed = [names.parse_folder_name(name) for name in (fs.list(self.folder) if fs.kind(self.folder) == "folder" else ())]
        there = {name.partition for name in parsed if name is not None and name.topic == self.topic and not name.state}
        numbers = sorted(there.union(range(known)))
        missing = sorted(set(range(len(numbers))) - set(numbers))
        if missing:
            has = f"{self.topic} has partition {', '.join(map(str, numbers))} here, but no {missing[0]}"
            one = self._partition_folder(numbers[0])
            raise UsageError(
                f"{self.folder}: {has}, so the partition of a key is unknown; append to one of them: --to {one}, without --topic"
            )
        return numbers

    def _partition_folder(self, number: int) -> str:
        return os.path.join(self.folder, names.partition_folder_name(self.topic, number))

    def related(self, folders: Sequence[str]) -> list[str]:
        """Names under which others may have appended to the same partitions: the topic's, or those of its partitions."""
        return [self.topic] if self.only is not None else [os.path.basename(folder) for folder in folders]


def append_records(
    sources: Iterable[SourceFile | pa.Table],
    target: Target,
    options: AppendOptions,
    fs: Fs,
    progress: Progress | None = None,
    on_written: Callable[[], None] = lambda: None,
) -> AppendResult:
    """Append all records of the sources, in order. `progress` is called with bytes as they are appended, `on_written` when
    everything is written and only has to be made durable."""
    work = _Append(list(sources), target, options, fs, progress or (lambda size: None))
    work.on_written = on_written
    return work.run()


class _Append:
    on_written: Callable[[], None]

    def __init__(
        self, sources: Sequence[SourceFile | pa.Table], target: Target, options: AppendOptions, fs: Fs, progress: Progress
    ) -> None:
        self.sources = sources
        self.target = target
        self.options = options
        self.now_ms = SystemClock().now_ms() if options.now_ms is None else options.now_ms
        self.fs = fs
        self.progress = progress
        if options.again and options.only_new:
            raise UsageError("--again appends everything once more, --only-new only what is new; give one of the two")
        form = options.form.checked(idempotent=options.idempotent)
        formats = {} if form.magic == 2 else {"message.format.version": MESSAGE_FORMATS[form.magic]}
        self.config = LogConfig.of({**formats, **options.config})
        if self.config.compression_type != "producer":
            form = replace(form, codec=self.config.compression_type.replace("uncompressed", "none"))
        self.form = form
        self.job_file = JobFile(fs, target.folder, target.name)
        self.request = self._request()
        self.last = self.job_file.read()
        self.unfinished = self._unfinished()
        self.folders = target.partition_folders(fs, options.partitions, self.unfinished)
        self.result = AppendResult(target.topic, target.folder)
        self.partitioner = Partitioner(len(self.folders), form.batch_bytes, own=options.own_partitions)
        self.recognition = Recognition((), self.request, only_new=False)
        self.reads: list[int | None] = [0] * len(sources)
        self.contents = [Content() for _ in sources]
        self.writers: dict[str, PartitionWriter] = {}

    def run(self) -> AppendResult:
        if not self.options.again and self.unfinished is None:
            require_different(self.sources)
        if not self.options.again and self._is_known():
            return self._earlier()
        if self.options.dry_run:
            return self._plan()
        if not self._is_all_there:
            output_folder(self.target.folder)
        logs = _Logs(self)
        with as_storage_errors(logs.failures, logs.next_step), ExitStack() as opened:
            logs.open(opened, self.unfinished)
            if self.job_file.read() != self.last:  # it ran before the logs were locked, so they are not what was read above
                raise StorageError(f"{self.target.folder}: another append to {self.target.name} was faster; run this one again")
            job = self.unfinished or self._begin(logs)
            self.reads = job.reads or self.reads
            try:
                self._write(job, logs)
            except LogStorageFailure:
                raise
            except (UsageError, LogRefusal):
                if all(writer.knows_all for writer in self.writers.values()):  # else others may have appended since
                    self._undo(job, logs)
                    self.job_file.put_back(self.last)
                raise
            self._finish(job, logs)
        return self.result

    @property
    def _is_all_there(self) -> bool:
        return all(self.fs.kind(folder) == "folder" for folder in self.folders)

    def _finish(self, job: Job, logs: _Logs) -> None:
        job.state = DONE
        for described, content, read in zip(job.request["sources"], self.contents, self.reads, strict=True):
            if "path" in described and read is not None:
                described |= {"size": content.size, "digest": content.digest, "records": content.records}
        self.result.state = "written"
        job.result = asdict(self.result)
        self.on_written()
        logs.close()
        self.job_file.write(job)

    def _request(self) -> dict[str, Any]:
        sources = [source.described() if isinstance(source, SourceFile) else {"rows": source.num_rows} for source in self.sources]
        form = {name: value for name, value in asdict(self.form).items() if name != "now_ms"}
        names_of = ("partitions", "own_partitions", "keep_timestamps", "idempotent", "again")
        chosen = {name: getattr(self.options, name) for name in names_of}
        return {"sources": sources, "form": form, "config": dict(sorted(self.options.config.items())), **chosen}

    def _unfinished(self) -> Job | None:
        """The last job, if it is that of this request and was interrupted; UsageError if another one was."""
        job = self.last
        if job is None or job.state != BEGUN:
            return None
        if job.is_of(self.request):
            self._require_unchanged(job)
            return job
        if not self.job_file.left_nothing(job):
            raise UsageError(_interrupted(self.job_file, job, self.request))
        return None

    def _require_unchanged(self, job: Job) -> None:
        """An existing log is compared with the source; a complete new partition is not, so its source must not have changed."""
        complete = [
            name
            for name, start in job.starts.items()
            if start is None and self.fs.kind(os.path.join(self.target.folder, name)) != "missing"
        ]
        if complete and any(
            source.get(name) != old.get(name)
            for source, old in zip(self.request["sources"], job.request["sources"], strict=True)
            for name in ("size", "modified_ns")
        ):
            raise UsageError(
                f"{self.target.folder}: a source of the append that was interrupted here has changed since, and {complete[0]} is "
                f"complete with its old content; move {', '.join(complete)} and {self.job_file.path} away and append again"
            )

    def _is_known(self) -> bool:
        """Whether all sources were appended before; else `reads` says from where to read each. UsageError where uncertain."""
        if not self._is_all_there:
            return False
        self.recognition = Recognition(self._known(), self.request, only_new=self.options.only_new)
        self.contents = [Content(self.recognition.marks() if _is_stdin(source) else ()) for source in self.sources]
        if self.unfinished:
            return False
        self.reads = self.recognition.reads(self.sources)
        for known in self.recognition.there:
            options = differing_options(known.job.request, self.request)
            how = f", with {', '.join(options)}" if options else ""
            self.result.appended_before.append(f"{known.path}: {known.described}{how}")
        return all(read is None for read in self.reads)

    def _known(self) -> Iterator[Known]:
        """What was appended here, or under another name to the same partitions, and is still there."""
        end_of = functools.cache(lambda name: end_offset(self.fs, os.path.join(self.target.folder, name)))
        jobs = {self.job_file.target: self.last}
        for name in self.target.related(self.folders):
            other = JobFile(self.fs, self.target.folder, name)
            jobs[name] = job = other.read()
            if job is not None and job.state == BEGUN and not other.left_nothing(job):
                raise UsageError(_interrupted(other, job, self.request))
        for name, job in jobs.items():
            for known in known_sources(job, name, is_same_target=name == self.job_file.target):
                if is_still_there(known.job, end_of):
                    yield known

    def _earlier(self) -> AppendResult:
        """Everything was appended before: the result of that, if it was one append."""
        there = self.recognition.there
        jobs = {id(known.job): known.job for known in there}
        self.result.state = "already there"
        self.result.records = sum(int(known.source.get("records", 0)) for known in there)
        if len(jobs) == 1 and len(there) == len(there[0].job.request["sources"]):
            earlier = there[0].job.result
            self.result.records = earlier["records"]
            self.result.partitions = [PartitionAppend(**part) for part in earlier["partitions"]]
        return self.result

    def _begin(self, logs: _Logs) -> Job:
        """Decide what determines the bytes, and write it down."""
        producer_id = self._producer_id(logs)
        form = self._settled_form(producer_id, self.now_ms)
        starts = {
            os.path.basename(folder): None if folder in logs.staged else Start.at_end_of(log, form)
            for folder, log in logs.logs.items()
        }
        ends = {os.path.basename(folder): log.log_end_offset for folder, log in logs.logs.items()}
        finished = self.last.finished() if self.last is not None and any(starts.values()) else ()
        before = [replace(job, before=[]) for job in finished if is_still_there(job, lambda name: ends.get(name, -1))][::-1]
        job = Job(self.request, self.now_ms, producer_id, starts, BEGUN, reads=self.reads, before=before)
        self.job_file.write(job)
        return job

    def _settled_form(self, producer_id: int, now_ms: int) -> Form:
        epoch = max(self.form.producer_epoch, 0) if producer_id >= 0 else -1
        return replace(self.form, now_ms=now_ms, producer_id=producer_id, producer_epoch=epoch)

    def _producer_id(self, logs: _Logs) -> int:
        if self.form.producer_id >= 0 or not (self.options.idempotent or self.form.transaction):
            return self.form.producer_id
        known = {producer for log in logs.logs.values() for producer in log.producers.active_producers}
        chosen = FIRST_PRODUCER_ID + self.now_ms  # logs forget producers after a day, so those they know are not enough
        return next(number for number in itertools.count(chosen) if number not in known)

    def _write(self, job: Job, logs: _Logs) -> None:
        form = self._settled_form(job.producer_id, job.now_ms)
        self.result.went_on = bool(logs.complete)
        writers = self.writers
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
        self._require_other()
        for folder, count in zip(self.folders, counts, strict=True):
            part = self._part(folder, count, is_new=folder in logs.staged or folder in logs.complete)
            if (writer := writers.get(folder)) is not None:
                writer.finish()
                part.first_offset, part.end_offset = writer.start.offset, writer.log.log_end_offset
                part.size = writer.appended_bytes

    def _require_other(self) -> None:
        """UsageError if what came through a pipe was appended before."""
        for source, content in zip(self.sources, self.contents, strict=True):
            if isinstance(source, SourceFile) and _is_stdin(source) and not self.options.again:
                self.recognition.require_other(source, content)

    def _undo(self, job: Job, logs: _Logs) -> None:
        """A record cannot be appended: remove all of them, so that the corrected source is appended as if for the first time."""
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
        for source, content, start in zip(self.sources, self.contents, self.reads, strict=True):
            if start is None:
                self.progress(source.size if isinstance(source, SourceFile) else 0)
                continue
            done = 0
            for table in read_tables(source, content, start) if isinstance(source, SourceFile) else (source,):
                yield with_timestamps(table, now_ms, keep=self.options.keep_timestamps)
                self.progress(content.position - done)  # now that it was appended, not only read
                done = content.position
            self.progress(content.position - done)

    def _parts(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if len(self.folders) == 1 and not self.options.own_partitions:
            yield 0, table
            return
        chosen = self.partitioner.partitions(table)
        for number in np.unique(chosen).tolist():
            yield number, table.take(pa.array(np.flatnonzero(chosen == number)))

    def _plan(self) -> AppendResult:
        """Count the records for each partition."""
        counts = [0] * len(self.folders)
        for table in self._tables(self.now_ms):
            for number, part in self._parts(table):
                counts[number] += part.num_rows
        self._require_other()
        for folder, count in zip(self.folders, counts, strict=True):
            self._part(folder, count, is_new=self.fs.kind(folder) == "missing")
        return self.result


def _is_stdin(source: object) -> bool:
    return isinstance(source, SourceFile) and source.path == STDIN


def _interrupted(job_file: JobFile, job: Job, request: Mapping[str, Any]) -> str:
    """The message that another append was interrupted: how it differs, and what to do."""
    sources = ", ".join(str(source.get("path", "an Arrow table")) for source in job.request["sources"])
    options = differing_options(job.request, request)
    with_options = f" with {', '.join(options)}" if options else ""
    give_up = [
        f"move {folder} away" if start is None else f"kafkalog truncate {folder} --to-offset {start.offset} --in-place"
        for folder, start in ((os.path.join(job_file.folder, name), start) for name, start in job.starts.items())
        if start is not None or job_file.fs.kind(folder) != "missing"
    ]
    undo = f"; to give it up, {', '.join(give_up)}"
    return f"an append of {sources} to {job_file.target} was interrupted here: run it again{with_options} to complete it{undo}"


class _Logs:
    """The logs that are appended to: existing ones, locked in place, and new ones in staging folders."""

    def __init__(self, work: _Append) -> None:
        self.work = work
        self.logs: dict[str, PartitionLog] = {}
        self.staged: dict[str, StagedFolder] = {}
        self.complete: list[str] = []  # new ones that an interrupted run has finished
        self._now_ms = work.now_ms

    def failures(self) -> Iterator[OSError | None]:
        return (log.guard.failure for log in self.logs.values())

    def next_step(self) -> str:
        """What to do after a disk failed: new partitions leave nothing, existing ones what was appended."""
        is_begun = self.logs.keys() - self.staged.keys()
        return "; then run the same command again, which continues after what it has appended" if is_begun else ""

    def open(self, opened: ExitStack, unfinished: Job | None) -> None:
        """Open all of them; `opened` closes them."""
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
            if is_log_directory(fs, os.path.dirname(folder)):
                fs.require_useful(os.path.dirname(folder))
            self.staged[folder] = staged = opened.enter_context(StagedFolder(fs, folder))
            where, fs = staged.staging, staged.unsynced
        else:
            require_real_folder(fs, folder)
            opened.enter_context(held(fs, folder))
            opening = opening_in_place(fs, folder, self.work.config, self._now_ms)
            require_loadable(fs, folder, opening)
            remove_marker(fs, folder)
            fs = like_its_log(fs, folder)
        log = opening.open(fs, where)
        opened.callback(_release, log)
        self.logs[folder] = log

    def close(self) -> None:
        """Close all, and publish the new ones."""
        for folder, log in self.logs.items():
            self.close_one(folder, log)
            if (staged := self.staged.get(folder)) is not None:
                staged.sync_files()
                staged.publish()

    def close_one(self, folder: str, log: PartitionLog) -> None:
        """Close a log, and set its recovery point in the log directory."""
        end_offset = log.log_end_offset
        with log:
            """Closing it makes everything durable."""
        if folder not in self.staged and is_log_directory(self.work.fs, os.path.dirname(folder)):
            checkpoints = Checkpoints(self.work.fs, os.path.dirname(folder), log.topic, log.partition)
            checkpoints.set(names.RECOVERY_POINT_CHECKPOINT, end_offset)


def _release(log: PartitionLog) -> None:
    if not log.local_log.is_closed:
        log.close_handlers()
