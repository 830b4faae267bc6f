"""The real commands, disturbed at each of their system calls: killed, interrupted, or with the call failing.

    python -m tests.campaigns.crashes.interruptions [JOB...]    SIGKILL, SIGINT, SIGTERM and ENOSPC at every system call

A call is disturbed before the kernel does anything. The disk is then compared with the promise of the job, and the same
command is run again, which has to reach the same result. The calls are those of the command itself, from its first one on: the
interpreter and its modules were loaded before (forks.py).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.builders.simulated_disk import Files
from tests.cli.forks import Ended, Forks

from .power_cuts import Job, all_jobs

TIME = 1_700_000_000
CALL = re.compile(r"^(\d+) +(\w+)\((.*)")
BEGIN = "getppid"
WRITING = (
    "mkdir", "mkdirat", "write", "pwrite64", "ftruncate", "fsync", "rename", "renameat", "link", "linkat", "unlink", "unlinkat",
    "rmdir", "utimensat", "fchown", "fchmod",
)  # fmt: skip
ENDS = {
    signal.SIGKILL: {-signal.SIGKILL},
    signal.SIGINT: {130},
    signal.SIGTERM: {143, -signal.SIGTERM},  # the latter once the command is done
}


class Call(NamedTuple):
    """The `number`-th call of this name, counted from 1, and whether it writes."""

    name: str
    number: int
    writes: bool


class Tree(NamedTuple):
    """The files below a folder, with the folder's own name removed from their content."""

    files: Files
    folders: frozenset[str]


class Disturbed:
    """A job whose command is run again and again. `wrong` is what was found.

    `missed` are runs that ended as if nothing had happened: the call did not come (threads share the reading of a source
    differently each time), or came when all was done, or its failure does not matter. With `owner` the logs are that user's, and
    so has to be whatever is found under a name that counts.
    """

    def __init__(self, job: Job, forks: Forks, owner: int | None = None) -> None:
        self.owner = owner
        self.job = job
        self.forks = forks
        self.wrong: list[str] = []
        self.missed: list[str] = []
        self._judged: set[tuple[frozenset[tuple[str, bytes]], frozenset[str]]] = set()
        with self._prepared() as folder:
            forks.rehearse(job.arguments(str(folder)))
        with self._prepared() as folder:
            self.undisturbed = self._run(folder)
            self.complete = _taken(folder)

    @contextmanager
    def _prepared(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as scratch:
            put_files(self.job.files(), Path(scratch))
            if self.owner is not None:
                for path in (Path(scratch), *Path(scratch).rglob("*")):
                    os.chown(path, self.owner, self.owner)
            yield Path(scratch)

    def _run(self, folder: Path, *trace: str) -> Ended:
        return self.forks.run(self.job.arguments(str(folder)), trace)

    @property
    def images(self) -> int:
        """In how many different states the disk was found."""
        return len(self._judged)

    def calls(self) -> list[Call]:
        """Every system call of the command; of several threads, as many of each name as the one that makes the most."""
        with self._prepared() as folder, tempfile.NamedTemporaryFile() as log:
            self._run(folder, "-o", log.name)
            lines = Path(log.name).read_text(errors="replace").splitlines()
        calls: dict[tuple[str, int], Call] = {}
        waiting: set[tuple[str, int]] = set()
        counts: Counter[tuple[str, str]] = Counter()
        for thread, name, told in (found.groups() for line in lines if (found := CALL.match(line))):
            counts[thread, name] += 1
            number = counts[thread, name]
            calls.setdefault((name, number), Call(name, number, name in WRITING or "O_CREAT" in told))
            if name == BEGIN:
                waiting = set(calls)
        return [call for place, call in calls.items() if place not in waiting]

    def send(self, sent: signal.Signals, call: Call) -> Tree:
        """Send this signal at that call; the tree that was found then."""
        where = f"{self.job.name}: {sent.name} at {call.name} {call.number}"
        injection = f"{call.name}:signal={sent.name}:when={call.number}"
        with self._prepared() as folder:
            return self._disturb(where, folder, injection, ENDS[sent], is_tidy=sent is not signal.SIGKILL)

    def kill(self, call: Call) -> None:
        """Kill the command at that call, and check only the owners of the files."""
        with self._prepared() as folder:
            self._run(folder, "-o", os.devnull, "-e", f"inject={call.name}:signal=SIGKILL:when={call.number}")
            where = f"{self.job.name}: SIGKILL at {call.name} {call.number}"
            self.wrong += [f"{where}: {path} belongs to {owner}" for path, owner in self._other_owners(folder)]

    def _other_owners(self, folder: Path) -> list[tuple[str, int]]:
        owners = [(str(path.relative_to(folder)), path.lstat().st_uid) for path in folder.rglob("*")]
        return [(path, owner) for path, owner in owners if owner != self.owner and not self.job.is_unfinished(path)]

    def fail(self, error: str, call: Call) -> None:
        """Make that call fail."""
        where = f"{self.job.name}: {error} at {call.name} {call.number}"
        with self._prepared() as folder:
            self._disturb(where, folder, f"{call.name}:error={error}:when={call.number}", {4}, is_tidy=True)

    def starve(self, size: int) -> bool:
        """Limit the free room of the disk; whether that was enough."""
        where = f"{self.job.name}: {size} bytes left"
        with self._prepared() as folder:
            ballast = folder.parent / "ballast"
            with ballast.open("wb") as file:
                room = os.statvfs(folder)
                os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - size)
            ended = self._run(folder)
            ballast.unlink()
            self._compare_with_promise(where, folder, ended, {4}, is_tidy=True)
            return ended.code == self.undisturbed.code

    def _disturb(self, where: str, folder: Path, injection: str, ends: set[int], *, is_tidy: bool) -> Tree:
        ended = self._run(folder, "-o", os.devnull, "-e", f"inject={injection}")
        if ended.code == self.undisturbed.code:
            self.missed.append(injection)
        return self._compare_with_promise(where, folder, ended, ends, is_tidy=is_tidy)

    def _compare_with_promise(self, where: str, folder: Path, ended: Ended, ends: set[int], *, is_tidy: bool) -> Tree:
        if ended.code not in {*ends, self.undisturbed.code}:
            self.wrong.append(f"{where}: exit code {ended.code}: {ended.errors[-300:]!r}")
        found = _taken(folder)
        if is_tidy and (unfinished := list(filter(self.job.is_unfinished, (*found.files, *found.folders)))):
            self.wrong.append(f"{where}: left {unfinished}")
        state = (frozenset(found.files.items()), found.folders)
        if state not in self._judged:
            self._judged.add(state)
            self._judge(where, folder, found)
        return found

    def _judge(self, where: str, folder: Path, found: Tree) -> None:
        """Check that the promise holds, and that the same command reaches the result that it should."""
        if not self.job.holds(found.files, self.complete.files):
            self.wrong.append(f"{where}: left {sorted(found.files)}")
        ended = self._run(folder)
        again = _taken(folder)
        if self.job.settled(again.files) != self.job.settled(self.complete.files) or again.folders != self.complete.folders:
            names = sorted({*again.files, *again.folders})
            self.wrong.append(f"{where}: a second run ended differently: {ended.code}: {ended.errors[-300:]!r} {names}")
        if ended.code not in (0, self.undisturbed.code):
            self.wrong.append(f"{where}: a second run ended with exit code {ended.code}: {ended.errors[-300:]!r}")


