"""Kafka's own tools out of Maven's jars: what DumpLogSegments says of files, asked many times of one JVM."""

from __future__ import annotations

import fcntl
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.conftest import require, unavailable

HERE = Path(__file__).resolve().parent
JARS = HERE.parents[2] / "build" / "tools" / "jars"
COMPLETE = JARS.parent / "complete"
RESOLVE_SECONDS = 900
LOGGER = b"SLF4J"  # it says on standard error that it has nothing to log with


@dataclass(frozen=True)
class Said:
    """What the tool wrote, byte for byte, and the exception that it died of, if it did."""

    stdout: bytes
    stderr: bytes
    death: str


class DumpTool:
    """One JVM that runs DumpLogSegments."""

    def __init__(self) -> None:
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = ["java", *options, "-cp", f"{JARS}/*", str(HERE / "DumpLoop.java")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._in.close()
        self._out.close()
        self._process.wait(timeout=30)

    def dump(self, *arguments: str) -> Said:
        self._in.write("\t".join(arguments).encode() + b"\n")
        self._in.flush()
        stdout, stderr, death = (self._answer() for _ in range(3))
        kept = [line for line in stderr.splitlines(keepends=True) if not line.startswith(LOGGER)]
        return Said(stdout, b"".join(kept), death.decode())

    def _answer(self) -> bytes:
        front = self._out.read(4)
        if len(front) < 4:
            raise AssertionError(f"the JVM died, exit status {self._process.wait(timeout=30)}")
        (size,) = struct.unpack(">i", front)
        return self._out.read(size)


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


def require_jars() -> None:
    """Go on only if Kafka's tools are to be had."""
    require("java", "mvn")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
