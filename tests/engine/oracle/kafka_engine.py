"""Kafka 4.3's own log engine as a peer: LogOracle.java, compiled against Maven's jars, runs the scripts of case folders."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.live.broker import JARS, resolve_jars

SOURCE = Path(__file__).resolve().parent / "LogOracle.java"
CLASSES = SOURCE.parents[3] / "build" / "engine" / "classes"
OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
RUN_SECONDS = 600


class NoEngine(Exception):
    """Kafka's engine cannot be run; the argument says why."""


def class_path() -> str:
    """The class path of the oracle, compiled if its source is newer. Raises NoEngine."""
    problem = resolve_jars()
    if problem is not None:
        raise NoEngine(problem)
    CLASSES.mkdir(parents=True, exist_ok=True)
    compiled = CLASSES / "LogOracle.class"
    with (CLASSES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a parallel run want it at the same time
        if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
            command = ["javac", "-nowarn", "-d", str(CLASSES), "-cp", f"{JARS}/*", str(SOURCE)]
            subprocess.run(command, check=True, capture_output=True, timeout=RUN_SECONDS)
    return f"{CLASSES}{os.pathsep}{JARS}/*"


def run_scripts(cases: Sequence[Path], scratch: Path) -> None:
    """Run the script of each case folder there; results.jsonl and data/ are what the engine answered and left."""
    listing = scratch / "cases.txt"
    listing.write_text("".join(f"{case}\n" for case in cases))
    command = ["java", *OPTIONS, "-cp", class_path(), "LogOracle", "--cases", str(listing)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=RUN_SECONDS)
    listing.unlink()
