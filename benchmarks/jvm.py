"""Kafka's own code as writer and rival: the Maven project next to this file, and the commands that run it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import REPOSITORY

PROJECT = Path(__file__).resolve().parent / "jvm"
OUTPUT = REPOSITORY / "build" / "bench" / "jvm"
KAFKA_VERSION = "4.3.0"
BUILD_COMMAND = ("mvn", "-q", "-B", "compile", "dependency:build-classpath", f"-Dmdep.outputFile={OUTPUT / 'classpath.txt'}")


@dataclass(frozen=True)
class Jvm:
    """A built project: each method is a command to run."""

    java: str
    classpath: str
    version: str

    def write_command(self, file: Path, magic: int, codec: str, record_count: int, max_bytes: int) -> list[str]:
        return self._command("kafkalog.benchmarks.WriteSegments", str(file), str(magic), codec, str(record_count), str(max_bytes))

    def loop_command(self, file: Path) -> list[str]:
        return self._command("kafkalog.benchmarks.ReadLoop", str(file))

    def append_command(self, count: int, work: Path) -> list[str]:
        return self._command("kafkalog.benchmarks.AppendLoop", str(count), str(work))

    def clean_command(self, directory: Path, work: Path, map_bytes: int, segment_bytes: int) -> list[str]:
        sizes = str(map_bytes), str(segment_bytes)
        return self._command("kafkalog.benchmarks.CleanLoop", str(directory), str(work), *sizes)

    def dump_command(self, file: Path) -> list[str]:
        return self._command("org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(file))

    def count_dumped_records(self, file: Path) -> int:
        """How many records DumpLogSegments prints, untimed: its record lines start with a bar."""
        with subprocess.Popen(self.dump_command(file), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            return sum(line.startswith(b"| offset: ") for line in process.stdout)

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [self.java, "-cp", self.classpath, program, *arguments]


def find_jvm() -> tuple[Jvm | None, str]:
    """The built project, or None and why it is not available."""
    java = shutil.which("java")
    if java is None:
        return None, "no java on PATH"
    classpath = OUTPUT / "classpath.txt"
    if not classpath.exists() or any(source.stat().st_mtime > classpath.stat().st_mtime for source in _sources()):
        problem = _build()
        if problem is not None:
            return None, problem
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return Jvm(java, f"{OUTPUT / 'classes'}:{classpath.read_text().strip()}", version[0] if version else "unknown"), ""


def _sources() -> list[Path]:
    return [PROJECT / "pom.xml", *PROJECT.rglob("*.java")]


def _build() -> str | None:
    """Compile the project; what went wrong, None when nothing did."""
    if shutil.which("mvn") is None:
        return "no mvn on PATH"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(BUILD_COMMAND, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=900)
    except subprocess.TimeoutExpired:
        return "Maven took more than 15 minutes"
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()
        return f"Maven failed: {lines[0] if lines else 'no output'}"
    return None
