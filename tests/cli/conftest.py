"""Logs and ways to run the command line on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.demo import make_logs
from tests.cli.runner import Ended, Run, own_lines


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of the demo: v0, v1 and v2, every codec, transactions, one damaged segment."""
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
        return Ended(code, out, own_lines(errors.decode()))

    return run_here
