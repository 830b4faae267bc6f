"""A rebuild on the disks themselves: nothing is copied, and no log is touched. Only metadata is written, and folders are renamed.

The order survives a kill at any moment: as long as one controller's metadata log has its name, a run finds it and makes the same
plan; and the last of these to be put aside is the newest, which the plan is from.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from dataclasses import dataclass

from kafkalog.clusters.copies import LogEnd, log_end
from kafkalog.errors import Limits
from kafkalog.format import names
from kafkalog.format.checkpoint import PartitionMetadata, encode_partition_metadata
from kafkalog.log.partition import Partition
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs
from kafkalog.storage.publish import holds, publish_files, sync_names

from ..locking import Checkpoints
from ..partitions import read_metadata
from .disks import METADATA_TOPIC
from .plan import NewDirectory, Placement, Plan
from .result import RebuildResult
from .writing import JOURNAL, journal_of, owned

OLD_BOOTSTRAP = f"{names.BOOTSTRAP_CHECKPOINT}.before-rebuild"


def change_in_place(plan: Plan, fs: Fs) -> RebuildResult:
    """Carry out the plan on the disks, all of which are locked against brokers meanwhile."""
    result = plan.result
    with ExitStack() as locks:
        for directory in plan.directories:
            fs.require_useful(directory.path)
            locks.enter_context(fs.broker_lock(directory.path))
        if _is_done(plan, fs):
            result.state = "already there"
            return result
        journal = journal_of(result)
        for directory in plan.directories:
            publish_files(owned(fs, directory), directory.path, {JOURNAL: [journal]})
        for placement in plan.placements:
            _name_topic(placement, fs)
            _set_log_start(placement, fs)
        for directory in plan.directories:
            _replace_bootstrap(directory, plan, fs)
        renamed = {placement.directory.path for placement in plan.placements if _take_back(placement, fs)}
        for metadata in _oldest_first(plan):
            renamed.discard(_put_aside(metadata, fs))
        for path in sorted(renamed):
            sync_names(fs, path)
    result.state = "written"
    return result


def _is_done(plan: Plan, fs: Fs) -> bool:
    bootstraps = (os.path.join(each.path, names.BOOTSTRAP_CHECKPOINT) for each in plan.directories)
    renamed = all(os.path.basename(each.copy.partition.folder) == each.chosen.name for each in plan.placements)
    return renamed and not _oldest_first(plan) and all(holds(fs, path, [plan.bootstrap]) for path in bootstraps)


def _name_topic(placement: Placement, fs: Fs) -> None:
    """Without a partition.metadata a broker would take the folder for a stray one."""
    if read_metadata(placement.copy.partition) is None:
        content = encode_partition_metadata(PartitionMetadata(0, placement.chosen.topic_id))
        publish_files(owned(fs, placement.directory), placement.copy.partition.folder, {names.PARTITION_METADATA: [content]})


def _set_log_start(placement: Placement, fs: Fs) -> None:
    """Without its entry, records come back that were deleted."""
    chosen, start = placement.chosen, placement.copy.found_start
    if start is not None:
        Checkpoints(fs, placement.directory.path, chosen.topic, chosen.partition).set(names.LOG_START_CHECKPOINT, start)


def _replace_bootstrap(directory: NewDirectory, plan: Plan, fs: Fs) -> None:
    """The first one, with which the disk was formatted, stays under another name."""
    path, kept = (os.path.join(directory.path, name) for name in (names.BOOTSTRAP_CHECKPOINT, OLD_BOOTSTRAP))
    if fs.kind(path) == "file" and fs.kind(kept) == "missing" and not holds(fs, path, [plan.bootstrap]):
        with writing(kept):
            fs.link(path, kept)
        sync_names(fs, directory.path)
    publish_files(owned(fs, directory), directory.path, {names.BOOTSTRAP_CHECKPOINT: [plan.bootstrap]})


def _take_back(placement: Placement, fs: Fs) -> bool:
    """Give a stray folder its name back; whether it was one."""
    folder = placement.copy.partition.folder
    target = os.path.join(placement.directory.path, placement.chosen.name)
    if folder != target:
        with writing(folder, "cannot be renamed"):
            fs.rename(folder, target)
    return folder != target


@dataclass(frozen=True)
class _OldMetadata:
    """A copy of the metadata log, and where it ends."""

    copy: Partition
    directory: NewDirectory
    end: LogEnd

    @property
    def aside(self) -> str:
        """Brokers ignore a stray folder of this topic. Another log of the same disk gets another name."""
        mark = hashlib.sha256(self.directory.meta + repr(self.end).encode()).hexdigest()[:32]
        return os.path.join(self.directory.path, f"{METADATA_TOPIC}-0.{mark}-stray")


def _oldest_first(plan: Plan) -> list[_OldMetadata]:
    """The copies of the metadata log, the newest last."""
    found = [
        _OldMetadata(disk.metadata, directory, log_end(disk.metadata, Limits()))
        for directory in plan.directories
        for disk in directory.sources
        if disk.metadata is not None
    ]
    return sorted(found, key=lambda each: (each.end, each.directory.path))


def _put_aside(old: _OldMetadata, fs: Fs) -> str:
    """Rename a metadata log, durably; its log directory."""
    with writing(old.copy.folder, "cannot be renamed"):
        fs.rename(old.copy.folder, old.aside)
    sync_names(fs, old.directory.path)
    return old.directory.path
