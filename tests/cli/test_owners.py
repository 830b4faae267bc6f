"""Every command that writes, as root on the logs of another user: its files belong to that user, as the old ones do."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders.simulated_disk import SimulatedFs
from tests.builders.small_logs import made_batch, write_segment
from tests.campaigns.crashes import power_cuts
from tests.campaigns.crashes.interruptions import Disturbed, put_files
from tests.cli.forks import Forks
from tests.cli.users import Owned, content_below, owned_below
from tests.conftest import NOBODY, require

JOBS = [pytest.param(job, id=job.name) for job in power_cuts.all_jobs()]
COPIES = [param for param in JOBS if param.id in ("salvage", "compact-out", "append-new")]
SOMEBODY = 1234
FILE_MODE, FOLDER_MODE = 0o600, 0o750
JOURNALS = (".json", ".jsonl", ".txt")


def give_away(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


def inodes_below(folder: Path) -> set[int]:
    return {path.lstat().st_ino for path in folder.rglob("*")}


def wrong_owners(found: dict[str, Owned], user: int = NOBODY) -> dict[str, Owned]:
    return {name: owned for name, owned in found.items() if (owned.user, owned.group) != (user, user)}


def open_files(found: dict[str, Owned]) -> dict[str, Owned]:
    """Files in the folders of logs that others may read, though none could before."""
    return {name: owned for name, owned in found.items() if "-0/" in name and owned.mode != FILE_MODE}


@pytest.mark.parametrize("job", JOBS)
def test_files_that_root_writes_belong_to_the_owner_of_the_logs(job: power_cuts.Job, forks: Forks, place: Path) -> None:
    put_files(job.files(), place)
    give_away(place)
    os.chown(place, NOBODY, NOBODY)
    before, inodes = owned_below(place), inodes_below(place)
    ended = forks.run(job.arguments(str(place)))
    assert ended.code in (0, 1), ended.errors
    found = owned_below(place)
    assert inodes_below(place) - inodes, "it made something"
    assert wrong_owners(found) == {}
    assert job.name == "append-new" or open_files(found) == {}
    assert {name: owned for name, owned in found.items() if name in before and owned != before[name]} == {}


@pytest.mark.parametrize("job", COPIES)
def test_a_copy_in_the_folder_of_a_third_user_belongs_to_that_user(job: power_cuts.Job, forks: Forks, place: Path) -> None:
    put_files(job.files(), place)
    give_away(place)
    out = place / ("rescued" if job.name == "salvage" else "new")
    out.mkdir()
    os.chown(out, SOMEBODY, SOMEBODY)
    assert forks.run(job.arguments(str(place))).code in (0, 1)
    assert len(owned_below(out)) > 5
    assert wrong_owners(owned_below(out), SOMEBODY) == {}


def test_a_copy_in_a_setgid_folder_of_another_user_is_made_and_keeps_the_bit(forks: Forks, place: Path) -> None:
    write_segment(place / "data" / "orders-0", 0, made_batch(0))
    give_away(place)
    out = place / "out"
    out.mkdir()
    os.chown(out, SOMEBODY, SOMEBODY)
    out.chmod(0o2755)
    for folder in (out, out / "deeper" / "still"):
        assert forks.run(["salvage", str(place / "data"), "--out", str(folder)]).code == 0
        assert (folder / "orders-0").stat().st_mode & 0o7000 == 0o2000
    assert wrong_owners(owned_below(out), SOMEBODY) == {}


@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["root's", "everybody's"])
def test_a_copy_in_a_folder_that_is_nobodys_in_particular_belongs_to_whom_the_original_does(
    forks: Forks, place: Path, mode: int
) -> None:
    write_segment(place / "data" / "orders-0", 0, made_batch(0))
    give_away(place)
    out = place / "out"
    out.mkdir()
    out.chmod(mode)
    assert forks.run(["salvage", str(place / "data"), "--out", str(out)]).code == 0
    found = owned_below(out)
    partition = {name: owned for name, owned in found.items() if name.startswith("orders-0") and not name.endswith(JOURNALS)}
    assert partition["orders-0"] == Owned(NOBODY, NOBODY, FOLDER_MODE)
    assert wrong_owners(partition) == {}


def test_a_copy_that_an_ordinary_user_makes_is_his(forks: Forks, place: Path) -> None:
    write_segment(place / "data" / "orders-0", 0, made_batch(0))
    out = place / "out"
    out.mkdir()
    os.chown(out, NOBODY, NOBODY)
    ended = forks.run(["salvage", str(place / "data"), "--out", str(out)], user=NOBODY)
    assert ended.code == 0, ended.errors
    assert wrong_owners(owned_below(out)) == {}


@pytest.fixture
def precious(place: Path) -> Path:
    """Root's, and nobody else's business."""
    folder = place / "precious"
    folder.mkdir(mode=0o755)
    (folder / "letter").write_text("keep")
    return folder


def attack(place: Path) -> Path:
    """A log and a place for its copy, both of an attacker."""
    write_segment(place / "data" / "orders-0", 0, made_batch(0))
    out = place / "out"
    out.mkdir()
    for path in (out, place / "data", *(place / "data").rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return out


@pytest.mark.parametrize("planted", ["link", "folder of another user", "folder for everybody"])
def test_files_planted_for_a_copy_of_roots_are_left_alone(forks: Forks, place: Path, precious: Path, planted: str) -> None:
    out = attack(place)
    staging = out / ".orders-0.inprogress"
    if planted == "link":
        staging.symlink_to(precious)
    else:
        staging.mkdir()
        (staging / "letter").symlink_to(precious / "letter")
        if planted == "folder of another user":
            os.chown(staging, NOBODY, NOBODY)
        else:
            staging.chmod(0o777)
    before = content_below(place), owned_below(place)
    ended = forks.run(["salvage", str(place / "data"), "--out", str(out)])
    assert ended.code == 4
    assert f"{staging}: " in ended.errors
    assert f"left alone: look at it, then remove it (`rm -r {staging}`)" in ended.errors
    assert (content_below(place), owned_below(place)) == before


def test_links_swapped_in_all_the_time_lead_root_nowhere(forks: Forks, place: Path, precious: Path) -> None:
    """Whatever happens to the copy, which is the attacker's own: outside the attacker's folder nothing changes."""
    out = attack(place)
    is_over = threading.Event()

    def swap() -> None:
        names = [out / ".orders-0.inprogress", out / "orders-0"]
        for number in itertools.count():
            if is_over.is_set():
                return
            for name in names:
                with suppress(OSError):
                    name.rename(out / f"aside-{number % 20}-{name.name}")
                with suppress(OSError):
                    name.symlink_to(precious)
                with suppress(OSError):
                    name.unlink()

    before = content_below(precious), owned_below(precious)
    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        codes = [forks.run(["salvage", str(place / "data"), "--out", str(out)]).code for _ in range(25)]
    finally:
        is_over.set()
        attacker.join()
    assert set(codes) <= {0, 2, 4}
    assert (content_below(precious), owned_below(precious)) == before


@pytest.mark.parametrize("job", JOBS)
def test_a_power_cut_at_any_step_leaves_nothing_of_roots_under_its_name(job: power_cuts.Job) -> None:
    """The owner of a file comes with its name, so a rule that all names keep at all times holds in every image."""
    wrong: set[str] = set()

    def watch(step: int, action: str, path: str) -> None:
        wrong.update(path for path, owned in fs.owners().items() if owned.user != NOBODY and not job.is_unfinished(path))

    fs = SimulatedFs(job.files(), watch, owner=NOBODY)
    job.run(fs)
    watch(0, "", "")
    assert fs.steps > 30
    assert wrong == set()


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_kill_at_any_system_call_leaves_nothing_of_roots_under_its_name(job: power_cuts.Job, forks: Forks) -> None:
    require("strace")
    disturbed = Disturbed(job, forks, owner=NOBODY)
    giving = [call for call in disturbed.calls() if call.name in ("fchown", "fchmod", "linkat")]
    assert giving, "something is given away"
    for call in giving[:: max(1, len(giving) // 12)]:
        disturbed.kill(call)
    assert disturbed.wrong == []
