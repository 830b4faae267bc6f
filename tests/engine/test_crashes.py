"""The short form of engine_power_cuts.py: fewer images of fewer cuts, each kind of sync left out, every step failing."""

from __future__ import annotations

import errno
import os

import pytest

from kafkalog.engine.config import LogConfig
from tests.campaigns.crashes import engine_power_cuts

# Of a snapshot, and of the clean shutdown marker, only the name counts: a damaged snapshot is rebuilt from the log.
SYNCS = [
    ("sync", ".log"),
    ("sync", ".index"),
    ("sync", ".timeindex"),
    ("sync", ".txnindex"),
    ("sync", "-checkpoint.tmp"),
    ("sync_folder", "/data"),
    ("sync_folder", "/data/t-0"),
]


@pytest.mark.parametrize("config", [engine_power_cuts.CONFIG, engine_power_cuts.PREALLOCATED], ids=["plain", "preallocated"])
def test_after_a_power_cut_the_log_opens_and_holds_what_was_durable(config: LogConfig) -> None:
    images, wrong = engine_power_cuts.power_cuts(every_cut=5, every_image=5, config=config)
    assert images > 200
    assert wrong == []


@pytest.mark.parametrize("sync", SYNCS, ids=lambda sync: " ".join(sync))
def test_every_kind_of_sync_is_needed(sync: tuple[str, str]) -> None:
    action, ending = sync
    _, wrong = engine_power_cuts.power_cuts(
        every_image=5,
        skipped=lambda done, path: done == action and (path == ending or os.path.basename(path).endswith(ending)),
        first_only=True,
    )
    assert wrong


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failing_step_is_reported_and_durable_records_stay(number: int) -> None:
    steps, wrong = engine_power_cuts.failing_steps(number, every=3)
    assert steps > 300
    assert wrong == []
