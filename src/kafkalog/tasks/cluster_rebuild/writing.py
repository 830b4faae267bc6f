"""The output of a rebuild: a folder for each node, in it its log directories, so that a kill at any moment leaves no half.

Each partition is copied out of sight and appears with one rename. The files of a log directory follow, and the last of these is
`meta.properties`, without which no broker opens it: a second run compares what is there and goes on.

Everything is copied, nothing linked. A broker appends to active segments, and rewrites checkpoints, indexes and snapshots in
place; and even a closed segment is cut in place where a follower has to drop the end of its log, or recovery finds damage.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from kafkalog.errors import SegmentChanged, StorageError, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import (
    PartitionMetadata,
    PartitionOffset,
    decode_partition_metadata,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.log.partition import Partition, StoredFile
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Buffer, Fs, LocalFs
from kafkalog.storage.lock import is_broker_running
from kafkalog.storage.overlay import OwnedFs
from kafkalog.storage.ownership import Pattern
from kafkalog.storage.publish import (
    StagedFolder,
    holds,
    make_folders,
    publish_files,
    publish_together,
    replaced_ownership,
)
from kafkalog.storage.store import Store

from ..output import COPY_BYTES, Comparison, Output, Progress, Unsynced, staged_copy
from ..partitions import read_metadata
from .plan import NewDirectory, Placement, Plan
from .result import RebuildResult

JOURNAL = "cluster.rebuild.jsonl"
# So many partitions are copied before their files are synced, and so many syncs are waited for at once.
TOGETHER = 64
TOGETHER_BYTES = 256 << 20
SYNCS_AT_ONCE = 8
CLEAN_MARKER = b'{"version":0,"brokerEpoch":-1}'


def write_plan(plan: Plan, out: str, fs: Fs, progress: Progress) -> RebuildResult:
    """Make the log directories of a plan; UsageError if something else is there already."""
    result = plan.result
    for directory in plan.directories:
        if is_broker_running(directory.path):
            raise StorageError(f"{directory.path}: a broker is running on this log directory; stop it first", file=directory.path)
    journal = journal_of(result)
    if all(fs.kind(os.path.join(each.path, names.META_PROPERTIES)) == "file" for each in plan.directories):
        return _already_there(result, out, journal, fs)
    for directory in plan.directories:
        _make_directory(directory, fs)
    for group in _together(plan.placements):
        _write_partitions(group, fs, progress)
    for directory in plan.directories:
        _write_root(directory, plan, fs)
    make_folders(fs, out)
    publish_files(fs, out, {JOURNAL: [journal]})
    for directory in plan.directories:
        publish_files(owned(fs, directory), directory.path, {names.META_PROPERTIES: [directory.meta]})
    result.state = "written"
    return result


def journal_of(result: RebuildResult) -> bytes:
    """The bytes of the journal."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in result.events())


def _already_there(result: RebuildResult, out: str, journal: bytes, fs: Fs) -> RebuildResult:
    """The result of an earlier run with the same plan: nothing is touched, since a broker may have run on it since."""
    if not holds(fs, os.path.join(out, JOURNAL), [journal]):
        raise UsageError(f"{out}: holds log directories already, of another rebuild; choose another --out, or move it away")
    result.state = "already there"
    return result


def _together(placements: Iterable[Placement]) -> Iterator[list[Placement]]:
    """The placements in groups that are synced together."""
    group: list[Placement] = []
    for placement in placements:
        size = placement.copy.size + sum(each.copy.size for each in group)
        if group and (len(group) == TOGETHER or size > TOGETHER_BYTES):
            yield group
            group = []
        group.append(placement)
    if group:
        yield group


def _write_partitions(placements: Iterable[Placement], fs: Fs, progress: Progress) -> None:
    """Copy partitions, or compare what is there. Their names are durable once the log directory is synced (`_write_root`)."""
    with ExitStack() as unfinished:
        folders = []
        for placement in placements:
            folder = os.path.join(placement.directory.path, placement.chosen.name)
            if fs.kind(folder) == "missing":
                staged = unfinished.enter_context(staged_copy(fs, folder, placement.copy.partition))
                _fill(staged, placement, progress)
                folders.append(staged)
            else:
                comparison = Comparison(fs, folder)
                _copy(placement, comparison, progress)
                comparison.require_same()
        publish_together(folders, SYNCS_AT_ONCE if isinstance(fs, LocalFs) else 1)


