"""`kafkalog dump` against DumpLogSegments: the same lines of the same file to /dev/null, whole commands taking turns.

Also `kafkalog cat --format json`, which has to reach half of that speed.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import Segment, codec_variant, sized_variant
from benchmarks.measure import REPOSITORY, RunFailed, time_command
from benchmarks.report import Section, Table, Target

if TYPE_CHECKING:
    from benchmarks.experiments import Setup

CODECS = ("none", "lz4", "zstd")
REQUIRED_FACTOR = 6.0
REQUIRED_MEGABYTES = 300.0
REQUIRED_CAT_SHARE = 0.5
START_UP_ROUNDS = 3


@dataclass(frozen=True)
class Race:
    """Median seconds of whole runs, and of runs on one batch, which are start-up."""

    ours: float
    theirs: float
    our_start_up: float
    their_start_up: float

    @property
    def factor(self) -> float:
        """How much faster we are, with the start-up of each subtracted."""
        return (self.theirs - self.their_start_up) / (self.ours - self.our_start_up)

    @property
    def harsh_factor(self) -> float:
        """The same with only the JVM's start-up subtracted."""
        return (self.theirs - self.their_start_up) / self.ours


def compare_dumps(setup: Setup) -> Section:
    """Lines per second for three codecs, equal output, and the memory that a large segment takes."""
    section = Section(
        "Dump",
        "`dump --print-data-log` to /dev/null: whole commands in turns, median. The time of a run on one batch is subtracted "
        "from both, in the last column only from DumpLogSegments. Both wrote the same bytes.",
    )
    if setup.jvm is None:
        section.explanation = "Left out: there is no DumpLogSegments to compare with."
        return section
    rows = []
    for codec in CODECS:
        segment = setup.segment(codec_variant(2, codec, setup.records))
        setup.log(f"{segment.variant}: kafkalog dump, DumpLogSegments")
        race = _race(setup, segment)
        lines = segment.records / 1e6
        ours, theirs = (lines / (race.ours - race.our_start_up), lines / (race.theirs - race.their_start_up))
        cat = lines / _cat_seconds(setup, segment)
        rows.append([codec, f"{ours:.2f}", f"{theirs:.2f}", f"{race.factor:.1f} x", f"{race.harsh_factor:.1f} x", f"{cat:.2f}"])
        section.targets.append(Target(f"cat --format json, {codec}: against dump", cat / ours, REQUIRED_CAT_SHARE, "x"))
        section.targets.append(Target(f"dump, {codec}: against DumpLogSegments", race.factor, REQUIRED_FACTOR, "x"))
    head = ["codec", "kafkalog, M records/s", "DumpLogSegments", "faster by", "with our start-up", "cat --format json"]
    large = setup.segment(sized_variant(setup.mebibytes[1]))
    peaks = {"dump": peak_megabytes(_our_command(large.path)), "cat": peak_megabytes(_cat_command(large.path))}
    sizes = [[f"kafkalog {name}", f"{peak:.0f}"] for name, peak in peaks.items()]
    section.tables = [Table(head, rows), Table(["peak MB", f"{setup.mebibytes[1]} MiB"], sizes)]
    for name, peak in peaks.items():
        what = f"{name} of {setup.mebibytes[1]} MiB, peak"
        section.targets.append(Target(what, peak, REQUIRED_MEGABYTES, "MB", at_least=False))
    return section


def _cat_seconds(setup: Setup, segment: Segment) -> float:
    """Median seconds of `cat` on the segment, minus those on one batch."""
    small = _cat_command(setup.small_segment().path)
    start_up = statistics.median(time_command(small) for _ in range(START_UP_ROUNDS))
    return statistics.median(time_command(_cat_command(segment.path)) for _ in range(setup.rounds)) - start_up


def _race(setup: Setup, segment: Segment) -> Race:
    assert setup.jvm is not None
    ours, theirs = _our_command(segment.path), setup.jvm.dump_command(segment.path)
    if _digest(ours) != _digest(theirs):
        raise RunFailed(f"{segment.variant}: kafkalog dump and DumpLogSegments wrote different bytes")
    small = setup.small_segment().path
    starts = [(time_command(_our_command(small)), time_command(setup.jvm.dump_command(small))) for _ in range(START_UP_ROUNDS)]
    pairs = [(time_command(ours), time_command(theirs)) for _ in range(setup.rounds)]
    return Race(*_medians(pairs), *_medians(starts))


def _medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    ours, theirs = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def _our_command(file: Path) -> list[str]:
    return [sys.executable, "-m", "kafkalog", "dump", "--print-data-log", "--files", str(file)]


def _cat_command(file: Path) -> list[str]:
    return [sys.executable, "-m", "kafkalog", "cat", str(file), "--format", "json"]


def _digest(command: Sequence[str]) -> str:
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        return hashlib.file_digest(process.stdout, "sha256").hexdigest()  # type: ignore[arg-type]


def peak_megabytes(command: Sequence[str]) -> float:
    """The largest resident size of a command whose output goes nowhere."""
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunFailed(f"{' '.join(command)}: exit code {process.returncode}")
    return usage.ru_maxrss * 1024 / 1e6
