"""Crash-safe writing: on the simulated disk with the power cut after every step, and on the real one with other processes."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import StorageError
from kafkalog.storage import ownership
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.lock import broker_lock
from kafkalog.storage.ownership import Ownership, Pattern, current_umask
from kafkalog.storage.publish import StagedFolder, holds, make_folders, publish_files
from kafkalog.storage.unfinished import name_beside
from tests.builders.simulated_disk import Files, SimulatedFs
from tests.conftest import NOBODY, require_root

OLD = b"old" * 400
NEW = b"new" * 700
BEFORE = {"/data/orders-0/x.index": OLD}
FOLDER = "/data/out/orders-0"
CONTENT = {"a.log": b"log " * 900, "a.index": b"index" * 300}


class PowerCut(BaseException):
    """Nothing runs after it, not even clean-up."""


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
def test_an_error_at_any_step_is_reported_leaves_nothing_behind_and_the_step_can_be_repeated(
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
                assert "run the command again" in str(error)
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


def test_leftovers_of_a_killed_run_are_cleared_by_the_next(tmp_path: Path) -> None:
    stale = tmp_path / ".orders-0.inprogress"
    stale.mkdir()
    (stale / "half.log").write_bytes(b"half")
    with StagedFolder(LocalFs(), str(tmp_path / "orders-0")) as staged:
        staged.write("a.log", [b"whole"])
        staged.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]
    assert [path.name for path in (tmp_path / "orders-0").iterdir()] == ["a.log"]


def test_an_interrupt_right_after_a_folder_got_its_name_leaves_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = LocalFs.rename

    def interrupted(fs: LocalFs, old: str, new: str) -> None:
        rename(fs, old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalFs, "rename", interrupted)
    folder = tmp_path / "out" / "orders-0"
    with pytest.raises(KeyboardInterrupt), StagedFolder(LocalFs(), str(folder)) as staged:
        staged.write("a.log", [NEW])
        staged.publish()
    assert (folder / "a.log").read_bytes() == NEW
    assert [each.name for each in folder.parent.iterdir()] == ["orders-0"]


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


def test_two_holders_in_one_process_do_not_let_go_of_each_others_lock(tmp_path: Path) -> None:
    """Closing any descriptor of a file releases all POSIX locks that the process has on it."""
    with broker_lock(str(tmp_path)):
        with broker_lock(str(tmp_path)):
            pass
        assert (tmp_path / ".lock").exists()
        assert not is_free(tmp_path)
    assert not (tmp_path / ".lock").exists()


def is_free(folder: Path) -> bool:
    """Whether another process could take the lock."""
    program = "import fcntl, sys\nfcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", program, str(folder / ".lock")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_lock_file_of_a_broker_that_was_faster_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our making the file and our locking it the broker comes: its lock has to stay."""
    children: list[subprocess.Popen[bytes]] = []
    take = fcntl.lockf

    def too_late(descriptor: int, how: int) -> None:
        children.append(hold_lock_in_child(tmp_path))
        take(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", too_late)
    with pytest.raises(StorageError, match="a broker is running"), broker_lock(str(tmp_path)):
        raise AssertionError
    (child,) = children
    with child:
        assert (tmp_path / ".lock").exists()
        assert not is_free(tmp_path)
        child.kill()


def test_a_lock_file_that_its_maker_takes_away_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / ".lock"
    lock.touch()
    take = fcntl.lockf
    gone: list[bool] = []

    def gone_first(descriptor: int, how: int) -> None:
        if not gone:
            gone.append(True)
            lock.unlink()
        take(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", gone_first)
    with broker_lock(str(tmp_path)):
        assert lock.exists()
        assert not is_free(tmp_path)


def write_folder(target: Path) -> None:
    with StagedFolder(LocalFs(), str(target)) as staged:
        staged.write("a.log", [b"whole"])
        staged.publish()


@pytest.mark.parametrize("length", [200, 210, 243, 244, 255])
def test_a_folder_with_a_long_name_is_written_beside_others_of_nearly_that_name(tmp_path: Path, length: int) -> None:
    names = [f"{letter}".rjust(length, "x") for letter in "ab"]
    with StagedFolder(LocalFs(), str(tmp_path / names[0])) as first:
        first.write("a.log", [b"first"])
        write_folder(tmp_path / names[1])
        publish_files(LocalFs(), str(tmp_path), {name_beside(name, ".salvage.jsonl"): [b"x"] for name in names})
        first.publish()
    assert (tmp_path / names[0] / "a.log").read_bytes() == b"first"
    assert len(list(tmp_path.iterdir())) == 4


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=255))
def test_a_derived_name_fits_and_differs_from_others(name: str) -> None:
    beside = name_beside(name, ".inprogress", ".")
    assert len(beside.encode()) <= 255
    assert beside == f".{name}.inprogress" or beside != name_beside(name + "x", ".inprogress", ".")