def _fill(staged: StagedFolder, placement: Placement, progress: Progress) -> None:
    _copy(placement, Unsynced(staged), progress)
    for stored in files_to_copy(placement.copy.partition):
        path = os.path.join(staged.staging, os.path.basename(stored.path))
        staged.fs.set_modified_ms(path, stored.mtime_ns // 1_000_000)


def files_to_copy(partition: Partition) -> Iterator[StoredFile]:
    """The files of a copy, without those being deleted."""
    for stored in partition.files:
        if stored.suffix not in ("deleted", "tmp"):
            yield stored


def _copy(placement: Placement, output: Output, progress: Progress) -> None:
    partition = placement.copy.partition
    metadata = read_metadata(partition)
    is_right = metadata is not None and decode_partition_metadata(metadata).topic_id == placement.chosen.topic_id
    for stored in files_to_copy(partition):
        if stored.kind == names.PARTITION_METADATA and not is_right:
            continue
        output.write(os.path.basename(stored.path), unchanged_parts(partition.store, stored))
        progress(stored.size)
    if not is_right:
        content = encode_partition_metadata(PartitionMetadata(0, placement.chosen.topic_id))
        output.write(names.PARTITION_METADATA, [content])


def unchanged_parts(store: Store, stored: StoredFile) -> Iterator[Buffer]:
    """The bytes of a file; SegmentChanged if it is not as it was when it was listed."""
    with store.open(stored.path) as source:
        if source.size != stored.size:
            detail = "it has changed since it was listed, so a broker is running on this disk; stop it first"
            raise SegmentChanged("changed", file=stored.path, expected=stored.size, found=source.size, detail=detail)
        for position in range(0, source.size, COPY_BYTES):
            yield source.read(position, min(COPY_BYTES, source.size - position))


def _make_directory(directory: NewDirectory, fs: Fs) -> None:
    """The folder of a log directory, and that of its node, which belong to the owner of the disk."""
    with writing(directory.path):
        make_folders(owned(fs, directory), directory.path)


def owned(fs: Fs, directory: NewDirectory) -> Fs:
    """`fs`, on which new files of a log directory belong to the owner of the disk that it is made from."""
    if not directory.sources:
        return fs
    source = directory.sources[0].path
    file = replaced_ownership(fs, os.path.join(source, names.META_PROPERTIES)) or fs.ownership(source)._replace(mode=None)
    above = os.path.dirname(directory.path)
    while fs.kind(above) != "folder" and above != os.path.dirname(above):
        above = os.path.dirname(above)
    return OwnedFs(fs, Pattern.of_copy(fs.ownership(above), Pattern(file, fs.ownership(source))))


def _write_root(directory: NewDirectory, plan: Plan, fs: Fs) -> None:
    """The files of a log directory, all except the one that opens it to a broker."""
    placed = [each for each in plan.placements if each.directory is directory]
    files: dict[str, Iterable[Buffer]] = {}
    for name in names.OFFSET_CHECKPOINTS:
        entries = list(_entries(name, placed))
        if entries or any(disk.read(name) is not None for disk in directory.sources):
            files[name] = [encode_offset_checkpoint(entries)]
    if _was_shut_down(directory):
        files[names.CLEAN_SHUTDOWN] = [_marker(directory)]
    files[names.BOOTSTRAP_CHECKPOINT] = [plan.bootstrap]
    publish_files(owned(fs, directory), directory.path, files)


def _was_shut_down(directory: NewDirectory) -> bool:
    """Whether no log of this directory has to be checked when a broker starts."""
    clean = [disk.was_shut_down for disk in directory.sources if disk.partitions or disk.was_shut_down]
    return bool(clean) and all(clean)


def _entries(name: str, placed: Iterable[Placement]) -> Iterator[PartitionOffset]:
    """The lines of a checkpoint for the partitions that are there."""
    for each in placed:
        entry = each.copy.offset(name)
        if entry is not None:
            yield entry
        elif name == names.LOG_START_CHECKPOINT and each.copy.found_start is not None:
            yield PartitionOffset(each.chosen.topic, each.chosen.partition, each.copy.found_start)


def _marker(directory: NewDirectory) -> bytes:
    """The clean-shutdown file of the disk, or of disks that were merged one without a broker's epoch."""
    if len(directory.sources) == 1:
        return directory.sources[0].read(names.CLEAN_SHUTDOWN) or b""
    return CLEAN_MARKER
