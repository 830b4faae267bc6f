"""Index files, producer snapshots and leader epochs rebuilt from the log, as a broker's recovery would leave them.

In place, each file changes in one step, the broker is locked out by its own lock, and the clean-shutdown marker is removed first,
so that the next broker checks everything. The old files are kept as `<name>.broken-<time>`, which brokers ignore.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kafkalog.errors import Limits, UsageError
from kafkalog.format.quantities import plural, repr_text
from kafkalog.log.partition import Partition
from kafkalog.log.rebuild import Files, RebuildOptions, rebuild
from kafkalog.log.report import ReadReport
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.publish import holds, replace_file, sync_names
from kafkalog.tables.choices import Names, Numbers

from .locking import held, like_its_log, remove_marker
from .opening import INTERRUPTED
from .output import Comparison, Progress, folder_name, output_folder, staged_copy
from .partitions import (
    OnFailure,
    PathLike,
    chosen_partitions,
    each_partition,
    find_index_interval,
    listed_again,
    require_listed,
    require_real_folder,
)


@dataclass(repr=False)
class ReindexResult:
    """The result for one partition. In a dry run `changed` and `removed` are what would be done."""

    topic: str
    partition: int
    folder: str
    index_interval_bytes: int
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept_aside: list[str] = field(default_factory=list)
    report: ReadReport = field(default_factory=ReadReport)
    state: str = "not written"

    def __repr__(self) -> str:
        return repr_text(
            "ReindexResult",
            self.folder,
            self.state,
            f"{plural(len(self.changed), 'file')} {'to change' if self.state == 'not written' else 'changed'}",
            f"{len(self.unchanged)} unchanged",
            f"{len(self.removed)} {'to remove' if self.state == 'not written' else 'removed'}" if self.removed else "",
            f"{len(self.kept_aside)} kept aside" if self.kept_aside else "",
            "stopped at damage" if self.report.dropped else "",
        )


@dataclass(frozen=True)
class ReindexOptions:
    """Where to, and for which broker. Without `index_interval_bytes` it is taken from the existing index files."""

    out: PathLike | None = None
    dry_run: bool = False
    discard: bool = False
    index_interval_bytes: int | None = None
    broker: RebuildOptions = field(default_factory=RebuildOptions)
    limits: Limits = field(default_factory=Limits)


def reindex(
    path: PathLike,
    *,
    out: PathLike | None = None,
    discard: bool = False,
    index_interval_bytes: int | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[ReindexResult]:
    """Rebuild index files, producer snapshots and leader epochs of the partitions at `path` as a broker's recovery would.

    In place, where the old files are kept as `<name>.broken-<time>` unless `discard`; or, without the logs, below `out`.
    """
    options = ReindexOptions(out, dry_run, discard, index_interval_bytes, RebuildOptions(now_ms=now_ms))
    return list(reindex_partitions(path, options, topics=topics, partitions=partitions))


def reindex_partitions(
    path: PathLike,
    options: ReindexOptions,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    fs: Fs | None = None,
    progress: Progress | None = None,
    on_failure: OnFailure | None = None,
) -> Iterator[ReindexResult]:
    """Reindex the partitions at `path`, one after the other.

    With `on_failure` a partition that cannot be reindexed is reported to it, and the others continue.
    """

    if options.out is not None:
        output_folder(options.out)  # refused once, not for each partition

    def work(partition: Partition) -> ReindexResult:
        if partition.file is not None:
            raise UsageError(f"{partition.file}: give the partition's folder; its files are rebuilt together")
        return reindex_partition(require_listed(partition), options, fs or LocalFs(), progress)

    return each_partition(chosen_partitions(path, topics, partitions), work, on_failure)


def reindex_partition(partition: Partition, options: ReindexOptions, fs: Fs, progress: Progress | None = None) -> ReindexResult:
    if options.out is not None:
        result, files = _begin(partition, options, progress)
        result.folder = os.path.join(output_folder(options.out), folder_name(partition))
        _write_folder(partition, result, files, fs, options)
        return result
    if isinstance(fs, LocalFs) and not isinstance(partition.store, LocalStore):
        raise UsageError(f"{partition.folder}: only local folders can be changed in place; give --out")
    require_real_folder(fs, partition.folder)
    if options.dry_run:
        return _change_in_place(partition, fs, options, progress)
    with held(fs, partition.folder):
        return _change_in_place(listed_again(partition), fs, options, progress)


def _begin(partition: Partition, options: ReindexOptions, progress: Progress | None) -> tuple[ReindexResult, Iterator[Files]]:
    """(an empty result, the files as they are rebuilt)"""
    interval = options.index_interval_bytes or find_index_interval(partition, options.limits)
    result = ReindexResult(partition.topic, partition.partition, partition.folder, interval)
    broker = replace(options.broker, index_interval_bytes=interval)
    return result, rebuild(partition, broker, options.limits, result.report, progress)


def _write_folder(partition: Partition, result: ReindexResult, files: Iterator[Files], fs: Fs, options: ReindexOptions) -> None:
    if options.dry_run:
        result.changed = [name for some in files for name in some]
        return
    if fs.kind(result.folder) != "missing":
        comparison = Comparison(fs, result.folder)
        for name, content in _each(files):
            comparison.write(name, [content])
        comparison.require_same()
        result.unchanged, result.state = sorted(comparison.seen), "already there"
        return
    with staged_copy(fs, result.folder, partition) as staged:
        for name, content in _each(files):
            staged.write(name, [content])
            result.changed.append(name)
        staged.publish()
    result.state = "written"


def _each(files: Iterator[Files]) -> Iterator[tuple[str, bytes]]:
    for some in files:
        yield from some.items()


def _change_in_place(partition: Partition, fs: Fs, options: ReindexOptions, progress: Progress | None) -> ReindexResult:
    """The caller holds the lock, unless this is a dry run."""
    result, files = _begin(partition, options, progress)
    folder = _Folder(partition, result, fs, options)
    for some in files:
        folder.put(some)
    folder.remove_stale()
    folder.settle()
    if not options.dry_run:
        result.state = "written" if result.changed or result.removed else "already there"
    return result


class _Folder:
    """The folder of a partition, changed file by file."""

    def __init__(self, partition: Partition, result: ReindexResult, fs: Fs, options: ReindexOptions) -> None:
        self.partition = partition
        self.folder = partition.folder
        self.result = result
        self.fs = like_its_log(fs, partition.folder)
        self.options = options
        self.stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")  # names copies kept aside, decides nothing
        self.marker_removed = False

    def put(self, files: Files) -> None:
        wrong = {name: content for name, content in files.items() if not holds(self.fs, self._path(name), [content])}
        self.result.unchanged += [name for name in files if name not in wrong]
        self.result.changed += wrong
        if wrong and not self.options.dry_run:
            self._before_change(wrong)
            for name, content in wrong.items():
                replace_file(self.fs, self._path(name), [content])

    def remove_stale(self) -> None:
        """Remove snapshots that recovery would not write, and empty transaction indexes, unless damage ended the rebuild."""
        if self.result.report.dropped:
            return
        written = {*self.result.changed, *self.result.unchanged}
        there = [stored for stored in self.partition.files if not stored.suffix and not stored.path.endswith(INTERRUPTED)]
        stale = {os.path.basename(stored.path): stored.kind for stored in there}
        self.put({name: b"" for name, kind in stale.items() if kind == "txnindex" and name not in written})  # as recovery does
        snapshots = [name for name, kind in stale.items() if kind == "snapshot" and name not in written]
        self.result.removed += snapshots
        if snapshots and not self.options.dry_run:
            self._before_change(snapshots)
            for name in snapshots:
                with writing(self._path(name), "cannot remove"):
                    self.fs.remove(self._path(name))

    def settle(self) -> None:
        if not self.options.dry_run and (self.result.changed or self.result.removed):
            sync_names(self.fs, self.folder)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _before_change(self, changing: Iterable[str]) -> None:
        """Remove the marker first, and keep the old files under a second name."""
        if not self.marker_removed:
            remove_marker(self.fs, self.folder)
            self.marker_removed = True
        there = [name for name in changing if self.fs.kind(self._path(name)) != "missing"]
        if self.options.discard or not there:
            return
        for name in there:
            aside = f"{name}.broken-{self.stamp}"
            with writing(self._path(aside), "cannot keep a copy"), suppress(FileExistsError):
                self.fs.link(self._path(name), self._path(aside))
            self.result.kept_aside.append(aside)
        sync_names(self.fs, self.folder)
