"""A move, carried out on the disks of the target, which are locked against brokers meanwhile.

The order survives a kill at any moment: the journal, which says whose the new folders are; then the partitions, each of which
appears with one rename; then their lines in the checkpoints; and last the metadata. Until then the cluster does not know the new
folders: brokers that are started too early make them stray, and the same command moves the topics once more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import numpy as np

from kafkalog.engine.config import LogConfig
from kafkalog.errors import StorageError, UnsupportedFormat, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import (
    PartitionMetadata,
    PartitionOffset,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.format.snapshot import PRODUCERS, decode_snapshot, encode_snapshot
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs, read_small
from kafkalog.storage.overlay import OwnedFs
from kafkalog.storage.ownership import Pattern
from kafkalog.storage.publish import StagedFolder, publish_files, replaced_ownership, sync_names

from ..cluster_rebuild.copies import examine
from ..cluster_rebuild.disks import METADATA_TOPIC, Disk
from ..cluster_rebuild.writing import files_to_copy, unchanged_parts
from ..opening import LogOpening
from ..output import Progress, staged_copy
from .metadata_log import append_everywhere, encode_records
from .plan import Placement, Plan, is_begun
from .result import MoveResult

SNAPSHOT = "snapshot"
NO_TRANSACTION = -1
NO_PRODUCERS = np.empty(0, PRODUCERS)


def write_plan(plan: Plan, fs: Fs, progress: Progress, now_ms: int) -> MoveResult:
    """Move the topics; nothing is touched if that was done before."""
    result, target = plan.result, plan.target
    ids = [topic.topic_id for topic in result.topics]
    with ExitStack() as locks:
        for disk in target.disks:
            fs.require_useful(disk.path)
            locks.enter_context(fs.broker_lock(disk.path))
        if is_done(plan):
            result.state = "already there"
            return result
        is_known = all(each in target.image.topics for each in ids)
        if not is_known and any(each in target.image.topics for each in ids):
            gone = [topic for topic in result.topics if topic.topic_id not in target.image.topics]
            again = " ".join(f"--topic {topic.source}" for topic in gone)
            raise UsageError(f"some of these topics were moved before and are there; to move those that are not: {again}")
        batch = b""
        if not is_known:
            batch = encode_records(plan.records, result.metadata_offset, result.metadata_epoch, now_ms)
            _place_partitions(plan, fs, progress, now_ms)
        append_everywhere(target.log, batch, result.metadata_epoch, fs, now_ms)
    result.state = "written"
    return result


def is_done(plan: Plan) -> bool:
    """Whether every controller knows of the topics."""
    ids = [topic.topic_id for topic in plan.result.topics]
    return all(each in plan.target.image.topics for each in ids) and not plan.target.log.lacks(ids)


def _place_partitions(plan: Plan, fs: Fs, progress: Progress, now_ms: int) -> None:
    """Everything that has to be there before the metadata say so."""
    result, target = plan.result, plan.target
    begun = is_begun(result, target)
    journal = b"".join(json.dumps(event).encode() + b"\n" for event in result.events())
    for disk in target.disks:
        publish_files(_owned(fs, disk), disk.path, {result.journal_name: [journal]})
    for placement in plan.placements:
        if fs.kind(placement.folder) == "missing":
            _copy(placement, fs, progress, now_ms)
        elif not begun:
            raise UsageError(f"{placement.folder} is in the way; move it out of the log directory")
        else:
            _require_whole(placement, fs)
    for disk in target.disks:
        if placed := [each for each in plan.placements if each.disk is disk]:
            _write_checkpoints(disk, placed, fs)


def _owned(fs: Fs, disk: Disk) -> Fs:
    """`fs`, on which new files of a log directory belong to its owner."""
    file = replaced_ownership(fs, os.path.join(disk.path, names.META_PROPERTIES))
    return fs if file is None else OwnedFs(fs, Pattern(file, fs.ownership(disk.path)))


def _copy(placement: Placement, fs: Fs, progress: Progress, now_ms: int) -> None:
    """A copy as a broker would have it after a clean stop: recovered if its own broker was not stopped cleanly."""
    partition, copy = placement.copy.partition, placement.copy
    with staged_copy(fs, placement.folder, partition, _staging(placement.folder)) as staged:
        for stored in files_to_copy(partition):
            if stored.kind != names.PARTITION_METADATA:
                staged.write(os.path.basename(stored.path), unchanged_parts(partition.store, stored))
                progress(stored.size)
        metadata = PartitionMetadata(0, placement.topic.topic_id)
        staged.write(names.PARTITION_METADATA, [encode_partition_metadata(metadata)])
        opening = LogOpening(
            placement.topic.topic,
            placement.partition,
            LogConfig.of({"file.delete.delay.ms": 0}),
            now_ms,
            log_start_offset=_start_offset(placement) or 0,
            recovery_point=_offset(placement, names.RECOVERY_POINT_CHECKPOINT) or 0,
            clean=copy.disk.was_shut_down,
        )
        with opening.opened(staged.unsynced, staged.staging) as log:
            end = log.log_end_offset
            if end != copy.end_offset:
                what = f"ends at offset {end} when it is loaded, planned was {copy.end_offset}; its disk has changed"
                raise StorageError(f"{partition.folder}: {what}; try again", file=partition.folder)
            if log.size and log.active_segment.base_offset < end:
                log.roll()
        with writing(placement.folder):
            _forget_producers(staged, end)
            for stored in files_to_copy(partition):
                path = os.path.join(staged.staging, os.path.basename(stored.path))
                if stored.kind != names.PARTITION_METADATA and fs.kind(path) == "file":
                    staged.fs.set_modified_ms(path, stored.mtime_ns // 1_000_000)
        staged.sync_files()
        staged.publish()


def _staging(folder: str) -> str:
    """Where a folder is filled. A broker that is started meanwhile ignores a stray folder of the metadata log.

    One of any other name that is no partition's keeps it from starting; one of a partition it would load.
    """
    mark = hashlib.sha256(os.path.basename(folder).encode()).hexdigest()[:32]
    return os.path.join(os.path.dirname(folder), f"{METADATA_TOPIC}-0.{mark}-stray")


def _forget_producers(staged: StagedFolder, end: int) -> None:
    """Leave only producers with an open transaction, as if the others had expired.

    Their ids are those of another cluster. A producer here that has the same one would be fenced, or its first record taken for a
    repeated one: acknowledged, and not written. The log ends with an empty segment, so that a recovery does not find them again.
    """
    snapshots = [name for name in staged.fs.list(staged.staging) if name.endswith(f".{SNAPSHOT}")]
    newest = os.path.join(staged.staging, names.segment_file_name(end, SNAPSHOT))
    producers = decode_snapshot(read_small(staged.fs, newest)) if os.path.basename(newest) in snapshots else NO_PRODUCERS
    for name in snapshots:
        staged.fs.remove(os.path.join(staged.staging, name))
    if end:
        kept = producers[producers["current_txn_first_offset"] != NO_TRANSACTION]
        staged.write(os.path.basename(newest), [encode_snapshot(kept)])


def _require_whole(placement: Placement, fs: Fs) -> None:
    """UsageError unless a folder that an earlier run made holds what this one would copy."""
    found = next(each for each in placement.disk.partitions if each.folder == placement.folder)
    there = examine(placement.disk, found, fs)
    if (there.end_offset, there.last_epoch) != (placement.copy.end_offset, placement.copy.last_epoch):
        raise UsageError(
            f"{placement.folder}: an earlier run made it from other disks: it ends at offset {there.end_offset}, not at "
            f"{placement.copy.end_offset}; remove it, and try again"
        )


def _offset(placement: Placement, name: str) -> int | None:
    entry = placement.copy.offset(name)
    return None if entry is None else entry.offset


def _start_offset(placement: Placement) -> int | None:
    """Where the log begins, if its first segment begins earlier."""
    stored = _offset(placement, names.LOG_START_CHECKPOINT)
    return placement.copy.found_start if stored is None else stored


def _write_checkpoints(disk: Disk, placed: Sequence[Placement], fs: Fs) -> None:
    """The lines of the new partitions; those of the others stay."""
    ours = {(each.topic.topic, each.partition) for each in placed}
    for name in names.OFFSET_CHECKPOINTS:
        path = os.path.join(disk.path, name)
        before = _lines(path, fs)
        lines = [entry for entry in before if (entry.topic, entry.partition) not in ours]
        lines += _entries(name, placed)
        if lines != before:
            publish_files(_owned(fs, disk), disk.path, {name: [encode_offset_checkpoint(lines)]})
    sync_names(fs, disk.path)


def _lines(path: str, fs: Fs) -> list[PartitionOffset]:
    if fs.kind(path) != "file":
        return []
    content = read_small(fs, path)
    try:
        return decode_offset_checkpoint(content) if content else []
    except UnsupportedFormat as error:
        raise StorageError(f"{path}: cannot be read ({error}); no broker starts with it", file=path) from error


def _entries(name: str, placed: Iterable[Placement]) -> list[PartitionOffset]:
    """Of all of it a broker knows that it is durable and committed; the rest is as it was."""
    found = []
    for each in placed:
        offset: int | None
        if name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
            offset = each.copy.end_offset
        else:
            offset = _start_offset(each) if name == names.LOG_START_CHECKPOINT else _offset(each, name)
        if offset is not None:
            found.append(PartitionOffset(each.topic.topic, each.partition, offset))
    return found
