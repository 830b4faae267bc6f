"""Why a copy begins later or ends earlier than another, by the checkpoints beside it."""

from __future__ import annotations

from kafkalog.format import names
from kafkalog.log.checks.directory import read_log_directory, root_of
from kafkalog.log.partition import Partition

from .copies import CopyEntries


def describe_start(copy: CopyEntries) -> tuple[str, str]:
    """The reason why the copy begins later, and a detail."""
    partition = copy.partition
    start = partition.start_offset
    if partition.log_start_offset is not None and partition.log_start_offset > partition.segments[0].base_offset:
        return "delete-records", f"{names.LOG_START_CHECKPOINT} has it begin at offset {start}"
    if partition.log_start_offset is not None and partition.log_start_offset == start:
        return "delete-records", f"{names.LOG_START_CHECKPOINT} has it begin at offset {start}"
    if partition.epochs and partition.epochs[0].start_offset < start:
        return "start-lost", f"{names.LEADER_EPOCH_CHECKPOINT} has it begin at offset {partition.epochs[0].start_offset}"
    return "retention", f"its first segment begins at offset {start}"


def describe_end(copy: CopyEntries) -> tuple[str, str]:
    """The reason why the copy ends earlier, and a detail."""
    end = copy.last_offset + 1
    for name, offset in _known_ends(copy.partition):
        if offset > end:
            return "end-lost", f"{name} has offset {offset}, and the log ends at {end}"
    return "shorter", f"it ends at offset {end}"


def _known_ends(partition: Partition) -> list[tuple[str, int]]:
    """Offsets that the log once had, by its checkpoints."""
    found = [(names.LEADER_EPOCH_CHECKPOINT, start.start_offset) for start in partition.epochs[-1:]]
    root = root_of(partition)
    if root is None:
        return found
    directory = read_log_directory(partition.store, root)
    for name in names.OFFSET_CHECKPOINTS:
        offset = directory.offset(name, partition)
        if offset is not None and name != names.LOG_START_CHECKPOINT:
            found.append((name, offset))
    return found
