"""Crashes of the writing commands (T-19 to T-21), on a simulated disk: power cuts at every step, failing steps, missing syncs.

    python -m tests.campaigns.crashes.power_cuts [JOB...]    every image of every power cut, each step failing, each sync left out

Kills and signals on the real commands: interruptions.py.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog.errors import KafkaLogError, StorageError
from tests.builders.simulated_disk import Files, SimulatedFs


class Shown(BaseException):
    """A run has shown what was looked for; nothing runs after it."""


@dataclass(frozen=True)
class Job:
    """A task on a simulated disk, the same as a command, and a promise that the disk must keep at any moment."""

    name: str
    files: Callable[[], Files]
    run: Callable[[SimulatedFs], None]
    holds: Callable[[Files, Files], bool]  # (an image, the files of a completed run)
    arguments: Callable[[str], list[str]]  # of the command on the files below a folder
    settled: Callable[[Files], object] = lambda files: files  # the part of the result that counts
    excused: Mapping[int, str] = field(default_factory=dict)  # by number: why a sync is made that no image needs
    sampled: int = 1  # the suite looks at one of so many steps and images
    unfinished: str = r"\.inprogress"  # in the names of what is not finished

    def is_unfinished(self, path: str) -> bool:
        return re.search(self.unfinished, path) is not None


Look = Callable[[int, SimulatedFs], None]


def completed(job: Job) -> tuple[Files, int]:
    """(the files after a run without a fault, the steps that it took)"""
    fs = SimulatedFs(job.files())
    job.run(fs)
    return fs.files(), fs.steps


class Judge:
    """Says what is wrong with an image of the disk, once for each."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.complete, self.steps = completed(job)
        self._settled = job.settled(self.complete)
        self._told: dict[frozenset[tuple[str, bytes]], str] = {}

    @property
    def seen(self) -> int:
        return len(self._told)

    def fault(self, image: Files, *, rerun: bool = True) -> str:
        """Why the promise does not hold, or why the same job does not complete from there; empty if all is well."""
        key = frozenset(image.items())
        if key not in self._told:
            self._told[key] = self._fault(image, rerun=rerun)
        return self._told[key]

    def _fault(self, image: Files, *, rerun: bool) -> str:
        try:
            if not self.job.holds(image, self.complete):
                return f"the promise does not hold: {sorted(image)}"
            if rerun:
                again = SimulatedFs(image)
                self.job.run(again)
                if self.job.settled(again.files()) != self._settled:
                    return f"a second run ended differently: {sorted(again.files())}"
        except KafkaLogError as error:
            return f"{type(error).__name__}: {error}"
        return ""


def lost_in_the_end(fs: SimulatedFs) -> set[str]:
    """The files that a power cut may still change, though the job is done; those being deleted do not count."""
    said = fs.files()
    return {
        path
        for image in fs.images()
        for path in {*said, *image}
        if image.get(path) != said.get(path) and not path.endswith(".deleted")
    }


def power_cuts(job: Job, rerun_every: int = 1, every_image: int = 1) -> tuple[int, list[str]]:
    """(images looked at, what was wrong) with the power cut before each step; from some images the job is run again."""
    judge = Judge(job)
    wrong: list[str] = []
    images = 0

    def look(step: int, fs: SimulatedFs) -> None:
        nonlocal images
        for image in fs.images(every_image, step % every_image):
            images += 1
            if fault := judge.fault(image, rerun=judge.seen % rerun_every == 0):
                wrong.append(f"{job.name}: cut before step {step}: {fault}")

    fs = _run_watched(job, look)
    look(fs.steps + 1, fs)
    wrong += [f"{job.name}: in the end {path} is not durable" for path in lost_in_the_end(fs)]
    return images, wrong


def _run_watched(job: Job, look: Look, left_out: int = 0, undurable: Sequence[str] = ()) -> SimulatedFs:
    """Run a job and look at the disk before each step. The sync of that number, from 1 on, says it is done, and does nothing."""
    syncs = 0

    def watch(step: int, action: str, path: str) -> bool:
        nonlocal syncs
        look(step, fs)
        syncs += action.startswith("sync")
        return not (action.startswith("sync") and syncs == left_out)

    fs = SimulatedFs(job.files(), watch, undurable)
    job.run(fs)
    return fs


