"""Kafka's own tools out of Maven's jars: what DumpLogSegments says of files, asked many times of one JVM."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.conftest import require, unavailable
from tests.interop.kafka import NEWEST
from tests.interop.maven import copy_jars

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
JARS = ROOT / "build" / "tools" / "jars"
PROGRAM = "org.apache.kafka.tools.DumpLogSegments"
LOGGER = b"SLF4J"  # it says on standard error that it has nothing to log with


@dataclass(frozen=True)
class Said:
    """The tool's output, byte for byte, and the exception that it died of, if it did."""

    stdout: bytes
    stderr: bytes
    death: str


class DumpTool:
    """One JVM that runs DumpLogSegments."""

    def __init__(self, jars: Path = JARS, program: str = PROGRAM, folder: Path | None = None) -> None:
        """`program` is its class in the `jars`, `folder` what the paths of files are relative to."""
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
        options.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
        command = ["java", *options, "-cp", f"{jars}/*", str(HERE / "DumpLoop.java"), program]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=folder, **pipes)
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


def resolve_jars(release: str = NEWEST) -> str | None:
    """Copy the jars of a release into build once; the error, None if there was none."""
    return copy_jars(HERE, jars_of(release), release)


def jars_of(release: str) -> Path:
    return JARS if release == NEWEST else ROOT / "build" / f"tools-{release}" / "jars"


def require_jars() -> None:
    """Continue only if Kafka's tools are available."""
    require("java", "mvn")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
