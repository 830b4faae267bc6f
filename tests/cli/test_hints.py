"""After an error about a path: the command that was probably meant, typed as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.forks import Forks
from tests.cli.runner import Run, batch_of, write_topic
from tests.conftest import NOBODY


def told(errors: str, before: str) -> str:
    """The command that a line of the message names."""
    (line,) = (line for line in errors.splitlines() if line.startswith(before))
    return line.removeprefix(before)


def typed(command: str) -> Sequence[str]:
    """The words that a shell makes of it."""
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    return os.fsdecode(printed).split("\0")[:-1]


@pytest.mark.parametrize("name", ["4.3.0-damaged", "it's \x1b[2J a disk"])
def test_a_similar_path_is_put_into_the_same_command(run: Run, tmp_path: Path, name: str) -> None:
    write_topic(tmp_path / name, "orders-0", batch_of(b"x"))
    for wrong, right in ((tmp_path / name[:-1], tmp_path / name), (tmp_path / name / "order-0", tmp_path / name / "orders-0")):
        ended = run("ls", "--quiet", wrong)
        assert ended.code == 4
        assert "no such file or folder" in ended.errors
        words = typed(told(ended.errors, "Did you mean: "))
        assert words == ["kafkalog", "ls", "--quiet", str(right)]
        assert run(*words[1:]).code == 0


def test_without_a_similar_name_the_folder_is_to_be_looked_at(run: Run, tmp_path: Path) -> None:
    assert told(run("ls", tmp_path / "x" / "y").errors, "To see what is there: ") == f"ls -l {tmp_path}"


def test_logs_one_folder_further_down_are_found(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path / "disk 1", "orders-0", batch_of(b"x"))
    (tmp_path / "a").mkdir()
    words = typed(told(run("cat", tmp_path, "--tail", 1).errors, "There are logs in a folder of it: "))
    assert words == ["kafkalog", "cat", f"{tmp_path}/disk 1", "--tail", "1"]


def test_a_folder_of_files_with_a_dash_and_a_number_is_not_taken_for_logs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin" / "polkit-1").mkdir(parents=True)
    (tmp_path / "bin" / "g++-12").touch()
    (tmp_path / "bin" / "X11").symlink_to(tmp_path / "bin")
    for path in (tmp_path, tmp_path / "bin" / "polkit-1"):
        assert "There are logs" not in run("ls", path).errors


def test_a_folder_without_logs_says_how_to_find_some(run: Run, tmp_path: Path) -> None:
    errors = run("ls", tmp_path).errors
    command = told(errors, "Give a log directory (log.dirs), a partition folder, or a segment file. To find one: ")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").touch()
    found = subprocess.run(["bash", "-c", command.replace("/ ", f"{tmp_path} ", 1)], capture_output=True, text=True, check=True)
    assert found.stdout == f"{tmp_path}/data/recovery-point-offset-checkpoint\n"


def test_a_file_beside_the_logs_leads_to_its_folder(run: Run, tmp_path: Path) -> None:
    write_topic(tmp_path, "orders-0", batch_of(b"x"))
    (tmp_path / "meta.properties").write_bytes(b"version=1\n")
    words = typed(told(run("ls", tmp_path / "meta.properties").errors, "To see what is there: "))
    assert words == ["kafkalog", "ls", str(tmp_path)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs root and other users")
def test_without_permission_the_owner_is_named_with_the_same_command(forks: Forks, place: Path) -> None:
    write_topic(place, "orders-0", batch_of(b"x"))
    (place / "orders-0").chmod(0o700)
    ended = forks.run(["cat", str(place / "orders-0"), "--tail", "1"], user=NOBODY)
    assert ended.code == 4
    assert told(ended.errors, "To run it as the owner: ") == f"sudo -u root kafkalog cat {place}/orders-0 --tail 1"
