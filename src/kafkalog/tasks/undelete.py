"""Deleted data that is still on the disk: topics in `-delete` folders, segments named `.deleted`; and copies of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kafkalog.errors import NoLogs, UsageError
from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.log.folders import choose, find_partitions
from kafkalog.log.partition import Partition, Segment
from kafkalog.storage import open_store
from kafkalog.storage.fs import Fs
from kafkalog.tables.choices import Names, Numbers, several_names, several_numbers

from .output import Progress, folder_name, output_folder
from .partitions import OnFailure, PathLike, each_partition
from .salvage import SalvageOptions, SalvageResult, salvage_partition

DELETED = "deleted"
DELETED_TOPIC = "deleted topic"
DELETED_SEGMENTS = "deleted segments"


@dataclass(frozen=True, repr=False)
class Deleted:
    """A partition of a deleted topic, or the deleted segments of a live partition (by retention, compaction or truncation)."""

    what: str
    found: Partition

    def __repr__(self) -> str:
        segments = plural(len(self.found.segments), "segment")
        first = f"from offset {self.base_offsets[0]}" if self.found.segments else ""
        return repr_text("Deleted", self.folder, self.what, segments, size_text(self.size), first)

    @property
    def topic(self) -> str:
        return self.found.topic

    @property
    def partition(self) -> int:
        return self.found.partition

    @property
    def folder(self) -> str:
        return self.found.folder

    @property
    def size(self) -> int:
        return self.found.size

    @property
    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.found.segments]


def find_deleted(path: PathLike, *, topics: Names | None = None, partitions: Numbers | None = None) -> list[Deleted]:
    """Deleted topics and segments at `path` whose logs are still on the disk, by topic and partition."""
    topics, partitions = several_names("topics", topics), several_numbers("partitions", partitions)
    store, place = open_store(path)
    deleted = []
    for partition in choose(find_partitions(store, place), place, topics or None, partitions or None):
        if partition.state == "delete":
            whole = replace(partition, segments=_segments(partition, suffixes=("", DELETED)), log_start_offset=None)
            deleted += [Deleted(DELETED_TOPIC, whole)] if whole.segments else []
        else:
            parts = replace(partition, segments=_segments(partition, suffixes=(DELETED,)), log_start_offset=None)
            deleted += [Deleted(DELETED_SEGMENTS, parts)] if parts.segments else []
    return deleted


def _segments(partition: Partition, suffixes: Iterable[str]) -> tuple[Segment, ...]:
    """The log files with these suffixes as segments; of two with the same base offset, the live one."""
    logs = {
        stored.base_offset: stored
        for suffix in sorted(suffixes, reverse=True)
        for stored in partition.files
        if stored.kind == "log" and stored.suffix == suffix
    }
    bases = sorted(logs)
    following: list[int | None] = [*bases[1:], None][: len(bases)]
    return tuple(Segment(logs[base], {}, after) for base, after in zip(bases, following, strict=True))


def undelete(
    path: PathLike,
    out: PathLike,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    index_interval_bytes: int | None = None,
    dry_run: bool = False,
) -> list[SalvageResult]:
    """Copy what `find_deleted` finds at `path` into clean partitions below `out`; NoLogs if it finds nothing."""
    deleted = find_deleted(path, topics=topics, partitions=partitions)
    return list(undelete_partitions(deleted, out, SalvageOptions(dry_run, index_interval_bytes)))


def undelete_partitions(
    deleted: Sequence[Deleted],
    out: PathLike,
    options: SalvageOptions | None = None,
    *,
    fs: Fs | None = None,
    progress: Progress | None = None,
    on_failure: OnFailure | None = None,
) -> Iterator[SalvageResult]:
    """Copy what was found, one after the other; where two have the same name, each below the name of its old folder.

    With `on_failure` one that cannot be copied is reported to it, and the others continue.
    """
    if not deleted:
        raise NoLogs("nothing deleted is left here: no -delete folders and no .deleted segments with records")
    target = output_folder(out)
    names = [folder_name(each.found) for each in deleted]

    def work(found: Partition) -> SalvageResult:
        name = folder_name(found)
        apart = (os.path.basename(found.folder),) if names.count(name) > 1 else ()
        folder = os.path.join(target, *apart, name)
        if os.path.dirname(folder) == os.path.dirname(found.folder):
            raise UsageError(f"--out {target}: the folder that the deleted log is in; choose another one")
        return salvage_partition([found], folder, options, fs=fs, progress=progress)

    return each_partition([each.found for each in deleted], work, on_failure)
