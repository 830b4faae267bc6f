"""Jars by Maven's coordinates: those that a pom names and all they need, copied into a folder once."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

RESOLVE_SECONDS = 900


def copy_jars(project: Path, jars: Path, release: str | None = None, what: str = "kafka") -> str | None:
    """Fill `jars` for the pom in `project`, with its own Kafka or this release, unless it is filled; the error, or None.

    `what` is the software that the release is of, as the pom names its version.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"no {tool} on PATH"
    complete = jars.parent / "complete"
    jars.mkdir(parents=True, exist_ok=True)
    with (jars.parent / "lock").open("w") as lock:  # the workers of pytest-xdist come here at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if complete.exists() and complete.stat().st_mtime >= (project / "pom.xml").stat().st_mtime:
            return None
        shutil.rmtree(jars)
        problem = _run_maven(project, jars, [] if release is None else [f"-D{what}.version={release}"])
        if problem is None:
            complete.touch()
        return problem


def _run_maven(project: Path, jars: Path, settings: list[str]) -> str | None:
    copying = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    command = ["mvn", "-q", "-B", *copying, *settings]
    try:
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"Maven took more than {RESOLVE_SECONDS} seconds"
    if done.returncode == 0:
        return None
    missing = re.search(r"Could not find artifact (\S+)", done.stdout + done.stderr)
    return f"Maven finds no {missing[1]}" if missing else f"Maven failed: {(done.stdout + done.stderr).strip()[:300]}"