def failing_steps(job: Job, number: int = errno.ENOSPC, every: int = 1) -> tuple[int, list[str]]:
    """(steps that there are, what was wrong): one that fails is an error, the promise holds, and a second run completes."""
    complete, steps = completed(job)
    wrong: list[str] = []
    for failing in range(1, steps + 1, every):
        fs = SimulatedFs(job.files(), _fail_at(failing, number))
        try:
            job.run(fs)
        except StorageError as error:
            if error.errno != number:
                wrong.append(f"{job.name}: step {failing} failed with {error}")
        if not job.holds(fs.files(), complete) or any(map(job.is_unfinished, fs.files())):
            wrong.append(f"{job.name}: after the failure of step {failing}: {sorted(fs.files())}")
        fs.watch = None
        job.run(fs)
        if job.settled(fs.files()) != job.settled(complete):
            wrong.append(f"{job.name}: a second run after the failure of step {failing} ended differently")
    return steps, wrong


def _fail_at(failing: int, number: int) -> Callable[[int, str, str], None]:
    def watch(step: int, action: str, path: str) -> None:
        if step == failing:
            raise OSError(number, os.strerror(number), path)

    return watch


class Sync(NamedTuple):
    """The sync of a file or folder, its number among all, and the step that it is."""

    number: int
    step: int
    path: str


def syncs_of(job: Job) -> list[Sync]:
    found: list[Sync] = []

    def watch(step: int, action: str, path: str) -> None:
        if action.startswith("sync"):
            found.append(Sync(len(found) + 1, step, path))

    job.run(SimulatedFs(job.files(), watch))
    return found


def unneeded_syncs(job: Job, tried: Sequence[Sync]) -> list[Sync]:
    """Those of these syncs whose absence no image shows, when each is left out in a run of its own."""
    judge = Judge(job)
    syncs = syncs_of(job)
    return [sync for sync in tried if not _shows(judge, sync, syncs)]


def _shows(judge: Judge, sync: Sync, syncs: Sequence[Sync]) -> bool:
    """Whether without this sync a power cut does harm: when the job is done, also to what others did not sync, or before."""
    there_before = sorted(judge.job.files().keys() & {each.path for each in syncs})
    for undurable in ((), there_before):
        if lost_in_the_end(_run_watched(judge.job, lambda step, fs: None, sync.number, undurable)):
            return True

    def look(step: int, fs: SimulatedFs) -> None:
        if step > sync.step and any(judge.fault(image) for image in fs.images()):
            raise Shown

    with suppress(Shown):
        _run_watched(judge.job, look, sync.number)
        return False
    return True


def all_jobs() -> tuple[Job, ...]:
    from . import cluster_jobs, repair_jobs, write_jobs

    return (*repair_jobs.JOBS, *write_jobs.JOBS, *cluster_jobs.JOBS)


def main(names: list[str]) -> int:
    problems: list[str] = []
    for job in all_jobs():
        if not names or job.name in names:
            for line, wrong in _findings(job):
                sys.stdout.write(f"{job.name}: {line}, {len(wrong)} wrong\n")
                sys.stdout.flush()
                problems += wrong
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return bool(problems)


def _findings(job: Job) -> Iterator[tuple[str, list[str]]]:
    images, wrong = power_cuts(job)
    yield f"{images} images of power cuts", wrong
    for number in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
        steps, wrong = failing_steps(job, number)
        yield f"{steps} steps failing with {errno.errorcode[number]}", wrong
    syncs = syncs_of(job)
    unneeded = unneeded_syncs(job, syncs)
    wrong = [f"{job.name}: nothing shows sync {number}, of {path}" for number, _, path in unneeded if number not in job.excused]
    wrong += [f"{job.name}: sync {number} is needed" for number in job.excused.keys() - {sync.number for sync in unneeded}]
    yield f"{len(syncs)} syncs left out in turn, {len(syncs) - len(unneeded)} shown by an image", wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
