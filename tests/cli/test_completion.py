"""Completions of a shell: every command with its options, files for paths, topics for --topic; in bash, as a user presses Tab."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from kafkalog.cli.main import kafkalog
from tests.builders.small_logs import made_batch, write_segment
from tests.cli.runner import COMMAND
from tests.conftest import require

SHELLS = ("bash", "zsh", "fish")


def asked(words: str, shell: str = "bash") -> str:
    """The answer to the shell's script for these words, the last of which is to be completed."""
    count = str(len(words.split(" ")) - 1)
    current = words.split(" ")[-1] if shell == "fish" else count
    environment = {**os.environ, "_KAFKALOG_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": current}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout


def offered(words: str) -> list[tuple[str, str]]:
    """Kind and text of each completion, without a process for it."""
    *before, incomplete = words.split(" ")
    found = BashComplete(kafkalog, {}, "kafkalog", "_KAFKALOG_COMPLETE").get_completions(before, incomplete)
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_asks_kafkalog(shell: str) -> None:
    require("bash")
    environment = {**os.environ, "_KAFKALOG_COMPLETE": f"{shell}_source"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_KAFKALOG_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_offered(shell: str) -> None:
    lines = asked("kafkalog ", shell)
    for name in " ".join(kafkalog.commands).split():
        assert name in lines.replace(",", "\n").split(), (shell, name)


@pytest.mark.parametrize("name", sorted(kafkalog.commands))
def test_every_long_option_of_a_command_is_offered(name: str) -> None:
    options = {option for each in kafkalog.commands[name].params for option in each.opts if option.startswith("--")}
    assert options <= {text for _, text in offered(f"{name} --")}


@pytest.mark.parametrize("name", sorted(set(kafkalog.commands) - {"dump", "demo"}))
def test_a_path_is_completed_by_the_shell(name: str) -> None:
    table = "records " if name == "table" else ""
    assert offered(f"{name} {table}/va") == [("file", "/va")]


def test_files_of_options_are_completed_by_the_shell() -> None:
    for words in ("dump --files", "verify --junit", "cat --output", "salvage x --out", "cat --schema", "ingest --schema"):
        assert offered(f"{words} /va") == [("file", "/va")], words


def test_topics_are_those_at_the_path(tmp_path: Path) -> None:
    for folder in ("orders-0", "orders-1", "other-0", "bad\x1b[2J-0"):
        write_segment(tmp_path / folder, 0, made_batch(0))
    (tmp_path / "meta.properties").touch()
    assert asked(f"kafkalog profile {tmp_path} --topic o") == "plain,orders\nplain,other\n"
    assert asked(f"kafkalog cat --quiet {tmp_path} --topic or") == "plain,orders\n"
    assert asked(f"kafkalog cat {tmp_path / 'other-0'} --topic ") == "plain,other\n"
    assert asked(f"kafkalog cat {tmp_path / 'missing'} --topic ") == "\n"


def test_choices_are_offered() -> None:
    assert [text for _, text in offered("cat x --on-damage s")] == ["strict", "skip", "salvage"]


def test_bash_completes_what_a_user_typed(tmp_path: Path) -> None:
    """The script in a real bash, with a function of its own in the place of the installed command."""
    require("bash")
    script = """
        set -eu
        eval "$(_KAFKALOG_COMPLETE=bash_source "$PYTHON" -m kafkalog)"
        complete -p kafkalog
        COMP_WORDS=(kafkalog ver); COMP_CWORD=1
        _kafkalog_completion "$LAUNCHER"
        echo "${COMPREPLY[@]}"
    """
    launcher = tmp_path / "kafkalog"
    launcher.write_text(f'#!/bin/sh\nexec "{COMMAND[0]}" -m kafkalog "$@"\n')
    launcher.chmod(0o755)
    environment = {**os.environ, "PYTHON": COMMAND[0], "LAUNCHER": str(launcher)}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["verify"]
