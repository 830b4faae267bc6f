"""The short form of power_cuts.py and interruptions.py: all power cuts and failing steps, a sample of the rest."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.campaigns.crashes import cluster_jobs, full_disk, power_cuts, write_jobs
from tests.campaigns.crashes.interruptions import Disturbed
from tests.cli.forks import Forks
from tests.conftest import require, unavailable

JOBS = [pytest.param(job, id=job.name) for job in power_cuts.all_jobs()]
SMALL_JOBS = [pytest.param(job, id=job.name) for job in power_cuts.all_jobs() if job.sampled == 1]


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    require("strace")
    with Forks() as forks:
        yield forks


@pytest.mark.parametrize("job", JOBS)
def test_a_power_cut_before_any_step_leaves_old_or_new_and_a_second_run_completes(job: power_cuts.Job) -> None:
    images, wrong = power_cuts.power_cuts(job, rerun_every=32, every_image=3 * job.sampled)
    assert images > 100
    assert wrong == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("job", JOBS)
def test_a_failing_step_is_reported_and_a_second_run_completes(job: power_cuts.Job, number: int) -> None:
    steps, wrong = power_cuts.failing_steps(job, number, job.sampled)
    assert steps > 25
    assert wrong == []


def test_a_new_topic_that_fails_between_two_partitions_is_completed_by_a_second_run() -> None:
    steps, wrong = power_cuts.failing_steps(write_jobs.TOPIC, errno.ENOSPC)
    assert steps > 30
    assert wrong == []


def test_a_rebuild_that_fails_between_two_partitions_is_completed_by_a_second_run() -> None:
    steps, wrong = power_cuts.failing_steps(cluster_jobs.TWO_PARTITIONS, errno.ENOSPC)
    assert steps > 80
    assert wrong == []


@pytest.mark.parametrize("job", SMALL_JOBS)
def test_every_sync_is_needed(job: power_cuts.Job) -> None:
    syncs = [sync for sync in power_cuts.syncs_of(job) if sync.number not in job.excused]
    assert power_cuts.unneeded_syncs(job, syncs[4::6]) == []


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_command_disturbed_at_any_system_call_leaves_old_or_new_and_a_second_run_completes(
    job: power_cuts.Job, forks: Forks
) -> None:
    disturbed = Disturbed(job, forks)
    calls = disturbed.calls()
    assert len(calls) > 100
    for number, call in enumerate(calls[:: 16 * job.sampled]):
        disturbed.send((signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)[number % 4], call)
    for call in [call for call in calls if call.writes][:: 12 * job.sampled]:
        disturbed.fail("ENOSPC", call)
    assert disturbed.wrong == []
    assert len(disturbed.missed) < 10


def test_a_call_at_which_a_command_is_killed_does_not_happen(forks: Forks) -> None:
    disturbed = Disturbed(power_cuts.all_jobs()[0], forks)
    made = [call for call in disturbed.calls() if call.name == "mkdir"]
    left = [disturbed.send(signal.SIGKILL, call).folders - {"/broken", "/broken/orders-0"} for call in made]
    assert left == [set(), {"/rescued"}]


def test_a_disk_that_fills_up_leaves_old_or_new_and_a_second_run_completes() -> None:
    require("unshare")
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        unavailable("nothing can be mounted here")
    done = subprocess.run([sys.executable, "-m", full_disk.__name__, "append-new", "compact"], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