def test_a_relative_path_gets_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_folders(LocalFs(), "new/orders-0")
    make_folders(LocalFs(), "other")
    assert (tmp_path / "new" / "orders-0").is_dir()
    assert (tmp_path / "other").is_dir()


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "letter").write_text("keep")
    return folder


def test_a_link_in_the_place_of_unfinished_work_is_refused(tmp_path: Path, precious: Path) -> None:
    (tmp_path / ".orders-0.inprogress").symlink_to(precious)
    with pytest.raises(StorageError, match=r"\.orders-0\.inprogress: a link or no folder.*rm -r"):
        write_folder(tmp_path / "orders-0")
    assert (precious / "letter").read_text() == "keep"
    assert (tmp_path / ".orders-0.inprogress").is_symlink()


def test_a_folder_that_another_user_put_in_the_place_of_unfinished_work_is_refused(tmp_path: Path) -> None:
    require_root()
    theirs = tmp_path / ".orders-0.inprogress"
    theirs.mkdir()
    (theirs / "letter").write_text("keep")
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(StorageError, match="belongs to nobody, so this command, which runs as root, did not make it"):
        write_folder(tmp_path / "orders-0")
    assert (theirs / "letter").read_text() == "keep"


def test_another_folder_of_ours_that_somebody_renamed_to_unfinished_work_is_refused(tmp_path: Path) -> None:
    """The owner of a folder can rename its entries, even those of root; but cannot change their mode."""
    require_root()
    out = tmp_path / "out"
    theirs = out / ".orders-0.inprogress"
    theirs.mkdir(parents=True)
    (theirs / "letter").write_text("keep")
    os.chown(out, NOBODY, NOBODY)
    with pytest.raises(StorageError, match="made for something else, and renamed by somebody"):
        write_folder(out / "orders-0")
    assert (theirs / "letter").read_text() == "keep"
    assert (theirs.stat().st_uid, theirs.stat().st_mode & 0o7777) == (0, 0o777 & ~current_umask())


def test_leftovers_of_a_killed_run_in_the_folder_of_somebody_else_are_cleared_by_the_next(tmp_path: Path) -> None:
    require_root()
    out = tmp_path / "out"
    out.mkdir()
    os.chown(out, NOBODY, NOBODY)
    LocalFs().make_private_folder(str(out / ".orders-0.inprogress"))
    (out / ".orders-0.inprogress" / "half.log").write_bytes(b"half")
    write_folder(out / "orders-0")
    assert [path.name for path in out.rglob("*")] == ["orders-0", "a.log"]


def test_a_folder_that_is_swapped_in_while_one_is_made_is_not_given_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_root()
    out = tmp_path / "out"
    secret = out / "roots-own"
    secret.mkdir(parents=True)
    os.chown(out, NOBODY, NOBODY)
    give = ownership.give_folder

    def swap_and_give(descriptor: int, owner: Ownership) -> None:
        making_name = next(path for path in out.iterdir() if path != secret)
        making_name.rename(out / "aside")
        secret.rename(making_name)
        swapped = os.open(making_name, os.O_RDONLY)
        try:
            give(swapped, owner)
        finally:
            os.close(swapped)
            making_name.rename(secret)

    monkeypatch.setattr(ownership, "give_folder", swap_and_give)
    with pytest.raises(PermissionError, match="another folder was put in the place"):
        LocalFs().make_folder(str(out / "new"))
    assert secret.stat().st_uid == 0


def test_a_folder_for_unfinished_work_is_closed_to_others(tmp_path: Path) -> None:
    with StagedFolder(LocalFs(), str(tmp_path / "orders-0")) as staged:
        assert os.stat(staged.staging).st_mode & 0o7777 == 0o1700
        staged.publish()
    assert os.stat(tmp_path / "orders-0").st_mode & 0o7777 == 0o777 & ~current_umask()


