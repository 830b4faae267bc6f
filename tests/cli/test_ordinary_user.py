"""An ordinary user on folders that are read-only, partly unreadable, or somebody else's: what is wrong, what next, no change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.forks import Forks
from tests.cli.users import (
    COPYING,
    IN_PLACE,
    READING,
    arguments_of,
    content_below,
    give_to,
    make_log_directory,
    owned_below,
)
from tests.conftest import NOBODY

STORAGE_ERROR = 4
SOMEBODY = 1234


def refuse(forks: Forks, command: str, place: Path) -> str:
    """The message of the command, which has to fail and to change nothing."""
    before = content_below(place), owned_below(place)
    ended = forks.run(arguments_of(command, place), user=NOBODY)
    assert ended.code == STORAGE_ERROR, ended.errors
    assert (content_below(place), owned_below(place)) == before
    assert "Traceback" not in ended.errors
    return ended.errors


@pytest.mark.parametrize("command", [*IN_PLACE, "append new"])
def test_the_log_directory_of_another_user_is_not_changed(forks: Forks, place: Path, command: str) -> None:
    make_log_directory(place)
    folder = place / "data" / ("orders-0" if command != "append new" else "")
    told = refuse(forks, command, place)
    assert f"{folder}: belongs to root, and you (nobody) may not write there (mode 0755); run this as root\n" in told


@pytest.mark.parametrize("command", [*IN_PLACE, "append new"])
def test_files_that_the_broker_could_not_open_are_not_made(forks: Forks, place: Path, command: str) -> None:
    """The group may write to the log directory, but files that it makes there are not the broker's."""
    make_log_directory(place)
    for path in (place / "data").rglob("*"):
        path.chmod(0o664 if path.is_file() else 0o775)
    (place / "data").chmod(0o775)
    for path in (place / "data", *(place / "data").rglob("*")):
        os.chown(path, SOMEBODY, NOBODY)
    told = refuse(forks, command, place)
    assert "belongs to user 1234, and a broker that runs as user 1234 could not open the files that you (nobody) make" in told
    assert told.endswith("run this as user 1234 or as root\n")


@pytest.mark.parametrize("command", IN_PLACE)
def test_a_read_only_folder_of_ones_own_is_reported_before_anything_changes(forks: Forks, place: Path, command: str) -> None:
    orders = make_log_directory(place)
    give_to(NOBODY, place / "data")
    orders.chmod(0o555)
    told = refuse(forks, command, place)
    assert f"{orders}: you (nobody) may not write there (mode 0555); allow it first (`chmod u+w`)" in told


@pytest.mark.parametrize("command", COPYING)
def test_a_read_only_place_for_a_copy_is_named(forks: Forks, place: Path, command: str) -> None:
    make_log_directory(place)
    (place / "out").mkdir(mode=0o555)
    told = refuse(forks, command, place)
    assert f"{place}/out/orders-0: cannot write: Permission denied; run this as the owner, or choose a folder" in told


@pytest.mark.parametrize("command", [*IN_PLACE, *COPYING[1:]])
def test_a_log_that_cannot_be_read_is_named_and_nothing_changes(forks: Forks, place: Path, command: str) -> None:
    orders = make_log_directory(place)
    (place / "out").mkdir()
    give_to(NOBODY, place)
    log = orders / f"{0:020d}.log"
    os.chown(log, 0, 0)
    log.chmod(0o600)
    told = refuse(forks, command, place)
    assert log.name in told
    assert "Permission denied; run " in told


@pytest.mark.parametrize("command", READING)
def test_reading_needs_no_right_to_write(forks: Forks, place: Path, command: str) -> None:
    make_log_directory(place)
    before = content_below(place), owned_below(place)
    ended = forks.run(arguments_of(command, place), user=NOBODY)
    assert ended.code in (0, 1), ended.errors  # verify misses the indexes
    assert (content_below(place), owned_below(place)) == before


@pytest.mark.parametrize("command", [*IN_PLACE, "append new", *COPYING])
def test_on_ones_own_folder_everything_works_and_stays_ones_own(forks: Forks, place: Path, command: str) -> None:
    make_log_directory(place)
    give_to(NOBODY, place)
    ended = forks.run(arguments_of(command, place), user=NOBODY)
    assert ended.code == 0, ended.errors
    assert {owned.user for owned in owned_below(place).values()} == {NOBODY}
    assert [path for path in owned_below(place) if ".inprogress" in path] == []
