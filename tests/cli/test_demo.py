"""The demo runs anywhere, shows what it says and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kafkalog.demo import STEPS


def test_the_demo_shows_every_step_and_cleans_up(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog.demo"], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("$ kafkalog ") == len(STEPS)
    assert done.stdout.count("(exit code 1)") == 3
    assert done.stdout.count("(exit code 2)") == 1
    for shown in ("aborted", "written by Kafka 0.8", "crc: the stored checksum", "Did you mean records?", "million records/s"):
        assert shown in done.stdout
    assert "Traceback" not in done.stdout
    assert list(tmp_path.iterdir()) == []
