"""Kafka's own tools out of Maven's jars: what DumpLogSegments says of a file."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import require, unavailable

HERE = Path(__file__).resolve().parent
JARS = HERE.parents[2] / "build" / "tools" / "jars"
COMPLETE = JARS.parent / "complete"
RESOLVE_SECONDS = 900
RUN_SECONDS = 120
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@dataclass(frozen=True)
class Said:
    """What the tool wrote, byte for byte, and its exit status."""

    stdout: bytes
    stderr: bytes
    status: int


def resolve_jars() -> str | None:
    """Copy the jars into build/tools once; what went wrong, None when nothing did."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"no {tool} on PATH"
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS.parent / "lock").open("w") as lock:  # the workers of pytest-xdist come here at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if COMPLETE.exists() and COMPLETE.stat().st_mtime >= (HERE / "pom.xml").stat().st_mtime:
            return None
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
        try:
            done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"Maven took more than {RESOLVE_SECONDS} seconds"
        if done.returncode:
            return f"Maven failed: {(done.stdout + done.stderr).strip()[:300]}"
        COMPLETE.touch()
    return None


@cache
def _problem() -> str | None:
    return resolve_jars()


def require_tools() -> None:
    """Go on only if Kafka's tools are to be had."""
    require("java", "mvn")
    problem = _problem()
    if problem is not None:
        unavailable(problem)


def dump(files: list[Path], *options: str, folder: Path) -> Said:
    """DumpLogSegments of these files, which are named relative to `folder`, where it runs."""
    names = ",".join(str(file.relative_to(folder)) for file in files)
    java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    command = [*java, "-cp", f"{JARS}/*", DUMP, "--files", names, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=RUN_SECONDS, check=False)
    stderr = b"".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith(b"SLF4J"))
    return Said(done.stdout, stderr, done.returncode)
