"""Crashes of what writes (T-19 to T-21): tasks on the simulated disk with its power cut, and commands killed for real.

    python -m tests.damage.crashes [JOB...]    every image of every power cut, and SIGKILL or an error at every system call
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kafkalog.errors import KafkaLogError, StorageError
from kafkalog.storage.simulated import Files, SimulatedFs

CALLS = (
    "openat", "mkdir", "write", "pwrite64", "ftruncate", "fsync", "rename", "unlink", "rmdir", "link", "linkat", "close", "flock",
    "fcntl",
)  # fmt: skip
WRITING = ("mkdir", "write", "pwrite64", "ftruncate", "fsync", "rename", "link", "linkat")


class PowerCut(BaseException):
    """Nothing runs after it, no cleaning up either."""


@dataclass(frozen=True)
class Job:
    """A task on a simulated disk, the same as a command, and what must be true of the disk at any moment."""

    name: str
    files: Callable[[], Files]
    run: Callable[[SimulatedFs], None]
    holds: Callable[[Files, Files], bool]  # (an image, the files of a run that came to its end)
    arguments: Callable[[str], list[str]]  # of the command on the files below a folder
    settled: Callable[[Files], object] = lambda files: files  # what counts in the end
    made_anew: tuple[str, ...] = ()  # endings of files that recovery makes anew, whatever is left of them
    syncs_by_path: bool = False  # the engine syncs a file that grows again and again; then all syncs of a file count as one


def completed(job: Job) -> tuple[Files, int]:
    """(the files after a run without a fault, the steps that it took)"""
    fs = SimulatedFs(job.files())
    job.run(fs)
    return fs.files(), fs.steps


def power_cuts(job: Job, rerun_every: int = 1) -> tuple[int, list[str]]:
    """(images looked at, what was wrong) with the power cut before each step; of some images, the job is run again to its end."""
    complete, steps = completed(job)
    wrong: list[str] = []
    seen: set[frozenset[tuple[str, bytes]]] = set()
    images = 0
    for cut in range(1, steps + 2):
        fs = SimulatedFs(job.files(), _cut_at(cut))
        with suppress(PowerCut):
            job.run(fs)
        for image in fs.images():
            images += 1
            key = frozenset(image.items())
            if key in seen:
                continue
            if not job.holds(image, complete):
                wrong.append(f"{job.name}: cut before step {cut}: {sorted(image)}")
            if len(seen) % rerun_every == 0:
                again = SimulatedFs(image)
                try:
                    job.run(again)
                except KafkaLogError as error:
                    wrong.append(f"{job.name}: a second run after a cut before step {cut}: {error}")
                    continue
                if job.settled(again.files()) != job.settled(complete):
                    wrong.append(f"{job.name}: a second run after a cut before step {cut} ended differently")
            seen.add(key)
    return images, wrong


def _cut_at(cut: int) -> Callable[[int, str, str], None]:
    def watch(number: int, action: str, path: str) -> None:
        if number >= cut:
            raise PowerCut

    return watch


def failing_steps(job: Job, number: int = errno.ENOSPC) -> tuple[int, list[str]]:
    """(steps that were made to fail, what was wrong): the error is told, the promise holds, and a second run completes."""
    complete, steps = completed(job)
    wrong: list[str] = []
    for failing in range(1, steps + 1):
        fs = SimulatedFs(job.files(), _fail_at(failing, number))
        try:
            job.run(fs)
        except StorageError as error:
            if error.errno != number:
                wrong.append(f"{job.name}: step {failing} failed with {error}")
        if not job.holds(fs.files(), complete) or any(".inprogress" in path for path in fs.files()):
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


def needless_syncs(job: Job) -> list[str]:
    """Paths of syncs whose absence no image shows, but for empty files and what recovery makes anew; there should be none."""
    complete, steps = completed(job)
    synced: list[str] = []
    job.run(SimulatedFs(job.files(), lambda number, action, path: synced.append(path) if action.startswith("sync") else None))
    empty = tuple(os.path.basename(path) for path, content in complete.items() if not content)
    unchanged = tuple(path for path, content in job.files().items() if complete.get(path) == content)
    exempt = [path for path in synced if path.endswith(unchanged + job.made_anew) or any(name in path for name in empty)]
    counted = [(number, path) for number, path in enumerate(synced, 1) if path not in exempt]
    groups: dict[object, set[int]] = {}
    for number, path in counted:
        groups.setdefault(path if job.syncs_by_path else number, set()).add(number)
    judged = cache(lambda key: job.holds(dict(key), complete))
    return [synced[min(group) - 1] for group in groups.values() if not _shows_without(job, group, steps, complete, judged)]


def _shows_without(
    job: Job, skipped: set[int], steps: int, complete: Files, holds: Callable[[frozenset[tuple[str, bytes]]], bool]
) -> bool:
    for cut in range(steps + 1, 0, -1):
        syncs = 0

        def watch(number: int, action: str, path: str, cut: int = cut) -> bool:
            nonlocal syncs
            if number >= cut:
                raise PowerCut
            syncs += action.startswith("sync")
            return not (action.startswith("sync") and syncs in skipped)

        fs = SimulatedFs(job.files(), watch)
        ended = False
        try:
            job.run(fs)
            ended = True
        except PowerCut:
            pass
        for image in fs.images():
            if ended and job.settled(image) != job.settled(complete):
                return True
            if not holds(frozenset(image.items())):
                return True
    return False


# -- the real command, under strace ------------------------------------------------------------------------------------------


def _put(files: Files, folder: Path) -> None:
    for path, content in files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _command(job: Job, folder: Path) -> list[str]:
    return [sys.executable, "-m", "kafkalog", *job.arguments(str(folder))]


def _taken(folder: Path) -> Files:
    """The files below a folder, without its own name in what they say."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {"/" + str(path.relative_to(folder)): path.read_bytes().replace(bytes(folder), b"") for path in found}


