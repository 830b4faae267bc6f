"""The short form of crashes.py: simulated power cuts and failing steps whole, real kills at a few calls."""

from __future__ import annotations

import errno

import pytest

from tests.conftest import require

from . import crashes

JOBS = [pytest.param(job, id=job.name) for job in crashes.all_jobs()]


@pytest.mark.parametrize("job", JOBS)
def test_a_power_cut_before_any_step_leaves_old_or_new_and_a_second_run_completes(job: crashes.Job) -> None:
    images, wrong = crashes.power_cuts(job, rerun_every=32)
    assert images > 500
    assert wrong == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("job", JOBS)
def test_a_failing_step_is_told_and_a_second_run_completes(job: crashes.Job, number: int) -> None:
    steps, wrong = crashes.failing_steps(job, number)
    assert steps > 30
    assert wrong == []


@pytest.mark.parametrize("job", JOBS)
def test_every_sync_is_needed(job: crashes.Job) -> None:
    assert crashes.needless_syncs(job) == []


@pytest.mark.slow
@pytest.mark.parametrize("call", ["rename", "fsync", "write"])
@pytest.mark.parametrize("job", JOBS)
def test_the_command_killed_at_a_system_call_leaves_old_or_new(job: crashes.Job, call: str) -> None:
    require("strace")
    numbers = crashes.calls_on_the_disk(job, call)
    assert numbers
    for number in {numbers[len(numbers) // 2], numbers[-1]}:
        assert crashes.killed(job, call, number) == []
