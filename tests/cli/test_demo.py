"""The demo runs anywhere, shows what it says and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kafkalog.cli.demo import STEPS
from tests.conftest import require


def test_the_demo_shows_every_step_and_cleans_up(tmp_path: Path) -> None:
    require("pyspark")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog.cli.demo"], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("$ kafkalog ") == len(STEPS) + 3  # and three runs of the pipeline
    assert done.stdout.count("(exit code 1)") == 4
    assert done.stdout.count("(exit code 2)") == 1
    shown_parts = ("aborted", "written by Kafka 0.8", "crc: the stored checksum", "Did you mean records?", "million records/s")
    pipeline = ("commit 1 of", "set aside in _damaged: 1 range of", "commit 2 of", "nothing new for", "|2026-01-03|  3000|")
    for shown in (*shown_parts, *pipeline):
        assert shown in done.stdout
    assert "Traceback" not in done.stdout
    assert list(tmp_path.iterdir()) == []
