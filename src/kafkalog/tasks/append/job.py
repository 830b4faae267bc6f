"""The job of an append, written down before its first record: the same command, run again, continues it or finds it done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from kafkalog.errors import UsageError
from kafkalog.format.json_shape import SHAPE_ERRORS, parse_object, require_type, shape_problem
from kafkalog.format.names import parse_folder_name
from kafkalog.format.quantities import plural
from kafkalog.storage.fs import Fs, read_small
from kafkalog.storage.publish import make_folders, publish_files
from kafkalog.storage.unfinished import name_beside

from .writing import Start, end_offset

BEGUN, DONE = "begun", "done"
# A target remembers at least so many appended sources: some 3 MB, read and written twice by an append.
SOURCES_KEPT = 10_000


@dataclass
class Job:
    """Sources and options, and what was decided when it began: the time, the producer, and where it begins in each partition.

    `starts` has None for a new partition, which appears complete. `reads` says from which position each
    source is read, None for one that was appended before. `before` are the finished jobs before this one, the oldest first.
    """

    request: dict[str, Any]
    now_ms: int
    producer_id: int
    starts: dict[str, Start | None]
    state: str = BEGUN
    result: dict[str, Any] = field(default_factory=dict)
    reads: list[int | None] = field(default_factory=list)
    before: list[Job] = field(default_factory=list)

    def is_of(self, request: Mapping[str, Any]) -> bool:
        """Whether this is the job of a request. Sources are compared by path; their content is compared with the log."""
        return _options(self.request) == _options(request) and _sources(self.request) == _sources(request)

    def finished(self) -> Iterator[Job]:
        """This job and those before it that are done, the newest first."""
        if self.state == DONE:
            yield self
        yield from reversed(self.before)

    def ends(self) -> dict[str, int]:
        """Where each partition ended when the job was done; the folders by name."""
        parts = self.result.get("partitions", ())
        return {os.path.basename(part["folder"]): part["end_offset"] for part in parts if part["end_offset"] >= 0}


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """The options that determine the bytes; the number of partitions is in `Job.starts`."""
    return {"again": False, **{name: value for name, value in request.items() if name not in ("sources", "partitions")}}


def _sources(request: Mapping[str, Any]) -> list[tuple[object, ...]]:
    return [(source.get("path"), source.get("rows")) for source in request["sources"]]


class JobFile:
    """The jobs that wrote to a partition or a topic, in a file next to it that brokers ignore."""

    def __init__(self, fs: Fs, folder: str, name: str) -> None:
        self.fs = fs
        self.folder = folder
        self.target = name
        self.name = name_beside(name, ".append.json", ".")
        self.path = os.path.join(folder, self.name)

    def read(self) -> Job | None:
        if self.fs.kind(self.path) != "file":
            return None
        try:
            fields = parse_object(read_small(self.fs, self.path))
            before = [_job(each) for each in fields.pop("before", ())]
            return replace(_job(fields), before=before)
        except SHAPE_ERRORS as error:
            raise UsageError(f"{self.path}: not a job file of append ({shape_problem(error)}); move it away") from None

    def write(self, job: Job) -> None:
        make_folders(self.fs, self.folder)
        kept = [vars(each) | {"before": []} for each in _newest(job)]
        content = json.dumps(vars(job) | {"before": kept}, indent=None if kept else 1).encode()
        publish_files(self.fs, self.folder, {self.name: [content + b"\n"]})

    def put_back(self, before: Job | None) -> None:
        """Forget a job that left nothing: the job before it is the last one again."""
        finished = next(before.finished(), None) if before is not None else None
        if before is not None and finished is not None:
            self.write(finished if finished is before else replace(finished, before=before.before[:-1]))
            return
        with suppress(FileNotFoundError):
            self.fs.remove(self.path)

    def left_nothing(self, job: Job) -> bool:
        """Whether none of its new partitions exists, and the others end where it began, or before."""
        folders = {os.path.join(self.folder, name): start for name, start in job.starts.items()}
        return all(
            self.fs.kind(folder) == "missing" if start is None else end_offset(self.fs, folder) <= start.offset
            for folder, start in folders.items()
        )


class _Source(TypedDict, total=False):
    path: str
    rows: int
    size: int
    modified_ns: int
    format: str
    encoding: str
    digest: str
    records: int


class _Form(TypedDict):
    """Those of `recognition.FORM`, and how a transaction ends."""

    codec: str
    level: int | None
    batch_bytes: int
    magic: int
    leader_epoch: int | None
    producer_id: int
    producer_epoch: int
    transaction: str | None


class _Request(TypedDict):
    sources: list[_Source]
    form: _Form
    config: dict[str, object]
    own_partitions: bool
    keep_timestamps: bool
    idempotent: bool


class _PartitionResult(TypedDict):
    partition: int
    folder: str
    is_new: bool
    records: int
    first_offset: int
    end_offset: int
    size: int


class _Result(TypedDict):
    records: int
    partitions: list[_PartitionResult]


def _job(fields: dict[str, Any]) -> Job:
    starts = {name: None if start is None else Start(*start) for name, start in fields.pop("starts").items()}
    job = Job(**fields, starts=starts)
    require_type(job, Job, "job")
    require_type(job.request, _Request, "request")
    if job.state == DONE:
        require_type(job.result, _Result, "result")
        if any(part.keys() != _PartitionResult.__annotations__.keys() for part in job.result["partitions"]):
            raise ValueError("result.partitions has unknown fields")
        for name in job.ends():
            if parse_folder_name(name) is None:
                raise ValueError(f"result.partitions names the folder {name!r}")
    if job.state not in (BEGUN, DONE) or (job.reads and len(job.reads) != len(job.request["sources"])):
        raise ValueError(f"state {job.state!r}, with {plural(len(job.reads), 'source')}")
    for name, start in starts.items():
        if parse_folder_name(name) is None or (start is not None and not all(-1 <= number < 1 << 31 for number in start[1:])):
            raise ValueError(f"starts.{name} is {start}")
    return job


def _newest(job: Job) -> list[Job]:
    """The finished jobs before this one that are kept."""
    kept: list[Job] = []
    count = 0
    for each in reversed(job.before):
        count += len(each.request["sources"])
        if count > SOURCES_KEPT:
            break
        kept.insert(0, each)
    return kept
