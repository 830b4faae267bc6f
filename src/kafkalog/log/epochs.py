"""Leader epochs: what the checkpoint says beside what the batches say."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.errors import Limits

from .headers import iter_headers
from .partition import Partition
from .report import ReadReport


def replay_epochs(partition: Partition, limits: Limits, unread: ReadReport | None = None) -> list[dict[str, Any]]:
    """One row per epoch of either source, ascending; v0/v1 entries have none."""
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
