"""Crash-safe writing: on the simulated disk with the power cut after every step, and on the real one with other processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.errors import StorageError
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.lock import broker_lock
from kafkalog.storage.publish import StagedFolder, holds, publish_files
from kafkalog.storage.simulated import Files, SimulatedFs

OLD = b"old" * 400
NEW = b"new" * 700
BEFORE = {"/data/orders-0/x.index": OLD}
FOLDER = "/data/out/orders-0"
CONTENT = {"a.log": b"log " * 900, "a.index": b"index" * 300}


class PowerCut(BaseException):
    """Nothing runs after it, no cleaning up either."""


def replace_file(fs: Fs) -> None:
    publish_files(fs, "/data/orders-0", {"x.index": [NEW[:100], NEW[100:]]})


def publish_folder(fs: Fs) -> None:
    with StagedFolder(fs, FOLDER) as staged:
        for name, content in CONTENT.items():
            staged.write(name, [content])
        staged.publish()


def is_old_or_new_file(image: Files) -> bool:
    return image.get("/data/orders-0/x.index") in (OLD, NEW)


def new_file_is_there(image: Files) -> bool:
    return image.get("/data/orders-0/x.index") == NEW


def shown(image: Files) -> Files:
    return {path.removeprefix(FOLDER + "/"): content for path, content in image.items() if path.startswith(FOLDER + "/")}


def is_no_or_whole_folder(image: Files) -> bool:
    return shown(image) in ({}, CONTENT)


def whole_folder_is_there(image: Files) -> bool:
    return shown(image) == CONTENT


Work = Callable[[Fs], None]
Check = Callable[[Files], bool]
WORKS = [
    pytest.param(replace_file, is_old_or_new_file, new_file_is_there, id="file"),
    pytest.param(publish_folder, is_no_or_whole_folder, whole_folder_is_there, id="folder"),
]


def violations(work: Work, always: Check, after: Check, skipped_sync: int = 0) -> tuple[int, int]:
    """(images, those that break the promise), with the power cut before every step and after the last."""
    images = wrong = 0
    for cut in range(1, 1000):
        fs = SimulatedFs(BEFORE)
        syncs = 0

        def watch(number: int, action: str, path: str, cut: int = cut) -> bool:
            nonlocal syncs
            if number >= cut:
                raise PowerCut
            syncs += action.startswith("sync")
            return not (action.startswith("sync") and syncs == skipped_sync)

        fs.watch = watch
        done = False
        try:
            work(fs)
            done = True
        except PowerCut:
            pass
        for image in fs.images():
            images += 1
            wrong += not (always(image) and (after(image) or not done))
        if done:
            return images, wrong
    raise AssertionError("it never ended")


@pytest.mark.parametrize(("work", "always", "after"), WORKS)
def test_a_power_cut_at_any_step_leaves_the_old_or_the_new(work: Work, always: Check, after: Check) -> None:
    images, wrong = violations(work, always, after)
    assert images > 50
    assert wrong == 0


@pytest.mark.parametrize(("work", "always", "after"), WORKS)
def test_without_any_one_sync_something_would_be_lost(work: Work, always: Check, after: Check) -> None:
    synced: list[str] = []
    work(SimulatedFs(BEFORE, lambda number, action, path: synced.append(path) if action.startswith("sync") else None))
    assert len(synced) >= 2
    harmless = [path for number, path in enumerate(synced, 1) if not violations(work, always, after, skipped_sync=number)[1]]
    assert harmless == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize(("work", "always", "after"), WORKS)
def test_an_error_at_any_step_is_told_leaves_nothing_behind_and_can_be_repeated(
    work: Work, always: Check, after: Check, number: int
) -> None:
    clean = SimulatedFs(BEFORE)
    work(clean)
    for failing in range(1, clean.steps + 1):
        failed = ""

        def watch(step: int, action: str, path: str, failing: int = failing) -> None:
            nonlocal failed
            if step == failing:
                failed = action
                raise OSError(number, os.strerror(number), path)

        fs = SimulatedFs(BEFORE, watch)
        try:
            work(fs)
            assert failed in ("remove", "remove_folder"), f"the error of {failed} was swallowed"
        except StorageError as error:
            assert error.errno == number
            assert always(fs.files())
            unfinished = [path for path in fs.files() if ".inprogress" in path]
            assert unfinished == [], f"{failed} left {unfinished}"
            if failed == "sync_folder" and after(fs.files()):
                assert "outcome unknown, run again" in str(error)
        fs.watch = None
        if not shown(fs.files()):
            work(fs)
        assert after(fs.files())


def test_a_failed_sync_is_never_tried_again() -> None:
    synced: list[str] = []

    def watch(number: int, action: str, path: str) -> None:
        if action == "sync":
            synced.append(path)
            raise OSError(errno.EIO, "no")

    with pytest.raises(StorageError, match="could not write"):
        replace_file(SimulatedFs(BEFORE, watch))
    assert len(synced) == 1


def test_what_a_killed_run_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    stale = tmp_path / ".orders-0.inprogress"
    stale.mkdir()
    (stale / "half.log").write_bytes(b"half")
    with StagedFolder(LocalFs(), str(tmp_path / "orders-0")) as staged:
        staged.write("a.log", [b"whole"])
        staged.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]
    assert [path.name for path in (tmp_path / "orders-0").iterdir()] == ["a.log"]


def test_two_writers_of_one_folder_exclude_each_other(tmp_path: Path) -> None:
    with StagedFolder(LocalFs(), str(tmp_path / "orders-0")) as first:
        first.write("a.log", [b"first"])
        with pytest.raises(StorageError, match="another process is writing"), StagedFolder(LocalFs(), str(tmp_path / "orders-0")):
            raise AssertionError
        first.publish()
    assert (tmp_path / "orders-0" / "a.log").read_bytes() == b"first"


def test_a_folder_that_appeared_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"), StagedFolder(LocalFs(), str(tmp_path / "orders-0")) as staged:
        (tmp_path / "orders-0").mkdir()
        (tmp_path / "orders-0" / "precious").touch()
        staged.publish()
    assert [path.name for path in tmp_path.rglob("*")] == ["orders-0", "precious"]


def test_a_symbolic_link_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep")
    (tmp_path / ".x.index.inprogress").symlink_to(precious)
    (tmp_path / "x.index").symlink_to(precious)
    publish_files(LocalFs(), str(tmp_path), {"x.index": [b"new"]})
    assert precious.read_bytes() == b"keep"
    assert (tmp_path / "x.index").read_bytes() == b"new"


@pytest.mark.parametrize("fs", [LocalFs(), None], ids=["local", "simulated"])
def test_holds_compares_whole_files(tmp_path: Path, fs: Fs | None) -> None:
    path = str(tmp_path / "x")
    fs = fs or SimulatedFs({str(tmp_path / "there"): b""})
    assert not holds(fs, path, [b""])
    publish_files(fs, str(tmp_path), {"x": [b"abc", b"def"]})
    assert holds(fs, path, [b"abcd", b"ef"])
    assert not holds(fs, path, [b"abcde"])
    assert not holds(fs, path, [b"abcdefg"])


def hold_lock_in_child(folder: Path) -> subprocess.Popen[bytes]:
    program = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'a')\nfcntl.lockf(file, fcntl.LOCK_EX)\n"
        "sys.stdout.write('held'); sys.stdout.flush()\nsys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(folder / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.read(4) == b"held"
    return child


def test_the_lock_of_a_running_broker_is_respected(tmp_path: Path) -> None:
    with hold_lock_in_child(tmp_path) as child:
        with pytest.raises(StorageError, match="a broker is running"), broker_lock(str(tmp_path)):
            raise AssertionError
        child.kill()
    with broker_lock(str(tmp_path)):
        pass
    assert (tmp_path / ".lock").exists()


def test_a_lock_file_made_for_us_goes_away(tmp_path: Path) -> None:
    with broker_lock(str(tmp_path)):
        assert (tmp_path / ".lock").exists()
    assert not (tmp_path / ".lock").exists()