def put_files(files: Files, folder: Path) -> None:
    for path, content in files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        os.utime(place, (TIME, TIME))  # by it an appended source is recognised


def _taken(folder: Path) -> Tree:
    files: Files = {}
    folders = set()
    for path in folder.rglob("*"):
        name = "/" + str(path.relative_to(folder))
        if path.is_dir():
            folders.add(name)
        else:
            files[name] = path.read_bytes().replace(bytes(folder), b"")
    return Tree(files, frozenset(folders))


def main(names: Sequence[str]) -> int:
    wrong = 0
    with Forks() as forks:
        for job in all_jobs():
            if not names or job.name in names:
                started = time.monotonic()
                disturbed = Disturbed(job, forks)
                for what, calls in _disturb_everywhere(disturbed):
                    found, missed = disturbed.wrong, disturbed.missed
                    _say(f"{job.name}: {what} at {calls} system calls, {len(missed)} without effect, {len(found)} wrong", *found)
                    _say(*(f"  without effect: {injection}" for injection in missed))
                    wrong += len(found)
                    disturbed.wrong, disturbed.missed = [], []
                _say(f"{job.name}: {disturbed.images} states of the disk, {time.monotonic() - started:.0f} s")
    return bool(wrong)


def _disturb_everywhere(disturbed: Disturbed) -> Iterator[tuple[str, int]]:
    """(what was done, at how many calls), with each kind of disturbance in turn."""
    calls = disturbed.calls()
    for sent in ENDS:
        for call in calls:
            disturbed.send(sent, call)
        yield sent.name, len(calls)
    writing = [call for call in calls if call.writes]
    for error in ("ENOSPC", "EIO"):
        for call in writing:
            disturbed.fail(error, call)
        yield error, len(writing)


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
