"""Kafka's own recovery of partition folders: Recovery.java, run from its source with the broker's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from .broker import HERE, JARS

SECONDS = 240
Recovering = tuple[Path, int, int]  # folder, index.interval.bytes, log start offset


def recover(folders: Sequence[Recovering]) -> list[str]:
    """Recover each folder where it is; "ok" for each, or the exception that Kafka threw."""
    lines = "".join(f"{folder}\t{interval}\t{log_start}\n" for folder, interval, log_start in folders)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(HERE / "Recovery.java")]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=True)
    found = done.stdout.splitlines()
    assert len(found) == len(folders), done.stderr
    return ["ok" if line.startswith("ok\t") else line for line in found]
