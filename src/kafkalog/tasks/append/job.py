"""What an append is about, written down before its first record: the same command, run again, goes on or finds it done."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafkalog.errors import UsageError
from kafkalog.storage.fs import Fs
from kafkalog.storage.publish import make_folders, publish_files

from .writing import Start

BEGUN, DONE = "begun", "done"
SMALL_FILE = 64 << 20


@dataclass
class Job:
    """Sources and options, and what was settled when it began: the time, the producer, and where it begins in each partition.

    `starts` has None for a partition that was not there; such a one appears complete.
    """

    request: dict[str, Any]
    now_ms: int
    producer_id: int
    starts: dict[str, Start | None]
    state: str = BEGUN
    result: dict[str, Any] = field(default_factory=dict)

    def is_finished(self, request: Mapping[str, Any]) -> bool:
        """Whether this is the job of a request, done, that told what it read."""
        is_known = all("modified_ns" in source for source in request["sources"])
        return self.state == DONE and self.request == request and is_known


class JobFile:
    """The job that last wrote to a partition or a topic, in a file beside it that brokers do not look at."""

    def __init__(self, fs: Fs, folder: str, name: str) -> None:
        self.fs = fs
        self.folder = folder
        self.name = f".{name}.append.json"
        self.path = os.path.join(folder, self.name)

    def read(self) -> Job | None:
        if self.fs.kind(self.path) != "file":
            return None
        try:
            told = json.loads(self.fs.read(self.path, 0, SMALL_FILE))
            starts = {name: None if start is None else Start(*start) for name, start in told.pop("starts").items()}
            return Job(**told, starts=starts)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UsageError(f"{self.path}: not what an append wrote there; move it away") from None

    def write(self, job: Job) -> None:
        make_folders(self.fs, self.folder)
        publish_files(self.fs, self.folder, {self.name: [json.dumps(vars(job), indent=1).encode() + b"\n"]})

    def put_back(self, before: Job | None) -> None:
        """Forget a job that left nothing: what was done before it is again the last thing that was done."""
        if before is not None and before.state == DONE:
            self.write(before)
            return
        with suppress(FileNotFoundError):
            self.fs.remove(self.path)

    def unfinished(self, job: Job | None, request: Mapping[str, Any]) -> Job | None:
        """The last job, if it is that of this request and was interrupted; UsageError if another one was."""
        if job is None or job.state != BEGUN:
            return None
        if job.request != request and not self._left_nothing(job):
            sources = ", ".join(str(source.get("path", source)) for source in job.request["sources"])
            raise UsageError(f"an append of {sources} was interrupted here: run it again to complete it, or remove {self.path}")
        return job if job.request == request else None

    def _left_nothing(self, job: Job) -> bool:
        """Whether it was to make new partitions only, and made none."""
        return all(
            start is None and self.fs.kind(os.path.join(self.folder, name)) == "missing" for name, start in job.starts.items()
        )