def test_a_link_that_is_swapped_in_for_unfinished_work_leads_nowhere(tmp_path: Path, precious: Path) -> None:
    """The owner of the folder above can rename ours and put a link there, at any moment."""
    out = tmp_path / "out"
    aside = out / "aside"
    with pytest.raises(ValueError, match="enough"), StagedFolder(LocalFs(), str(out / "orders-0")) as staged:
        os.rename(staged.staging, aside)
        os.symlink(precious, staged.staging)
        staged.write("letter", [b"ours"])
        staged.unsynced.open(os.path.join(staged.staging, "a.log"), create=True).close()
        staged.sync_files()
        assert sorted(path.name for path in aside.iterdir()) == ["a.log", "letter"]
        raise ValueError("enough: take it back")
    assert [path.name for path in precious.iterdir()] == ["letter"]
    assert (precious / "letter").read_text() == "keep"
    assert list(aside.iterdir()) == []


def test_a_link_that_is_swapped_in_for_a_held_partition_leads_nowhere(tmp_path: Path, precious: Path) -> None:
    fs, folder = LocalFs(), tmp_path / "orders-0"
    folder.mkdir()
    (folder / "letter").write_text("old")
    with fs.lock(str(folder)):
        folder.rename(tmp_path / "aside")
        folder.symlink_to(precious)
        publish_files(fs, str(folder), {"letter": [b"new"], "other": [b"new"]})
        fs.rename(f"{folder}/other", f"{folder}/third")
        fs.link(f"{folder}/third", f"{folder}/fourth")
        fs.remove(f"{folder}/third")
        assert fs.read(f"{folder}/letter", 0, 10) == b"new"
        assert fs.list(str(folder)) == ["fourth", "letter"]
    assert [path.name for path in precious.iterdir()] == ["letter"]
    assert (precious / "letter").read_text() == "keep"


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.touch()
    for mode in (0o600, 0o640, 0o664):
        path.chmod(mode)
        publish_files(LocalFs(), str(tmp_path), {"x.index": [b"new"]})
        assert path.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("is_nameless", [True, False], ids=["ext4", "NFS"])
def test_a_new_file_belongs_to_the_owner_of_its_folder(
    tmp_path: Path, is_nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_root()
    if not is_nameless:

        def refused(name: str, folder: int, owner: object) -> int:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(ownership, "_make_nameless", refused)
    os.chown(tmp_path, NOBODY, 1234)
    fs = LocalFs()
    fs.create(str(tmp_path / "made")).close()
    fs.open(str(tmp_path / "opened"), create=True).close()
    fs.open(str(tmp_path / "opened"), create=True).close()
    make_folders(fs, str(tmp_path / "folder" / "deeper"))
    with broker_lock(str(tmp_path)):
        found = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in tmp_path.rglob("*")}
    assert found == dict.fromkeys(("made", "opened", "folder", "deeper", ".lock"), (NOBODY, 1234))
    with pytest.raises(FileExistsError):
        fs.create(str(tmp_path / "made"))
    with pytest.raises(FileExistsError):
        fs.make_folder(str(tmp_path / "folder"))


def test_on_a_disk_that_keeps_no_owners_copies_are_written_and_leftovers_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on FAT: whatever is made belongs to one user and has one mode, and neither can be changed."""
    real = os.fstat

    def status_on_fat(descriptor: int) -> os.stat_result:
        mode, *others = real(descriptor)
        return os.stat_result((int(mode) | 0o777, *others[:3], 4321, *others[4:]))

    def refused(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fstat", status_on_fat)
    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setattr(os, "fchmod", refused)
    (tmp_path / ".orders-0.inprogress").mkdir(mode=0o777)
    (tmp_path / ".orders-0.inprogress" / "half.log").touch()
    original = Pattern(Ownership(NOBODY, NOBODY, 0o600), Ownership(NOBODY, NOBODY, 0o700))
    with StagedFolder(LocalFs(), str(tmp_path / "orders-0"), original) as staged:
        staged.write("a.log", [b"whole"])
        staged.publish()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.log", "orders-0"]


def test_a_file_that_cannot_be_given_to_its_owner_does_not_get_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_root()
    os.chown(tmp_path, NOBODY, NOBODY)

    def refused(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refused)
    with pytest.raises(StorageError, match="it cannot be given to nobody, to whom it has to belong"):
        publish_files(LocalFs(), str(tmp_path), {"x.index": [b"new"]})
    assert list(tmp_path.iterdir()) == []
