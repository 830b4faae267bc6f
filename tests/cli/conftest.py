"""Logs and ways to run the command line on them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.every_format import make_logs
from tests.cli.forks import Forks
from tests.cli.runner import Ended, Run
from tests.cli.users import COPYING, IN_PLACE, READING, arguments_of, make_log_directory
from tests.conftest import require_root


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of four topics: v0, v1 and v2, every codec, transactions, one damaged segment."""
    folder = tmp_path_factory.mktemp("cli") / "logs"
    make_logs(folder)
    return folder


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line in this process; what it wrote, and its exit code."""
    from kafkalog.cli.main import main

    def run_here(*arguments: object) -> Ended:
        capfdbinary.readouterr()
        code = main([str(argument) for argument in arguments])
        out, errors = capfdbinary.readouterr()
        return Ended(code, out, errors.decode())

    return run_here


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Commands as root or as another user, who may not be allowed to read the interpreter and its modules: all is loaded."""
    require_root()
    with Forks() as forks:
        for command in (*READING, "append new", *IN_PLACE, *COPYING):
            with tempfile.TemporaryDirectory() as scratch:
                make_log_directory(Path(scratch))
                forks.rehearse(arguments_of(command, Path(scratch)))
        yield forks


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of ours that everybody can look into."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        yield Path(scratch)