def _run_traced(job: Job, folder: Path, *trace: str) -> subprocess.CompletedProcess[bytes]:
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, *trace, *_command(job, folder)]
    return subprocess.run(command, capture_output=True, env=_environment(), timeout=120, check=False)


def _environment() -> dict[str, str]:
    """One in which no run writes anything but its own files."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def calls_on_the_disk(job: Job, call: str) -> list[int]:
    """Which of these calls of the command's main thread, counted from 1, touch the job's folders."""
    _complete_on_disk(job)  # so that kernels are compiled: their cache is written with the same calls
    with tempfile.TemporaryDirectory() as scratch, tempfile.NamedTemporaryFile() as log:
        _put(job.files(), Path(scratch))
        trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-o", log.name, "-e", f"trace={call}"]
        subprocess.run([*trace, *_command(job, Path(scratch))], capture_output=True, env=_environment(), timeout=120, check=False)
        lines = [line.split(maxsplit=1) for line in Path(log.name).read_text(errors="replace").splitlines()]
        own = [text for thread, text in lines if thread == lines[0][0] and text.startswith(f"{call}(")]
        return [number for number, text in enumerate(own, 1) if scratch in text]


def killed(job: Job, call: str, number: int) -> list[str]:
    """What is wrong after SIGKILL at that call, and after a second run."""
    return _interrupted(job, f"{call}:signal=KILL:when={number}", f"{job.name} killed at {call} {number}", (-signal.SIGKILL, 137))


def failed(job: Job, call: str, number: int, error: str) -> list[str]:
    """What is wrong after an error of that call, and after a second run."""
    return _interrupted(job, f"{call}:error={error}:when={number}", f"{job.name} with {error} at {call} {number}", (0, 1, 4))


def _interrupted(job: Job, injection: str, where: str, codes: tuple[int, ...]) -> list[str]:
    complete = _complete_on_disk(job)
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _put(job.files(), folder)
        done = _run_traced(job, folder, "-e", f"inject={injection}")
        if done.returncode not in codes:
            wrong.append(f"{where}: exit code {done.returncode}: {done.stderr[-300:]!r}")
        if not job.holds(_taken(folder), complete):
            wrong.append(f"{where}: left {sorted(_taken(folder))}")
        subprocess.run(_command(job, folder), capture_output=True, timeout=120, check=False)
        if job.settled(_taken(folder)) != job.settled(complete):
            wrong.append(f"{where}: a second run ended differently: {sorted(_taken(folder))}")
    return wrong


_COMPLETE: dict[str, Files] = {}


def _complete_on_disk(job: Job) -> Files:
    if job.name not in _COMPLETE:
        with tempfile.TemporaryDirectory() as scratch:
            _put(job.files(), Path(scratch))
            subprocess.run(_command(job, Path(scratch)), capture_output=True, timeout=120, check=False)
            _COMPLETE[job.name] = _taken(Path(scratch))
    return _COMPLETE[job.name]


def every_kill_point(job: Job) -> Iterator[tuple[str, int]]:
    for call in CALLS:
        yield from ((call, number) for number in calls_on_the_disk(job, call))


def all_jobs() -> tuple[Job, ...]:
    from . import repair_crashes, write_crashes

    return (*repair_crashes.JOBS, *write_crashes.JOBS)


def main(names: list[str]) -> int:
    problems: list[str] = []
    for job in all_jobs():
        if names and job.name not in names:
            continue
        images, wrong = power_cuts(job)
        problems += wrong
        sys.stdout.write(f"{job.name}: {images} images of power cuts, {len(wrong)} wrong\n")
        for number in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
            steps, wrong = failing_steps(job, number)
            problems += wrong
            sys.stdout.write(f"{job.name}: {steps} steps failing with {errno.errorcode[number]}, {len(wrong)} wrong\n")
        if shutil.which("strace") is None:
            sys.stdout.write("no strace here: nothing was killed\n")
            continue
        points = list(every_kill_point(job))
        wrong = [line for call, number in points for line in killed(job, call, number)]
        writes = [(call, number) for call, number in points if call in WRITING]
        failures = [line for call, number in writes for line in failed(job, call, number, "ENOSPC")]
        problems += wrong + failures
        sys.stdout.write(f"{job.name}: {len(points)} kill points, {len(wrong)} wrong\n")
        sys.stdout.write(f"{job.name}: {len(writes)} calls failing with ENOSPC, {len(failures)} wrong\n")
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
