"""Leader epochs: where each began, according to the checkpoint and to the batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kafkalog.errors import Limits
from kafkalog.format.batch import NO_LEADER_EPOCH
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.entry_table import EntryTable

from .partition import Partition
from .report import ReadReport
from .segments import iter_headers


def assign_epoch(starts: list[EpochStart], start: EpochStart) -> bool:
    """Add an epoch to `starts`, dropping those that it contradicts; False if it is the latest one and has begun before."""
    if starts and start.epoch == starts[-1].epoch and start.start_offset >= starts[-1].start_offset:
        return False
    while starts and (starts[-1].epoch >= start.epoch or starts[-1].start_offset >= start.start_offset):
        starts.pop()
    starts.append(start)
    return True


def newer_epochs(entries: EntryTable, latest_epoch: int | None) -> list[EpochStart]:
    """The epochs that begin among these entries: each is above `latest_epoch` and all before it. v0/v1 entries have none."""
    latest = NO_LEADER_EPOCH if latest_epoch is None else latest_epoch
    epochs = np.where(entries.magic == 2, entries.leader_epoch, NO_LEADER_EPOCH)
    rises = np.diff(np.maximum.accumulate(np.maximum(epochs, latest)), prepend=latest) > 0
    return list(map(EpochStart, epochs[rises].tolist(), entries.base_offset[rises].tolist()))


def epochs_between(starts: Sequence[EpochStart], start_offset: int, end_offset: int) -> list[EpochStart]:
    """The epochs of a log that begins and ends at these offsets."""
    within = [start for start in starts if start.start_offset < end_offset]
    before = [start for start in within if start.start_offset <= start_offset]
    return [*(EpochStart(start.epoch, start_offset) for start in before[-1:]), *within[len(before) :]]


def replay_epochs(partition: Partition, limits: Limits, unread: ReadReport | None = None) -> list[dict[str, Any]]:
    """One row per epoch of either source, ascending."""
    rows: dict[int, dict[str, Any]] = {
        start.epoch: {"leader_epoch": start.epoch, "start_offset": start.start_offset, "batch_count": 0}
        for start in partition.epochs
    }
    for _, entries in iter_headers(partition, limits, unread):
        epochs = entries.leader_epoch
        for epoch in np.unique(epochs[entries.magic == 2]).tolist():
            of_epoch = epochs == epoch
            row = rows.setdefault(epoch, {"leader_epoch": epoch, "batch_count": 0})
            row.setdefault("first_offset", int(entries.base_offset[of_epoch].min()))
            row["last_offset"] = int(entries.last_offset[of_epoch].max())
            row["batch_count"] += int(of_epoch.sum())
    return [rows[epoch] for epoch in sorted(rows)]
