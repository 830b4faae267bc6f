"""Which sources a target has already: recognised by content, and refused where it is not certain that they are the same.

A file of the same path and content is appended once, whatever its time and the options. Equal content under another name may be
other records or the same ones: only the user knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kafkalog.errors import UsageError

from .job import Job
from .sources import LINE_FORMATS, STDIN, Content, SourceFile

AGAIN = "--again appends it once more"
FORM = ("codec", "level", "batch_bytes", "magic", "leader_epoch", "producer_id", "producer_epoch")
# Options that decide which records a source gives, not only how they are stored.
DECIDES_RECORDS = ("--format", "--encoding", "--timestamps", "--partitioner", "--end")


@dataclass(frozen=True)
class Known:
    """A source that was appended; `target` is the partition or topic that has it."""

    source: Mapping[str, Any]
    job: Job
    target: str
    is_same_target: bool

    @property
    def size(self) -> int:
        return int(self.source["size"])

    @property
    def path(self) -> str:
        return str(self.source["path"])

    @property
    def when(self) -> str:
        """The time of the append; --now may have set any."""
        try:
            return f"{datetime.fromtimestamp(self.job.now_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
        except (ValueError, OverflowError, OSError):
            return f"{self.job.now_ms} ms since 1970"

    @property
    def described(self) -> str:
        records = self.source.get("records")
        return f"appended to {self.target} on {self.when}" + (f", {records} records" if records is not None else "")


def known_sources(job: Job | None, target: str, *, is_same_target: bool) -> Iterator[Known]:
    """The sources that a target's jobs have appended, the newest first, without empty ones."""
    for each in job.finished() if job is not None else ():
        for source in each.request["sources"]:
            was_read = "digest" in source or "format" not in source  # those before digests were kept have no format either
            if "path" in source and was_read and source.get("size"):
                yield Known(source, each, target, is_same_target)


class Recognition:
    """Compares sources with the known ones. UsageError where one is known but it is not certain what is meant."""

    def __init__(self, known: Iterable[Known], request: Mapping[str, Any], *, only_new: bool) -> None:
        self.known = list(known)
        self.request = request
        self.only_new = only_new
        self.there: list[Known] = []

    def reads(self, sources: Sequence[object]) -> list[int | None]:
        """From which position each source is to be read; None for one that was appended before."""
        return [self._read(source) if isinstance(source, SourceFile) else 0 for source in sources]

    def _read(self, source: SourceFile) -> int | None:
        if source.path == STDIN:
            return 0
        path, size = os.path.abspath(source.path), source.size
        equal = [known for known in self.known if known.size == size]
        grown = [known for known in self.known if known.path == path and 0 < known.size < size and source.format in LINE_FORMATS]
        content = Content(known.size for known in (*equal, *grown))
        if any("digest" in known.source for known in (*equal, *grown)):
            content.read_from(source.path, max(known.size for known in (*equal, *grown)))
        same = [known for known in equal if _is_same(known, source, content)]
        if same:
            best = max(same, key=lambda known: (known.path == path, known.is_same_target))
            self.require_certain(best, source)
            self.there.append(best)
            return None
        begun = [known for known in grown if known.source.get("digest") == content.digests.get(known.size)]
        return self._grown(source, max(begun, key=lambda known: known.size)) if begun else 0

    def require_certain(self, known: Known, source: SourceFile) -> None:
        """UsageError unless this is the same source and would produce the same records."""
        if known.path != os.path.abspath(source.path) or source.path == STDIN:
            other = "standard input" if known.path == STDIN else known.path
            raise UsageError(f"{source.name}: has the same content as {other}, {known.described}; {AGAIN}")
        if not known.is_same_target:
            raise UsageError(f"{source.name}: {known.described}; {AGAIN}")
        earlier = option_texts(known.job.request, known.source)
        now = option_texts(self.request, {"format": source.format, "encoding": source.encoding})
        differing = [f"{name} {earlier[name]}" for name in DECIDES_RECORDS if earlier[name] not in (None, now[name])]
        if differing:
            raise UsageError(f"{source.name}: {known.described}, with {', '.join(differing)}; {AGAIN}")

    def _grown(self, source: SourceFile, known: Known) -> int:
        size = known.size
        if not self.only_new or not known.is_same_target:
            more = f"begins with what was {known.described}, and has grown by {source.size - size} bytes"
            only_new = "--only-new appends those, " if known.is_same_target else ""
            raise UsageError(f"{source.name}: {more}; {only_new}--again appends all of it once more")
        with open(source.path, "rb") as file:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                raise UsageError(f"{source.name}: what was {known.described}, ended inside a line, which may have grown; {AGAIN}")
        return size

    def require_other(self, source: SourceFile, content: Content) -> None:
        """UsageError if the content of standard input is known, which shows only after it was read."""
        for known in self.known:
            if known.source.get("digest") == content.digests.get(known.size, ""):
                if known.size == content.size:
                    self.require_certain(known, source)
                if known.path == STDIN and source.format in LINE_FORMATS:
                    more = f"begins with what was {known.described}, and has {content.size - known.size} bytes more"
                    raise UsageError(f"{source.name}: {more}; --again appends all of it")

    def marks(self) -> list[int]:
        """The sizes at which the digest of what comes through a pipe may be a known one."""
        return [known.size for known in self.known]


def require_different(sources: Sequence[object]) -> None:
    """UsageError if two sources of one append have the same content."""
    files = [source for source in sources if isinstance(source, SourceFile) and source.path != STDIN]
    seen: dict[tuple[int, str], SourceFile] = {}
    sizes = [source.size for source in files]
    for source in files:
        if source.size and sizes.count(source.size) > 1:
            content = Content()
            content.read_from(source.path)
            first = seen.setdefault((content.size, content.digest), source)
            if first is not source:
                raise UsageError(f"{source.name}: has the same content as {first.name}, which is given too; --again appends both")


def _is_same(known: Known, source: SourceFile, content: Content) -> bool:
    digest = known.source.get("digest")
    if digest is not None:
        return bool(digest == content.digests.get(known.size))
    if known.path != os.path.abspath(source.path):
        return False
    if known.source.get("modified_ns") == source.modified_ns:
        return True
    unknown = "whether it held the same is not known"
    raise UsageError(f"{source.name}: a file of this name and size was {known.described}; {unknown}; {AGAIN}")


def option_texts(request: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, str | None]:
    """What was chosen, by the names of the options; None where it is unknown."""
    form = request["form"]
    transaction = form.get("transaction")
    return {
        "--format": source.get("format"),
        "--encoding": source.get("encoding"),
        "--timestamps": "record" if request["keep_timestamps"] else "now",
        "--partitioner": "record" if request["own_partitions"] else "key",
        "--end": f"{transaction} (--transactional)" if transaction else "none (no --transactional)",
        **{f"--{name.replace('_', '-')}": "unset" if form[name] in (None, -1) else f"{form[name]}" for name in FORM},
        "--idempotent": "given" if request["idempotent"] else "not given",
        "--config": " ".join(f"{name}={value}" for name, value in request["config"].items()) or "none",
        "--again": "given" if request.get("again") else "not given",
    }


def differing_options(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The options of an earlier request that differ now, with their earlier values."""
    then, today = option_texts(earlier, {}), option_texts(now, {})
    return [f"{name} {then[name]}" for name in then if then[name] != today[name]]


def is_still_there(job: Job, end_of: Callable[[str], int]) -> bool:
    """Whether no partition ends before the place where the job left it: what was cut off may be appended again."""
    return all(end_of(name) >= end for name, end in job.ends().items())
